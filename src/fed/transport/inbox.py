"""The receiving half of a link: what may come, where its bytes go, and what came already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from fed import errors
from fed.transport import frames, outbox, ranges

#: Codes of REFUSE frames.
TOO_LARGE: Final = 1
FORBIDDEN: Final = 2
NOT_DECODED: Final = 3
NO_ROOM: Final = 4
TWICE: Final = 5

#: Refusals are repeated when the connections break before the peer saw them, so they are kept. A
#: peer that collects more of them than this is not sending values.
REFUSAL_LIMIT: Final = 10_000

#: Where a parcel's charge is counted; GONE once it is handed over, refused or dropped.
WAITING, WINDOW, BUDGET, OVER, GONE = range(5)


class Parcel(frames.Meta):
    """One value on its way in, from its announcement to its hand-over.

    Attributes:
        inbox: the link's receiving half, which it came through.
        party: the peer, by its certificate.
        key: which object it is: (party, call that made it, index of the result).
        charge: bytes that it costs while it is held in memory.
        account: `WAITING` (announced, no memory), `WINDOW` (eager), `BUDGET`, `OVER` (the one
            value above the budget) or `GONE`.
        buffer: the payload's place; None before its first byte and while it is on disk.
        received: bytes that have arrived.
        complete: all bytes are there.
        taken: the consumer has it in hand; its charge ends with the hand-over.
        token: what the owner gave for a value that it wrote to disk; None otherwise.
        spilling: the owner was asked to write it to disk and has not answered.
    """

    __slots__ = (
        "account", "buffer", "charge", "complete", "inbox", "key", "party", "received",
        "spilling", "taken", "token",
    )  # fmt: skip

    inbox: Inbox
    party: str
    key: tuple[str, int, int]
    charge: int
    account: int
    buffer: memoryview | None
    received: int
    complete: bool
    taken: bool
    token: Any
    spilling: bool

    @property
    def body_start(self) -> int:
        """Where in the payload the body begins; the head is before it."""
        return -(-self.head_size // outbox.ALIGNMENT) * outbox.ALIGNMENT

    def parts(self) -> tuple[memoryview, memoryview]:
        """Head and body as views of the buffer, for the codec; the body is aligned as sent.

        Raises:
            TransportError: if it is not in memory.
        """
        buffer = self.buffer
        if buffer is None:
            raise errors.TransportError(party=self.party, reason=f"{self!r} is not in memory")
        return buffer[: self.head_size], buffer[self.body_start :]

    def __repr__(self) -> str:
        return (
            f"<Parcel {self.id} of {self.party}: object {self.call}.{self.index} for call "
            f"{self.number}, {self.received} of {self.size} bytes>"
        )


class Keeper(Protocol):
    """What an inbox asks of the mailbox behind it."""

    def offered(self, parcel: Parcel) -> None:
        """Decide some time whether it may come: `Inbox.grant`."""

    def arriving(self, parcel: Parcel) -> None:
        """Take note that it comes in the inbox's window."""

    def arrived(self, parcel: Parcel) -> None:
        """Take it: all its bytes are there."""

    def withdrawn(self, parcel: Parcel) -> None:
        """Forget an offer that was not granted."""

    def rejected(self, parcel: Parcel, reason: str) -> None:
        """Take note that it was refused at its announcement."""


