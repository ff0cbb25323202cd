"""What crosses arrives the same to the last bit, at a consumer of another party and at `get`."""

import dataclasses
import datetime
import decimal
import enum
import math
import struct
import uuid
from collections import OrderedDict, namedtuple

import msgspec
import numpy as np

import fed
from fed.testing import engines

PARTIES = ["ALICE", "BOB"]

EAST = datetime.timezone(datetime.timedelta(hours=5))
Point = namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1
    GREEN = "g"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


RAN = []


@dataclasses.dataclass
class Model:
    weights: object
    step: int = 0

    def __post_init__(self):
        RAN.append("post_init")
        self.step += 1


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: object


class Struct(msgspec.Struct):
    a: int
    b: list = []


def nan(payload):
    return struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000000 | payload))[0]


def nans():
    return np.frombuffer(struct.pack("<3Q", 0x7FF8DEADBEEF0001, 0xFFF0000000000001, 0), "<f8")


RECORD = np.dtype([("id", "<i4"), ("pos", "<f8", (3,)), ("name", "S5")])
PADDED = np.dtype([("a", "u1"), ("b", "<f8")], align=True)

VALUES = {
    "None": None,
    "bools": [True, False],
    "ints": [0, -1, 2**63, -(2**200)],
    "floats": [0.0, -0.0, math.inf, -math.inf, 5e-324, nan(1), nan(12345)],
    "complex": [1 + 2j, complex(-0.0, nan(7))],
    "texts": ["", "äöü", "\U0001f600", "\ud800", "a\0b"],
    "bytes": [b"", b"\0\xff" * 10],
    "decimal": [decimal.Decimal("1.10"), decimal.Decimal("sNaN7"), decimal.Decimal("-0E+5")],
    "uuid": uuid.UUID(int=7),
    "times": [
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
        datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
        datetime.datetime(2020, 1, 2, fold=1, tzinfo=EAST),
        datetime.date(1, 1, 1),
        datetime.time(1, 2, 3, 4),
        datetime.timedelta(-1, 5, 7),
    ],
    "nested": [(), [[]], {}, ((1, [2]), {"k": (3,)})],
    "order": {"z": 1, "a": 2, 5: 3, None: 4, (1, 2): 5, b"b": 6},
    "ordered": OrderedDict([("z", 1), ("a", [2])]),
    "sets": [{1, "a", None}, frozenset({(1, 2), b"x"}), set()],
    "namedtuple": Point([1], Point(2, 3)),
    "enums": [Color.RED, Color.GREEN, Right.READ | Right.WRITE, {Color.RED: 1}],
    "slotted": Slotted(Slotted([1])),
    "array": np.arange(12, dtype="f8").reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(12, dtype="i4").reshape(3, 4)),
    "0-d": np.array(5.5),
    "empty": np.zeros((0, 3), "f4"),
    "empty fortran": np.zeros((3, 0, 2), "c8", order="F"),
    "bool array": np.array([True, False]),
    "big endian": np.arange(3, dtype=">i4"),
    "halves": np.arange(3, dtype="f2"),
    "times array": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "spans": np.array([1, 2], "m8[ns]"),
    "texts array": np.array(["ab", "ü"]),
    "bytes array": np.array([b"ab", b""]),
    "nan payloads": nans(),
    "structured": np.array([(1, (1, 2, 3), b"ab"), (2, (4, 5, 6), b"")], RECORD),
    "padded": np.array([(1, 2.0), (3, 4.0)], PADDED),
    "scalars": [np.float64(nan(9)), np.float32(0.1), np.int8(-5), np.bool_(True), np.str_("x"),
                np.bytes_(b"y"), np.datetime64("2020-01-01"), np.complex64(1j), np.float16(2)],
    "record scalar": np.array([(1, (1, 2, 3), b"ab")], RECORD)[0],
    "arrays inside": {"w": [np.ones(3), (np.zeros(2, "i1"),)], 5: Model([np.ones(1)], 3)},
}  # fmt: skip


@fed.remote
def make(name):
    return VALUES[name]


@fed.remote
def views():
    base = np.arange(24.0).reshape(4, 6)
    return [base[::2, 1::2], base.T, base[::-1], base[1:, 2:3], np.broadcast_to(base[0], (3, 6))]


