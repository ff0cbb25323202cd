"""Who is asked before a value leaves or enters: the place of policy and of the audit file.

An endpoint asks its border, if it has one, and sends or hands over nothing that it refuses. The
methods are called by several threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from fed import errors
from fed.codec import wire
from fed.transport import frames, inbox, mailbox, outbox

#: Told once what became of a value that left: None if the peer's store has it, else why not
#: (`ValueRefusedError` if the peer refused it).
Outcome: TypeAlias = Callable[[errors.FedError | None], None]


class Border(Protocol):
    """Decides on each value, and keeps record of it."""

    def leaves(
        self,
        value: object,
        encoded: wire.Encoded,
        *,
        to: str,
        number: int,
        call: int,
        index: int,
    ) -> Outcome:
        """Let a value leave; nothing of it has been sent yet.

        Args:
            value: the value; None if the caller had it encoded before.
            encoded: what is sent; `payload` gives its bytes.
            to: the peer.
            number: the call there that consumes it.
            call: the call that made it.
            index: which of that call's results.

        Raises:
            FedError: it must not leave; raised by `Endpoint.send`.
        """

    def announced(self, parcel: inbox.Parcel) -> str:
        """Why a value may not come, in words for the peer; empty if it may, as far as is known.

        Called under the endpoint's lock, before memory for it exists, once per value; except where
        a connection breaks while it is on offer.
        """

    def enters(self, value: object, parcel: inbox.Parcel, payload: memoryview, /) -> None:
        """Let a value enter; it is decoded and not handed over yet.

        Raises:
            FedError: it must not enter. The call that waits for it gets the error, the peer its
                text.
        """


def payload(encoded: wire.Encoded) -> list[frames.Piece]:
    """The bytes that are sent, in pieces: head, zeros up to a multiple of 64, body."""
    pieces: list[frames.Piece] = [encoded.header]
    if encoded.buffers:
        missing = -len(encoded.header) % outbox.ALIGNMENT
        pieces += [bytes(missing)] if missing else []
        pieces += encoded.body()
    return pieces


class GuardedMailbox(mailbox.Mailbox):
    """A mailbox that asks a border at each announcement, before it promises any room.

    Args:
        border: who is asked.
        budget_bytes: see `mailbox.Mailbox`.
        spill_bytes: see there.
        peers: see there.
    """

    __slots__ = ("_border",)

    def __init__(self, border: Border, *, budget_bytes: int, spill_bytes: int, peers: int) -> None:
        super().__init__(budget_bytes=budget_bytes, spill_bytes=spill_bytes, peers=peers)
        self._border = border

    def offered(self, parcel: inbox.Parcel) -> None:
        """See `inbox.Keeper`."""
        if self._may_come(parcel):
            super().offered(parcel)

    def arriving(self, parcel: inbox.Parcel) -> None:
        """See `inbox.Keeper`."""
        if self._may_come(parcel):
            super().arriving(parcel)

    def arrived(self, parcel: inbox.Parcel) -> None:
        """See `inbox.Keeper`."""
        # An inline value's bytes are in its announcement, so they come although it was refused.
        if parcel.account != inbox.GONE:
            super().arrived(parcel)

    def _may_come(self, parcel: inbox.Parcel) -> bool:
        reason = self._border.announced(parcel)
        if not reason:
            return True
        was = parcel.account
        parcel.inbox.refuse(parcel, inbox.FORBIDDEN, reason)
        if was == inbox.WINDOW:
            parcel.inbox.extend(parcel.charge)
        self.rejected(parcel, reason)
        return False
