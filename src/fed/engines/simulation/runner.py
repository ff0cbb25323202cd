"""Runs bodies in a frame of its own, so that what a failing one leaves refers to nothing else."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import CodeType
from typing import Any, Final


class Raised:
    """What a body raised."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Runner:
    """Calls functions from the frame of a suspended generator.

    An exception keeps the frames of its traceback alive, and each frame the ones that called it,
    with all their variables. From an ordinary call these would be the engine's and the script's,
    which hold the failed fed object, which holds the exception: a cycle, that pins every value in
    those frames until the collector finds it. The frame of a generator has no caller while it is
    suspended, so there it ends.

    Ctrl-C can come at any instruction, so also in the generator but outside the body, which ends
    the generator: the next one takes its place.
    """

    def __init__(self) -> None:
        self._made: list[Any] = []
        self._begin()

    def __call__(self, function: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """What the function returns, or a `Raised` with what it raised.

        Raises:
            KeyboardInterrupt: only by Ctrl-C in this very method.
        """
        made = self._made
        try:
            self._frame.send((function, args, kwargs or {}))
            return made.pop()
        except StopIteration:
            # It had been ended, and nobody could make a new one then; the function has not run.
            self._begin()
            return self(function, args, kwargs)
        except BaseException as error:
            made.clear()
            if self._frame.gi_frame is not None:
                raise
            self._begin()
            return Raised(error)

    def _begin(self) -> None:
        frame: Any = self._calls(self._made)
        next(frame)
        self._frame = frame

    @staticmethod
    def _calls(made: list[Any]) -> Generator[None, Any, None]:
        while True:
            call = yield
            function, args, kwargs = call
            try:
                # Kept in no variable here: a value that nobody else refers to is moved, not copied.
                made.append(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001  (whoever called decides)
                made[:] = (Raised(error),)
            call = function = args = kwargs = None


#: The code of the frame below each body.
FRAME: Final[CodeType] = Runner._calls.__code__
