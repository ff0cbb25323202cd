"""Runs bodies in a frame of its own, so that what a failing one leaves refers to nothing else."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any


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
    """

    def __init__(self) -> None:
        self._made: list[Any] = []
        self._frame = self._calls(self._made)
        next(self._frame)

    def __call__(self, function: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """What the function returns, or a `Raised` with what it raised; never raises itself."""
        self._frame.send((function, args, kwargs or {}))
        return self._made.pop()

    @staticmethod
    def _calls(made: list[Any]) -> Generator[None, Any, None]:
        while True:
            call = yield
            function, args, kwargs = call
            try:
                # Kept in no variable here: a value that nobody else refers to is moved, not copied.
                made.append(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001  (whoever called decides)
                made.append(Raised(error))
            call = function = args = kwargs = None