class Inbox:
    """Messages of one direction as they come: checked, put together, delivered once.

    Args:
        party: the peer's name, by its certificate.
        keeper: the mailbox.
        window: bytes of charge that the peer may send without asking, at any time.
        max_value_bytes: larger payloads are refused.
        allocate: gives a writable flat buffer of exactly that many bytes, for one payload. Called
            after all checks, when the first byte of the payload is there.
        offer_limit: offers that may wait.
    """

    __slots__ = (
        "_acks", "_allocate", "_current", "_current_size", "_delivered", "_eager_bytes", "_grants",
        "_keeper", "_max_value_bytes", "_offer_limit", "_parcels", "_refusals", "_refused",
        "_told_window", "_waiting", "_wake", "_window", "_window_size", "party",
    )  # fmt: skip

    def __init__(
        self,
        *,
        party: str,
        keeper: Keeper,
        window: int,
        max_value_bytes: int,
        allocate: Callable[[int], memoryview],
        wake: Callable[[], None],
        offer_limit: int = outbox.OFFER_LIMIT,
    ) -> None:
        self.party = party
        self._keeper = keeper
        self._window_size = window
        self._window = window
        self._told_window = 0
        self._eager_bytes = 0
        self._max_value_bytes = max_value_bytes
        self._allocate = allocate
        self._wake = wake
        self._offer_limit = offer_limit
        self._waiting = 0
        self._parcels: dict[int, Parcel] = {}
        self._delivered = ranges.IdRanges()
        self._refused: dict[int, bytes] = {}
        self._acks = ranges.IdRanges()
        # By message: a peer that asks again and again, and reads nothing, is answered once.
        self._grants: dict[int, None] = {}
        self._refusals: dict[int, bytes] = {}
        self._current: Parcel | None = None
        self._current_size = 0

    # What the peer sends.

    def meta(self, flags: int, a: int, b: int, c: int, body: memoryview) -> None:
        """A value is announced, and is there in full if it is inline.

        Raises:
            TransportError: if it contradicts what is known of it, or has neither credit nor a
                place among the offers.
        """
        parcel = self._parcels.get(a)
        if parcel is not None or a in self._delivered or a in self._refused:
            self._again(parcel, flags, a, b, c, body)
            return
        parcel = Parcel()
        frames.read_meta(parcel, flags, a, b, c, body, party=self.party)
        parcel.inbox = self
        parcel.party = self.party
        parcel.key = (self.party, parcel.call, parcel.index)
        parcel.charge = charge = c + outbox.MESSAGE_OVERHEAD
        parcel.buffer = parcel.token = None
        parcel.received = 0
        parcel.complete = parcel.taken = parcel.spilling = False
        if not flags:
            if self._waiting >= self._offer_limit:
                raise self._broken("META", f"more than {self._offer_limit} offers wait")
            parcel.account = WAITING
            self._waiting += 1
            self._parcels[a] = parcel
            if not self._too_large(parcel):
                self._keeper.offered(parcel)
            return
        self._eager_bytes += charge
        if self._eager_bytes > self._window:
            raise self._broken(
                "META", f"message {a} of {c} bytes passes the window of {self._window_size}"
            )
        parcel.account = WINDOW
        self._parcels[a] = parcel
        if self._too_large(parcel):
            self.extend(charge)
            return
        self._keeper.arriving(parcel)
        if flags & frames.META_INLINE:
            parcel.buffer = place = self._place(c)
            place[:] = body[frames.META_SIZE :]
            parcel.received = c
            parcel.complete = True
            self._keeper.arrived(parcel)

    def _again(
        self, parcel: Parcel | None, flags: int, a: int, b: int, c: int, body: memoryview
    ) -> None:
        """An announcement that is known: say again what was said, once it is the same value."""
        told = frames.Meta()
        frames.read_meta(told, flags, a, b, c, body, party=self.party)
        if parcel is None:
            if a in self._refused:
                self._refusals[a] = self._refused[a]
            else:
                self._acks.add(a)
            self._wake()
            return
        if not told.same_as(parcel):
            raise self._broken("META", f"message {a} was announced differently before")
        if not flags and parcel.account in (BUDGET, OVER) and not parcel.complete:
            self._grants[a] = None
            self._wake()

    def chunk(self, message: int, offset: int, length: int) -> memoryview | None:
        """Where the next bytes of a payload go; None for bytes that were there before.

        Raises:
            TransportError: if the message is unknown or was not granted, or the bytes are not the
                next ones of its payload.
        """
        parcel = self._parcels.get(message)
        if parcel is None:
            if message in self._delivered or message in self._refused:
                return None
            raise self._broken("CHUNK", f"message {message} was not announced")
        if parcel.account == WAITING:
            raise self._broken("CHUNK", f"message {message} was not granted")
        if offset != parcel.received:
            if offset + length <= parcel.received:
                return None
            raise self._broken(
                "CHUNK", f"bytes from {offset} of message {message}, {parcel.received} are there"
            )
        if offset + length > parcel.size:
            raise self._broken(
                "CHUNK", f"{offset + length} bytes of message {message} of {parcel.size}"
            )
        buffer = parcel.buffer
        if buffer is None:
            parcel.buffer = buffer = self._place(parcel.size)
        self._current = parcel
        self._current_size = length
        return buffer[offset : offset + length]

    def chunk_end(self) -> None:
        """The chunk last asked for is there."""
        self.chunk_part(self._current_size)

    def chunk_part(self, count: int) -> None:
        """`count` bytes of the chunk last asked for are there, and no more will come of it."""
        parcel, self._current = self._current, None
        if parcel is None:
            return
        parcel.received += count
        if parcel.received == parcel.size and parcel.account != GONE:
            parcel.complete = True
            self._keeper.arrived(parcel)

    def cancelled(self, message: int) -> None:
        """The peer takes an offer back; too late if it was granted."""
        parcel = self._parcels.get(message)
        if parcel is not None and parcel.account == WAITING:
            self._drop_offer(parcel)

    # What the mailbox decides.

    def grant(self, parcel: Parcel) -> None:
        """Let the bytes of an offered message come."""
        self._waiting -= 1
        self._grants[parcel.id] = None
        self._wake()

    def extend(self, charge: int) -> None:
        """Widen the window again: a message that came in it is counted elsewhere now, or gone."""
        self._window += charge
        if self._window - self._told_window >= self._window_size >> 2:
            self._wake()

    def acknowledge(self, parcel: Parcel) -> None:
        """The consumer's store has it: tell the peer, and never take it again."""
        del self._parcels[parcel.id]
        parcel.account = GONE
        self._delivered.add(parcel.id)
        self._acks.add(parcel.id)
        self._wake()

    def refuse(self, parcel: Parcel, code: int, reason: str) -> None:
        """Never take it, and tell the peer why.

        Raises:
            TransportError: if the peer collected too many refusals.
        """
        if len(self._refused) >= REFUSAL_LIMIT:
            raise self._broken("META", f"{REFUSAL_LIMIT} messages had to be refused")
        del self._parcels[parcel.id]
        if parcel.account == WAITING:
            self._waiting -= 1
        parcel.account = GONE
        parcel.buffer = None
        frame = frames.small(frames.REFUSE, parcel.id, code, body=frames.text(reason))
        self._refused[parcel.id] = frame
        self._refusals[parcel.id] = frame
        self._wake()

    # What goes out.

    @property
    def has_control(self) -> bool:
        """True if `control` would give something."""
        return bool(self._acks or self._grants or self._refusals) or self._window_is_news

    @property
    def _window_is_news(self) -> bool:
        # A quarter of the window is worth a frame; before that the peer has enough.
        return self._window - self._told_window >= max(self._window_size >> 2, 1)

    def control(self, notes: int) -> list[bytes]:
        """Frames for the control connection. `notes`: how many notes were received."""
        made: list[bytes] = []
        if self._grants:
            grants, self._grants = list(self._grants), {}
            for at in range(0, len(grants), frames.IDS_PER_FRAME):
                some = grants[at : at + frames.IDS_PER_FRAME]
                made.append(frames.small(frames.GRANT, body=frames.ids(some)))
        if self._window_is_news:
            self._told_window = self._window
            made.append(frames.small(frames.CREDIT, self._window))
        if self._refusals:
            made += self._refusals.values()
            self._refusals = {}
        while self._acks:
            some_ranges = self._acks.take(frames.PAIRS_PER_FRAME)
            made.append(frames.small(frames.ACK, notes, body=frames.pairs(some_ranges)))
        return made

    # Connections come and go.

    def pause(self) -> None:
        """The connections are gone. Offers without a grant are forgotten: they will be repeated."""
        self._acks = ranges.IdRanges()
        self._grants.clear()
        self._refusals.clear()
        self._told_window = 0
        for parcel in [one for one in self._parcels.values() if one.account == WAITING]:
            self._drop_offer(parcel)

    def resume(self, notes: int) -> list[bytes]:
        """The RESUME frames that say what is here. `notes`: how many notes were received."""
        self._refusals = dict(self._refused)
        made: list[bytes] = []
        for flags, items in (
            (frames.RESUME_RANGES, list(self._delivered)),
            (0, [(one.id, one.received) for one in self._parcels.values()]),
        ):
            for at in range(0, len(items), frames.PAIRS_PER_FRAME):
                body = frames.pairs(items[at : at + frames.PAIRS_PER_FRAME])
                made.append(frames.small(frames.RESUME, notes, flags=flags, body=body))
        made.append(frames.small(frames.RESUME, notes, flags=frames.RESUME_LAST))
        return made

    def close(self) -> list[Parcel]:
        """Forget everything: the link is over. Gives what was not handed over, for the mailbox."""
        left = list(self._parcels.values())
        self._parcels.clear()
        self._current = None
        return left

    @property
    def open_parcels(self) -> int:
        """Messages announced or here that were not handed over."""
        return len(self._parcels)

    def has_all(self, last: int) -> bool:
        """True if every message up to `last` was delivered or refused."""
        if self._parcels:
            return False
        known = sum(high - low + 1 for low, high in self._delivered) + len(self._refused)
        return known == last

    def _place(self, size: int) -> memoryview:
        try:
            return self._allocate(size)
        except MemoryError as error:
            raise errors.TransportError(
                party=self.party,
                reason=f"this process has no memory for a value of {size} bytes; lower the "
                "receive budget or give it more",
            ) from error

    def _too_large(self, parcel: Parcel) -> bool:
        if parcel.size <= self._max_value_bytes:
            return False
        limit = self._max_value_bytes
        reason = f"{parcel.size} bytes encoded are more than the {limit} allowed here"
        self.refuse(parcel, TOO_LARGE, reason)
        self._keeper.rejected(parcel, reason)
        return True

    def _drop_offer(self, parcel: Parcel) -> None:
        del self._parcels[parcel.id]
        self._waiting -= 1
        self._keeper.withdrawn(parcel)
        parcel.account = GONE

    def _broken(self, frame: str, what: str) -> errors.TransportError:
        return errors.TransportError(party=self.party, reason=f"{frame} frame refused: {what}")
