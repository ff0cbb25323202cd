"""From a value to its tree and buffers.

A subtree of nothing but None, bool, int, float, str, list and dict with str keys is *plain*:
the C encoder writes it as it is. `_plain_items` recognises one at C speed, level by level; what
isn't plain is walked here and turned into extensions.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import gc
import struct
import sys
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import chain
from types import NoneType
from typing import Any

import msgspec

from fed import errors
from fed.codec import tags, types

Ext = msgspec.msgpack.Ext
Tag = tags.Tag

_encode = msgspec.msgpack.Encoder().encode

_PLAIN_SCALARS = frozenset((NoneType, bool, int, float, str))
_PLAIN = _PLAIN_SCALARS | {list, dict}
_PLAIN_CONTAINERS = frozenset((list, dict))
_JUST_STR = frozenset((str,))
_JUST_TUPLES = {tuple}

_LEAST_INT, _MOST_INT = -(1 << 63), (1 << 64) - 1


class Writer:
    """One value on its way to bytes.

    Attributes:
        buffers: out-of-band data in the order in which the tree names it.
        lengths: their lengths in bytes, and also those that `measure` left out.
        items: values, keys and elements seen.
        careful: True if every int and str is looked at.
    """

    __slots__ = ("_inline", "_large", "_measure", "buffers", "careful", "items", "lengths",
                 "limits", "types")  # fmt: skip

    def __init__(
        self,
        types: types.UserTypes,
        limits: tags.Limits,
        *,
        measure: bool = False,
        careful: bool = False,
        large: bool = False,
    ) -> None:
        self.types = types
        self.limits = limits
        self.buffers: list[memoryview] = []
        self.lengths: list[int] = []
        self.items = 1
        self._inline = 0
        self._measure = measure
        self.careful = careful
        self._large = large

    def tree(self, value: object) -> bytes:
        """The value's msgpack document.

        Raises:
            ValueRefusedError: with the path inside the value.
            OverflowError: if an int has more than 64 bits and the writer isn't careful.
            UnicodeEncodeError: if a str has lone surrogates and the writer isn't careful.
        """
        return _encode(self.element(value, 0))

    def element(self, value: Any, depth: int) -> Any:
        """What the C encoder is given for a value that lies in `depth` containers."""
        kind = type(value)
        if kind in _PLAIN_SCALARS and not self.careful:
            return value
        handler = _HANDLERS.get(kind) or _handler_of(kind, self.types)
        return handler(self, value, depth)

    def elements(self, values: Iterable[Any], depth: int, step: Callable[[int], str]) -> list[Any]:
        """The same for the elements of a container at `depth`; `step` names one in a path."""
        made: list[Any] = []
        passed = () if self.careful else _PLAIN_SCALARS
        depth += 1
        try:
            for value in values:
                kind = type(value)
                if kind in passed:
                    made.append(value)
                else:
                    handler = _HANDLERS.get(kind) or _handler_of(kind, self.types)
                    made.append(handler(self, value, depth))
        except errors.ValueRefusedError as error:
            error.path = step(len(made)) + error.path
            raise
        return made

    def enter(self, value: object, items: int, depth: int) -> None:
        """Count a container in.

        Raises:
            ValueRefusedError: if it lies too deep, or the tree has too many items by now.
        """
        limits = self.limits
        if depth >= limits.depth:
            raise types.too_deep(value, limits.depth)
        self.items += items
        if self.items > limits.items:
            raise types.refusal(
                value, "with it the value has too many parts; send numbers as a numpy array",
                limit=f"{limits.items} items",
            )  # fmt: skip

    def buffer(self, data: memoryview) -> None:
        """Append out-of-band data."""
        self.lengths.append(data.nbytes)
        self.buffers.append(data)

    def is_short(self, size_bytes: int) -> bool:
        """True if data of that size stands in the tree."""
        return size_bytes <= tags.INLINE_BYTES or self._inline > 0

    def only_measured(self, size_bytes: int) -> bool:
        """True if out-of-band data need not be made; its length is noted then."""
        if self._measure:
            self.lengths.append(size_bytes)
        return self._measure

    def is_plain(self, value: Any, depth: int) -> bool:
        """True if the subtree is plain, and then its items are counted."""
        if self.careful:
            return self._is_plain_carefully(value, depth)
        count = _plain_items(value, self.limits.depth - depth, self.limits.items)
        if count >= 0:
            self.enter(value, count, depth)
        return count >= 0

    def _is_plain_carefully(self, value: Any, depth: int) -> bool:
        count = _plain_items(value, self.limits.depth - depth, self.limits.items)
        if count < 0 or not self._fits(value):
            return False
        self.enter(value, count, depth)
        return True

    def _fits(self, value: Any) -> bool:
        kind = type(value)
        if kind is int:
            return bool(_LEAST_INT <= value <= _MOST_INT)
        if kind is str:
            return isinstance(self.text(value), str)
        if kind is list:
            return all(map(self._fits, value))
        if kind is dict:
            return all(map(self._fits, value)) and all(map(self._fits, value.values()))
        return True

    def text(self, value: str) -> Any:
        """A str that may have surrogates, or be so long that it belongs in a buffer."""
        try:
            data = value.encode()
        except UnicodeEncodeError:
            return Ext(Tag.SURROGATE_TEXT, value.encode("utf-8", "surrogatepass"))
        if self._large and not self.is_short(len(data)):
            return Ext(Tag.LONG_TEXT, b"")
        return value

    def set_elements(self, value: Any, depth: int) -> bytes:
        """A set's elements, each encoded by itself, in the order of those bytes."""
        self._inline += 1
        parts = []
        try:
            for item in value:
                parts.append(_encode(self.element(item, depth + 1)))
        except errors.ValueRefusedError as error:
            error.path = types.IN_SET + error.path
            raise
        finally:
            self._inline -= 1
        parts.sort()
        return array_start(len(parts)) + b"".join(parts)


