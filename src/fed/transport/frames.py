"""The frames of the link: their bytes, their limits, and a decoder that checks before it asks.

docs/frames.md describes them byte for byte. Every frame is a header of 32 bytes, all numbers
little-endian, and a body:

    type u8 | flags u8 | version u8 | 0 u8 | length of body u32 | a u64 | b u64 | c u64

What `a`, `b` and `c` mean depends on the type; what a type does not use is 0. Bodies of values
are never copied by this module: encoders give headers to be sent before views of the value, and
the decoder has the carrier write a chunk's body where the sink says.
"""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from fed import errors

#: What a carrier is given to send: bytes, or a flat view of bytes.
Piece: TypeAlias = bytes | bytearray | memoryview

#: Protocol versions that this code speaks.
PROTOCOL_MIN: Final = 1
PROTOCOL_MAX: Final = 1

HELLO: Final = 1
ERROR: Final = 2
GOAWAY: Final = 3
PING: Final = 4
PONG: Final = 5
RESUME: Final = 6
META: Final = 7
CHUNK: Final = 8
CANCEL: Final = 9
GRANT: Final = 10
CREDIT: Final = 11
ACK: Final = 12
REFUSE: Final = 13
NOTE: Final = 14

NAMES: Final = (
    "", "HELLO", "ERROR", "GOAWAY", "PING", "PONG", "RESUME", "META", "CHUNK", "CANCEL", "GRANT",
    "CREDIT", "ACK", "REFUSE", "NOTE",
)  # fmt: skip

#: Flags of HELLO: which of the two connections of a pair this is, and whether it answers a HELLO.
HELLO_CONTROL: Final = 1
HELLO_BULK: Final = 2
HELLO_REPLY: Final = 4
#: Flag of GOAWAY: it confirms that the peer's GOAWAY arrived.
GOAWAY_CONFIRM: Final = 1
#: Flags of RESUME: no more follow; the body holds ranges of delivered ids, not (id, offset) pairs.
RESUME_LAST: Final = 1
RESUME_RANGES: Final = 2
#: Flags of META: the value uses up the receiver's standing window; it follows in the frame itself.
META_EAGER: Final = 1
META_INLINE: Final = 2

HEADER: Final = struct.Struct("<BBBBIQQQ")
HEADER_SIZE: Final = HEADER.size
_META_BODY: Final = struct.Struct("<QIIHHI32s")
_META_FRAME: Final = struct.Struct("<BBBBIQQQQIIHHI32s")
META_SIZE: Final = _META_BODY.size

DIGEST_SIZE: Final = 32
NO_DIGEST: Final = bytes(DIGEST_SIZE)

#: The largest chunk: small enough that a waiting scalar is not held up (1 ms at 1 GB/s), large
#: enough that a frame's cost vanishes (below 256 KiB costs double, reference measurements).
CHUNK_LIMIT: Final = 1 << 20
#: A value up to this size travels inside its META frame: one record of TLS, one frame to parse.
INLINE_LIMIT: Final = 16 << 10
#: No other frame than CHUNK is longer than this, header included: it fits the decoder's buffer.
FRAME_LIMIT: Final = 64 << 10
BODY_LIMIT: Final = FRAME_LIMIT - HEADER_SIZE
TEXT_LIMIT: Final = 4096
#: Text of a peer is shown up to this many characters.
SHOWN_TEXT_LIMIT: Final = 2000
#: Bytes that a decoder keeps for headers, small frames and the start of a chunk.
STAGING_SIZE: Final = 128 << 10
#: Sizes, offsets, ids and numbers stay below this, so that none is negative for anybody.
NUMBER_LIMIT: Final = 1 << 63

