"""What two parties tell each other first, and whether they may go on.

The HELLO frame's layout is the same in every protocol version, so that parties with unlike
versions can name them. docs/frames.md has it byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fed import errors
from fed.transport import frames

MAGIC: Final = b"FEDL"
SESSION_SIZE: Final = 16
NO_SESSION: Final = bytes(SESSION_SIZE)
#: More settings than this are not looked at; the product has some ten that must agree.
SETTINGS_LIMIT: Final = 256

_FIXED: Final = struct.Struct("<4sHH16s16s32sQHH")
_LENGTH: Final = struct.Struct("<H")

#: Codes of ERROR frames. REFUSED, SUPERSEDED: this connection only. The others end the link.
REFUSED: Final = 1
SUPERSEDED: Final = 2
MISMATCH: Final = 3
PROTOCOL: Final = 4
ABORTED: Final = 5
STALLED: Final = 6
LOST: Final = 7
DIVERGED: Final = 8
CLOSED: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """What this side says of itself in every HELLO, and expects of the peer.

    Attributes:
        federation: name of the federation, equal at all parties.
        job: name of the job, equal at all parties.
        party: this party's name, as in its certificate.
        session: 16 random bytes, new in every run of the driver.
        settings: names and canonical texts of the settings that must agree.
        max_value_bytes: largest payload that this side takes.
        version: the product's version, for the other side's messages only.
        protocol_min: lowest protocol version spoken.
        protocol_max: highest protocol version spoken.
    """

    federation: str
    job: str
    party: str
    session: bytes
    settings: Mapping[str, str] = field(default_factory=dict)
    max_value_bytes: int = 16 << 30
    version: str = ""
    protocol_min: int = frames.PROTOCOL_MIN
    protocol_max: int = frames.PROTOCOL_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """One HELLO frame.

    Attributes:
        local: what the sender says of itself.
        peer: the party that it wants to speak to.
        peer_session: that party's session as far as the sender knows it, else zeros.
        flags: `HELLO_CONTROL` or `HELLO_BULK`, and `HELLO_REPLY` in an answer.
        epoch: counts the pair's common connections, from 1.
        number: the sender's latest call number.
        digest: the sender's digest at that number.
    """

    local: Local
    peer: str
    peer_session: bytes
    flags: int
    epoch: int
    number: int
    digest: bytes

    def encode(self) -> bytes:
        """The whole frame.

        Raises:
            UsageError: if the names and settings together do not fit a frame.
        """
        local = self.local
        words = [local.federation, local.job, local.party, self.peer, local.version]
        for name in sorted(local.settings):
            words += [name, local.settings[name]]
        body = [
            _FIXED.pack(
                MAGIC, local.protocol_min, local.protocol_max, local.session, self.peer_session,
                self.digest, local.max_value_bytes, len(local.settings), 0,
            )
        ]  # fmt: skip
        raws = [word.encode() for word in words]
        size = _FIXED.size + sum(_LENGTH.size + len(raw) for raw in raws)
        if size > frames.BODY_LIMIT or len(local.settings) > SETTINGS_LIMIT:
            raise errors.UsageError(
                problem=f"names and settings that must agree pass {frames.BODY_LIMIT} bytes",
                fix=f"Use at most {SETTINGS_LIMIT} settings with shorter values",
            )
        for raw in raws:
            body += [_LENGTH.pack(len(raw)), raw]
        return frames.small(
            frames.HELLO, self.epoch, self.number, flags=self.flags, body=b"".join(body)
        )

    @classmethod
    def decode(cls, flags: int, epoch: int, number: int, body: memoryview, *, party: str) -> Hello:
        """Read the frame.

        Raises:
            TransportError: if it is cut short, too long, not text where it must be, or flagged for
                neither or both connections.
        """
        if flags & ~frames.HELLO_REPLY not in (frames.HELLO_CONTROL, frames.HELLO_BULK):
            raise _broken(party, f"flags {flags:#x}")
        if len(body) < _FIXED.size:
            raise _broken(party, f"{len(body)} bytes")
        magic, least, most, session, peer_session, digest, max_value, count, _ = _FIXED.unpack_from(
            body
        )
        if magic != MAGIC:
            raise _broken(party, "it is not of this protocol")
        if count > SETTINGS_LIMIT or max_value >= frames.NUMBER_LIMIT or not epoch:
            raise _broken(party, "a number is out of its limits")
        words = _words(body[_FIXED.size :], 5 + 2 * count, party)
        pairs = zip(words[5::2], words[6::2], strict=True)
        local = Local(
            federation=words[0],
            job=words[1],
            party=words[2],
            session=session,
            settings=dict(pairs),
            max_value_bytes=max_value,
            version=words[4],
            protocol_min=least,
            protocol_max=most,
        )
        return cls(
            local=local, peer=words[3], peer_session=peer_session, flags=flags, epoch=epoch,
            number=number, digest=digest,
        )  # fmt: skip


def _words(body: memoryview, count: int, party: str) -> list[str]:
    words: list[str] = []
    at = 0
    while len(words) < count:
        if len(body) - at < _LENGTH.size:
            raise _broken(party, "it is cut short")
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if len(body) - at < length:
            raise _broken(party, "it is cut short")
        try:
            words.append(bytes(body[at : at + length]).decode())
        except UnicodeDecodeError as error:
            raise _broken(party, "a word is not UTF-8") from error
        at += length
    if at != len(body):
        raise _broken(party, f"{len(body) - at} bytes too many")
    return words


def _broken(party: str, what: str) -> errors.TransportError:
    return errors.TransportError(party=party, reason=f"HELLO frame refused: {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a HELLO is not accepted.

    Attributes:
        code: `REFUSED` where another process of that party may yet be the right one (a driver of
            an earlier job that still dials); `MISMATCH` where waiting can't help.
        reason: what differs, both sides' values included.
        fix: what to do.
    """

    code: int
    reason: str
    fix: str


