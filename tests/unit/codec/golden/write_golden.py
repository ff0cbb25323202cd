"""Writes the golden files beside it: `python -m tests.unit.codec.golden.write_golden`.

A file is the header's length in four bytes, little-endian, the header, the body. Only a new
version of the wire format may change a file that is there; a new case makes a new one.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import pathlib
import struct
import uuid
from typing import Any

import numpy as np
from tests.unit.codec import values

from fed.codec import wire

FOLDER = pathlib.Path(__file__).parent

NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8DEADBEEF0001))[0]
ZONE = datetime.timezone(datetime.timedelta(hours=1), "CET")

CASES: dict[str, Any] = {
    "none": None,
    "bools": [True, False],
    "ints": [0, 127, 128, -1, -32, -33, 2**63, -(2**63), 2**64 - 1],
    "big_ints": [2**64, -(2**63) - 1, 2**200, -(2**200)],
    "floats": [0.0, -0.0, 1.5, float("inf"), NAN],
    "complex": complex(1.5, NAN),
    "texts": ["", "a", "ä€𝄞", "x" * 300],
    "surrogates": ["a\ud800b", "plain"],
    "bytes": [b"", b"ab", b"x" * 1024, b"y" * 1025],
    "lists": [[], [1, [2, [3]]], [()]],
    "tuples": ((), (1, "a"), (1, (2, [3]))),
    "tuple_list": [(1, "a"), (2, None), ()],
    "sets": [set(), {3, 1, 2}, {"b", b"a", None, (1, 2)}, frozenset({frozenset({1}), 2.5})],
    "dicts": [{}, {"b": 1, "a": {"c": [2]}}, {1: 2, "x": 3}, {"t": (1,)}, {(1, b"k"): None}],
    "ordered_dict": collections.OrderedDict(b=1, a=collections.OrderedDict()),
    "datetime": [
        datetime.datetime(2024, 10, 27, 2, 30, 1, 5, fold=1),
        datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
        datetime.datetime(9999, 12, 31, tzinfo=ZONE),
    ],
    "date_time_delta": [
        datetime.date(2024, 2, 29),
        datetime.time(23, 59, 59, 999999, tzinfo=ZONE, fold=1),
        datetime.timedelta(-1, 5, 7),
        datetime.UTC,
        ZONE,
    ],
    "decimal": [decimal.Decimal(text) for text in ("1.50", "-0E+7", "NaN12", "sNaN", "-Infinity")],
    "uuid": uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF),
    "small_arrays": [
        np.arange(6, dtype="<i2").reshape(2, 3),
        np.arange(6, dtype="<i2").reshape(2, 3).T,
        np.array([1.5, NAN]),
        np.array([True, False]),
        np.zeros((0, 3), ">f4"),
        np.array(7, "<u8"),
        np.array([b"ab", b"c"]),
        np.array(["ä", "bc"]),
        np.array([1, 2], "<M8[25s]"),
        np.array([1, "NaT"], ">m8[s]"),
    ],
    "structured_array": np.array(
        [(1, 2.5, [1, 2]), (3, -0.0, [3, 4])],
        np.dtype([("a", "i1"), ("b", "<f8"), ("c", ">i2", (2,))], align=True),
    ),
    "long_arrays": {
        "c": np.arange(300, dtype="<f8").reshape(3, 100),
        "f": np.arange(300, dtype="<f8").reshape(100, 3).T,
        "big": np.arange(300, dtype=">i4"),
    },
    "numpy_scalars": [
        np.float32(1.5), np.int64(-3), np.bool_(True), np.complex128(1j), np.str_("a\0b"),
        np.bytes_(b"a\0"), np.datetime64("2020-01-01", "D"), np.timedelta64(3, "ms"),
        np.array([(1, 2.5)], [("a", "<i4"), ("b", "<f8")])[0],
    ],
    "instances": [
        values.Key((1, 2)),
        values.model([1], {"a": np.zeros(2)}),
        values.Pair(1, values.Record(2, [3])),
        [values.Color.RED, values.Color.BLUE, values.Level.LOW],
        [values.Access.READ, values.Access.READ | values.Access.RUN, values.Access(0)],
    ],
}  # fmt: skip


def packed(encoded: wire.Encoded) -> bytes:
    """What a file holds."""
    return struct.pack("<I", len(encoded.header)) + encoded.header + b"".join(encoded.body())


def unpacked(data: bytes) -> tuple[bytes, bytes]:
    """Header and body of a file."""
    end = 4 + int(struct.unpack_from("<I", data)[0])
    return data[4:end], data[end:]


def path_of(name: str) -> pathlib.Path:
    """Where a case's file lies."""
    return FOLDER / f"{name}.bin"


def main() -> None:
    """Write the files that are not there yet."""
    for name, value in CASES.items():
        if not path_of(name).exists():
            path_of(name).write_bytes(packed(wire.encode(value, types=values.USER)))


if __name__ == "__main__":
    main()
