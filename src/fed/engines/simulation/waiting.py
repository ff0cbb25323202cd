"""Suspended coroutines of a session, and the calls that stand behind them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

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
        self._tasks: set[Any] = set()

    @property
    def loop(self) -> coroutines.Loop:
        """The session's event loop, made when the first coroutine suspends."""
        if self._loop is None:
            from fed.engines.simulation import coroutines

            self._loop = coroutines.Loop()
        return self._loop

    def put(self, call: calls.Call, made: list[results.Result]) -> results.Pending:
        """Mark the results of a call as still to come."""
        call.site = call.site or sites.here()
        pending = results.Pending(self.loop.create_future(), call.what)
        for result in made:
            result.value = pending
        self.calls[call.number] = f"{call.what}, called at {call.site}"
        return pending

    def arrived(self, call: calls.Call, pending: results.Pending) -> None:
        """A call has ended; whoever waits for it goes on."""
        self.calls.pop(call.number, None)
        if not pending.future.done():
            pending.future.set_result(None)

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine to its first suspension; no other one moves."""
        self._keep(self.loop.started(coroutine))

    def enqueue(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Let a coroutine begin when the others move next."""
        self._keep(self.loop.create_task(coroutine))

    def settled(self, pending: results.Pending) -> bool:
        """Let all coroutines go on until this call has ended (True) or none can move (False).

        Raises:
            BaseException: what a coroutine of the engine itself let out, such as
                `KeyboardInterrupt`, or an error under `fail_fast`.
        """
        return self._moved(pending.future)

    def finish(self, ended: Callable[[], None]) -> list[str]:
        """Let all coroutines end, call `ended`, drop those that can't; returns their texts."""
        try:
            while self._tasks and self._moved(next(iter(self._tasks))):
                pass
            return list(self.calls.values())
        finally:
            ended()
            self.drop()

    def drop(self) -> None:
        """Cancel what is left and close the loop."""
        if self._loop is not None:
            for task in self._tasks:
                task.cancel()
            self._loop.finish()
            self._loop = None

    def _keep(self, task: Any) -> None:
        # A failed task stays until `_moved` has raised its error: it must not get lost.
        self._tasks.add(task)

    def _moved(self, future: Any) -> bool:
        ended = self.loop.settled(future)
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            if not task.cancelled() and task.exception() is not None:
                raise task.exception()
        if not self.calls:
            self.lanes.clear()
            self.built.clear()
        return ended
