"""What a value is made of: names of types, and shapes of arrays. Nothing of what it says.

The audit file shows a bounded part of it, the policy's rules about types look at all of it.
Names are those of `fed.config.policies.TYPE_NAMES`, and module and qualname of user classes as they
are on the wire. No code of a value's class runs.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import NoneType
from typing import Any, Final

from fed import errors
from fed.codec import types as table

#: What an audit line tells of one value. A model's state has some hundred arrays; the digest and
#: the size say the rest.
SHOWN_KINDS: Final = 16
SHOWN_ARRAYS: Final = 16
#: Longest name of a type in a line: qualified names of honest classes are far shorter.
SHOWN_NAME: Final = 200
#: Parts that are looked at for an audit line: some 100 us.
SUMMARY_PARTS: Final = 1_000
#: Parts that are looked at for a rule about types. No value of the wire format has more.
RULE_PARTS: Final = 1 << 20

_NAMES: Final[dict[type, str]] = {
    NoneType: "None",
    OrderedDict: "OrderedDict",
    datetime.datetime: "datetime",
    datetime.date: "date",
    datetime.time: "time",
    datetime.timedelta: "timedelta",
    datetime.timezone: "timezone",
    decimal.Decimal: "Decimal",
    uuid.UUID: "UUID",
    **{
        cls: cls.__name__
        for cls in (
            bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict,
        )
    },
}  # fmt: skip
_LIBRARIES: Final = frozenset(("numpy", "pandas", "pyarrow", "torch"))
_PLAIN: Final = table.SCALARS

#: How a part is reached: the part above it and the step from there; None at the top.
_Way = tuple[Any, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What one value is made of.

    Attributes:
        kinds: name of every type in it -> path of the first part of that type, the value's own
            (path "") first.
        arrays: `float32[1000,784]` for each array, frame and tensor met, at most `SHOWN_ARRAYS`.
        arrays_left_out: how many more were met.
        is_whole: everything was looked at.
    """

    kinds: Mapping[str, str]
    arrays: tuple[str, ...]
    arrays_left_out: int
    is_whole: bool

    @property
    def type_name(self) -> str:
        """The type of the value itself."""
        return next(iter(self.kinds))

    @property
    def inside(self) -> tuple[str, ...]:
        """The other types, ascending, for a line: at most `SHOWN_KINDS`, then `...`."""
        others = sorted(list(self.kinds)[1:])
        if len(others) > SHOWN_KINDS or not self.is_whole:
            return (*others[:SHOWN_KINDS], "...")
        return tuple(others)


def of(value: object, *, types: table.UserTypes, parts: int = SUMMARY_PARTS) -> Contents:
    """What a value that may cross is made of.

    Args:
        value: anything of the type table; containers met twice are looked at once.
        types: the user's classes that may cross.
        parts: how many parts are looked at; a list of plain values counts as one.
    """
    walk = _Walk(types)
    walk.run(value, parts)
    return Contents(
        kinds={name: _path(way) for name, way in walk.kinds.items()},
        arrays=tuple(walk.arrays),
        arrays_left_out=walk.arrays_left_out,
        is_whole=walk.is_whole,
    )


def name_of(cls: type, value: object, types: table.UserTypes) -> str:
    """The name of an exact type; of numpy's scalars it is the element type's."""
    known = _NAMES.get(cls)
    if known is not None:
        return known
    package = cls.__module__.partition(".")[0]
    if package in _LIBRARIES:
        dtype = getattr(value, "dtype", None)
        if package == "numpy" and dtype is not None and cls.__name__ != "ndarray":
            if dtype.kind == "V":
                return "numpy.void"
            return f"numpy.{cls.__name__ if dtype.kind in 'SUMm' else dtype.name}"
        return f"{package}.{cls.__name__}"
    try:
        return ".".join(types.name_of(cls))
    except errors.ValueRefusedError:  # crosses as a pickle, or not at all
        return table.type_name(cls)


class _Walk:
    """Goes through the parts of a value, outermost first."""

    def __init__(self, types: table.UserTypes) -> None:
        self.kinds: dict[str, _Way] = {}
        self.arrays: list[str] = []
        self.arrays_left_out = 0
        self.is_whole = True
        self._types = types
        self._known: set[type] = set()  # plain types whose names are among the kinds

    def run(self, value: object, parts: int) -> None:
        level: list[tuple[object, _Way]] = [(value, None)]
        seen: set[int] = set()
        kept: list[object] = []  # lists of fields are new: an id must not be used again
        while level:
            below: list[tuple[object, _Way]] = []
            for item, way in level:
                parts -= 1
                if parts < 0:
                    self.is_whole = False
                    return
                self._note(item, way)
                if type(item) in _PLAIN or id(item) in seen:
                    continue
                seen.add(id(item))
                kept.append(item)
                found = islice(self._parts(item, way), parts + 1)
                below.extend(found)
                if len(below) > parts:
                    self.is_whole = False
                    del below[parts:]
            level = below

    def _note(self, item: object, way: _Way) -> None:
        cls = type(item)
        if cls in self._known:
            return
        name = name_of(cls, item, self._types)
        self.kinds.setdefault(name, way)
        if cls in _PLAIN:
            self._known.add(cls)
        elif name.startswith(("numpy.ndarray", "pandas.", "pyarrow.", "torch.")):
            self._note_array(name, item)

    def _note_array(self, name: str, item: Any) -> None:
        if len(self.arrays) == SHOWN_ARRAYS:
            self.arrays_left_out += 1
            return
        shape = ",".join(map(str, item.shape))
        if name in ("numpy.ndarray", "pandas.Series", "torch.Tensor"):
            kind = getattr(item.dtype, "name", None) or str(item.dtype)
        else:
            kind = name
        self.arrays.append(f"{kind[:SHOWN_NAME]}[{shape}]")

    def _parts(self, item: Any, way: _Way) -> Iterator[tuple[object, _Way]]:
        """What is inside `item`; of plain values one of each type that is new."""
        cls = type(item)
        if cls is list or cls is tuple:
            yield from self._new(item, way, lambda n, _: f"[{n}]")
        elif cls is dict or cls is OrderedDict:
            yield from self._new(item, way, lambda _, key: f".keys(){table.IN_SET}")
            keys = list(item)
            yield from self._new(item.values(), way, lambda n, _: table.key_step(keys[n]))
        elif cls is set or cls is frozenset:
            yield from self._new(item, way, lambda n, _: table.IN_SET)
        elif cls not in _NAMES and cls.__module__.partition(".")[0] not in _LIBRARIES:
            yield from self._fields(item, way)

    def _new(self, items: Iterable[object], way: _Way, step: Any) -> Iterator[tuple[object, _Way]]:
        wanted = set(map(type, items)) - self._known
        if not wanted:
            return
        for n, part in enumerate(items):
            cls = type(part)
            if cls not in wanted:
                continue
            if cls in _PLAIN:
                wanted.discard(cls)
            yield part, (way, step(n, part))

    def _fields(self, item: object, way: _Way) -> Iterator[tuple[object, _Way]]:
        try:
            plan = self._types.describe(type(item))
            values = table.taken(plan, item)
        except errors.ValueRefusedError:
            return
        if plan.kind == "enum":
            return
        for name, part in zip(plan.fields, values, strict=True):
            yield part, (way, f".{name}")


def _path(way: _Way) -> str:
    steps = []
    while way is not None:
        way, step = way
        steps.append(step)
    return "".join(reversed(steps))
