"""pandas frames and series, and Arrow tables, as Arrow IPC streams in one buffer each.

Imported once the program has loaded pandas or pyarrow, or when a value that holds one arrives.
The streams are never compressed: a compressed one says how far it unpacks, and is believed.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from fed.codec import types

_PANDAS = b"pandas"

#: What stands in pandas' metadata in place of the versions of the libraries, so that equal frames
#: are equal bytes everywhere.
_CREATOR = {"library": "fed", "version": "1"}
_PANDAS_VERSION = "2.2.0"

#: Rows of a table with a column of nothing but nulls, which takes no bytes per row on the wire.
_NULL_ROWS = 1 << 20

#: Bits of a row on the wire at least, where no column is without bytes: one for a bool.
_ROWS_PER_BYTE = 8

#: What pandas may make of a frame: this many bytes in any case, or this many times its own. Bits
#: become objects of 8 bytes, nulls become 8 bytes out of none, and each list an array of its own.
_UNFOLDED_BYTES = 64 << 20
_UNFOLDED_TIMES = 16

#: What one list, map or struct of a column takes in pandas, at least.
_OBJECT_BYTES = 64

#: The last bytes of a stream.
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"

#: Marks an Arrow type whose Python class would run code of its own when it is read.
_EXTENSION = b"ARROW:extension:name"


def handler(cls: type) -> types.Handler | None:
    """How instances of a class of pandas or pyarrow cross; None if they don't."""
    return cross if tag_of(cls) is not None else None


def tag_of(cls: type) -> str | None:
    """Which of `table`, `frame` and `series` a class is; None if it is something else."""
    name = f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"
    return _KINDS.get(name)


_KINDS = {"pyarrow.Table": "table", "pandas.DataFrame": "frame", "pandas.Series": "series"}


def cross(value: Any, user: types.UserTypes, depth: int) -> Any:
    """The frame, series or table as the other side gets it: through Arrow, and all its own.

    Raises:
        ValueRefusedError: if Arrow has no type for a column, or pyarrow isn't installed.
    """
    kind = tag_of(type(value))
    if kind != "series":
        return rebuilt(str(kind), memoryview(stream_of(value)))
    if depth >= types.DEPTH_LIMIT:
        raise types.too_deep(value)
    name = user.handlers[type(value.name)](value.name, user, depth + 1)
    return named(rebuilt("series", memoryview(stream_of(value))), name)


def stream_of(value: Any) -> memoryview:
    """The value as an uncompressed Arrow IPC stream; a series without its name.

    Raises:
        ValueRefusedError: if Arrow has no type for a column, or pyarrow isn't installed.
    """
    pyarrow = _pyarrow(value)
    table = value if tag_of(type(value)) == "table" else _table_of(value, pyarrow)
    for field in table.schema:
        reason = _why_refused(field.type, pyarrow)
        if reason is not None:
            raise types.refusal(value, f"column {field.name!r}: {reason}")
    schema = _with_fixed_versions(table.schema)
    if _has_extension(schema):
        raise types.refusal(value, "Arrow extension types don't cross; cast the column")
    sink = pyarrow.BufferOutputStream()
    options = pyarrow.ipc.IpcWriteOptions(compression=None)
    with pyarrow.ipc.new_stream(sink, schema, options=options) as stream:
        stream.write_table(table)
    data = memoryview(sink.getvalue()).cast("B")
    if table is not value and _unfolds(table, data.nbytes, pyarrow):
        raise types.refusal(value, _UNFOLDS)
    return data


def rebuilt(kind: str, data: memoryview) -> Any:
    """The table, frame or nameless series of a stream.

    Raises:
        ValueError: if it is malformed, compressed, or larger in memory than its bytes allow.
    """
    try:
        table = _read(data)
        if kind == "table":
            return table
        frame = _frame_of(table, data.nbytes)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"a {kind} can't be read: {type(error).__name__}") from error
    if kind == "frame":
        return frame
    if frame.shape[1] != 1:
        raise ValueError("a series has no single column")
    return named(frame.iloc[:, 0], None)


def _frame_of(table: Any, size_bytes: int) -> Any:
    import pyarrow

    if _unfolds(table, size_bytes, pyarrow):
        raise ValueError(_UNFOLDS)
    return table.to_pandas()


def _read(data: memoryview) -> Any:
    import pyarrow

    source = pyarrow.BufferReader(data)
    for message in pyarrow.ipc.MessageReader.open_stream(source):
        _check_message(message.type, bytes(message.metadata))
    if source.tell() != data.nbytes or data[-len(_END) :] != _END:
        raise ValueError("a table doesn't end where its bytes end")
    table = pyarrow.ipc.open_stream(pyarrow.py_buffer(data)).read_all()
    table.validate(full=True)
    _check_table(table, data.nbytes, pyarrow)
    return table


def named(series: Any, name: Any) -> Any:
    """The series under that name."""
    series.name = name
    return series


def _pyarrow(value: object) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise types.refusal(
            value, "frames cross as Arrow; install pyarrow at every party"
        ) from None
    return pyarrow


def _table_of(value: Any, pyarrow: Any) -> Any:
    frame = value.to_frame(name="values") if tag_of(type(value)) == "series" else value
    try:
        return pyarrow.Table.from_pandas(frame)
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        raise types.refusal(value, f"Arrow can't hold it: {str(error)[:200]}") from error


def _with_fixed_versions(schema: Any) -> Any:
    metadata = dict(schema.metadata or {})
    if _PANDAS not in metadata:
        return schema
    described = json.loads(metadata[_PANDAS])
    described.update(attributes={}, creator=_CREATOR, pandas_version=_PANDAS_VERSION)
    metadata[_PANDAS] = json.dumps(described, sort_keys=True).encode()
    return schema.with_metadata(metadata)