def array_start(count: int) -> bytes:
    """The first bytes of a msgpack array of `count` elements."""
    if count < 1 << 4:
        return bytes((0x90 | count,))
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def _plain_items(value: Any, levels: int, most: int) -> int:
    """The number of keys, values and elements below a list or dict; -1 if it isn't plain.

    One pass per level and no Python code per element: all containers of a level are opened at
    once. Gives up below `levels` levels (-1) and above `most` items (with more than that).
    """
    count = 0
    level: list[Any] = [value]
    kinds = {type(value)}
    for _ in range(levels):
        items: list[Any] = []
        dicts = level
        if list in kinds:
            dicts = [item for item in level if type(item) is dict] if dict in kinds else []
            lists = [item for item in level if type(item) is list] if len(kinds) > 1 else level
            items.extend(chain.from_iterable(lists))
            count += len(items)
        if dicts:
            entries = sum(map(len, dicts))
            # A dict all of whose keys are exact str objects shows the collector its values
            # alone. Others show their keys as well, so the number tells.
            values = gc.get_referents(*dicts)
            if len(values) != entries:
                if not _JUST_STR.issuperset(map(type, chain.from_iterable(dicts))):
                    return -1
                values = list(chain.from_iterable(map(dict.values, dicts)))
            items = items + values if items else values
            count += 2 * entries
        if count > most:
            return count
        kinds = set(map(type, items))
        if not kinds <= _PLAIN:
            return -1
        if list not in kinds and dict not in kinds:
            return count
        if kinds <= _PLAIN_CONTAINERS:
            level = items
        else:
            level = [item for item in items if type(item) is dict or type(item) is list]
            kinds &= _PLAIN_CONTAINERS
    return -1


def _index(n: int) -> str:
    return f"[{n}]"


def _write_scalar(w: Writer, value: Any, depth: int) -> Any:
    return value


def _write_int(w: Writer, value: int, depth: int) -> Any:
    if _LEAST_INT <= value <= _MOST_INT:
        return value
    return Ext(Tag.BIG_INT, big_int_bytes(value))


def big_int_bytes(value: int) -> bytes:
    """Two's complement, little-endian, as few bytes as hold it."""
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return value.to_bytes(size, "little", signed=True)


def _write_text(w: Writer, value: str, depth: int) -> Any:
    made = w.text(value)
    if type(made) is Ext and made.code == Tag.LONG_TEXT:
        data = value.encode()
        if not w.only_measured(len(data)):
            w.buffer(memoryview(data))
    return made


def _write_bytes(w: Writer, value: bytes, depth: int) -> Any:
    if w.is_short(len(value)):
        return Ext(Tag.BYTES, value)
    w.buffer(memoryview(value))
    return Ext(Tag.LONG_BYTES, b"")


