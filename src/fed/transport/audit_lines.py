"""The lines of an audit file: what each kind says, and the chain that they form.

A line is a JSON object that ends in `"prev"`, the hash of the line before, and `"hash"`, the
SHA-256 of all bytes of the line before `,"hash"`. docs/security/audit.md has every field.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from fed.transport import contents, frames

VERSION: Final = 1

#: What the first line of a file follows.
GENESIS: Final = "0" * 64
#: No line is longer: 32 names of at most 200 characters and some fixed fields.
MAX_LINE_BYTES: Final = 64 << 10
#: Longest text that came from a peer, such as the reason of a refusal.
MAX_TEXT: Final = 500

#: What every line begins with.
START: Final = b'{"kind":"'
#: What the first line of a file begins with.
HEADER_START: Final = b'{"kind":"session",'

_TAIL: Final = re.compile(rb',"prev":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\}')
_TAIL_BYTES: Final = len(b',"prev":"","hash":""}') + 128
_HASH_BYTES: Final = len(b',"hash":""}') + 64

OUT: Final = "out"
IN: Final = "in"

LEAVING: Final = "leaving"
DELIVERED: Final = "delivered"
REFUSED: Final = "refused"
LOST: Final = "lost"
#: Not written: what is known of a value whose `leaving` line has no other line after it.
UNCONFIRMED: Final = "unconfirmed"


class Session(
    msgspec.Struct,
    frozen=True, kw_only=True, tag_field="kind", tag="session", forbid_unknown_fields=True,
):  # fmt: skip
    """A process began to write.

    Attributes:
        version: of the lines that follow.
        time: as in every line, UTC, ISO 8601 with microseconds.
        federation: as in the party's certificate.
        party: whose file it is.
        job: name of the job.
        session: id of the party's session, as in the handshake.
    """

    version: int
    time: str
    federation: str
    party: str
    job: str
    session: str


class Value(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="value", omit_defaults=True,
    forbid_unknown_fields=True,
):  # fmt: skip
    """A value leaves, entered or was refused.

    Attributes:
        way: `out` or `in`.
        outcome: `leaving` (written before its first byte is sent; another line with the same id
            follows), `delivered`, `refused` or `lost`.
        id: counts the values of this session, in both directions.
        peer: the other party, by its certificate.
        job: name of the job.
        call: number of the call that consumes it.
        name: what is called: `mean`, `get`.
        object: number of the call that made it, and which of its results: `12.0`.
        type: its type; empty if it was refused before it was read.
        inside: the other types in it.
        arrays: `float32[1000,784]` for each array, at most 16.
        arrays_left_out: how many more there are.
        bytes: of the encoded value.
        digest: SHA-256 of the encoded value; empty if not all of it passed.
        rule: what refused it, or what is known of its loss.
    """

    time: str
    way: str
    outcome: str
    id: int
    peer: str
    job: str
    call: int
    name: str
    object: str
    type: str = ""
    inside: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    arrays_left_out: int = 0
    bytes: int
    digest: str = ""
    rule: str = ""


class Totals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one session has recorded so far.

    Attributes:
        lines: lines of the session before this one.
        out_values: values that left, delivered or not.
        out_bytes: their bytes.
        in_values: values that were delivered here.
        in_bytes: their bytes.
    """

    lines: int = 0
    out_values: int = 0
    out_bytes: int = 0
    in_values: int = 0
    in_bytes: int = 0


class Checkpoint(
    msgspec.Struct,
    frozen=True, kw_only=True, tag_field="kind", tag="checkpoint", forbid_unknown_fields=True,
):  # fmt: skip
    """The session goes on; the hash of this line is logged, to be known elsewhere too."""

    time: str
    totals: Totals


class End(
    msgspec.Struct,
    frozen=True, kw_only=True, tag_field="kind", tag="end", forbid_unknown_fields=True,
):  # fmt: skip
    """The session ended in order; no line of it follows."""

    time: str
    totals: Totals


class Torn(
    msgspec.Struct,
    frozen=True, kw_only=True, tag_field="kind", tag="torn", forbid_unknown_fields=True,
):  # fmt: skip
    """What stands between the line `prev` and this one was not written to its end.

    Attributes:
        bytes: its length, the last line feed not counted.
        digest: its SHA-256.
    """

    time: str
    bytes: int
    digest: str


Record: TypeAlias = Session | Value | Checkpoint | End | Torn

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line as it was found.

    Attributes:
        record: what it says; None if that can't be read.
        prev: the hash that it follows.
        hash: its own, as it claims.
        is_intact: its hash is that of its bytes.
    """

    record: Record | None
    prev: str
    hash: str
    is_intact: bool


def seal(record: Record, *, prev: str) -> tuple[bytes, str]:
    """The record as a line that follows the line with hash `prev`, and the line's own hash."""
    head = _encode(record)[:-1] + b',"prev":"' + prev.encode() + b'"'
    own = hashlib.sha256(head).hexdigest()
    return head + b',"hash":"' + own.encode() + b'"}\n', own


def read(line: bytes | memoryview) -> Line | None:
    """What a line without its line feed says; None if it hasn't a line's form at all."""
    raw = bytes(line)
    found = _TAIL.fullmatch(raw, max(0, len(raw) - _TAIL_BYTES))
    if found is None or not raw.startswith(START) or len(raw) >= MAX_LINE_BYTES:
        return None
    prev, own = found[1].decode(), found[2].decode()
    is_intact = hashlib.sha256(raw[:-_HASH_BYTES]).hexdigest() == own
    record: Record | None = None
    with contextlib.suppress(msgspec.MsgspecError):  # None says it
        record = _decoder.decode(raw[:-_TAIL_BYTES] + b"}")
    return Line(record=record, prev=prev, hash=own, is_intact=is_intact)


def moment(time_ns: int) -> str:
    """A time since 1970 as it stands in a line: `2026-03-01T12:00:00.250000Z`."""
    second, rest_ns = divmod(time_ns, 1_000_000_000)
    at = datetime.datetime.fromtimestamp(second, datetime.UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{rest_ns // 1000:06}Z"


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Text that may come from a peer: clipped, control characters as `?`."""
    clipped = text[:limit]
    if clipped.isascii() and clipped.isprintable():
        return clipped
    return frames.read_text(frames.text(clipped))


def cleaned(texts: Sequence[str]) -> tuple[str, ...]:
    """Names of types, each as `clean` makes it."""
    return tuple(clean(text, contents.SHOWN_NAME) for text in texts)
