from __future__ import annotations

import collections
import gc
import hashlib
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.codec import values
from tests.unit.codec.values import USER, shape_of

from fed import errors
from fed.codec import arrays, tags, types, wire

heavy = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def encode(value: object, **more: Any) -> wire.Encoded:
    return wire.encode(value, types=USER, **more)


def body_of(encoded: wire.Encoded) -> bytes:
    return b"".join(encoded.body())


def decode(encoded: wire.Encoded, **more: Any) -> Any:
    return wire.decode(encoded.header, body_of(encoded), types=USER, **more)


def crossed(value: object) -> Any:
    return types.cross(value, types=USER)


@pytest.mark.soak
@heavy
@given(values.values)
def test_decoding_what_was_encoded_is_crossing(value: object) -> None:
    encoded = encode(value)
    expected = shape_of(crossed(value))
    assert shape_of(decode(encoded)) == expected
    by_buffer = wire.decode(encoded.header, [bytes(b) for b in encoded.buffers], types=USER)
    assert shape_of(by_buffer) == expected


@pytest.mark.soak
@heavy
@given(values.values)
def test_a_value_has_one_encoding(value: object) -> None:
    once = encode(value)
    again = encode(decode(once))
    assert (again.header, body_of(again)) == (once.header, body_of(once))
    assert wire.size(value, types=USER) == once.size_bytes == len(once.header) + len(body_of(once))
    parts = hashlib.sha256(once.header)
    for buffer in once.buffers:
        parts.update(buffer)
    assert wire.digest(value, types=USER) == parts.digest()


def nested(levels: int, kind: type = list) -> Any:
    value: Any = kind()
    for _ in range(levels - 1):
        value = {"x": value} if kind is dict else kind((value,))
    return value


@pytest.mark.parametrize("value", [
    [(1,), ()], [(1, (2,))], [(1, [2])], [[[[[[[[[[1]]]]]]]]]], [{"a": {1: 2}}, {"a": {"b": ()}}],
    {"a": {"b": {"c": {"d": {"e": {"f": {"g": [(1,)]}}}}}}}, "ä" * 3000, {"k" * 2000: "\ud800"},
    [2**64, {"plain": [1, "x"]}, (1, 2)], {b"k" * 3000: b"v" * 3000}, {frozenset({b"x" * 5000})},
    {0.0: 1, "0": 2, None: 3, True: 4}, [True, 1, 1.0], {float("nan"): 1}, nested(64),
    nested(64, dict), nested(64, tuple), nested(64, frozenset),
], ids=lambda v: values.label(v)[:30])  # fmt: skip
def test_corners(value: object) -> None:
    assert shape_of(decode(encode(value))) == shape_of(crossed(value))


@pytest.mark.parametrize("kind", [list, dict, tuple, frozenset])
def test_one_level_more_is_refused_by_both(kind: type) -> None:
    for refuse in (encode, crossed):
        with pytest.raises(errors.ValueRefusedError, match="too deep"):
            refuse(nested(65, kind))


