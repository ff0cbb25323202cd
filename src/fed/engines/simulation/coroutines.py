"""Coroutine bodies: an event loop that never sleeps.

Its clock is virtual: when nothing is ready, the clock jumps to the next timer, so a thousand
clients that sleep an hour cost no time, and the order of events depends on the program alone.
Bodies that wait for the outside (sockets, threads) are waited for in real time.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import time
import types
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final

from fed.engines.simulation import runner

if TYPE_CHECKING:
    from fed.engines.simulation import engine as simulation

log = logging.getLogger(__name__)

#: How often a wait for the outside world is said to go on.
_SAY_EVERY_S: Final = 30.0


class _Selector(selectors.DefaultSelector):
    """Tells the loop what is ready; instead of waiting for a timer it moves the loop's clock."""

    loop: Loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if not self.loop.waits_for_outside():
            if timeout is None:
                self.loop.stop()  # nothing is ready, nothing will be: who runs the loop finds out
            else:
                self.loop.advance(timeout)
            return []
        began = time.monotonic()
        ready = super().select(_SAY_EVERY_S if timeout is None else min(timeout, _SAY_EVERY_S))
        self.loop.advance(time.monotonic() - began)
        if not ready and timeout is None:
            log.warning("coroutines wait for a thread or a socket since %g s", _SAY_EVERY_S)
        return ready


class Loop(asyncio.SelectorEventLoop):
    """An event loop with a virtual clock, for the coroutines of one session."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._captured: list[asyncio.Handle] | None = None
        self._threads = 0
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

    def started(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task of `coroutine`, run up to its first suspension; no other coroutine moves."""
        self._captured = []
        try:
            task = self.create_task(coroutine)
            (first,) = self._captured
        finally:
            self._captured = None
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        # A call that had to wait starts its coroutine inside a step of the task that waited, and
        # asyncio lets no task begin a step inside another one's.
        around = asyncio.current_task(self)
        if around is not None:
            asyncio.tasks._leave_task(self, around)
        try:
            first._run()
        finally:
            if around is not None:
                asyncio.tasks._enter_task(self, around)
            asyncio._set_running_loop(outer)
        return task

    def settled(self, future: asyncio.Future[None]) -> bool:
        """Let all coroutines go on until `future` is done (True) or nothing can move (False)."""
        if future.done():
            return True
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            self.run_until_complete(future)
        except RuntimeError:
            if not future.done():
                return False
        finally:
            asyncio._set_running_loop(outer)
        return True

    def finish(self) -> None:
        """Let cancelled tasks end, then close the loop."""
        self.call_soon(self.stop)
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            self.run_forever()
        finally:
            asyncio._set_running_loop(outer)
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
        engine.running = run
        if guard is None:
            yielded = run_step(send, (argument,))
        else:
            yielded = run_step(guard.step, (run, send, argument))
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