@fed.remote
def check(name, x, same_party):
    del RAN[:]
    ok = engines.same(x, VALUES[name])
    return ok or f"{x!r}"


@fed.remote
def layout(xs):
    return [[x.tolist(), x.flags.writeable] for x in xs]


@fed.remote
def struct_kinds(x):
    return [type(x).__name__, x.a, x.b]


@fed.remote
def make_struct():
    return Struct(1, [2])


@fed.remote
def shared():
    inner = [1]
    return [inner, inner, {"k": inner}]


@fed.remote
def are_shared(x):
    x[0].append(2)
    return x


@fed.remote
def safe_uuid():
    return uuid.UUID(int=5, is_safe=uuid.SafeUUID.safe)


@fed.remote
def safety(x, also):
    return [x.is_safe.name, [key.is_safe.name for key in also]]


@fed.remote
def long_long(kind):
    return np.longlong(5) if kind == "value" else [np.longlong(5)]


@fed.remote
def type_of(x, also):
    return [type(x).__name__, type(also[0]).__name__]


@fed.remote
def ordered():
    value = OrderedDict(a=1)
    value._metadata = "hidden"
    return [value]


@fed.remote
def has_metadata(x):
    return [type(x[0]).__name__, hasattr(x[0], "_metadata")]


@fed.remote
def model():
    return Model([1], step=5)


@fed.remote
def look(x):
    return [type(x).__name__, x.weights, x.step]


def program(note):
    for name in VALUES:
        obj = make.party("ALICE").remote(name)
        note(f"{name}: at BOB", lambda n=name, o=obj: fed.get(check.party("BOB").remote(n, o, 0)))
        note(
            f"{name}: at ALICE", lambda n=name, o=obj: fed.get(check.party("ALICE").remote(n, o, 1))
        )
        note(f"{name}: get", lambda n=name, o=obj: engines.same(fed.get(o), VALUES[n]))
        note(
            f"{name}: put",
            lambda n=name: engines.same(fed.get(fed.put(VALUES[n], "BOB")), VALUES[n]),
        )
    strange = views.party("ALICE").remote()
    note("views", lambda: fed.get(layout.party("BOB").remote(strange)))
    note(
        "struct",
        lambda: fed.get(struct_kinds.party("BOB").remote(make_struct.party("ALICE").remote())),
    )
    note(
        "shared become copies",
        lambda: fed.get(are_shared.party("BOB").remote(shared.party("ALICE").remote())),
    )
    made = safe_uuid.party("ALICE").remote()
    note("a UUID at home", lambda: fed.get(safety.party("ALICE").remote(made, [made])))
    note("a UUID elsewhere", lambda: fed.get(safety.party("BOB").remote(made, [made])))
    note("a UUID got", lambda: fed.get(made).is_safe.name)
    longs = [long_long.party("ALICE").remote(kind) for kind in ("value", "list")]
    note("another integer", lambda: fed.get(type_of.party("BOB").remote(*longs)))
    meta = ordered.party("ALICE").remote()
    note("attributes are dropped", lambda: fed.get(has_metadata.party("BOB").remote(meta)))
    note("inside a party they stay", lambda: fed.get(has_metadata.party("ALICE").remote(meta)))
    # __init__ and __post_init__ run where the model is made, and nowhere else.
    note(
        "post_init ran once",
        lambda: fed.get(look.party("BOB").remote(model.party("ALICE").remote())),
    )
    note("got", lambda: [fed.get(model.party("ALICE").remote()).step])


def _views():
    base = np.arange(24.0).reshape(4, 6)
    found = [base[::2, 1::2], base.T, base[::-1], base[1:, 2:3], np.broadcast_to(base[0], (3, 6))]
    return [[x.tolist(), False] for x in found]


EXPECTED = {
    **{f"{name}: {way}": True for name in VALUES for way in ("at BOB", "at ALICE", "get", "put")},
    "views": _views(),
    "struct": ["Struct", 1, [2]],
    "shared become copies": [[1, 2], [1], {"k": [1]}],
    "a UUID at home": ["safe", ["safe"]],
    "a UUID elsewhere": ["unknown", ["unknown"]],
    "a UUID got": "unknown",
    "another integer": ["int64", "int64"],
    "attributes are dropped": ["OrderedDict", False],
    "inside a party they stay": ["OrderedDict", True],
    "post_init ran once": ["Model", [1], 6],
    "got": [6],
}
