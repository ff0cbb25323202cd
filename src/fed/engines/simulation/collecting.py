"""The cyclic garbage collector while a simulation runs."""

from __future__ import annotations

import gc
from typing import Final

#: Collections of the middle generation before one of the oldest; Python's own is 10.
_OLD_THRESHOLD: Final = 1_000


class OldGeneration:
    """Has the oldest objects looked through a hundred times less often than usual.

    A simulation holds millions of objects that live long, and reference counting frees what it
    drops; the usual full collections take more than a third of the time in which a million actors
    are made, and find nothing. Young objects are looked through as often as ever, and
    `gc.collect()` works as ever. A threshold that the script itself raised is left alone.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None
        young, middle, old = gc.get_threshold()
        if young and old < _OLD_THRESHOLD:
            self._before = (young, middle, old)
            gc.set_threshold(young, middle, _OLD_THRESHOLD)

    def restore(self) -> None:
        """Put back what was there before, unless the script has changed it since."""
        if self._before is not None:
            young, middle, _ = self._before
            if gc.get_threshold() == (young, middle, _OLD_THRESHOLD):
                gc.set_threshold(*self._before)
            self._before = None