def _has_extension(schema: Any) -> bool:
    return _EXTENSION in bytes(schema.serialize())


def _why_refused(kind: Any, pyarrow: Any) -> str | None:
    is_a = pyarrow.types
    if isinstance(kind, pyarrow.BaseExtensionType):
        return "Arrow extension types don't cross; cast the column"
    if is_a.is_dictionary(kind):
        return _why_refused(kind.value_type, pyarrow)
    if is_a.is_fixed_size_binary(kind) and not is_a.is_decimal(kind):
        return None if kind.byte_width else "values without bytes don't cross"
    if is_a.is_nested(kind):
        lists = is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_map(kind)
        sized = is_a.is_fixed_size_list(kind) and kind.list_size > 0
        if not (lists or sized or (is_a.is_struct(kind) and kind.num_fields)):
            return f"type {kind} doesn't cross"
        inner = (kind.field(n).type for n in range(kind.num_fields))
        return next((why for part in inner if (why := _why_refused(part, pyarrow))), None)
    simple = (
        is_a.is_null(kind) or is_a.is_primitive(kind) or is_a.is_decimal(kind)
        or is_a.is_string(kind) or is_a.is_large_string(kind)
        or is_a.is_binary(kind) or is_a.is_large_binary(kind)
    )  # fmt: skip
    return None if simple else f"type {kind} doesn't cross; cast the column"


def _check_table(table: Any, size_bytes: int, pyarrow: Any) -> None:
    for field in table.schema:
        reason = _why_refused(field.type, pyarrow)
        if reason is not None:
            raise ValueError(f"a column can't be read: {reason}")
    if table.num_rows > max(_ROWS_PER_BYTE * size_bytes, _NULL_ROWS):
        raise ValueError("a table has more rows than its bytes can hold")
    nulls = any(map(_has_nulls_only, table.schema.types))
    if (nulls or not table.num_columns) and table.num_rows > _NULL_ROWS:
        raise ValueError("a table has too many rows without bytes")


_UNFOLDS = (
    "pandas would make far more of it than it has bytes: send nulls, nullable bools and lists as "
    "an Arrow table, or in smaller parts"
)


def _unfolds(table: Any, size_bytes: int, pyarrow: Any) -> bool:
    """True if a frame takes far more memory in pandas than its bytes."""
    bound = max(_UNFOLDED_BYTES, _UNFOLDED_TIMES * size_bytes)
    chunks = (chunk for column in table.columns for chunk in column.chunks)
    return sum(_unfolded_bytes(chunk, pyarrow) for chunk in chunks) > bound


def _unfolded_bytes(array: Any, pyarrow: Any) -> int:
    """About what pandas makes of a column's array; never less than an eighth of it."""
    is_a, kind, count = pyarrow.types, array.type, len(array)
    if is_a.is_null(kind):
        return 8 * count
    if is_a.is_boolean(kind):
        return 8 * count if array.null_count else count
    if is_a.is_dictionary(kind):
        return 8 * count + _unfolded_bytes(array.dictionary, pyarrow)
    if is_a.is_struct(kind):
        parts = [array.field(n) for n in range(kind.num_fields)]
    elif is_a.is_map(kind):
        parts = [array.keys, array.items]
    elif is_a.is_nested(kind):
        parts = [array.values]
    else:
        return max(int(array.nbytes), 8 * count)
    return _OBJECT_BYTES * count + sum(_unfolded_bytes(part, pyarrow) for part in parts)


def _has_nulls_only(kind: Any) -> bool:
    parts = (kind.field(n).type for n in range(kind.num_fields))
    return str(kind) == "null" or any(map(_has_nulls_only, parts))


# --- the metadata of an Arrow message is a flatbuffer; three of its tables are looked into --------

_HEADER, _RECORD_BATCH_COMPRESSION, _DICTIONARY_DATA = 2, 3, 1


def _check_message(kind: str, metadata: bytes) -> None:
    """Refuse a message that is compressed or would run code, before anything is read by it.

    pyarrow has verified the flatbuffer's offsets when it read the message.
    """
    if kind == "schema":
        if _EXTENSION in metadata:
            raise ValueError("an Arrow extension type may not cross")
        return
    if kind not in ("record batch", "dictionary"):
        raise ValueError(f"an Arrow message of type {kind!r} may not cross")
    try:
        batch = _table_field(metadata, _unsigned(metadata, 0), _HEADER)
        if kind == "dictionary" and batch is not None:
            batch = _table_field(metadata, batch, _DICTIONARY_DATA)
        if batch is None:
            raise ValueError("an Arrow message has no content")
        if _field(metadata, batch, _RECORD_BATCH_COMPRESSION) is not None:
            raise ValueError("a compressed Arrow message may not cross")
    except struct.error:
        raise ValueError("an Arrow message is malformed") from None


def _unsigned(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, index: int) -> int | None:
    """Where a flatbuffer table's field lies; None if it isn't there."""
    if table < 0:
        raise struct.error("before the start")
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    if vtable < 0:
        raise struct.error("before the start")
    length = int(struct.unpack_from("<H", data, vtable)[0])
    entry = 4 + 2 * index
    if entry + 2 > length:
        return None
    offset = int(struct.unpack_from("<H", data, vtable + entry)[0])
    return table + offset if offset else None


def _table_field(data: bytes, table: int, index: int) -> int | None:
    at = _field(data, table, index)
    return None if at is None else at + _unsigned(data, at)
