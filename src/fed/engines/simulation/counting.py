"""Small counts, one per party, without an object for each."""

from __future__ import annotations


class Counts:
    """How many of something each party has had so far, by the party's place among all.

    One byte per party; the few parties with more than 254 are kept in a dict.
    """

    __slots__ = ("_large", "_small")

    def __init__(self) -> None:
        self._small = bytearray()
        self._large: dict[int, int] = {}

    def next(self, place: int) -> int:
        """The party's count, from 0, which is one higher from now on."""
        small = self._small
        if place >= len(small):
            small.extend(bytes(max(place + 1, 2 * len(small)) - len(small)))
        count = small[place]
        if count < 255:
            small[place] = count + 1
            if count == 254:
                self._large[place] = 255
            return count
        count = self._large[place]
        self._large[place] = count + 1
        return count
