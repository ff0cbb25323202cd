"""Values of the type table: strategies that make them, and equality to the last bit."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import math
import re
import struct
import uuid
from collections.abc import Hashable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fed.codec import arrays, types

USER = types.UserTypes([__name__], None)


def label(value: object) -> str:
    """A test's id: the value's repr without addresses, which differ between workers."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


class Color(enum.Enum):
    RED = "red"
    BLUE = (1, 2)


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


class Level(enum.IntEnum):
    LOW = 1


class Pair(NamedTuple):
    left: object
    right: object


@dataclasses.dataclass
class Model:
    weights: object
    rounds: object = 0

    def __post_init__(self) -> None:
        raise RuntimeError("ran __post_init__")


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    x: object


class Record(msgspec.Struct, frozen=True):
    a: object
    b: object = None


def model(weights: object, rounds: object) -> Model:
    """A `Model` made as the codec makes it: without `__post_init__`."""
    made = Model.__new__(Model)
    made.__dict__.update(weights=weights, rounds=rounds)
    return made


def _zones() -> st.SearchStrategy[datetime.timezone | None]:
    offsets = st.timedeltas(datetime.timedelta(hours=-23), datetime.timedelta(hours=23))
    return st.one_of(
        st.none(),
        st.just(datetime.UTC),
        st.builds(datetime.timezone, offsets),
        st.builds(datetime.timezone, offsets, st.text(max_size=5)),
    )


floats = st.integers(0, 2**64 - 1).map(lambda n: struct.unpack("<d", struct.pack("<Q", n))[0])

texts = st.text(st.characters(codec=None), max_size=20)  # surrogates too

numpy_dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
    hnp.byte_string_dtypes(min_len=1, max_len=5),
    hnp.unicode_string_dtypes(min_len=1, max_len=5),
)


@st.composite
def _arrays(draw: st.DrawFn) -> Any:
    structured = hnp.array_dtypes(numpy_dtypes, max_size=3)
    plain = structured.filter(lambda dtype: arrays.why_refused(dtype) is None)  # titles
    dtype = draw(st.one_of(numpy_dtypes, plain))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    if draw(st.booleans()):
        shape = (*shape, 70)
    size = math.prod(shape)
    rows = np.zeros(size, dtype)
    if dtype.kind in "biufcmM":
        data = draw(st.binary(min_size=64, max_size=64))
        seed = int.from_bytes(data[:8], "little")
        raw = np.random.default_rng(seed).bytes(size * dtype.itemsize)
        rows = np.frombuffer(raw, dtype).copy()
        if dtype.kind == "b":
            rows = rows != rows.dtype.type(0)
    elif dtype.names is None and size:
        rows[0] = "äb"[: dtype.itemsize // 4] if dtype.kind == "U" else b"ab"
    made = rows.reshape(shape)
    match draw(st.integers(0, 4)):
        case 1:
            made = made.copy(order="F")
        case 2 if made.ndim:
            made = made[::-1]
        case 3:
            made = arrays.frozen_copy(made)
        case 4:
            made = made.T
    return made


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    floats,
    st.builds(complex, floats, floats),
    texts,
    st.binary(max_size=20),
    st.binary(min_size=1000, max_size=1100),
    st.datetimes(timezones=_zones(), allow_imaginary=True),
    st.dates(),
    st.times(timezones=_zones()),
    st.timedeltas(),
    _zones(),
    st.decimals(),
    st.sampled_from([decimal.Decimal(t) for t in ("sNaN12", "-0E+7", "NaN9", "-Infinity")]),
    st.uuids(),
    st.sampled_from([*Color, *Level, Access.READ, Access.READ | Access.RUN, Access(0)]),
    st.builds(np.float32, st.floats(width=32)),
    st.builds(np.int16, st.integers(-(2**15), 2**15 - 1)),
    st.builds(np.str_, st.text(max_size=4)),
    st.builds(np.bytes_, st.binary(max_size=4)),
    st.just(np.datetime64("2020-01-01T00", "h")),
)

#: Keys: equal to themselves only, so that no two of them meet by being equal across types.
hashables: st.SearchStrategy[Hashable] = st.recursive(
    st.one_of(st.text(max_size=4), st.binary(max_size=4), st.integers(), st.uuids()),
    lambda inner: st.one_of(
        st.tuples(inner, inner), st.frozensets(inner, max_size=3), st.builds(Key, inner)
    ),
    max_leaves=4,
)

values = st.recursive(
    st.one_of(scalars, _arrays()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(st.tuples(scalars, st.integers()), max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=4), inner, max_size=4),
        st.dictionaries(hashables, inner, max_size=4),
        st.dictionaries(st.text(max_size=4), inner, max_size=4).map(collections.OrderedDict),
        st.sets(hashables, max_size=5),
        st.frozensets(hashables, max_size=5),
        st.builds(model, inner, inner),
        st.builds(Key, inner),
        st.builds(Pair, inner, inner),
        st.builds(Record, inner, inner),
    ),
    max_leaves=12,
)


def shape_of(value: Any) -> Any:
    """What the value is to the last bit, as nested tuples that compare by `==`."""
    cls = type(value)
    if value is None or cls in (bool, int, str, bytes, uuid.UUID):
        return cls, value
    if cls is float:
        return cls, struct.pack("<d", value)
    if cls is complex:
        return cls, struct.pack("<dd", value.real, value.imag)
    if cls is decimal.Decimal:
        return cls, str(value)
    if cls in (datetime.datetime, datetime.time):
        return cls, value.replace(tzinfo=None), value.fold, shape_of(value.tzinfo)
    if cls in (datetime.date, datetime.timedelta):
        return cls, value
    if cls is datetime.timezone:
        return cls, value.__getinitargs__(), value is datetime.UTC
    if cls is np.ndarray:
        flags = value.flags
        texts = str(value.dtype), value.dtype.str, value.dtype.isalignedstruct
        return cls, texts, value.shape, flags.fnc, flags.writeable, flags.aligned, value.tobytes()
    if isinstance(value, (np.str_, np.bytes_)):
        return cls, value.dtype.str, len(value), value.tobytes()
    if isinstance(value, np.generic):
        return cls, value.dtype.str, value.tobytes()
    if isinstance(value, enum.Enum):
        return cls, id(value)
    if cls in (list, tuple, Pair):
        return cls, tuple(shape_of(item) for item in value)
    if cls in (set, frozenset):
        return cls, frozenset(collections.Counter(map(shape_of, value)).items())
    if cls in (dict, collections.OrderedDict):
        return cls, tuple((shape_of(key), shape_of(item)) for key, item in value.items())
    if cls is Model:
        return cls, tuple((name, shape_of(item)) for name, item in value.__dict__.items())
    if cls is Key:
        return cls, shape_of(value.x)
    if cls is Record:
        return cls, shape_of(value.a), shape_of(value.b)
    raise TypeError(cls)
