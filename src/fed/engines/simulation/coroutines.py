"""Coroutine bodies: an event loop that never sleeps.

Its clock is virtual: when nothing is ready, the clock jumps to the next timer, so a thousand
clients that sleep an hour cost no time, and the order of events depends on the program alone.
Bodies that wait for the outside (sockets, threads) are waited for in real time.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import math
import selectors
import time
import types
from collections.abc import Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final

from fed.engines.simulation import runner, waiting

if TYPE_CHECKING:
    from fed.engines.simulation import engine as simulation

log = logging.getLogger(__name__)

#: How often a wait for the outside world is said to go on.
_SAY_EVERY_S: Final = 30.0

#: Each look at what has not come takes this long, also with a timeout of 0: a script that looks
#: again and again would else stand still in virtual time.
_LOOK_S: Final = 0.001

#: Coroutines that are dropped at the end of a session have this long to clean up.
_CLEAN_UP_S: Final = 1.0


class Limit:
    """A time limit that counts in virtual and in real time, whichever is over first.

    Args:
        loop: whose clock it looks at.
        timeout_s: the limit, 0 or more.
        is_virtual: False to let virtual time pass without limit.

    Attributes:
        is_over: True once the loop has stopped because of it.
    """

    def __init__(self, loop: Loop, timeout_s: float, *, is_virtual: bool = True) -> None:
        timeout_s = max(timeout_s, _LOOK_S)
        self._loop = loop
        self._virtual_end_s = loop.time() + timeout_s if is_virtual else math.inf
        self._real_end_s = time.monotonic() + timeout_s
        self.is_over = False

    def virtual_left_s(self) -> float:
        """How far the clock may be moved."""
        return self._virtual_end_s - self._loop.time()

    def real_left_s(self) -> float:
        """How long the loop may go on."""
        return self._real_end_s - time.monotonic()


class _Selector(selectors.DefaultSelector):
    """Tells the loop what is ready; instead of waiting for a timer it moves the loop's clock."""

    loop: Loop
    _quiet_since_s: float | None = None
    _said_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        loop, limit = self.loop, self.loop.limit
        if limit is not None and limit.real_left_s() <= 0:
            loop.halt(limit)
            return ready
        if ready:
            self._quiet_since_s = None
        if ready or (timeout is not None and timeout <= 0):
            return ready
        # Whatever can run at this moment of the virtual time has run: only time can help now.
        if limit is not None and limit.virtual_left_s() <= 0:
            loop.halt(limit)
        elif loop.waits_for_outside():
            return self._from_outside(timeout, limit)
        elif timeout is None:
            loop.halt()
        elif limit is not None and timeout > limit.virtual_left_s():
            loop.advance(limit.virtual_left_s())
            loop.halt(limit)
        else:
            loop.advance(timeout)
        return []

    def _from_outside(self, timeout: float | None, limit: Limit | None) -> Any:
        """What threads and sockets made ready; waited for in real time, which moves the clock."""
        began_s = time.monotonic()
        if self._quiet_since_s is None:
            self._quiet_since_s = self._said_s = began_s
        waits = [self._said_s + _SAY_EVERY_S - began_s]
        if timeout is not None:
            waits.append(timeout)
        if limit is not None:
            waits += [limit.virtual_left_s(), limit.real_left_s()]
        ready = super().select(max(min(waits), 0.0))
        now_s = time.monotonic()
        self.loop.advance(now_s - began_s)
        if ready:
            self._quiet_since_s = None
        elif now_s - self._said_s >= _SAY_EVERY_S:
            self._said_s = now_s
            log.warning(
                "no thread and no socket became ready for %.3g s; they are waited for by %s",
                now_s - self._quiet_since_s,
                waiting.named(list(self.loop.calls.values())),
            )
        return ready


