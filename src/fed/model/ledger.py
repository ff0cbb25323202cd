"""The numbered record of every call that a program makes, and its digest.

Every verb that takes a number makes one record, in program order, at every party alike. Two
parties run the same program exactly if their digests agree, so what enters is only what all of
them know: never a literal, an option or the shape of a container.

A record is a short run of plain items: the number of its *shape*, the party, then one integer
for each actor or fed object that it refers to. A shape (kind, qualified name, number of returns,
where the fed objects stand) is written once, when it is first used, in front of its first record.
Both are cheap enough to be made at each of some millions of calls.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fed import errors

if TYPE_CHECKING:
    import msgspec

#: Records are encoded and hashed in blocks of this many. A power of two: the hot path tests
#: `number & BLOCK_MASK`.
BLOCK: Final = 256
BLOCK_MASK: Final = BLOCK - 1

#: At least this many of the latest records can be read back (some 3 MB encoded).
KEPT_RECORDS: Final = 100_000

FUNCTION: Final = "function"
CREATE: Final = "create"
METHOD: Final = "method"
PUT: Final = "put"
GET: Final = "get"
WAIT: Final = "wait"
FOLD: Final = "fold"
REDUCE: Final = "reduce"
KILL: Final = "kill"

#: Stands for the receivers of a `get` that every party gets.
EVERYBODY: Final = "*"

_DEFINE: Final = -1

#: What an argument key is: a position from 0, or the name of a keyword.
Key = int | str


@dataclass(frozen=True, slots=True)
class Shape:
    """What records of one kind of call have in common.

    Attributes:
        kind: one of the constants above.
        name: `__qualname__` of what is called, without module; empty for get, put and wait.
        count: `num_returns`; for wait how many are waited for; for reduce the length.
        keys: for each fed object the argument that it stands in and its index among the values
            of the call that made it; runs of equal index at consecutive positions stand as one
            `(first position, index, length)`.
        has_actor: True if the first integer of a record is an actor (of a method call, or that is
            killed): its ordinal among its party's actors of that class.
    """

    kind: str
    name: str
    count: int
    keys: tuple[tuple[Key, int, int], ...]
    has_actor: bool

    @property
    def integers(self) -> int:
        """How many integers follow the party in a record of this shape."""
        return self.has_actor + sum(length for _, _, length in self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One call as every party knows it."""

    number: int
    kind: str
    party: str
    name: str
    count: int
    actor: int | None
    objects: tuple[tuple[Key, str], ...]

    def __str__(self) -> str:
        actor = f" of actor {self.actor}" if self.actor is not None else ""
        name = f" {self.name}{actor}" if self.name else ""
        at = f" at {self.party!r}" if self.party else ""
        inputs = ", ".join(f"{key}={object_id}" for key, object_id in self.objects[:6])
        more = ", ..." if len(self.objects) > 6 else ""
        count = f" -> {self.count}" if self.count != 1 else ""
        return f"call {self.number}: {self.kind}{name}{at}({inputs}{more}){count}"


def runs(keys: Sequence[tuple[Key, int]]) -> tuple[tuple[Key, int, int], ...]:
    """The (argument, index) pairs with neighbours at consecutive positions put together."""
    out: list[tuple[Key, int, int]] = []
    for key, index in keys:
        if out and isinstance(key, int):
            first, same_index, length = out[-1]
            if isinstance(first, int) and index == same_index and key == first + length:
                out[-1] = (first, same_index, length + 1)
                continue
        out.append((key, index, 1))
    return tuple(out)