def _write_list(w: Writer, value: list[Any], depth: int) -> Any:
    kinds = set(map(type, value))
    if not w.careful:
        if kinds <= _PLAIN_SCALARS:
            w.enter(value, len(value), depth)
            return value
        if kinds == _JUST_TUPLES and depth + 1 < w.limits.depth:
            parts = list(chain.from_iterable(value))
            if _PLAIN_SCALARS.issuperset(map(type, parts)):
                w.enter(value, len(value) + len(parts), depth)
                return Ext(Tag.TUPLE_LIST, _encode(value))
    if kinds <= _PLAIN and w.is_plain(value, depth):
        return value
    w.enter(value, len(value), depth)
    return w.elements(value, depth, _index)


def _write_tuple(w: Writer, value: tuple[Any, ...], depth: int) -> Any:
    w.enter(value, len(value), depth)
    if not w.careful and _PLAIN_SCALARS.issuperset(map(type, value)):
        return Ext(Tag.TUPLE, _encode(value))
    return Ext(Tag.TUPLE, _encode(w.elements(value, depth, _index)))


def _write_dict(w: Writer, value: dict[Any, Any], depth: int) -> Any:
    kinds = set(map(type, value.values()))
    if not w.careful and kinds <= _PLAIN_SCALARS:
        if _JUST_STR.issuperset(map(type, value)):
            w.enter(value, 2 * len(value), depth)
            return value
    elif kinds <= _PLAIN and w.is_plain(value, depth):
        return value
    return _write_pairs(w, value, depth, Tag.DICT)


def _write_ordered(w: Writer, value: OrderedDict[Any, Any], depth: int) -> Any:
    return _write_pairs(w, value, depth, Tag.ORDERED_DICT)


