"""The vocabulary of the wire format: tags, limits, the header's fixed part.

`docs/wire-format.md` has every field byte for byte. Numbers here are part of the format: a change
of one of them is a new `VERSION`.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from typing import Final

#: First four bytes of a header: the format's name and its version.
MAGIC = b"FED\x01"

#: Buffers start at multiples of this many bytes, so that arrays of any type are aligned and every
#: vector instruction may be used on them.
ALIGNMENT = 64

#: Bytes and array data up to this size stand in the tree; longer ones are buffers. A buffer costs
#: up to 63 bytes of padding and its own slice at both ends.
INLINE_BYTES = 1024

#: A tree that would be longer moves its long texts out into buffers.
LARGE_TREE_BYTES = 8 << 20

#: Longest field list, dtype or class description: these describe, they don't carry data.
DESCRIPTION_BYTES = 64 << 10

#: Most keys or elements of one dict or set that may share a hash: with more of them, building it
#: takes time in the square of its length.
SAME_HASH = 64

_COUNT = struct.Struct("<I")


class Tag:
    """Types of msgpack extensions, for what msgpack itself hasn't.

    Its nil, bool, int, float, str, array and map are None, bool, int, float, str, list and dict.
    """

    TUPLE: Final = 1
    SET: Final = 2
    FROZENSET: Final = 3
    DICT: Final = 4
    ORDERED_DICT: Final = 5
    BIG_INT: Final = 6
    COMPLEX: Final = 7
    SURROGATE_TEXT: Final = 8
    LONG_TEXT: Final = 9
    BYTES: Final = 10
    LONG_BYTES: Final = 11
    DATETIME: Final = 12
    DATE: Final = 13
    TIME: Final = 14
    TIMEDELTA: Final = 15
    TIMEZONE: Final = 16
    DECIMAL: Final = 17
    UUID: Final = 18
    ARRAY: Final = 19
    LONG_ARRAY: Final = 20
    NUMPY_SCALAR: Final = 21
    INSTANCE: Final = 22
    TABLE: Final = 23
    FRAME: Final = 24
    SERIES: Final = 25
    TENSOR: Final = 26
    LONG_TENSOR: Final = 27
    TUPLE_LIST: Final = 28
    PICKLED: Final = 29


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one value may take at most; both ends check, the receiver before it allocates.

    Attributes:
        total_bytes: header and body together.
        header_bytes: the header, which is held in memory as Python objects when read.
        depth: containers inside containers.
        items: values, keys and elements in the tree; elements of arrays don't count. Each takes
            up to 72 bytes of memory for a byte of header.
        buffers: out-of-band buffers.
    """

    total_bytes: int = 16 << 30
    header_bytes: int = 8 << 20
    depth: int = 64
    items: int = 1 << 20
    buffers: int = 1 << 16


def prefix(lengths: Sequence[int]) -> bytes:
    """The fixed part of a header: magic, number of buffers, their lengths."""
    return MAGIC + _COUNT.pack(len(lengths)) + struct.pack(f"<{len(lengths)}Q", *lengths)


def split(
    header: bytes | bytearray | memoryview, limits: Limits
) -> tuple[tuple[int, ...], memoryview]:
    """The lengths of the buffers, and the tree.

    Raises:
        ValueError: if the header is malformed; the text says how.
    """
    view = memoryview(header).cast("B")
    if view.nbytes < _START or view[: len(MAGIC)] != MAGIC:
        raise ValueError("it doesn't start as a value of this format version does")
    (count,) = _COUNT.unpack_from(view, len(MAGIC))
    if count > limits.buffers:
        raise ValueError(f"it names {count} buffers, over the limit of {limits.buffers}")
    end = _START + 8 * count
    if view.nbytes <= end:
        raise ValueError("it is truncated")
    lengths: tuple[int, ...] = struct.unpack_from(f"<{count}Q", view, _START)
    if 0 in lengths:
        raise ValueError("it names an empty buffer")
    return lengths, view[end:]


_START = len(MAGIC) + _COUNT.size


def body_bytes(lengths: Sequence[int]) -> int:
    """The length of the body in which buffers of these lengths lie, each aligned, in order."""
    if not lengths:
        return 0
    return sum(map(padded, lengths[:-1])) + lengths[-1]


def padded(length: int) -> int:
    """The length with the padding that brings the next buffer to its place."""
    return -(-length // ALIGNMENT) * ALIGNMENT
