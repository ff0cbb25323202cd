"""Values that are small on the wire and huge once read: the peak of ALICE's process is bounded."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.unit.codec import test_hostile

from fed.codec import tags

TRANSFER = "BOB's arrays to ALICE, answered by their digests"
#: ALICE's limits: what waits, and one value. What reading one takes on top is the codec's: a header
#: of 8 MiB at most, a million items of 72 bytes; and the allocator keeps some of it.
BUDGET = 64 << 20
VALUE = 32 << 20
READING = 160 << 20

Ext = msgspec.msgpack.Ext
Tag = tags.Tag
pack = msgspec.msgpack.Encoder().encode
ext, header = test_hostile.ext, test_hostile.header


def array_of(count, item):
    return b"\xdd" + count.to_bytes(4, "big") + item * count


def nested():
    data = pack(["x" * 7_000_000])
    for _ in range(60):
        data = pack([Ext(Tag.TUPLE, data)])
    return data


TREES = {
    "empty maps": lambda: array_of(8_000_000, b"\x80"),
    "negative ints": lambda: array_of(8_000_000, b"\xe0"),
    "maps in a tuple": lambda: pack(Ext(Tag.TUPLE, array_of(8_000_000, b"\x80"))),
    "empty tuples": lambda: array_of(2_500_000, pack(Ext(Tag.TUPLE, b"\x90"))),
    "nested copies": nested,
    "a million levels": lambda: b"\x91" * 1_000_000 + b"\x01",
    "levels of dicts": lambda: b"\x81\xa1a" * 1_000_000 + b"\x01",
    "an array of 4 G items": lambda: b"\xdd\xff\xff\xff\xff\x01",
    "elements without bytes": lambda: pack(
        ext(Tag.ARRAY, ["|S0", 0, [1 << 40], Ext(Tag.BYTES, b"")])
    ),
    "a shape of terabytes": lambda: pack(ext(Tag.ARRAY, ["<f8", 0, [1 << 40], Ext(10, b"")])),
    "an item of 10 GB": lambda: pack(ext(Tag.ARRAY, ["|S9999999999", 0, [2], Ext(10, bytes(16))])),
}


def explode(scene, bombs, bound):
    """ALICE waits for each bomb and gets it; her peak stays within the bound above an honest one's.

    Args:
        scene: with ALICE in a process of her own.
        bombs: header and body, by name.
        bound: bytes.
    """
    with scene.honest("BOB's first arrays to ALICE") as transfer:
        transfer.finish(10)
    before = scene.ask("state")["peak"]
    liar = scene.liar()
    with scene.honest(TRANSFER) as transfer:
        for call, (name, (head, body)) in enumerate(bombs.items(), 1):
            scene.ask(f"want {call}")
            liar.send(head, body, call=call)
            (answer,) = liar.answers(1)
            if answer == "refused":
                scene.says(f"the value of call {call} of party CAROL may not come in")
            grown = scene.ask("state")["peak"] - before
            assert grown < bound, f"{name} ({answer}) took {grown >> 20} MiB"
        transfer.finish()
    assert not scene.lines("link to party")


def test_size_bombs(make_apart):
    scene = make_apart(receive_budget_bytes=BUDGET, max_value_bytes=VALUE)
    bombs = {name: (header(made()), b"") for name, made in TREES.items()}
    explode(scene, bombs, BUDGET + VALUE + READING)


def stream(table, compression=None):
    arrow = pytest.importorskip("pyarrow")
    sink = arrow.BufferOutputStream()
    options = arrow.ipc.IpcWriteOptions(compression=compression)
    with arrow.ipc.new_stream(sink, table.schema, options=options) as written:
        written.write_table(table)
    return sink.getvalue().to_pybytes()


def compressed(kind):
    arrow = pytest.importorskip("pyarrow")
    return stream(arrow.table({"zeros": np.zeros(64 << 20, np.uint8)}), kind)


def null_columns():
    arrow = pytest.importorskip("pyarrow")
    return stream(arrow.table({f"c{n}": arrow.nulls(1 << 20) for n in range(100)}))


def lists_of_nulls():
    arrow = pytest.importorskip("pyarrow")
    rows = arrow.FixedSizeListArray.from_arrays(arrow.nulls(1 << 27), 1 << 20)
    return stream(arrow.table({"c": rows}))


def bools_with_nulls():
    arrow = pytest.importorskip("pyarrow")
    rows = 60 << 20
    bits = [arrow.py_buffer(b"\x7f" * (rows // 8)), arrow.py_buffer(bytes(rows // 8))]
    return stream(arrow.table({"c": arrow.Array.from_buffers(arrow.bool_(), rows, bits)}))


def claims():
    arrow = pytest.importorskip("pyarrow")
    data = stream(arrow.table({"c": np.arange(1000)}))
    return data.replace((1000).to_bytes(8, "little"), (1 << 40).to_bytes(8, "little"))


ARROW = {
    "compressed by zstd": lambda: compressed("zstd"),
    "compressed by lz4": lambda: compressed("lz4"),
    "rows of terabytes": claims,
    "columns of nulls": null_columns,
    "lists of nulls": lists_of_nulls,
    "bools with nulls": bools_with_nulls,
}
UNFOLDING = ("columns of nulls", "lists of nulls", "bools with nulls")


def explode_arrow(make_apart, *names_and_tags):
    bombs = {}
    for name, tag in names_and_tags:
        body = ARROW[name]()
        assert len(body) < VALUE // 2
        bombs[f"{name}, {tag}"] = (header(pack(Ext(tag, b"")), [len(body)]), body)
    scene = make_apart(receive_budget_bytes=BUDGET, max_value_bytes=VALUE)
    # pyarrow and pandas themselves take some, which are imported by the first that comes.
    libraries = 200 << 20
    explode(scene, bombs, BUDGET + VALUE + READING + libraries)


def test_arrow_bombs(make_apart):
    tables = [(name, Tag.TABLE) for name in ARROW]
    frames = [(name, Tag.FRAME) for name in ARROW if name not in UNFOLDING]
    explode_arrow(make_apart, *tables, *frames)


@pytest.mark.parametrize("name", UNFOLDING)
def test_frames_that_unfold(make_apart, name):
    explode_arrow(make_apart, (name, Tag.FRAME))


def test_zstd_where_it_is_not_offered(scene):
    # No edge has compression on: a compressed value is no value, and is not unpacked.
    arrow = pytest.importorskip("pyarrow")
    bomb = arrow.compress(bytes(64 << 20), codec="zstd", asbytes=True)
    liar = scene.liar()
    with scene.honest(TRANSFER) as transfer:
        scene.alice.expect([("CAROL", 1, 0)], number=1_000_001)
        liar.send(bomb, call=1)
        ((_, _, words),) = liar.refusals(1)
        transfer.finish()
    assert "doesn't start as a value" in words
    scene.log.says("the value of call 1 of party CAROL may not come in")
