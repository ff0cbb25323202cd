"""From a header's tree and a body back to the value, whoever wrote them.

Every document of the tree is read in its one valid spelling: it is decoded, encoded again by the
same C encoder and compared, so repeated keys, longer forms of numbers and the like are refused.
Extensions are opened from the outside inwards, one document at a
time, while depth, items and buffers are counted.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import importlib.util
import itertools
import operator
import re
import struct
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import NoneType
from typing import Any

import msgspec

from fed.codec import tags, types, userclass, writer

Ext = msgspec.msgpack.Ext
Tag = tags.Tag

_encode = msgspec.msgpack.Encoder().encode
_decode_any = msgspec.msgpack.Decoder().decode

#: Levels of native containers that the typed decoder checks in C; deeper trees are checked here.
#: The type has two branches per level, so its size doubles with each.
_TYPED_LEVELS = 5


class MalformedError(ValueError):
    """The bytes break the format; the text says how."""


class Reader:
    """One value on its way back from bytes.

    Args:
        types: the user's classes that may cross.
        limits: what the value may take.
        buffers: the out-of-band buffers, in order.
        exact_items: the items left; None if the tree is so short that they need no counting.
    """

    __slots__ = ("_buffers", "_classes", "_items", "_sets", "limits", "types")

    def __init__(
        self,
        types: types.UserTypes,
        limits: tags.Limits,
        buffers: Iterator[memoryview],
        exact_items: int | None,
    ) -> None:
        self.types = types
        self.limits = limits
        self._buffers = buffers
        self._items = exact_items
        self._sets = 0
        self._classes: dict[bytes, userclass.UserClass] = {}

    def value(self, tree: bytes) -> Any:
        """The value of the whole tree.

        Raises:
            ValueError: if it is malformed, or over a limit.
            ValueRefusedError: if it names a class that may not cross.
        """
        holder = [self._shell(tree, 0, nested=0)]
        del tree
        self._open_all(holder, 0)
        if next(self._buffers, None) is not None:
            raise MalformedError("it has buffers that the tree doesn't name")
        return holder[0]

    @property
    def in_set(self) -> bool:
        """True while the elements of a set are opened: they have no buffers."""
        return self._sets > 0

    def buffer(self) -> memoryview:
        """The next out-of-band buffer."""
        found = next(self._buffers, None)
        if found is None:
            raise MalformedError("its tree names more buffers than it has")
        if self._sets:
            raise MalformedError("an element of a set lies in a buffer")
        return found

    def user_class(self, name: bytes) -> userclass.UserClass:
        """The class that a description stands for at this party."""
        found = self._classes.get(name)
        if found is None:
            kind, module, qualname, fields = described(name, 4)
            if type(module) is not str or type(qualname) is not str:
                raise MalformedError("a class is described in a way that isn't known")
            found = self.types.describe(self.types.find(module, qualname))
            if [found.kind, list(found.fields)] != [kind, fields]:
                raise MalformedError(
                    f"class {module}.{qualname} has other fields at the sender; run the same code "
                    "at every party"
                )
            self._classes[name] = found
        return found

    def _open_all(self, values: list[Any], depth: int) -> None:
        """Replace the extensions in a list, at any depth, by what they stand for."""
        kinds = set(map(type, values))
        if Ext not in kinds:
            if list not in kinds:
                return
            lists = [value for value in values if type(value) is list]
            below = set(map(type, itertools.chain.from_iterable(lists)))
            if Ext not in below and list not in below:
                return
        for n in range(len(values)):
            kind = type(values[n])
            if kind is Ext:
                values[n] = self._opened(values, n, depth)
            elif kind is list:
                self._open_all(values[n], depth + 1)

    def _opened(self, values: list[Any], n: int, depth: int) -> Any:
        """The value of the extension at `values[n]`, which lies in `depth` containers.

        The extension's bytes are let go before its parts are opened: nested extensions hold
        copies of one another, which together would be `depth` times the header.
        """
        extension = values[n]
        values[n] = None
        code = extension.code
        data = extension.data
        leaf = _LEAVES.get(code)
        if leaf is not None:
            return leaf(self, data)
        del extension
        finish = _CONTAINERS.get(code)
        if code == Tag.SERIES:
            finish = functools.partial(_series, _frames().rebuilt("series", self.buffer()))
        elif code == Tag.PICKLED:
            finish = functools.partial(_pickled, self.types)
        elif finish is None:
            if code != Tag.INSTANCE:
                raise MalformedError(f"it has a tag {code} that this version doesn't know")
            end = 2 + int.from_bytes(data[:2], "little")
            finish = functools.partial(_instance, self.user_class(data[2:end]))
            data = data[end:]
        if depth >= self.limits.depth:
            raise MalformedError(f"it is nested deeper than {self.limits.depth} levels")
        made = self._shell(data, depth, nested=1)
        del data
        if type(made) is not list:
            raise MalformedError("a container's elements aren't an array")
        if code in _SETS:
            parts = list(map(_encode, made))
            if parts != sorted(parts):
                raise MalformedError("the elements of a set aren't in order")
            del parts
            self._sets += 1
            self._open_all(made, depth + 1)
            self._sets -= 1
        elif code != Tag.TUPLE_LIST:
            self._open_all(made, depth + 1)
        return finish(made)

    def _shell(self, data: bytes, depth: int, *, nested: int) -> Any:
        """A document with its extensions unopened; `nested` is 1 for those in extensions."""
        if self._items is not None:
            # A container's own token was counted where its extension stands.
            self._items -= count_items(data, self._items + nested) - nested
        return document(data, self.limits.depth - depth)


def document(data: bytes, levels: int) -> Any:
    """A msgpack document in its one valid spelling, with extensions unopened.

    Dicts have str keys and no extensions inside; containers nest `levels` deep at most.

    Raises:
        ValueError: if it is anything else.
    """
    try:
        found = _TYPED[levels if levels < _TYPED_LEVELS else _TYPED_LEVELS](data)
    except msgspec.ValidationError:
        if levels <= _TYPED_LEVELS:
            raise
        found = _decode_any(data)
        _check_shell(found, levels)
    if _encode(found) != data:
        raise MalformedError("its tree isn't written the standard way")
    return found


def _typed_decoders() -> Sequence[Callable[[bytes], Any]]:
    """Decoders of trees with 0, 1, ... native levels of containers, checked in C."""
    scalars: Any = None | bool | int | float | str
    plain: Any = scalars
    shell: Any = scalars | Ext
    made = [msgspec.msgpack.Decoder(shell).decode]
    for _ in range(_TYPED_LEVELS):
        mapping: Any = dict[str, plain]
        shell, plain = scalars | Ext | list[shell] | mapping, scalars | list[plain] | mapping
        made.append(msgspec.msgpack.Decoder(shell).decode)
    return made


_TYPED = _typed_decoders()

_PLAIN_SCALARS = (NoneType, bool, int, float, str)
_PLAIN_SET = frozenset(_PLAIN_SCALARS)
_JUST_STR = frozenset((str,))


def _check_shell(value: Any, levels: int, *, in_dict: bool = False) -> None:
    kind = type(value)
    if kind in _PLAIN_SCALARS or (kind is Ext and not in_dict):
        return
    if levels <= 0:
        raise MalformedError("it is nested too deep")
    if kind is list:
        for item in value:
            _check_shell(item, levels - 1, in_dict=in_dict)
    elif kind is dict and all(type(key) is str for key in value):
        for item in value.values():
            _check_shell(item, levels - 1, in_dict=True)
    else:
        raise MalformedError("its tree holds a type that it may not hold")


def _any_bytes(count: int) -> bytes:
    return b".{%d}" % count


#: One msgpack token whose length its first byte tells. A container's token is its first bytes.
_TOKEN = b"|".join(
    [
        rb"[\x00-\x9f\xa0\xc0\xc2\xc3\xe0-\xff]",
        *(re.escape(bytes((0xA0 + n,))) + _any_bytes(n) for n in range(1, 32)),
        *(
            re.escape(bytes((first,))) + _any_bytes(count)
            for count, firsts in {
                1: (0xCC, 0xD0),
                2: (0xCD, 0xD1, 0xDC, 0xDE, 0xD4),
                3: (0xD5,),
                4: (0xCA, 0xCE, 0xD2, 0xDD, 0xDF),
                5: (0xD6,),
                8: (0xCB, 0xCF, 0xD3),
                9: (0xD7,),
                17: (0xD8,),
            }.items()
            for first in firsts
        ),
    ]
)
_ONE_TOKEN = re.compile(_TOKEN, re.DOTALL)
_TOKENS = re.compile(b"(?:" + _TOKEN + b")*+", re.DOTALL)

#: Bytes in which tokens are counted at once: the pattern's own memory grows with them.
_WINDOW = 1 << 16

#: Tokens whose length stands in the bytes after the first: how many, and the tag's byte.
_MEASURED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0),
             0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}  # fmt: skip


def count_items(data: bytes, most: int) -> int:
    """How many values, keys and elements a msgpack document has, those in extensions left out.

    Nothing is made of them, so this can be asked before a document is decoded. Of malformed data
    the well-formed start is counted.

    Raises:
        ValueError: if there are more than `most`.
    """
    count = position = 0
    end = len(data)
    while position < end:
        window = position + _WINDOW
        run_end = _TOKENS.match(data, position, window).end()  # type: ignore[union-attr]
        if run_end > position:
            count += _ONE_TOKEN.subn(b"", data[position:run_end])[1]
            position = run_end
        elif position < end:
            size, extra = _MEASURED.get(data[position], (0, 0))
            if not size:
                break
            start = position + 1 + size
            position = start + extra + int.from_bytes(data[position + 1 : start], "big")
            count += 1
        if count > most:
            raise MalformedError("it has more items than the limit")
    return count


def described(data: bytes, count: int) -> list[Any]:
    """A description's fields: an array of that many, extensions of bytes opened.

    Raises:
        ValueError: if it isn't one.
    """
    if len(data) > tags.DESCRIPTION_BYTES:
        raise MalformedError("a description is too long")
    fields = document(data, 64)
    if type(fields) is not list or len(fields) != count:
        raise MalformedError("a description has a wrong number of fields")
    for n, field in enumerate(fields):
        if type(field) is Ext and field.code == Tag.BYTES:
            fields[n] = field.data
    return fields


def _whole(fields: Sequence[Any]) -> Sequence[Any]:
    if not all(type(field) is int for field in fields):
        raise MalformedError("a field that must be an int isn't one")
    return fields


def _standard(is_standard: bool, what: str) -> None:
    if not is_standard:
        raise MalformedError(f"{what} isn't written the standard way")


# --- values without parts ---------------------------------------------------------------------


def _big_int(r: Reader, data: bytes) -> int:
    value = int.from_bytes(data, "little", signed=True)
    _standard(
        not -(1 << 63) <= value < 1 << 64 and data == writer.big_int_bytes(value), "a large int"
    )
    return value


def _complex(r: Reader, data: bytes) -> complex:
    if len(data) != 16:
        raise MalformedError("a complex number has a wrong length")
    return complex(*struct.unpack("<dd", data))


def _surrogate_text(r: Reader, data: bytes) -> str:
    value = data.decode("utf-8", "surrogatepass")
    _standard(any("\ud800" <= point <= "\udfff" for point in value), "a text")
    return value


def _long_text(r: Reader, data: bytes) -> str:
    _standard(not data, "a long text")
    return str(_long(r), "utf-8")


def _bytes(r: Reader, data: bytes) -> bytes:
    _standard(len(data) <= tags.INLINE_BYTES or r.in_set, "a bytes value")
    return data


def _long_bytes(r: Reader, data: bytes) -> bytes:
    _standard(not data, "a long bytes value")
    return bytes(_long(r))


def _long(r: Reader) -> memoryview:
    found = r.buffer()
    _standard(found.nbytes > tags.INLINE_BYTES, "a short value")
    return found


def _datetime(r: Reader, data: bytes) -> datetime.datetime:
    *whole, fold, zone = described(data, 9)
    year, month, day, hour, minute, second, micro = _whole(whole)
    zone = _zone(r, zone)
    return datetime.datetime(
        year, month, day, hour, minute, second, micro, zone, fold=_whole([fold])[0]
    )


def _date(r: Reader, data: bytes) -> datetime.date:
    return datetime.date(*_whole(described(data, 3)))


def _time(r: Reader, data: bytes) -> datetime.time:
    *clock, fold, zone = described(data, 6)
    hour, minute, second, micro = _whole(clock)
    return datetime.time(hour, minute, second, micro, _zone(r, zone), fold=_whole([fold])[0])


def _zone(r: Reader, field: Any) -> datetime.timezone | None:
    if field is None:
        return None
    if type(field) is not Ext or field.code != Tag.TIMEZONE:
        raise MalformedError("a time zone is malformed")
    return _timezone(r, bytes(field.data))


def _timezone(r: Reader, data: bytes) -> datetime.timezone:
    fields = document(data, 1)
    if type(fields) is not list or not 3 <= len(fields) <= 4:
        raise MalformedError("a time zone is malformed")
    offset = _span(fields[:3])
    if len(fields) == 3:
        return datetime.timezone(offset)
    name = fields[3]
    if type(name) is not Ext or name.code != Tag.BYTES:
        raise MalformedError("a time zone is malformed")
    return datetime.timezone(offset, bytes(name.data).decode("utf-8", "surrogatepass"))


def _timedelta(r: Reader, data: bytes) -> datetime.timedelta:
    return _span(described(data, 3))


def _span(fields: Sequence[Any]) -> datetime.timedelta:
    days, seconds, microseconds = _whole(fields)
    span = datetime.timedelta(days, seconds, microseconds)
    _standard(
        (span.days, span.seconds, span.microseconds) == (days, seconds, microseconds), "a timedelta"
    )
    return span


def _decimal(r: Reader, data: bytes) -> decimal.Decimal:
    text = data.decode("ascii")
    value = decimal.Decimal(text)
    _standard(str(value) == text, "a Decimal")
    return value


def _uuid(r: Reader, data: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=data)


def _array(r: Reader, data: bytes) -> Any:
    arrays = _arrays()
    # The data may be longer than a description when the array is an element of a set.
    fields = document(data, 64)
    if type(fields) is not list or len(fields) != 4 or type(fields[3]) is not Ext:
        raise MalformedError("an array is malformed")
    spec, order, shape, content = fields
    if content.code != Tag.BYTES:
        raise MalformedError("an array is malformed")
    _standard(len(content.data) <= tags.INLINE_BYTES or r.in_set, "an array")
    return arrays.rebuilt(spec, order, shape, content.data)


def _long_array(r: Reader, data: bytes) -> Any:
    arrays = _arrays()
    spec, order, shape = described(data, 3)
    return arrays.rebuilt(spec, order, shape, _long(r))


def _numpy_scalar(r: Reader, data: bytes) -> Any:
    arrays = _arrays()
    fields = document(data, 64)
    if type(fields) is not list or len(fields) != 2 or type(fields[1]) is not Ext:
        raise MalformedError("a numpy scalar is malformed")
    return arrays.rebuilt_scalar(fields[0], fields[1].data)


def _table(r: Reader, data: bytes) -> Any:
    _standard(not data, "a table")
    return _frames().rebuilt("table", r.buffer())


def _frame(r: Reader, data: bytes) -> Any:
    _standard(not data, "a frame")
    return _frames().rebuilt("frame", r.buffer())


def _tensor(r: Reader, data: bytes) -> Any:
    tensors, arrays = _tensors(), _arrays()
    fields = document(data, 64)
    if type(fields) is not list or len(fields) != 3 or type(fields[2]) is not Ext:
        raise MalformedError("a tensor is malformed")
    name, shape, content = fields
    _standard(len(content.data) <= tags.INLINE_BYTES, "a tensor")
    return tensors.rebuilt(name, arrays.shape_of(shape), content.data)


def _long_tensor(r: Reader, data: bytes) -> Any:
    name, shape = described(data, 2)
    return _tensors().rebuilt(name, _arrays().shape_of(shape), _long(r))


def _frames() -> Any:
    _need("pyarrow")
    from fed.codec import frames

    return frames


def _tensors() -> Any:
    _need("torch")
    from fed.codec import tensors

    return tensors


def _need(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        raise MalformedError(f"it needs {library}, which isn't installed at this party")


@functools.cache
def _arrays() -> Any:
    from fed.codec import arrays

    return arrays


# --- values with parts ------------------------------------------------------------------------


def _pairs(make: Callable[[Iterable[tuple[Any, Any]]], Any]) -> Callable[[list[Any]], Any]:
    def finish(items: list[Any]) -> Any:
        keys = items[::2]
        if len(items) != 2 * len(keys):
            raise MalformedError("a dict has a key without a value")
        if _JUST_STR.issuperset(map(type, keys)):
            made = make(zip(keys, items[1::2], strict=True))
            if len(made) != len(keys):
                raise MalformedError("a key is there twice")
            return made
        return _hashed(keys, lambda: make(zip(keys, items[1::2], strict=True)))

    return finish


def _collection(make: Callable[[Iterable[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda items: _hashed(items, lambda: make(items))


def _hashed(keys: list[Any], build: Callable[[], Any]) -> Any:
    """What `build` makes of keys that can be hashed, are all different and not made to collide."""
    try:
        hashes = list(map(hash, keys))
        if len(keys) > tags.SAME_HASH:
            hashes.sort()
            _standard(all(map(operator.ne, hashes, hashes[tags.SAME_HASH :])), "keys of one hash")
        made = build()
    except Exception as error:
        raise MalformedError(f"its keys can't be hashed: {error}") from error
    if len(made) != len(keys):
        raise MalformedError("a key is there twice")
    return made


def _tuple_list(rows: list[Any]) -> list[Any]:
    if not rows or set(map(type, rows)) != {list}:
        raise MalformedError("a list of tuples is malformed")
    if not _PLAIN_SET.issuperset(map(type, itertools.chain.from_iterable(rows))):
        raise MalformedError("a list of tuples is malformed")
    return list(map(tuple, rows))


def _series(series: Any, name: list[Any]) -> Any:
    if len(name) != 1:
        raise MalformedError("a series is malformed")
    return _frames().named(series, name[0])


def _pickled(user: types.UserTypes, items: list[Any]) -> Any:
    if user.pickled is None:
        raise MalformedError("it holds a pickle, and pickles are off at this party")
    if len(items) != 2 or type(items[0]) is not bytes or type(items[1]) is not list:
        raise MalformedError("a pickle is malformed")
    from fed.codec import pickle_optin

    return pickle_optin.loads(items[0], items[1], user.pickled)


def _instance(plan: userclass.UserClass, values: list[Any]) -> Any:
    return plan.make(values)


_LEAVES: dict[int, Callable[[Reader, bytes], Any]] = {
    Tag.BIG_INT: _big_int,
    Tag.COMPLEX: _complex,
    Tag.SURROGATE_TEXT: _surrogate_text,
    Tag.LONG_TEXT: _long_text,
    Tag.BYTES: _bytes,
    Tag.LONG_BYTES: _long_bytes,
    Tag.DATETIME: _datetime,
    Tag.DATE: _date,
    Tag.TIME: _time,
    Tag.TIMEDELTA: _timedelta,
    Tag.TIMEZONE: _timezone,
    Tag.DECIMAL: _decimal,
    Tag.UUID: _uuid,
    Tag.ARRAY: _array,
    Tag.LONG_ARRAY: _long_array,
    Tag.NUMPY_SCALAR: _numpy_scalar,
    Tag.TABLE: _table,
    Tag.FRAME: _frame,
    Tag.TENSOR: _tensor,
    Tag.LONG_TENSOR: _long_tensor,
}

_CONTAINERS: dict[int, Callable[[list[Any]], Any]] = {
    Tag.TUPLE: tuple,
    Tag.TUPLE_LIST: _tuple_list,
    Tag.SET: _collection(set),
    Tag.FROZENSET: _collection(frozenset),
    Tag.DICT: _pairs(dict),
    Tag.ORDERED_DICT: _pairs(OrderedDict),
}

_SETS = (Tag.SET, Tag.FROZENSET)
