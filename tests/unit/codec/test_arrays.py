from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.codec import values

from fed import errors
from fed.codec import arrays, types

USER = types.UserTypes([], None)


def cross(value: object) -> Any:
    return types.cross(value, types=USER)


def same_bits(one: Any, two: Any) -> bool:
    """Equal dtype, shape and bytes of every element, NaN payloads included, padding not."""
    if arrays.has_padding(one.dtype):
        one, two = arrays.frozen_copy(one), arrays.frozen_copy(two)
    return bool(
        one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    )


def stays_read_only(array: Any) -> bool:
    if array.flags.writeable:
        return False
    try:
        array.flags.writeable = True
    except ValueError:
        return True
    return False


SIMPLE = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 >i4 >f8 >c16 S3 U2 >U2"
TIMES = "M8[ns] M8[25s] M8 m8[us] >M8[D] m8[h]"
PLAIN = [
    *f"{SIMPLE} {TIMES}".split(),
    np.dtype([("a", "<i2"), ("b", [("c", ">f8"), ("d", "U2")])]),
    np.dtype([("a", "i1"), ("b", "f8")], align=True),
    np.dtype([("m", "<f4", (2, 3))]),
]


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (0, 3), (2, 3), (2, 3, 4)], ids=str)
def test_plain_arrays_cross_unchanged(dtype: Any, shape: tuple[int, ...]) -> None:
    noise = np.random.default_rng(0).integers(0, 2, (*shape, np.dtype(dtype).itemsize), np.uint8)
    value = np.zeros(shape, dtype)
    if noise.size:
        value = np.frombuffer(noise.tobytes(), dtype).reshape(shape)
    if arrays.has_padding(value.dtype):
        value = arrays.frozen_copy(value)
    for variant in (value.copy(), value.copy(order="F")):
        made = cross(variant)
        assert type(made) is np.ndarray
        assert same_bits(made, variant)
        assert made.dtype.isalignedstruct == variant.dtype.isalignedstruct
        assert made.flags.fnc == variant.flags.fnc
        assert stays_read_only(made)
        assert arrays.is_frozen(made)
        assert not np.shares_memory(made, variant)


def test_views_arrive_contiguous() -> None:
    value = np.arange(24.0).reshape(4, 6)
    for view in (value[::2], value[:, ::-1], value.T[1:], np.broadcast_to(value, (2, 4, 6))):
        made = cross(view)
        assert same_bits(made, np.ascontiguousarray(view))
        assert made.flags.c_contiguous


def test_unaligned_arrays_arrive_aligned() -> None:
    value = np.frombuffer(bytes(33), np.uint8)[1:].view("<f8")
    assert cross(value).flags.aligned


def test_nan_payloads_stay() -> None:
    value = np.array([0x7FF8DEADBEEF0001, 0xFFF0000000000001], np.uint64).view(np.float64)
    assert same_bits(cross(value), value)
    assert cross(value[0]).tobytes() == value[0].tobytes()


def test_frozen_arrays_pass_by_reference() -> None:
    once = cross(np.arange(6).reshape(2, 3))
    assert cross(once) is once
    assert cross({"a": once})["a"] is once
    frozen = arrays.freeze(np.asfortranarray(np.arange(6).reshape(2, 3)))
    assert cross(frozen) is frozen
    assert frozen.flags.fnc
    assert stays_read_only(frozen)


def test_read_only_is_not_frozen() -> None:
    owner = np.arange(6)
    owner.flags.writeable = False
    view = np.arange(6)[:]
    view.flags.writeable = False
    memory = bytearray(8)
    over = np.frombuffer(memoryview(memory).toreadonly(), np.uint8)
    for value in (owner, owner[:], view, over, over.reshape(2, 4)):
        assert not arrays.is_frozen(value)
        assert not np.shares_memory(cross(value), value)


def test_freezing_takes_no_copy() -> None:
    value = np.arange(6)
    frozen = arrays.freeze(value)
    assert np.shares_memory(frozen, value)
    assert not value.flags.writeable


def test_padding_bytes_never_leave() -> None:
    dtype = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    value = np.frombuffer(b"\xaa" * 32, dtype)
    raw = cross(value).tobytes()
    assert raw[1:8] == bytes(7)
    assert raw[0:1] + raw[8:16] == b"\xaa" * 9


def test_dtype_metadata_is_dropped() -> None:
    dtype = np.dtype("<f8", metadata={"secret": 1})
    assert cross(np.zeros(3, dtype)).dtype.metadata is None


def test_spelling_of_the_dtype_is_the_standard_one() -> None:
    assert cross(np.zeros(3, np.longlong)).dtype.char == np.dtype("<i8").char
    assert type(cross(np.longlong(3))) is np.dtype("<i8").type


@pytest.mark.parametrize("value", [
    np.array([None]), np.zeros(2, "V8"), np.zeros(2, []),
    np.zeros(2, np.longdouble), np.zeros(2, [("a", "O")]),
    np.zeros(2, [(("title", "a"), "i4")]), np.longdouble(1), np.ma.zeros(3),
    np.zeros((1, 1)).view(np.matrix),
    np.zeros(2, np.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2]})),
], ids=values.label)  # fmt: skip
def test_other_arrays_are_refused(value: object) -> None:
    with pytest.raises(errors.ValueRefusedError) as caught:
        cross({"w": [value]})
    assert caught.value.path == 'result["w"][0]'


@pytest.mark.parametrize("value", [
    np.float64(1.5), np.float32(1.5), np.int64(3), np.bool_(True), np.complex64(1j), np.str_("a\0"),
    np.bytes_(b"a\0"), np.datetime64("2020-01-01"), np.timedelta64(3, "ms"),
    np.datetime64("NaT", "s"),
], ids=values.label)  # fmt: skip
def test_numpy_scalars_pass_by_reference(value: object) -> None:
    assert cross(value) is value
    assert cross([value])[0] is value


def test_structured_scalars_are_copied() -> None:
    value = np.zeros(2, [("a", "i4"), ("b", "f8")])
    made = cross(value[0])
    value["a"] = 7
    assert made["a"] == 0
    assert type(made) is np.void
    with pytest.raises(ValueError, match="read-only"):
        made["a"] = 1
