from __future__ import annotations

import numpy as np
import pytest
from tests.unit.codec import values
from tests.unit.codec.golden import write_golden

from fed.codec import types, wire


@pytest.mark.parametrize("name", write_golden.CASES)
def test_golden_files_decode_and_encode_identically(name: str) -> None:
    value = write_golden.CASES[name]
    kept = write_golden.path_of(name).read_bytes()
    encoded = wire.encode(value, types=values.USER)
    assert write_golden.packed(encoded) == kept
    header, body = write_golden.unpacked(kept)
    made = wire.decode(header, body, types=values.USER)
    assert values.shape_of(made) == values.shape_of(types.cross(value, types=values.USER))


def test_every_file_has_a_case() -> None:
    names = {path.stem for path in write_golden.FOLDER.glob("*.bin")}
    assert names == set(write_golden.CASES)


def test_a_scalar_byte_for_byte() -> None:
    """The example of `docs/wire-format.md`."""
    encoded = wire.encode({"a": (1, 2.5)}, types=values.USER)
    assert encoded.header == (
        b"FED\x01"  # magic and version
        b"\x00\x00\x00\x00"  # no buffers
        b"\xc7\x11\x04"  # extension of 17 bytes, tag 4: dict
        b"\x92\xa1a"  # array of 2: "a" and
        b"\xc7\x0b\x01"  # extension of 11 bytes, tag 1: tuple
        b"\x92\x01\xcb\x40\x04\x00\x00\x00\x00\x00\x00"  # array of 2: 1 and 2.5
    )
    assert encoded.buffers == []


def test_an_array_byte_for_byte() -> None:
    """The other example of `docs/wire-format.md`."""
    encoded = wire.encode(np.zeros((2, 100)), types=values.USER)
    assert encoded.header == (
        b"FED\x01"
        b"\x01\x00\x00\x00"  # one buffer
        b"\x40\x06\x00\x00\x00\x00\x00\x00"  # of 1600 bytes
        b"\xc7\x09\x14"  # extension of 9 bytes, tag 20: long array
        b"\x93\xa3<f8"  # array of 3: dtype,
        b"\x00"  # C order,
        b"\x92\x02\x64"  # shape (2, 100)
    )
    assert [bytes(buffer) for buffer in encoded.buffers] == [bytes(1600)]
    assert wire.body_bytes(encoded.header) == 1600