class Loop(asyncio.SelectorEventLoop):
    """An event loop with a virtual clock, for the coroutines of one session.

    Args:
        calls: texts of the calls that have not ended, for the log.

    Attributes:
        limit: when it has to stop, while it runs; None without a limit.
    """

    def __init__(self, calls: Mapping[int, str]) -> None:
        self.calls = calls
        self.limit: Limit | None = None
        self._now_s = 0.0
        self._captured: list[asyncio.Handle] | None = None
        self._threads = 0
        self._is_halted = False
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self._own_files = len(selector.get_map())
        self._files = selector

    def time(self) -> float:
        """The virtual time, in seconds since the session's first coroutine."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self._now_s += seconds

    def halt(self, limit: Limit | None = None) -> None:
        """Let `settled` return, because of that limit or because nothing can move."""
        if limit is not None:
            limit.is_over = True
        self._is_halted = True
        self.stop()

    def waits_for_outside(self) -> bool:
        """True if a thread or a socket can make something ready."""
        return self._threads > 0 or len(self._files.get_map()) > self._own_files

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """As any loop's; while a task is being started, its first step is caught instead."""
        if self._captured is not None:
            handle = asyncio.Handle(callback, args, self, context)
            self._captured.append(handle)
            return handle
        return super().call_soon(callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """As any loop's; an interrupt has reached the script already."""
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            super().call_exception_handler(context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """As any loop's; the loop knows that it has to wait for the thread."""
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _future: asyncio.Future[Any]) -> None:
        self._threads -= 1

    def started(
        self, coroutine: Coroutine[Any, Any, None], context: contextvars.Context
    ) -> asyncio.Task[None]:
        """A task of `coroutine`, run up to its first suspension; no other coroutine moves."""
        try:
            self._captured = []
            # Not by `create_task`: bodies may have set a factory of their own.
            task = asyncio.Task(coroutine, loop=self, context=context)
            (first,) = self._captured
        finally:
            self._captured = None
        outer = asyncio._get_running_loop()
        # A call that had to wait starts its coroutine inside a step of the task that waited, and
        # asyncio lets no task begin a step inside another one's.
        around = asyncio.current_task(self)
        try:
            asyncio._set_running_loop(self)
            if around is not None:
                asyncio.tasks._leave_task(self, around)
            first._run()
        finally:
            if around is not None and asyncio.current_task(self) is None:
                asyncio.tasks._enter_task(self, around)
            asyncio._set_running_loop(outer)
        return task

    def settled(self, future: asyncio.Future[Any], limit: Limit | None = None) -> bool:
        """Let all coroutines go on until `future` is done (True).

        False if nothing can move, the limit is over, or `halt` was called.

        Raises:
            KeyboardInterrupt: by Ctrl-C, or from a task that a body started.
        """
        if future.done():
            return True
        outer = self._outer()
        future.add_done_callback(self._stop_for)
        try:
            asyncio._set_running_loop(None)
            self.limit = limit
            self._is_halted = False
            while not (future.done() or self._is_halted):
                # What a task of a body raises to end the process is the body's, as all errors.
                with contextlib.suppress(SystemExit):
                    self.run_forever()
        finally:
            self.limit = None
            future.remove_done_callback(self._stop_for)
            asyncio._set_running_loop(outer)
        return future.done()

    def _stop_for(self, _future: asyncio.Future[Any]) -> None:
        self.stop()

    def _outer(self) -> asyncio.AbstractEventLoop | None:
        """The loop in which the script itself runs, None for most.

        It can't be this one: that is what a Ctrl-C leaves which comes while this loop ends a run.
        """
        outer = asyncio._get_running_loop()
        return None if outer is self else outer

    def finish(self) -> None:
        """Cancel all tasks, give them a moment to end, and close the loop."""
        left = asyncio.all_tasks(self)
        try:
            for task in left:
                task.cancel()
            if left:
                ended = asyncio.gather(*left, return_exceptions=True)
                self.settled(ended, Limit(self, _CLEAN_UP_S))
        finally:
            asyncio._set_running_loop(self._outer())
            self.close()


@types.coroutine
def stepped(
    engine: simulation.SimulationEngine, run: Any, coroutine: Coroutine[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """Await `coroutine`, with `run` as the engine's running body during each of its steps.

    Gives what it returns, or a `runner.Raised` with what it raised.
    """
    send: Any = coroutine.send
    argument: Any = None
    guard, run_step = engine.guard, engine.runner
    while True:
        before = engine.running
        try:
            engine.running = run
            if guard is None:
                yielded = run_step(send, (argument,))
            else:
                yielded = run_step(guard.step, (run, send, argument))
        finally:
            engine.running = before
        if type(yielded) is runner.Raised:
            error = yielded.error
            return error.value if isinstance(error, StopIteration) else yielded
        try:
            argument = yield yielded
            send = coroutine.send
        except BaseException as error:  # noqa: BLE001  (what was thrown in is handed on)
            argument = error
            send = coroutine.throw