def check(mine: Local, theirs: Hello, *, peer: str) -> Refusal | None:
    """Why `theirs`, come from the party `peer` by its certificate, is refused; None if it is not.

    Everything that differs is named, in one reason. Values are shown as the peer sent them,
    made harmless.
    """
    said = theirs.local
    if said.party != peer:
        return Refusal(
            code=MISMATCH,
            reason=f"the certificate says {peer!r}, the HELLO {_shown(said.party)}",
            fix="Give each party a certificate with its own name",
        )
    if theirs.peer != mine.party:
        return Refusal(
            code=MISMATCH,
            reason=f"{peer!r} called {_shown(theirs.peer)} and reached {mine.party!r}",
            fix="Look at the addresses of the parties",
        )
    if said.protocol_min > mine.protocol_max or said.protocol_max < mine.protocol_min:
        return Refusal(
            code=MISMATCH,
            reason=(
                f"{peer!r} speaks protocol {said.protocol_min} to {said.protocol_max} (version "
                f"{_shown(said.version)}), {mine.party!r} {mine.protocol_min} to "
                f"{mine.protocol_max} (version {mine.version!r})"
            ),
            fix="Install one version at all parties",
        )
    for what, ours, other in (
        ("federation", mine.federation, said.federation),
        ("job", mine.job, said.job),
    ):
        if ours != other:
            return Refusal(
                code=REFUSED,
                reason=f"{peer!r} is in {what} {_shown(other)}, {mine.party!r} in {ours!r}",
                fix=f"Start all parties with the same {what}",
            )
    differing = [
        f"{_shown(name)} is {_shown(said.settings.get(name))} at {peer!r} and "
        f"{_shown(mine.settings.get(name))} at {mine.party!r}"
        for name in sorted({*mine.settings, *said.settings})
        if mine.settings.get(name) != said.settings.get(name)
    ]
    if differing:
        return Refusal(
            code=MISMATCH,
            reason="settings differ: " + "; ".join(differing[:10]),
            fix="Give them the same value at all parties",
        )
    return None


def _shown(word: str | None) -> str:
    return "not set" if word is None else repr(frames.read_text(word.encode()[:200]))
