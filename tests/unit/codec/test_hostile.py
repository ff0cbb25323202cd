"""Bytes that no honest party sends: each is refused by name, and nothing else happens."""

from __future__ import annotations

import contextlib
import os
import random
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.codec import values
from tests.unit.codec.golden import write_golden

from fed import errors
from fed.codec import reader, tags, types, wire, writer

SOAK = os.environ.get("SOAK") == "1"
Ext = msgspec.msgpack.Ext
Tag = tags.Tag
pack = msgspec.msgpack.Encoder().encode


def header(tree: bytes, lengths: Sequence[int] = ()) -> bytes:
    return tags.prefix(lengths) + tree


def decode(data: bytes, body: Any = b"", **more: Any) -> Any:
    return wire.decode(data, body, types=values.USER, **more)


def refusal(data: bytes, body: Any = b"", **more: Any) -> str:
    with pytest.raises(errors.ValueRefusedError) as caught:
        decode(data, body, party="MALLORY", **more)
    assert caught.value.party == "MALLORY"
    return str(caught.value)


def ext(tag: int, content: Any) -> Ext:
    return Ext(tag, content if isinstance(content, bytes) else pack(content))


def nest(levels: int, tag: int) -> bytes:
    data = pack([])
    for _ in range(levels):
        data = pack([Ext(tag, data)])
    return data


def instance(kind: str, module: str, name: str, fields: list[str], content: list[Any]) -> Ext:
    described = pack([kind, module, name, fields])
    return Ext(Tag.INSTANCE, len(described).to_bytes(2, "little") + described + pack(content))


HERE = values.__name__
ARRAY = ["<f8", 0, [2], Ext(Tag.BYTES, bytes(16))]