#: (least, most, step) of the body's length, by type.
_LENGTHS: Final = (
    (1, 0, 1),  # there is no type 0
    (1, BODY_LIMIT, 1),  # HELLO
    (0, TEXT_LIMIT, 1),  # ERROR
    (DIGEST_SIZE, DIGEST_SIZE, 1),  # GOAWAY
    (DIGEST_SIZE, DIGEST_SIZE, 1),  # PING
    (DIGEST_SIZE, DIGEST_SIZE, 1),  # PONG
    (0, BODY_LIMIT // 16 * 16, 16),  # RESUME
    (META_SIZE, META_SIZE + INLINE_LIMIT, 1),  # META
    (1, CHUNK_LIMIT, 1),  # CHUNK
    (0, 0, 1),  # CANCEL
    (8, BODY_LIMIT // 8 * 8, 8),  # GRANT
    (0, 0, 1),  # CREDIT
    (0, BODY_LIMIT // 16 * 16, 16),  # ACK
    (0, TEXT_LIMIT, 1),  # REFUSE
    (0, BODY_LIMIT, 1),  # NOTE
)
#: Flags that a type may carry.
_FLAGS: Final = (0, 7, 0, 1, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0)
#: How many of a, b, c a type uses, from the left; the others are 0.
_FIELDS: Final = (0, 2, 2, 2, 2, 2, 1, 3, 2, 1, 0, 1, 1, 2, 2)
#: HELLO and ERROR keep their layout in every version, so that unlike versions can say so.
_TIMELESS: Final = (HELLO, ERROR)

_PAIR: Final = struct.Struct("<QQ")
#: Pairs that fit a RESUME or ACK frame, and ids that fit a GRANT frame.
PAIRS_PER_FRAME: Final = BODY_LIMIT // 16
IDS_PER_FRAME: Final = BODY_LIMIT // 8


class Meta:
    """What is known of a value before its bytes come; the fixed part of a META frame.

    Attributes:
        id: number of the message in its direction of the link, from 1.
        number: number of the call that consumes the value (of its first consumer at the peer).
        size: bytes of the payload: head, padding to 64, body. At least 1.
        call: number of the call that made the object.
        index: which of that call's results.
        head_size: bytes of the payload's head (the codec's tree), without its padding.
        kind: what the payload is, as the two engines agree; the link does not look.
        digest: the sender's digest up to `number`.
    """

    __slots__ = ("call", "digest", "head_size", "id", "index", "kind", "number", "size")

    id: int
    number: int
    size: int
    call: int
    index: int
    head_size: int
    kind: int
    digest: bytes

    def same_as(self, other: Meta) -> bool:
        """True if both describe one value in all fields."""
        return all(getattr(self, name) == getattr(other, name) for name in Meta.__slots__)


def header(kind: int, length: int, a: int = 0, b: int = 0, c: int = 0, *, flags: int = 0) -> bytes:
    """The header of one frame, 32 bytes."""
    version = 0 if kind in _TIMELESS else PROTOCOL_MAX
    return HEADER.pack(kind, flags, version, 0, length, a, b, c)


def small(
    kind: int, a: int = 0, b: int = 0, c: int = 0, *, flags: int = 0, body: bytes = b""
) -> bytes:
    """One whole frame with a small body, as one piece of bytes."""
    return header(kind, len(body), a, b, c, flags=flags) + body


def meta(value: Meta, *, flags: int) -> bytes:
    """Header and fixed part of a META frame; with `META_INLINE` the payload has to follow."""
    length = META_SIZE + (value.size if flags & META_INLINE else 0)
    return _META_FRAME.pack(
        META, flags, PROTOCOL_MAX, 0, length, value.id, value.number, value.size,
        value.call, value.index, value.head_size, value.kind, 0, 0, value.digest,
    )  # fmt: skip


def chunk(message: int, offset: int, length: int) -> bytes:
    """The header of a CHUNK frame; `length` bytes of the payload from `offset` have to follow."""
    return HEADER.pack(CHUNK, 0, PROTOCOL_MAX, 0, length, message, offset, 0)


def pairs(items: Iterable[tuple[int, int]]) -> bytes:
    """The body of a RESUME or ACK frame."""
    return b"".join(_PAIR.pack(first, second) for first, second in items)


def ids(items: Sequence[int]) -> bytes:
    """The body of a GRANT frame."""
    return struct.pack(f"<{len(items)}Q", *items)


def text(words: str) -> bytes:
    """The body of an ERROR or REFUSE frame: UTF-8, clipped to the frame's limit."""
    return words.encode("utf-8", "replace")[:TEXT_LIMIT]


def read_pairs(body: memoryview) -> list[tuple[int, int]]:
    """The pairs in the body of a RESUME or ACK frame."""
    return list(_PAIR.iter_unpack(body))


def read_ids(body: memoryview) -> tuple[int, ...]:
    """The ids in the body of a GRANT frame."""
    return struct.unpack(f"<{len(body) // 8}Q", body)


def read_text(body: memoryview | bytes) -> str:
    """Text of a peer, fit to be shown: clipped, control characters as `?`, never an error."""
    words = bytes(body[:TEXT_LIMIT]).decode("utf-8", "replace")[:SHOWN_TEXT_LIMIT]
    return "".join("?" if unicodedata.category(char)[0] == "C" else char for char in words)


def read_meta(
    into: Meta, flags: int, a: int, b: int, c: int, body: memoryview, *, party: str
) -> None:
    """Fill `into` from a META frame, checked as far as the frame can be by itself.

    Raises:
        TransportError: if a field is out of its limits, or the inline payload's length is not the
            announced size.
    """
    into.call, into.index, head_size, into.kind, zero, zeros, into.digest = _META_BODY.unpack_from(
        body
    )
    into.id = a
    into.number = b
    into.size = c
    into.head_size = head_size
    inline = len(body) - META_SIZE
    if a == 0 or c == 0:
        raise _broken(party, META, f"message {a} of {c} bytes")
    if head_size > c:
        raise _broken(party, META, f"head of {head_size} bytes in a payload of {c}")
    if zero or zeros or into.call >= NUMBER_LIMIT:
        raise _broken(party, META, "a field that must be 0 is not")
    if inline != (c if flags & META_INLINE else 0):
        raise _broken(party, META, f"{inline} bytes inline of a payload of {c}")
    if flags == META_INLINE:
        raise _broken(party, META, "inline without the window's flag")


def coalesce(views: Sequence[Piece], *, limit: int = 16 << 10) -> list[Piece]:
    """The same bytes in fewer pieces: neighbours below `limit` bytes are joined by copying.

    For carriers whose cost is per piece, such as TLS records. Larger pieces are passed through.
    """
    joined: list[Piece] = []
    run: list[Piece] = []
    for view in views:
        if len(view) < limit:
            run.append(view)
            continue
        if run:
            joined.append(run[0] if len(run) == 1 else b"".join(run))
            run = []
        joined.append(view)
    if run:
        joined.append(run[0] if len(run) == 1 else b"".join(run))
    return joined


def _broken(party: str, kind: int, what: str) -> errors.TransportError:
    return errors.TransportError(party=party, reason=f"{NAMES[kind]} frame refused: {what}")


class Sink(Protocol):
    """What a decoder hands its frames to. Whatever it raises ends the decoding."""

    def frame(self, kind: int, flags: int, a: int, b: int, c: int, body: memoryview) -> None:
        """Take one whole frame. `body` is valid during the call only."""

    def chunk(self, message: int, offset: int, length: int) -> memoryview | None:
        """Say where `length` bytes of a payload go; None to have them thrown away."""

    def chunk_end(self) -> None:
        """Take note that the chunk last asked for is complete."""


class Decoder:
    """Turns the bytes of one connection into frames; the carrier fills the buffers it names.

    Loop: `view = buffer()`, write up to `len(view)` bytes into it, `received(count)`. In the
    middle of a chunk the view is the rest of the chunk's place in its final buffer, so that the
    carrier decrypts straight into it. A view may be filled in several steps before one
    `received`.

    Args:
        sink: takes the frames.
        party: the peer's name, for errors.
    """

    __slots__ = (
        "_body", "_body_size", "_end", "_only_hello", "_party", "_sink", "_skip", "_staging",
        "_start", "_stopped",
    )  # fmt: skip

    def __init__(self, sink: Sink, *, party: str) -> None:
        self._sink = sink
        self._party = party
        self._staging = memoryview(bytearray(STAGING_SIZE))
        self._start = 0
        self._end = 0
        self._body: memoryview | None = None
        self._body_size = 0
        self._skip = 0
        self._stopped = False
        self._only_hello = True

    def greeted(self) -> None:
        """Accept other frames than HELLO and ERROR from now on."""
        self._only_hello = False

    def stop(self) -> None:
        """Ignore everything from now on."""
        self._stopped = True

    @property
    def partial(self) -> int:
        """Bytes that have arrived of a chunk that is not complete; 0 between chunks."""
        return 0 if self._body is None else self._body_size - len(self._body)

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._body is not None and not self._stopped:
            return self._body
        if self._skip or self._stopped:
            return self._staging
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start and STAGING_SIZE - self._start < FRAME_LIMIT:
            rest = self._end - self._start
            self._staging[:rest] = self._staging[self._start : self._end]
            self._start, self._end = 0, rest
        return self._staging[self._end :]

    def received(self, count: int) -> None:
        """Take `count` bytes that were written into `buffer()`, and hand on what is complete.

        Raises:
            TransportError: naming the frame and the field that breaks a rule. Nothing after it is
                looked at.
        """
        if self._stopped:
            return
        try:
            self._take(count)
        except errors.TransportError:
            self._stopped = True
            raise

    def feed(self, data: Piece) -> None:
        """Take `data` as if a carrier had written it into the buffers, for tests and tools."""
        rest = memoryview(data)
        while len(rest) and not self._stopped:
            view = self.buffer()
            count = min(len(view), len(rest))
            view[:count] = rest[:count]
            self.received(count)
            rest = rest[count:]

    def _take(self, count: int) -> None:
        if self._body is not None:
            if count < len(self._body):
                self._body = self._body[count:]
            else:
                self._body = None
                self._sink.chunk_end()
            return
        if self._skip > count:
            self._skip -= count
            return
        if self._skip:
            # The staging buffer, from its start, served as the bin.
            self._start, self._end, self._skip = self._skip, count, 0
        else:
            self._end += count
        self._parse()

    def _parse(self) -> None:
        staging, sink, unpack = self._staging, self._sink, HEADER.unpack_from
        while self._end - self._start >= HEADER_SIZE:
            start = self._start
            kind, flags, version, zero, length, a, b, c = unpack(staging, start)
            self._check(kind, flags, version, zero, length, a, b, c)
            start += HEADER_SIZE
            there = self._end - start
            if kind == CHUNK:
                self._start = start
                if self._begin_chunk(sink.chunk(a, b, length), length, there):
                    return
            elif there < length:
                return
            else:
                self._start = start + length
                sink.frame(kind, flags, a, b, c, staging[start : self._start])
            if self._stopped:
                return

    def _begin_chunk(self, place: memoryview | None, length: int, there: int) -> bool:
        """Put what is there of a chunk into its place; True if more of it has to come."""
        count = min(length, there)
        if place is not None and count:
            place[:count] = self._staging[self._start : self._start + count]
        self._start += count
        if count < length:
            self._start = self._end = 0
            if place is None:
                self._skip = length - count
            else:
                self._body_size = length
                self._body = place[count:]
            return True
        if place is not None:
            self._sink.chunk_end()
        return False

    def _check(
        self, kind: int, flags: int, version: int, zero: int, length: int, a: int, b: int, c: int
    ) -> None:
        if not 0 < kind < len(NAMES):
            raise errors.TransportError(party=self._party, reason=f"no frame has the type {kind}")
        if self._only_hello and kind not in _TIMELESS:
            raise _broken(self._party, kind, "it came before the HELLO")
        if version != (0 if kind in _TIMELESS else PROTOCOL_MAX) or zero:
            raise _broken(self._party, kind, f"protocol version {version}")
        if flags & ~_FLAGS[kind]:
            raise _broken(self._party, kind, f"flags {flags:#x}")
        least, most, step = _LENGTHS[kind]
        if not least <= length <= most or length % step:
            raise _broken(self._party, kind, f"body of {length} bytes")
        if (a | b | c) >= NUMBER_LIMIT:
            raise _broken(self._party, kind, "a number of 2**63 or more")
        fields = _FIELDS[kind]
        if fields < 3 and (c or (fields < 2 and (b or (fields < 1 and a)))):
            raise _broken(self._party, kind, "a field that must be 0 is not")
