"""Suspended coroutines of a session, and the calls that stand behind them."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from fed import errors
from fed.engines.simulation import results, sites
from fed.model import calls

if TYPE_CHECKING:
    from fed.engines.simulation import coroutines, outcomes


class Waiting:
    """The calls that have not ended, by number, and the virtual-time loop that moves them.

    Attributes:
        calls: texts of the calls that have not ended, in submission order.
        lanes: for each synchronous actor the last call that waits for its turn.
        built: instances of actors whose constructor had to wait.
    """

    def __init__(self) -> None:
        self.calls: dict[int, str] = {}
        self.lanes: dict[outcomes.ActorKey, results.Pending] = {}
        self.built: dict[outcomes.ActorKey, Any] = {}
        self._loop: coroutines.Loop | None = None
        self._tasks: dict[results.Pending, Any] = {}
        self._stops: list[BaseException] = []
        self._told: BaseException | None = None
        self._is_moving = False

    @property
    def loop(self) -> coroutines.Loop:
        """The session's event loop, made when the first coroutine suspends."""
        if self._loop is None:
            from fed.engines.simulation import coroutines

            self._loop = coroutines.Loop(self.calls)
        return self._loop

    def limit(self, timeout_s: float, *, is_virtual: bool = True) -> coroutines.Limit:
        """A time limit that begins now."""
        from fed.engines.simulation import coroutines

        return coroutines.Limit(self.loop, timeout_s, is_virtual=is_virtual)

    def put(self, call: calls.Call, made: list[results.Result]) -> results.Pending:
        """Mark the results of a call as still to come."""
        call.site = call.site or sites.here()
        actor = f" of actor {call.ordinal}" if call.ordinal is not None else ""
        what = f"the result of {call.name}{actor} (call {call.number})"
        pending = results.Pending(self.loop.create_future(), what)
        for result in made:
            result._form = pending
        self.calls[call.number] = f"{call.what}, called at {call.site}"
        return pending

    def arrived(self, call: calls.Call, pending: results.Pending) -> None:
        """A call has ended; whoever waits for it goes on."""
        self.calls.pop(call.number, None)
        self._tasks.pop(pending, None)
        if not pending.future.done():
            pending.future.set_result(None)

    def start(
        self,
        pending: results.Pending,
        coroutine: Coroutine[Any, Any, None],
        context: contextvars.Context,
    ) -> None:
        """Run a coroutine to its first suspension; no other one moves.

        Raises:
            BaseException: what `stop` was given meanwhile.
        """
        task = self.loop.started(coroutine, context)
        if not task.done():
            self._tasks[pending] = task
        if not self._is_moving:
            self._raise_stop()

    def enqueue(self, pending: results.Pending, coroutine: Coroutine[Any, Any, None]) -> None:
        """Let a coroutine begin when the others move next."""
        self._tasks[pending] = self.loop.create_task(coroutine)

    def stop(self, error: BaseException) -> None:
        """Let whoever moves the coroutines raise `error`, once."""
        if error is not self._told:
            self._stops.append(error)
            if self._is_moving:
                self.loop.halt()

    def settled(self, pending: results.Pending, limit: coroutines.Limit | None = None) -> bool:
        """Let all coroutines go on until this call has ended (True).

        False if none can move, or if the limit is over.

        Raises:
            BaseException: what `stop` was given, such as an error under `fail_fast`; or
                `KeyboardInterrupt`.
        """
        self._is_moving = True
        try:
            ended = self.loop.settled(pending.future, limit)
        except BaseException as error:
            # A body that waits for the task which this came from gets it too, later.
            self._told = error
            raise
        finally:
            self._is_moving = False
        self._raise_stop()
        if not self.calls:
            self.lanes.clear()
            self.built.clear()
            self._told = None
        return ended

    def finish(
        self, ended: Callable[[], None], *, timeout_s: float
    ) -> tuple[list[int], errors.FedError] | None:
        """Let all coroutines end, call `ended`, drop those that did not end.

        Args:
            ended: called before the rest is dropped.
            timeout_s: the limit in real time: hours that pass in virtual time cost nothing.

        Returns:
            The numbers of the calls that did not end, and why, naming them: a `DeadlockError` or a
            `FedTimeoutError`. None if all ended.
        """
        try:
            if not self._tasks:
                return None
            limit = self.limit(timeout_s, is_virtual=False)
            while self._tasks and self.settled(next(iter(self._tasks)), limit):
                pass
            numbers, texts = list(self.calls), list(self.calls.values())
            if not texts:
                return None
            if not limit.is_over:
                return numbers, errors.DeadlockError(calls=texts)
            return numbers, errors.FedTimeoutError(
                what=f"the end of {named(texts)}",
                party=None,
                waited_s=timeout_s,
                fix="fed.shutdown gave up: get the results before, or raise shutdown_timeout_s",
            )
        finally:
            ended()
            self.drop()

    def drop(self) -> None:
        """Cancel what is left and close the loop."""
        loop, self._loop = self._loop, None
        self._stops.clear()
        if loop is not None:
            loop.finish()

    def _raise_stop(self) -> None:
        if self._stops:
            self._told = self._stops.pop(0)
            raise self._told


def named(texts: list[str]) -> str:
    """Calls in words, the first five by name."""
    shown = "; ".join(texts[:5])
    more = f"; and {len(texts) - 5} more" if len(texts) > 5 else ""
    return f"{len(texts)} suspended call(s): {shown}{more}"