MALFORMED: dict[str, tuple[Any, str]] = {
    "unknown tag": (Ext(99, b""), "tag 99"),
    "timestamp": (Ext(-1, bytes(4)), "tag -1"),
    "tuple of no array": (ext(Tag.TUPLE, {"a": 1}), "aren't an array"),
    "tuple of a number": (ext(Tag.TUPLE, 3), "aren't an array"),
    "tuple of junk": (Ext(Tag.TUPLE, b"\xc1"), "opcode"),
    "tuple with more behind": (Ext(Tag.TUPLE, b"\x90\x90"), "trailing"),
    "list key": (ext(Tag.DICT, [[], 1]), "hashed"),
    "dict key": (ext(Tag.DICT, [{}, 1]), "hashed"),
    "set of lists": (ext(Tag.SET, [[]]), "hashed"),
    "odd dict": (ext(Tag.DICT, [1]), "without a value"),
    "odd str dict": (ext(Tag.DICT, ["a"]), "without a value"),
    "key twice": (ext(Tag.DICT, ["a", 1, "a", 2]), "twice"),
    "equal keys": (ext(Tag.DICT, [1, 1, True, 2]), "twice"),
    "element twice": (ext(Tag.SET, [1, 1]), "twice"),
    "set out of order": (ext(Tag.SET, [2, 1]), "order"),
    "small big int": (Ext(Tag.BIG_INT, b"\1"), "standard"),
    "padded big int": (Ext(Tag.BIG_INT, b"\1" * 9 + b"\0" * 3), "standard"),
    "text without surrogates": (Ext(Tag.SURROGATE_TEXT, b"abc"), "standard"),
    "broken text": (Ext(Tag.SURROGATE_TEXT, b"\xff"), "decode"),
    "long inline bytes": (Ext(Tag.BYTES, bytes(1025)), "standard"),
    "complex": (Ext(Tag.COMPLEX, bytes(15)), "length"),
    "month 13": (ext(Tag.DATE, [2020, 13, 1]), "month"),
    "year of a million": (ext(Tag.DATE, [10**6, 1, 1]), "year"),
    "huge day": (ext(Tag.DATE, [2020, 1, 2**63]), "can't be read"),
    "date of bools": (ext(Tag.DATE, [True, True, True]), "int"),
    "short date": (ext(Tag.DATE, [2020, 1]), "number of fields"),
    "fold 2": (ext(Tag.TIME, [1, 1, 1, 1, 2, None]), "fold"),
    "zone of text": (ext(Tag.TIME, [1, 1, 1, 1, 0, "UTC"]), "zone"),
    "zone of 25 hours": (ext(Tag.TIMEZONE, [1, 3600, 0]), "timedelta"),
    "seconds of a day": (ext(Tag.TIMEDELTA, [0, 86400, 0]), "standard"),
    "days beyond": (ext(Tag.TIMEDELTA, [2**40, 0, 0]), "can't be read"),
    "decimal word": (Ext(Tag.DECIMAL, b"abc"), "can't be read"),
    "decimal spelling": (Ext(Tag.DECIMAL, b"1_0"), "standard"),
    "decimal digits": (Ext(Tag.DECIMAL, "\u0661".encode()), "decode"),
    "uuid": (Ext(Tag.UUID, bytes(15)), "16"),
    "object array": (ext(Tag.ARRAY, ["|O", 0, [2], ARRAY[3]]), "dtype"),
    "void array": (ext(Tag.ARRAY, ["|V8", 0, [2], ARRAY[3]]), "dtype"),
    "dtype language": (ext(Tag.ARRAY, ["i4,i4", 0, [2], ARRAY[3]]), "dtype"),
    "dtype of a huge size": (ext(Tag.ARRAY, ["|S9999999999", 0, [2], ARRAY[3]]), "can't be read"),
    "dtype without bytes": (
        ext(Tag.ARRAY, ["|S0", 0, [1 << 40], Ext(Tag.BYTES, b"")]),
        "without bytes",
    ),
    "dtype alias": (ext(Tag.ARRAY, ["=f8", 0, [2], ARRAY[3]]), "dtype"),
    "int dtype": (ext(Tag.ARRAY, [3, 0, [2], ARRAY[3]]), "dtype"),
    "negative shape": (ext(Tag.ARRAY, ["<f8", 0, [-1, -2], ARRAY[3]]), "shape"),
    "bool shape": (ext(Tag.ARRAY, ["<f8", 0, [True, 2], ARRAY[3]]), "shape"),
    "shape too large": (ext(Tag.ARRAY, ["<f8", 0, [2**61, 0, 2**61], ARRAY[3]]), "shape"),
    "shape of 33": (ext(Tag.ARRAY, ["<f8", 0, [1] * 33, ARRAY[3]]), "shape"),
    "shape and bytes": (ext(Tag.ARRAY, ["<f8", 0, [3], ARRAY[3]]), "match"),
    "order 2": (ext(Tag.ARRAY, ["<f8", 2, [2], ARRAY[3]]), "order"),
    "order of a vector": (ext(Tag.ARRAY, ["<f8", 1, [2], ARRAY[3]]), "order"),
    "not Unicode": (ext(Tag.ARRAY, ["<U1", 0, [1], Ext(Tag.BYTES, b"\xff" * 4)]), "Unicode"),
    "overlapping fields": (
        ext(Tag.ARRAY, [[8, False, [["a", "<f8", 0], ["b", "<f8", 0]]], 0, [2], ARRAY[3]]),
        "overlaps",
    ),
    "field outside": (
        ext(Tag.ARRAY, [[8, False, [["a", "<f8", 4]]], 0, [2], ARRAY[3]]),
        "can't be read",
    ),
    "field twice": (
        ext(Tag.ARRAY, [[8, False, [["a", "<f4", 0], ["a", "<f4", 4]]], 0, [2], ARRAY[3]]),
        "can't be read",
    ),
    "numpy scalar": (ext(Tag.NUMPY_SCALAR, ["<f8", Ext(Tag.BYTES, bytes(7))]), "match"),
    "tensor of nonsense": (ext(Tag.TENSOR, [1, 2]), "can't be read"),
    "module not loaded": (instance("dataclass", "antigravity", "C", [], []), "antigravity"),
    "function": (instance("dataclass", HERE, "shape_of", [], []), "no class"),
    "class of another module": (instance("struct", HERE, "msgspec.Struct", [], []), "no class"),
    "imported class": (instance("namedtuple", HERE, "NamedTuple", [], []), "no class"),
    "other fields": (instance("dataclass", HERE, "Key", ["y"], [1]), "other fields"),
    "other kind": (instance("struct", HERE, "Key", ["x"], [1]), "other fields"),
    "too few values": (instance("dataclass", HERE, "Key", ["x"], []), "can't be read"),
    "too many values": (instance("namedtuple", HERE, "Pair", ["left", "right"], [1] * 3), "fields"),
    "no such member": (instance("enum", HERE, "Color", [], ["GREEN"]), "GREEN"),
    "member by number": (instance("enum", HERE, "Level", [], [1]), "member"),
    "no such flag": (instance("enum", HERE, "Access", [], [1 << 40]), "can't be read"),
    "unnamed class": (Ext(Tag.INSTANCE, b""), "can't be read"),
    "list of tuples, mixed": (ext(Tag.TUPLE_LIST, [[1], 2]), "tuples"),
    "list of tuples, nested": (ext(Tag.TUPLE_LIST, [[[1]]]), "tuples"),
    "list of tuples, empty": (ext(Tag.TUPLE_LIST, []), "tuples"),
    "extension in a map": ({"a": Ext(Tag.UUID, bytes(16))}, "can't be read"),
    "int key": ({1: 2}, "can't be read"),
    "pickle": (
        ext(Tag.PICKLED, [Ext(Tag.BYTES, b"cos\nsystem\n(S'false'\ntR."), []]),
        "pickles are off",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_parts_are_refused(name: str) -> None:
    content, words = MALFORMED[name]
    for tree in (content, [content], [1, ext(Tag.TUPLE, [content])]):
        assert words in refusal(header(pack(tree)))
    assert "antigravity" not in sys.modules


SPELLINGS = {
    "float32": b"\xca\0\0\0\0",
    "long int": b"\xcd\0\1",
    "signed int": b"\xd0\1",
    "long array": b"\xdc\0\0",
    "long text": b"\xd9\1a",
    "key twice": b"\x82\xa1a\1\xa1a\2",
    "long extension": b"\xc7\x10\x12" + bytes(16),
    "bytes": b"\xc4\1a",
    "not UTF-8": b"\xa1\xff",
    "array key": b"\x81\x90\1",
    "float key": b"\x81\xcb" + bytes(8) + b"\1",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_other_spellings_are_refused(name: str) -> None:
    tree = SPELLINGS[name]
    for whole in (tree, b"\x91" + tree, b"\x81\xa1x\x91" + tree):
        refusal(header(whole))


def test_truncated_and_lengthened_bytes_are_refused() -> None:
    value = {"a": [(1, "x"), {2}], "w": np.arange(300.0), "k": values.Key(b"y" * 2000), "b": 2**70}
    encoded = wire.encode(value, types=values.USER)
    body = b"".join(encoded.body())
    for cut in range(len(encoded.header)):
        refusal(encoded.header[:cut], body)
    refusal(encoded.header + b"\0", body)
    for cut in (0, 1, 63, 64, len(body) - 1):
        refusal(encoded.header, body[:cut])
    refusal(encoded.header, body + b"\0")
    refusal(encoded.header, encoded.buffers[:1])
    refusal(encoded.header, [*encoded.buffers, b"x"])
    refusal(encoded.header, [encoded.buffers[1], encoded.buffers[0]])
    decode(encoded.header, body)


def test_buffers_are_named_once_each() -> None:
    long = pack([Ext(Tag.LONG_BYTES, b""), Ext(Tag.LONG_BYTES, b"")])
    assert "more buffers" in refusal(header(long, [2000]), bytes(2000))
    assert "doesn't name" in refusal(header(pack(1), [2000]), bytes(2000))
    assert decode(header(long, [2000, 2000]), bytes(2048 + 2000)) == [bytes(2000)] * 2
    assert "element of a set" in refusal(
        header(pack(ext(Tag.SET, [Ext(Tag.LONG_BYTES, b"")])), [2000]), bytes(2000)
    )
    assert "short value" in refusal(header(pack(Ext(Tag.LONG_BYTES, b"")), [9]), bytes(9))
    assert "empty buffer" in refusal(header(pack(1), [0]))


def test_a_shape_beyond_its_buffer_is_refused() -> None:
    for shape in ([1 << 40], [1 << 61, 8], [125, 2]):
        tree = pack(ext(Tag.LONG_ARRAY, ["<f8", 0, shape]))
        refusal(header(tree, [2000 - 8]), bytes(2000 - 8))


def test_claims_are_checked_before_memory_is_taken() -> None:
    for tree in (b"\xdd\xff\xff\xff\xff\1", b"\xc6\xff\xff\xff\xff\1", b"\xdf\xff\xff\xff\xff\1",
                 b"\xdb\xff\xff\xff\xff\1", b"\xc9\xff\xff\xff\xff\1\1"):  # fmt: skip
        refusal(header(tree))
        refusal(header(pack(Ext(Tag.TUPLE, tree))))
    claims = tags.MAGIC + struct.pack("<I", 0xFFFFFFFF) + b"\0" * 100
    assert "limit" in refusal(claims)
    assert "truncated" in refusal(tags.MAGIC + struct.pack("<I", 1000) + b"\0" * 100)
    for length in (1 << 63, (1 << 64) - 1, 17 << 30):
        assert "limit" in refusal(header(pack(Ext(Tag.LONG_BYTES, b"")), [length]))


def test_limits_of_the_receiver() -> None:
    limits = wire.Limits(total_bytes=9000, header_bytes=3000, depth=5, items=200, buffers=2)
    assert "header" in refusal(header(pack("x" * 3000)), limits=limits)
    assert "items" in refusal(header(pack([0] * 200)), limits=limits)
    assert "items" in refusal(header(pack([[], {}] * 100)), limits=limits)
    assert "items" in refusal(header(pack([ext(Tag.TUPLE, [0] * 100)] * 2)), limits=limits)
    decode(header(pack([0] * 199)), limits=limits)
    decode(header(pack([ext(Tag.TUPLE, [0] * 98)] * 2)), limits=limits)
    two = pack([Ext(Tag.LONG_BYTES, b"")] * 2)
    assert "limit" in refusal(header(two, [4500, 4500]), bytes(9028), limits=limits)
    assert "buffers" in refusal(header(two, [1500] * 3), bytes(4600), limits=limits)
    for tag in (Tag.TUPLE, Tag.FROZENSET):
        assert "deep" in refusal(header(nest(5, tag)), limits=limits)
    for tree in (
        b"\x91" * 6 + b"\1",
        b"\x81\xa1a" * 6 + b"\1",
        b"\x91" * 3 + b"\x81\xa1a" * 3 + b"\1",
    ):
        refusal(header(tree), limits=limits)
    decode(header(b"\x91" * 5 + b"\1"), limits=limits)


def test_deep_nesting_is_refused() -> None:
    for times in (65, 1000, 1_000_000):
        refusal(header(b"\x91" * times + b"\1"))
        refusal(header(b"\x81\xa1a" * times + b"\1"))
    for times in (64, 65, 1000, 4000):
        refusal(header(nest(times, Tag.TUPLE)))
    decode(header(b"\x91" * 64 + b"\1"))
    decode(header(nest(32, Tag.TUPLE)[1:]))


def test_keys_that_collide_are_refused() -> None:
    step = (1 << 61) - 1  # ints that are equal modulo this have one hash
    keys = [writer.big_int_bytes(step * (n + 9)) for n in range(3000)]
    parts = sorted(pack(Ext(Tag.BIG_INT, key)) for key in keys)
    tree = pack(Ext(Tag.SET, writer.array_start(len(parts)) + b"".join(parts)))
    assert "hash" in refusal(header(tree))
    few = pack(Ext(Tag.SET, writer.array_start(64) + b"".join(parts[:64])))
    assert len(decode(header(few))) == 64


class Loud:
    """Not a class that may cross."""


def test_user_code_in_keys_cannot_break_out() -> None:
    assert "hashed" in refusal(
        header(
            pack(
                ext(Tag.SET, [instance("dataclass", HERE, "Model", ["weights", "rounds"], [1, 2])])
            )
        )
    )


def test_nothing_is_imported_and_post_init_does_not_run() -> None:
    made = decode(header(pack(instance("dataclass", HERE, "Model", ["weights", "rounds"], [1, 2]))))
    assert (made.weights, made.rounds) == (1, 2)


PROGRAM = """
import resource, sys, tracemalloc
from fed import errors
from fed.codec import tags, types, wire
import msgspec
pack, Ext = msgspec.msgpack.encode, msgspec.msgpack.Ext
trees = {
    "maps": b"\\xdd" + (60_000_000).to_bytes(4, "big") + b"\\x80" * 60_000_000,
    "maps in 8 MiB": b"\\xdd" + (8_000_000).to_bytes(4, "big") + b"\\x80" * 8_000_000,
    "negative ints": b"\\xdd" + (8_000_000).to_bytes(4, "big") + b"\\xe0" * 8_000_000,
    "maps in a tuple": pack(Ext(1, b"\\xdd" + (8_000_000).to_bytes(4, "big")
                             + b"\\x80" * 8_000_000)),
    "empty tuples": b"\\xdd" + (2_500_000).to_bytes(4, "big") + pack(Ext(1, b"\\x90"))* 2_500_000,
    "nested": None,
}
data = pack(["x" * 7_000_000])
for _ in range(60):
    data = pack([Ext(1, data)])
trees["nested"] = data
tree = trees[sys.argv[1]]
header = tags.prefix([]) + tree
del tree, trees, data
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tracemalloc.start()
try:
    wire.decode(header, b"", types=types.UserTypes([], None))
    print("decoded", end=" ")
except errors.ValueRefusedError:
    print("refused", end=" ")
print(tracemalloc.get_traced_memory()[1] >> 20,
      (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize(
    ("attack", "outcome", "mib"),
    [
        ("maps", "refused", 1),
        ("maps in 8 MiB", "refused", 40),
        ("negative ints", "refused", 40),
        ("maps in a tuple", "refused", 50),
        ("empty tuples", "refused", 60),
        ("nested", "decoded", 60),
    ],
)
def test_memory_of_bombs(attack: str, outcome: str, mib: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", PROGRAM, attack], env=environment, text=True,
                         capture_output=True, timeout=60, check=False)  # fmt: skip
    assert run.stdout, run.stderr
    found, traced, resident = run.stdout.split()
    assert found == outcome
    assert int(traced) <= mib
    assert int(resident) <= 2 * mib


GOLDEN = sorted(write_golden.FOLDER.glob("*.bin"))

many = settings(max_examples=20_000 if SOAK else 400)

#: Inputs of each of 200 seeds: ten million in all.
DAMAGED = 50_000 if SOAK else 1_000


@pytest.mark.soak
def test_damaged_bytes_decode_or_are_refused(seed: int) -> None:
    rng = random.Random(seed)
    honest = [write_golden.unpacked(path.read_bytes()) for path in GOLDEN]
    for number in range(DAMAGED):
        data, body = honest[number % len(honest)]
        damaged = damage(data, rng)
        if number % 50 == 0:
            once_or_refused(damaged, body)
        else:
            with contextlib.suppress(errors.ValueRefusedError):
                decode(damaged, body)


def damage(data: bytes, rng: random.Random) -> bytes:
    """The header with some of its bytes changed, taken out or put in."""
    made = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(tags.MAGIC), len(made) + 1)
        cut = rng.randrange(3)
        made[at : at + cut] = rng.randbytes(rng.choice((cut, rng.randrange(4))))
        if rng.random() < 0.2:
            start = rng.randrange(len(tags.MAGIC), len(made) + 1)
            made[at:at] = made[start : start + rng.randrange(1, 30)]
    return bytes(made)


@pytest.mark.soak
@many
@given(st.binary(max_size=200))
def test_random_trees_decode_or_are_refused(tree: bytes) -> None:
    once_or_refused(header(tree), b"")


extensions = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=3)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.builds(Ext, st.integers(-1, 31), st.binary(max_size=20)),
        st.builds(
            lambda tag, parts: Ext(tag, pack(parts)),
            st.integers(1, 29),
            st.lists(inner, max_size=5),
        ),
    ),
    max_leaves=8,
)


@pytest.mark.soak
@many
@given(extensions)
def test_random_extensions_decode_or_are_refused(content: Any) -> None:
    once_or_refused(header(pack(content)), b"")


def once_or_refused(data: bytes, body: bytes) -> None:
    """Bytes are refused, or are an encoding of a value that crosses."""
    try:
        value = decode(data, body)
    except errors.ValueRefusedError:
        return
    again = wire.encode(value, types=values.USER)
    assert values.shape_of(
        wire.decode(again.header, b"".join(again.body()), types=values.USER)
    ) == (values.shape_of(types.cross(value, types=values.USER)))


@pytest.mark.soak
@given(extensions)
def test_items_are_counted_exactly(content: Any) -> None:
    def count(part: Any) -> int:
        if isinstance(part, list):
            return 1 + sum(map(count, part))
        if isinstance(part, dict):
            return 1 + sum(1 + count(item) for item in part.values())
        return 1

    data = pack(content)
    expected = count(content)
    assert reader.count_items(data, expected) == expected
    if expected > 1:
        with pytest.raises(ValueError, match="items"):
            reader.count_items(data, expected - 1)