def _write_pairs(w: Writer, value: dict[Any, Any], depth: int, tag: int) -> Any:
    w.enter(value, 2 * len(value), depth)
    keys = list(value)

    def step(n: int) -> str:
        return types.key_step(keys[n // 2]) if n % 2 else ".keys(){element}"

    pairs = chain.from_iterable(value.items())
    return Ext(tag, _encode(w.elements(pairs, depth, step)))


def _write_set(w: Writer, value: Any, depth: int) -> Any:
    w.enter(value, len(value), depth)
    tag = Tag.SET if type(value) is set else Tag.FROZENSET
    return Ext(tag, w.set_elements(value, depth))


def _write_complex(w: Writer, value: complex, depth: int) -> Any:
    return Ext(Tag.COMPLEX, struct.pack("<dd", value.real, value.imag))


def _write_datetime(w: Writer, value: datetime.datetime, depth: int) -> Any:
    fields = (value.year, value.month, value.day, value.hour, value.minute, value.second,
              value.microsecond, value.fold, _zone(value))  # fmt: skip
    return Ext(Tag.DATETIME, _encode(fields))


def _write_time(w: Writer, value: datetime.time, depth: int) -> Any:
    fields = (value.hour, value.minute, value.second, value.microsecond, value.fold, _zone(value))
    return Ext(Tag.TIME, _encode(fields))


def _zone(value: datetime.datetime | datetime.time) -> Any:
    zone = value.tzinfo
    if zone is None:
        return None
    if type(zone) is not datetime.timezone:
        raise types.foreign_zone(value)
    return _write_zone(None, zone, 0)


def _write_zone(w: Writer | None, value: datetime.timezone, depth: int) -> Any:
    offset, *name = types.zone_arguments(value)
    data = [offset.days, offset.seconds, offset.microseconds]
    if name:
        data.append(Ext(Tag.BYTES, name[0].encode("utf-8", "surrogatepass")))
    return Ext(Tag.TIMEZONE, _encode(data))


def _write_date(w: Writer, value: datetime.date, depth: int) -> Any:
    return Ext(Tag.DATE, _encode((value.year, value.month, value.day)))


def _write_timedelta(w: Writer, value: datetime.timedelta, depth: int) -> Any:
    return Ext(Tag.TIMEDELTA, _encode((value.days, value.seconds, value.microseconds)))


def _write_decimal(w: Writer, value: decimal.Decimal, depth: int) -> Any:
    return Ext(Tag.DECIMAL, str(value).encode("ascii"))


def _write_uuid(w: Writer, value: uuid.UUID, depth: int) -> Any:
    return Ext(Tag.UUID, value.bytes)


@functools.cache
def _arrays() -> Any:
    """Numpy's part of the codec, loaded once numpy is."""
    from fed.codec import arrays

    return arrays


def _write_array(w: Writer, value: Any, depth: int) -> Any:
    arrays = _arrays()
    arrays.check(value)
    spec = arrays.spec_of(value.dtype)
    order = int(arrays.is_fortran(value))
    if w.is_short(value.nbytes):
        data = arrays.frozen_copy(value).tobytes("A")
        return Ext(Tag.ARRAY, _encode((spec, order, value.shape, Ext(Tag.BYTES, data))))
    if not w.only_measured(value.nbytes):
        w.buffer(arrays.memory_of(value))
    return Ext(Tag.LONG_ARRAY, _encode((spec, order, value.shape)))


def _write_numpy_scalar(w: Writer, value: Any, depth: int) -> Any:
    spec, data = _arrays().scalar_parts(value)
    return Ext(Tag.NUMPY_SCALAR, _encode((spec, Ext(Tag.BYTES, data))))


def _write_instance(w: Writer, value: Any, depth: int) -> Any:
    plan = w.types.describe(type(value))
    values = types.taken(plan, value)
    w.enter(value, len(values), depth)
    made = w.elements(values, depth, lambda n: f".{plan.fields[n]}")
    return Ext(Tag.INSTANCE, class_document(plan) + _encode(made))


def _write_stream(tag: int) -> _Handler:
    def write(w: Writer, value: Any, depth: int) -> Any:
        from fed.codec import frames

        stream = frames.stream_of(value)
        w.buffer(stream)
        if tag == Tag.SERIES:
            w.enter(value, 1, depth)
            return Ext(tag, _encode([w.element(value.name, depth + 1)]))
        return Ext(tag, b"")

    return write


def _write_tensor(w: Writer, value: Any, depth: int) -> Any:
    from fed.codec import tensors

    name, shape, data = tensors.parts_of(value)
    if w.is_short(data.nbytes):
        return Ext(Tag.TENSOR, _encode((name, shape, Ext(Tag.BYTES, bytes(data)))))
    w.buffer(data)
    return Ext(Tag.LONG_TENSOR, _encode((name, shape)))


def _write_pickled(w: Writer, value: Any, depth: int) -> Any:
    from fed.codec import pickle_optin

    data, parts = pickle_optin.dumps(value, pickle_optin.required(w.types))
    w.enter(value, 2, depth)
    return Ext(Tag.PICKLED, _encode(w.elements((data, parts), depth, lambda n: "")))


def class_document(plan: Any) -> bytes:
    """A class by name, kind and fields, after its own length in two bytes."""
    name = _encode((plan.kind, plan.module, plan.qualname, plan.fields))
    return len(name).to_bytes(2, "little") + name


def _handler_of(cls: type, user: types.UserTypes) -> _Handler:
    """The handler for a class that isn't built in; what `types.cross` refuses is refused."""
    known = user.handlers[cls]
    found = _library_handler(cls)
    if found is not None:
        _HANDLERS[cls] = found
        return found
    return _write_pickled if known.__module__ == "fed.codec.pickle_optin" else _write_instance


def _library_handler(cls: type) -> _Handler | None:
    package = cls.__module__.partition(".")[0]
    if package not in sys.modules:
        return None
    if package == "numpy":
        arrays = _arrays()
        return _write_array if arrays.is_array_type(cls) else _write_numpy_scalar
    if package in ("pandas", "pyarrow"):
        from fed.codec import frames

        return _FRAMES.get(str(frames.tag_of(cls)))
    return _write_tensor if package == "torch" else None


_Handler = Callable[[Writer, Any, int], Any]

_FRAMES: dict[str, _Handler] = {
    "table": _write_stream(Tag.TABLE),
    "frame": _write_stream(Tag.FRAME),
    "series": _write_stream(Tag.SERIES),
}

_HANDLERS: dict[type, _Handler] = {
    NoneType: _write_scalar,
    bool: _write_scalar,
    float: _write_scalar,
    int: _write_int,
    str: _write_text,
    bytes: _write_bytes,
    complex: _write_complex,
    list: _write_list,
    tuple: _write_tuple,
    dict: _write_dict,
    OrderedDict: _write_ordered,
    set: _write_set,
    frozenset: _write_set,
    datetime.datetime: _write_datetime,
    datetime.date: _write_date,
    datetime.time: _write_time,
    datetime.timedelta: _write_timedelta,
    datetime.timezone: _write_zone,
    decimal.Decimal: _write_decimal,
    uuid.UUID: _write_uuid,
}
