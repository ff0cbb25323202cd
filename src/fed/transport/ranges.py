"""A set of ids kept as ranges: what was delivered, for the life of a job, in a few bytes."""

from __future__ import annotations

import bisect
from collections.abc import Iterator


class IdRanges:
    """A set of ints >= 0 that holds neighbours as one range.

    Ids handed out in order and finished nearly in order need a handful of ranges, however many
    there were. Adding beyond the last range is O(1); anything else O(log R + R) for R ranges.
    (The idea, as a segment tree of sequence ids: secretflow/yacl, yacl/link/transport/channel.cc.)
    """

    __slots__ = ("_highs", "_lows")

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []  # inclusive

    def __contains__(self, number: int) -> bool:
        at = bisect.bisect_right(self._lows, number) - 1
        return at >= 0 and number <= self._highs[at]

    def __bool__(self) -> bool:
        return bool(self._lows)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The ranges as (lowest, highest), both inclusive, ascending, never touching."""
        return zip(self._lows, self._highs, strict=True)

    def __repr__(self) -> str:
        return f"IdRanges({list(self)!r})"

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return len(self._lows)

    def add(self, number: int) -> bool:
        """Put `number` in; True if it was not there."""
        highs = self._highs
        if highs:
            last = highs[-1]
            if number == last + 1:
                highs[-1] = number
                return True
            if number <= last:
                return self._add_inside(number)
        self._lows.append(number)
        highs.append(number)
        return True

    def _add_inside(self, number: int) -> bool:
        lows, highs = self._lows, self._highs
        at = bisect.bisect_right(lows, number) - 1
        if at >= 0 and number <= highs[at]:
            return False
        joins_left = at >= 0 and highs[at] == number - 1
        joins_right = at + 1 < len(lows) and lows[at + 1] == number + 1
        if joins_left and joins_right:
            highs[at] = highs[at + 1]
            del lows[at + 1], highs[at + 1]
        elif joins_left:
            highs[at] = number
        elif joins_right:
            lows[at + 1] = number
        else:
            lows.insert(at + 1, number)
            highs.insert(at + 1, number)
        return True

    def take(self, most: int) -> list[tuple[int, int]]:
        """Take out at most `most` ranges, the lowest first."""
        taken = list(zip(self._lows[:most], self._highs[:most], strict=True))
        del self._lows[:most], self._highs[:most]
        return taken