LEAVES = [
    1, [], (), {}, set(), frozenset(), {1: 2}, collections.OrderedDict(), [(1,)], [()], (1,),
    [{}], [{"a": 1}], values.Color.RED, values.Access.READ | values.Access.RUN, values.Key(1),
    values.Pair(1, 2), values.Record(1), values.model(1, 2), np.zeros(2), np.zeros(1000),
    np.float32(1), np.str_(""), 2**70, "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("leaf", LEAVES, ids=values.label)
@pytest.mark.parametrize("levels", [61, 62, 63, 64])
def test_depth_is_the_same_for_both(leaf: Any, levels: int) -> None:
    for around in (lambda v: [v], lambda v: (v,), lambda v: {"k": v}, lambda v: {1: v}):
        value = leaf
        for _ in range(levels):
            value = around(value)
        assert outcome(lambda v: decode(encode(v)), value) == outcome(crossed, value)


def outcome(run: Callable[[Any], Any], value: object) -> Any:
    """The value's shape, or the fields of its refusal."""
    try:
        return shape_of(run(value))
    except errors.ValueRefusedError as error:
        return vars(error)


def test_arrays_in_unaligned_memory_are_aligned_by_a_copy() -> None:
    encoded = encode(np.arange(300.0))
    memory = memoryview(b"x" + body_of(encoded))[1:]
    made: Any = wire.decode(encoded.header, memory, types=USER)
    assert made.flags.aligned
    assert shape_of(made) == shape_of(crossed(np.arange(300.0)))


@pytest.mark.parametrize("value", [
    {"model": [1, 2, 3, bytearray(1)]}, [object()], {(1, object()): 2}, {frozenset({range(2)})},
    collections.OrderedDict(a=iter(())), [values.Key(slice(0))], [np.array([None])],
    [np.longdouble(1)], [2**64, object()], ["\ud800", {"a": [object()]}],
], ids=values.label)  # fmt: skip
def test_refusals_are_those_of_crossing(value: object) -> None:
    with pytest.raises(errors.ValueRefusedError) as one:
        crossed(value)
    with pytest.raises(errors.ValueRefusedError) as two:
        encode(value)
    assert vars(one.value) == vars(two.value)


def test_cycles_are_named() -> None:
    value: dict[str, Any] = {"a": []}
    value["a"].append(value)
    with pytest.raises(errors.ValueRefusedError, match="contains itself") as caught:
        encode(value)
    assert caught.value.path == 'result["a"][0]'


def test_shared_references_that_double_are_refused_not_written() -> None:
    value: list[Any] = [1]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(errors.ValueRefusedError, match="too many parts"):
        encode(value)


def test_contiguous_arrays_are_not_copied_on_either_side() -> None:
    value = np.arange(10_000.0).reshape(100, 100)
    for array in (value, value.T, value[10:20], value.astype(">f8"), value.view("M8[ns]")):
        encoded = encode({"w": array})
        (buffer,) = encoded.buffers
        assert np.shares_memory(np.frombuffer(buffer, np.uint8), array)
        body = bytearray(body_of(encoded))
        made: Any = wire.decode(encoded.header, body, types=USER)
        assert np.shares_memory(made["w"], np.frombuffer(body, np.uint8))
        assert not made["w"].flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            made["w"].flags.writeable = True
        assert arrays.is_frozen(made["w"])
        assert crossed(made["w"]) is made["w"]


def test_the_body_is_let_go_with_the_value() -> None:
    class Body(bytearray):
        pass

    encoded = encode([np.zeros(1000), {"a": np.ones(1000)}, (np.ones(3000),)])
    body = Body(body_of(encoded))
    gone = weakref.ref(body)
    gc.disable()
    try:
        made = wire.decode(encoded.header, memoryview(body), types=USER)
        del body
        assert gone() is not None
        del made
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "tree", [b"\x93\xc7\x00\x0b\x01\xc1", b"\x92\xc7\x00\x0b\xc7\x02\x16\x00\x00"]
)
def test_a_refusal_that_is_kept_lets_the_body_go(tree: bytes) -> None:
    class Body(bytearray):
        pass

    body = Body(2000)
    gone = weakref.ref(body)
    kept = []
    gc.disable()
    try:
        try:
            wire.decode(tags.prefix([2000]) + tree, memoryview(body), types=USER)
        except errors.ValueRefusedError as error:
            kept.append(error)
        del body
        assert len(kept) == 1
        assert gone() is None
    finally:
        gc.enable()


def test_buffers_lie_aligned_and_in_order() -> None:
    value = {"a": b"x" * 1025, "b": np.arange(300), "c": "plain", "d": b"y" * 1024}
    encoded = encode(value)
    assert [b.nbytes for b in encoded.buffers] == [1025, 2400]
    body = body_of(encoded)
    assert len(body) == encoded.body_bytes == 1088 + 2400 == wire.body_bytes(encoded.header)
    assert body[1025:1088] == bytes(63)
    assert bytes(encoded.buffers[1]) == body[1088:]