class Ledger:
    """The numbers and records of one session.

    A maker of records takes the next number by `number = ledger.number = ledger.number + 1`,
    extends `ledger.log` by (shape id, party, integers...) and calls `close_block` when
    `number & BLOCK_MASK` is 0. Engines write these three lines where calls are hot;
    `add` does the same for all others.
    """

    __slots__ = ("_blocks", "_encoder", "_hash", "_shape_ids", "_shapes", "log", "number")

    def __init__(self) -> None:
        self.number = 0
        self.log: list[Any] = []
        self._shapes: list[Shape] = []
        self._shape_ids: dict[Shape, int] = {}
        self._blocks: deque[tuple[int, bytes]] = deque(maxlen=-(-KEPT_RECORDS // BLOCK) + 1)
        self._hash = hashlib.blake2b(digest_size=32)
        self._encoder: msgspec.msgpack.Encoder | None = None

    def shape(
        self,
        kind: str,
        name: str,
        *,
        count: int = 1,
        keys: tuple[tuple[Key, int, int], ...] = (),
        has_actor: bool = False,
    ) -> int:
        """The id of a shape; its definition is in the log from now on.

        Ids count the shapes in order of first use, from 1, so all parties have the same. Must be
        asked for just before the shape's first record, never in advance.
        """
        shape = Shape(kind, name, count, keys, has_actor)
        number = self._shape_ids.get(shape)
        if number is None:
            self._shapes.append(shape)
            number = self._shape_ids[shape] = len(self._shapes)
            self.log += (_DEFINE, kind, name, count, [list(run) for run in keys], has_actor)
        return number

    def add(self, shape: int, party: str, integers: Sequence[int] = ()) -> int:
        """Make the next record; returns its number, from 1."""
        number = self.number = self.number + 1
        self.log += (shape, party, *integers)
        if not number & BLOCK_MASK:
            self.close_block()
        return number

    def close_block(self) -> None:
        """Encode and hash the open block; call it when the number is a multiple of `BLOCK`."""
        data = self._encoded()
        self._hash.update(data)
        self._blocks.append((self.number - BLOCK + 1, data))
        self.log.clear()

    def digest(self) -> bytes:
        """32 bytes (BLAKE2b) over all records so far; equal exactly where the records are."""
        whole = self._hash.copy()
        whole.update(self._encoded())
        return whole.digest()

    def records(self, first: int = 1, last: int | None = None) -> list[Record]:
        """The records numbered `first` to `last` (both included; all by default).

        Raises:
            UsageError: if a record asked for is older than the ones kept.
        """
        last = self.number if last is None else min(last, self.number)
        oldest = self._blocks[0][0] if self._blocks else self.number // BLOCK * BLOCK + 1
        if first < oldest and first <= last:
            raise errors.UsageError(
                problem=f"record {first} is no longer kept: the oldest one is {oldest}",
                fix=f"Read records while they are among the latest {KEPT_RECORDS}",
            )
        found = []
        for number, data in [*self._blocks, (self.number // BLOCK * BLOCK + 1, self._encoded())]:
            if number <= last and number + BLOCK > first:
                found += [r for r in self._decoded(number, data) if first <= r.number <= last]
        return found

    def _encoded(self) -> bytes:
        if self._encoder is None:
            import msgspec

            self._encoder = msgspec.msgpack.Encoder()
        return self._encoder.encode(self.log)

    def _decoded(self, number: int, data: bytes) -> Iterator[Record]:
        import msgspec

        items = msgspec.msgpack.decode(data)
        at = 0
        while at < len(items):
            if items[at] == _DEFINE:
                at += 6
                continue
            shape = self._shapes[items[at] - 1]
            party, end = items[at + 1], at + 2 + shape.integers
            integers = items[at + 2 : end]
            actor = integers.pop(0) if shape.has_actor else None
            keys = [
                (first + step if isinstance(first, int) else first, index)
                for first, index, length in shape.keys
                for step in range(length)
            ]
            yield Record(
                number=number,
                kind=shape.kind,
                party=party,
                name=shape.name,
                count=shape.count,
                actor=actor,
                objects=tuple(
                    (key, f"{maker}#{index}")
                    for (key, index), maker in zip(keys, integers, strict=True)
                ),
            )
            number, at = number + 1, end
