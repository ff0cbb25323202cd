from __future__ import annotations

import contextlib
import datetime
from typing import Any

import pytest
from tests.unit.codec import values

from fed import errors
from fed.codec import frames, types, wire

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")

USER = types.UserTypes([], None)


def crossed(value: object) -> Any:
    return types.cross(value, types=USER)


def encode(value: object) -> wire.Encoded:
    return wire.encode(value, types=USER)


def sent(value: object) -> Any:
    encoded = encode(value)
    assert wire.size(value) == encoded.size_bytes
    return wire.decode(encoded.header, b"".join(encoded.body()), types=USER)


def frame() -> Any:
    made = pandas.DataFrame(
        {
            "n": [1, 2, 3],
            "x": [1.5, float("nan"), 3.0],
            "s": ["a", None, "ü"],
            "c": pandas.Categorical(["u", "v", "u"]),
            "t": pandas.date_range("2020", periods=3, tz="UTC"),
            "b": [True, False, True],
            "o": [None, None, None],
            "l": [[1], [4], [2, 3]],
            "d": [datetime.date(2020, 1, 1)] * 3,
        },
        index=pandas.Index([5, 6, 7], name="id"),
    )
    made.attrs = {"secret": 1}
    return made


FRAMES = {
    "mixed": frame,
    "empty": pandas.DataFrame,
    "no rows": lambda: pandas.DataFrame({"a": []}),
    "int columns": lambda: pandas.DataFrame([[1, 2], [3, 4]]),
    "multi index": lambda: frame().set_index(["n", "s"])[["x"]],
    "tuple columns": lambda: pandas.DataFrame(
        [[1]], columns=pandas.MultiIndex.from_tuples([("a", 1)])
    ),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_frames_arrive_as_they_cross(make: Any) -> None:
    value = make()
    for made in (crossed([value])[0], sent([value])[0]):
        assert type(made) is pandas.DataFrame
        assert made.attrs == {}
        pandas.testing.assert_frame_equal(made, value, check_column_type=False)


@pytest.mark.parametrize("name", [None, "x", 3, ("a", 1), frozenset({"p"})], ids=values.label)
def test_series_keep_their_name(name: Any) -> None:
    value = pandas.Series([1.5, None], index=["a", "b"], name=name)
    for made in (crossed(value), sent(value)):
        assert type(made) is pandas.Series
        assert made.name == name
        assert type(made.name) is type(name)
        pandas.testing.assert_series_equal(made, value)


def test_tables_keep_chunks_and_metadata() -> None:
    table = pyarrow.table({"a": [1, 2, 3]}).replace_schema_metadata({"k": "v"})
    table = pyarrow.concat_tables([table, table.slice(1)])
    for made in (crossed(table), sent(table)):
        assert made.equals(table, check_metadata=True)
        assert made.column("a").num_chunks == 2


def test_a_table_lies_in_the_received_memory() -> None:
    table = pyarrow.table({"a": list(range(10_000))})
    encoded = encode(table)
    before = pyarrow.total_allocated_bytes()
    body = b"".join(encoded.body())
    made: Any = wire.decode(encoded.header, body, types=USER)
    assert pyarrow.total_allocated_bytes() - before < 10_000
    assert made.equals(table)


def test_frames_are_the_readers_own() -> None:
    value = pandas.DataFrame({"a": [1.0, 2.0]})
    for made in (crossed(value), sent(value)):
        made.loc[0, "a"] = 9.0
        assert value.loc[0, "a"] == 1.0


def test_equal_frames_have_equal_digests() -> None:
    other = frame()
    other.attrs = {}
    assert wire.digest(frame(), types=USER) == wire.digest(other, types=USER)
    assert b'pandas_version": "2.2.0' in bytes(encode(frame()).buffers[0])


@pytest.mark.parametrize("make", [
    lambda: pandas.DataFrame({"a": [1, "x"]}),
    lambda: pandas.DataFrame({"a": [object()]}),
    lambda: pandas.DataFrame({"a": pandas.interval_range(0, 2)}),
    lambda: pandas.Series([1], name=object()),
    lambda: pyarrow.table({"a": pyarrow.array(["x"], pyarrow.string_view())}),
    lambda: pyarrow.table({"a": pyarrow.RunEndEncodedArray.from_arrays([5], [1])}),
    lambda: pyarrow.table({"a": pyarrow.array([{}], pyarrow.struct([]))}),
    lambda: pyarrow.table({"a": pyarrow.array([b""], pyarrow.binary(0))}),
    lambda: pyarrow.table({"a": pyarrow.ExtensionArray.from_storage(
        pyarrow.uuid(), pyarrow.array([b"x" * 16], pyarrow.binary(16)))}),
])  # fmt: skip
def test_what_arrow_or_the_table_has_no_type_for_is_refused(make: Any) -> None:
    for refuse in (crossed, encode):
        with pytest.raises(errors.ValueRefusedError) as caught:
            refuse({"f": [make()]})
        assert caught.value.path.startswith('result["f"][0]')


class Frame(pandas.DataFrame):  # type: ignore[misc]
    pass


def test_subclasses_are_refused() -> None:
    with pytest.raises(errors.ValueRefusedError):
        crossed(Frame({"a": [1]}))


# --- hostile streams ---------------------------------------------------------------------------


def stream(table: Any, **options: Any) -> bytes:
    sink = pyarrow.BufferOutputStream()
    writing = pyarrow.ipc.IpcWriteOptions(**options)
    with pyarrow.ipc.new_stream(sink, table.schema, options=writing) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def received(data: bytes, like: object = None) -> Any:
    """What a receiver makes of a stream that somebody sends in place of an honest one."""
    honest = encode(pyarrow.table({"a": [1]}) if like is None else like)
    size = len(honest.buffers[0]).to_bytes(8, "little")
    header = honest.header.replace(size, len(data).to_bytes(8, "little"))
    return wire.decode(header, data, types=USER)


def test_the_doctored_header_works_with_an_honest_stream() -> None:
    table = pyarrow.table({"b": ["x"] * 1000})
    assert received(stream(table)).equals(table)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_streams_are_refused_before_they_unpack(codec: str) -> None:
    bomb = pyarrow.table({"x": pyarrow.array([0.0] * 1_000_000)})
    data = stream(bomb, compression=codec)
    assert len(data) < 1_000_000
    pyarrow.default_memory_pool().release_unused()
    before = pyarrow.total_allocated_bytes()
    with pytest.raises(errors.ValueRefusedError, match="compressed"):
        received(data)
    assert pyarrow.total_allocated_bytes() - before < 1_000_000


def test_compressed_dictionaries_are_refused() -> None:
    values = pyarrow.array(["x" * 1000] * 1000)
    table = pyarrow.table({"d": pyarrow.DictionaryArray.from_arrays([0], values)})
    with pytest.raises(errors.ValueRefusedError, match="compressed"):
        received(stream(table, compression="zstd"))


def with_rows(table: Any, rows: int) -> bytes:
    """The table's stream, claiming that it has so many rows."""
    honest = table.num_rows.to_bytes(8, "little")
    data = stream(table)
    assert honest in data
    return data.replace(honest, rows.to_bytes(8, "little"))


@pytest.mark.parametrize("rows", [1 << 21, 1 << 40, 1 << 62])
def test_rows_without_bytes_are_refused(rows: int) -> None:
    table = pyarrow.table({"n": pyarrow.nulls(123_457)})
    assert received(with_rows(table, 123_457)).equals(table)
    with pytest.raises(errors.ValueRefusedError):
        received(with_rows(table, rows))
    with pytest.raises(errors.ValueRefusedError):
        received(with_rows(pyarrow.table({"b": pyarrow.repeat(True, 123_457)}), rows))


def test_extension_types_are_refused_before_their_class_runs() -> None:
    ran = []

    class Trap(pyarrow.ExtensionType):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(pyarrow.int64(), "fed.test.trap")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: object, data: bytes) -> Any:
            ran.append(data)
            return cls()

    storage = pyarrow.array([1])
    data = stream(pyarrow.table({"a": pyarrow.ExtensionArray.from_storage(Trap(), storage)}))
    pyarrow.register_extension_type(Trap())
    try:
        with pytest.raises(errors.ValueRefusedError, match="extension"):
            received(data)
    finally:
        pyarrow.unregister_extension_type("fed.test.trap")
    assert ran == []


def test_damaged_streams_are_refused() -> None:
    honest = frame()
    data = bytes(encode(honest).buffers[0])
    for cut in range(1, len(data), 37):
        with pytest.raises(errors.ValueRefusedError):
            received(data[:cut] if cut > 8 else data[:1], honest)
    for at in range(0, len(data), 11):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        with contextlib.suppress(errors.ValueRefusedError):  # some bytes are free to be anything
            received(bytes(damaged), honest)


def test_what_pandas_would_unfold_is_refused_at_both_ends_and_as_a_table_it_crosses() -> None:
    columns = {f"c{n}": pyarrow.nulls(1 << 20) for n in range(10)}
    table = pyarrow.table(columns)
    assert table.num_rows * len(columns) * 8 > frames._UNFOLDED_BYTES
    with pytest.raises(errors.ValueRefusedError, match="as an Arrow table, or in smaller parts"):
        encode(table.to_pandas())
    with pytest.raises(errors.ValueRefusedError, match="as an Arrow table, or in smaller parts"):
        crossed(table.to_pandas())
    assert sent(table).equals(table)
    few = table.slice(0, 1000).to_pandas()
    assert sent(few).equals(few)
