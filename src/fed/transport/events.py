"""What the link and the mailbox tell their owner, in the order in which it happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fed import errors

if TYPE_CHECKING:
    from fed.transport import inbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """Both connections stand and both sides know where to go on; `epoch` counts from 1."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """The connections are gone for now; a redial within `peer_timeout_s` mends it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The link ended with an error that names the peer. Nothing follows but closing."""

    error: errors.FedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The peer's program is at call `number`, with this digest."""

    number: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A note of the peer's engine; confirmed to it once this event was polled."""

    kind: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The peer's consumer store has the messages `first` to `last`, those still open before."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The peer will never take this message; `code` is one of `inbox.TOO_LARGE` and the like."""

    message: int
    code: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneAway:
    """The peer has nothing more to send; its program ended at call `number` with this digest."""

    number: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Both sides ended in order. A closed connection is no loss any more."""


LinkEvent: TypeAlias = (
    Up | Down | Failed | Progress | Noted | Delivered | Refused | GoneAway | Finished
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A value that a waiting call needs is there in full: `Mailbox.take` may have it."""

    parcel: inbox.Parcel


@dataclass(frozen=True, slots=True, kw_only=True)
class Spill:
    """Write this value to disk, then say `Mailbox.spilled` or `Mailbox.not_spilled`."""

    parcel: inbox.Parcel


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """The next waiting call can't have its values: budget and spill quota are full.

    The values of call `number` do not fit even alone. Nothing was dropped; the owner refuses the
    parcel, and gives the call the error.
    """

    number: int
    parcel: inbox.Parcel
    error: errors.TransportError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A value was refused at its announcement, and the peer told; it will not come."""

    parcel: inbox.Parcel
    reason: str


MailboxEvent: TypeAlias = Ready | Spill | Overflow | Rejected