def test_long_texts_leave_a_tree_that_is_too_large() -> None:
    value = ["ä" * 3_000_000, "short", {"k": "x" * 4_000_000, "l": "y" * 1000}]
    encoded = encode(value)
    assert [b.nbytes for b in encoded.buffers] == [6_000_000, 4_000_000]
    assert decode(encoded) == value
    assert wire.size(value) == encoded.size_bytes


def test_limits_of_the_sender() -> None:
    limited = wire.Limits(total_bytes=5000, header_bytes=1000, depth=3, items=100, buffers=2)
    for value, limit in (
        ([[[[1]]]], "3 levels"),
        ([1] * 100, "100 items"),
        (["x" * 1000], "1000 bytes"),
        (np.zeros(1000), "max_value_bytes = 5,000"),
        ([np.zeros(130)] * 3, "2 buffers"),
    ):
        with pytest.raises(errors.ValueRefusedError) as caught:
            encode(value, limits=limited, root="x", party="ALICE", call=3)
        assert caught.value.limit == limit
        assert caught.value.path.startswith("x")
        assert (caught.value.party, caught.value.call) == ("ALICE", 3)
    for value in ([[[1]]], [1] * 99, ["x" * 900], np.zeros(500), [np.zeros(130)] * 2):
        assert shape_of(decode(encode(value, limits=limited), limits=limited)) == shape_of(
            crossed(value)
        )


def test_a_size_needs_no_table_of_user_classes() -> None:
    value = [values.Key(1), values.Color.RED]
    assert wire.size(value) == encode(value).size_bytes


PROGRAM = """
import sys, collections, numpy as np
from fed.codec import types, wire
value = {"s": {"a", "b", "c", 1, 2.5, None, ("x", frozenset({"p", "q", "r"}))},
         "o": collections.OrderedDict(b=1, a=2), "w": np.arange(1000.0), "n": {3: {b"x", b"y"}}}
sys.stdout.write(wire.digest(value, types=types.UserTypes([], None)).hex())
"""


def test_digests_do_not_depend_on_the_hash_seed() -> None:
    seen = set()
    for seed in ("0", "1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True,
                             text=True, timeout=60, check=True)  # fmt: skip
        seen.add(run.stdout)
    assert len(seen) == 1
    assert len(seen.pop()) == 64


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), ([1], (1,)), ("a", b"a"), ({}, collections.OrderedDict()), (0.0, -0.0),
     ({1: 2, 3: 4}, {3: 4, 1: 2}), (np.zeros(2), np.zeros((2, 1))), (np.int64(1), 1),
     (np.zeros(200), np.zeros(200, np.int64)), (set(), frozenset()),
     (np.ones((9, 9)), np.ones((9, 9), order="F"))],
)  # fmt: skip
def test_different_values_have_different_digests(one: object, other: object) -> None:
    assert wire.digest(one, types=USER) != wire.digest(other, types=USER)


def test_importing_the_codec_loads_no_heavy_library() -> None:
    program = (
        "import sys; from fed.codec import types, wire\n"
        "u = types.UserTypes([], None)\n"
        "e = wire.encode([{1: (2,)}, b'x' * 2000], types=u)\n"
        "wire.digest(3, types=u); wire.size({'a': {1}})\n"
        "print([m for m in ('numpy', 'pandas', 'pyarrow', 'torch') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True,
                         text=True, timeout=60, check=True)  # fmt: skip
    assert run.stdout.strip() == "[]"


@given(st.integers(0, 100), st.lists(st.integers(1, 1000), max_size=5))
def test_body_lengths(start: int, lengths: list[int]) -> None:
    offset = 0
    for length in lengths:
        assert offset % tags.ALIGNMENT == 0
        end = offset + length
        offset = tags.padded(end)
    assert tags.body_bytes(lengths) == (end if lengths else 0)
