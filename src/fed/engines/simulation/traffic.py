"""What crossed between parties: each value once per receiving party, as a real link carries it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from fed.codec import seal

if TYPE_CHECKING:
    from fed.codec import types, wire

#: Receivers of an object are kept as a set until they are this share of all parties, then as one
#: byte per party: a byte costs a seventieth of a set's entry, and far less time.
_DENSE: Final = 64


#: A float encoded: a tag and eight bytes (docs/wire-format.md). Known without asking the codec.
_FLOAT_BYTES: Final = 9


#: Kinds of arrays whose size is remembered: more than a model has layers.
_KNOWN_ARRAYS: Final = 10_000


class Traffic:
    """Counts the values that crossed in one session.

    Attributes:
        parties: how many places there are so far.
    """

    __slots__ = ("_arrays", "_limits", "_open", "_size_bytes", "_types", "_values", "parties")

    def __init__(self, user_types: types.UserTypes, *, max_value_bytes: int | None) -> None:
        self.parties = 0
        self._types = user_types
        self._arrays: dict[tuple[Any, ...], int] = {}
        self._limits: wire.Limits | None = None
        if max_value_bytes is not None:
            from fed.codec import wire

            self._limits = wire.Limits(total_bytes=max_value_bytes)
        self._values = 0
        self._size_bytes = 0
        self._open: weakref.WeakSet[Sent] = weakref.WeakSet()

    @property
    def values(self) -> int:
        """How many values crossed, each once per receiving party."""
        return self._values + sum(sent.more() for sent in self._open)

    @property
    def size_bytes(self) -> int:
        """Their encoded sizes added up."""
        return self._size_bytes + sum(sent.more() * sent.size_bytes for sent in self._open)

    def count(self, values: int, size_bytes: int) -> None:
        """Add `values` values of `size_bytes` each."""
        self._values += values
        self._size_bytes += values * size_bytes

    def encoded_bytes(self, obj: Any, value: Any) -> int:
        """Bytes that the value of `obj` takes encoded.

        Raises:
            ValueRefusedError: if the codec would refuse it for its size.
        """
        if type(value) is float:
            return _FLOAT_BYTES
        if type(value) is seal.array_type():
            # Arrays of one type, shape and order take the same, and are asked for often.
            kind = (value.dtype, value.shape, value.flags.c_contiguous)
            size_bytes = self._arrays.get(kind)
            if size_bytes is None:
                size_bytes = self._asked(obj, value)
                if len(self._arrays) < _KNOWN_ARRAYS:
                    self._arrays[kind] = size_bytes
            return size_bytes
        return self._asked(obj, value)

    def _asked(self, obj: Any, value: Any) -> int:
        from fed.codec import wire

        return wire.size(
            value, types=self._types, limits=self._limits, party=obj.party, call=obj.number
        )

    def to(self, obj: Any, place: int, value: Any, *, shared: Any) -> None:
        """The value of `obj` goes to the party at `place`.

        Args:
            obj: a fed object of the session; its `sent` is brought up to date.
            place: the receiving party's place among all.
            value: what it gets.
            shared: the same if other parties may have the very same value, else NOTHING.

        Raises:
            ValueRefusedError: if the codec would refuse it for its size; nothing is counted then.
        """
        sent = obj._sent
        if sent is None:
            self.count(1, self.encoded_bytes(obj, value))
            obj._sent = place
        elif type(sent) is Sent:
            sent.add(place)
        elif sent != place:
            obj._sent = sent = Sent(self, sent, self.encoded_bytes(obj, value), shared)
            self._open.add(sent)
            sent.add(place)


class Sent:
    """The parties that an object crossed to, if it is more than one.

    Attributes:
        bits: 1 at the places of these parties; None while they are few.
        shared: the value, if all parties may have the same one (an atom, a sealed array); NOTHING
            if each needs its own.
        size_bytes: the encoded size of the value.
    """

    __slots__ = ("__weakref__", "_places", "_traffic", "bits", "shared", "size_bytes")

    def __init__(self, traffic: Traffic, place: int, size_bytes: int, shared: Any) -> None:
        self._traffic = traffic
        self._places = {place}
        self.bits: bytearray | None = None
        self.shared = shared
        self.size_bytes = size_bytes

    def add(self, place: int) -> None:
        """One more party (or one of those). On the hot path, `bits[place] = 1` does the same."""
        bits = self.bits
        if bits is None:
            self._places.add(place)
            if len(self._places) * _DENSE > self._traffic.parties:
                self.bits = bytearray(max(self._traffic.parties, max(self._places) + 1))
                for known in self._places:
                    self.bits[known] = 1
                self._places.clear()
            return
        if place >= len(bits):
            bits.extend(bytes(max(2 * len(bits), place + 1) - len(bits)))
        bits[place] = 1

    def more(self) -> int:
        """How many parties beyond the first, which was counted when the value went there."""
        return (len(self._places) if self.bits is None else self.bits.count(1)) - 1

    def __del__(self) -> None:
        self._traffic.count(self.more(), self.size_bytes)
