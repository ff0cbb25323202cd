"""The sending half of a link: what goes out next, and what has to be kept until it is delivered."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fed import errors
from fed.transport import events, frames

#: What a message costs beside its payload, in bytes of charge: the records kept for it.
MESSAGE_OVERHEAD: Final = 512
#: Offers that wait for a grant at one receiver. The sender swaps the highest call number for a
#: lower one, so that what the peer needs next is always among them.
OFFER_LIMIT: Final = 1024
#: Messages up to this size overtake the chunks of larger ones.
SMALL_LIMIT: Final = 64 << 10
#: The body starts at a multiple of this in the payload, so that arrays are aligned.
ALIGNMENT: Final = 64

_QUEUED, _OFFERED, _SENDING, _SENT, _GONE = range(5)
_ZEROS: Final = bytes(ALIGNMENT)
#: Pieces below this size are kept as bytes: cheaper to join than a view.
_TINY: Final = 4 << 10


class Outgoing(frames.Meta):
    """One message of the sending side, until it is delivered or refused.

    `views` are the payload's pieces; they are sent as they are, so the arrays behind them may not
    change before delivery.
    """

    __slots__ = (
        "announce", "at", "charge", "eager", "offered", "offset", "pos", "state", "told", "views",
    )  # fmt: skip

    charge: int
    views: Sequence[frames.Piece]
    state: int
    eager: bool  # uses the receiver's window; else it needs a grant
    offered: bool  # was offered at least once in this epoch
    told: bool  # the peer may know of it
    announce: bool  # the META frame has to precede its bytes
    offset: int  # bytes handed to the carrier in this epoch
    at: int  # the view that `offset` lies in, and where in it
    pos: int

    def seek(self, offset: int) -> None:
        """Go on from `offset`."""
        self.offset, self.at, self.pos = offset, 0, offset
        while self.at < len(self.views) and self.pos >= len(self.views[self.at]):
            self.pos -= len(self.views[self.at])
            self.at += 1

    def cut(self, count: int, pieces: list[frames.Piece]) -> None:
        """Append the next `count` bytes to `pieces`, without copying large ones."""
        self.offset += count
        while count:
            view = self.views[self.at]
            rest = len(view) - self.pos
            if rest <= count:
                pieces.append(view[self.pos :] if self.pos else view)
                count -= rest
                self.at += 1
                self.pos = 0
            else:
                pieces.append(view[self.pos : self.pos + count])
                self.pos += count
                count = 0


class Outbox:
    """Messages of one direction: numbered, offered or sent eagerly, kept until acknowledged.

    Args:
        party: the peer's name, for errors.
        happened: takes `Delivered` and `Refused` events.
        offer_limit: offers that may wait at the peer.
        chunk_bytes: size of a chunk, at most `frames.CHUNK_LIMIT`.
    """

    __slots__ = (
        "_chunk_bytes", "_control", "_happened", "_large", "_large_turn", "_last", "_offer_limit",
        "_offered", "_offered_heap", "_offsets", "_open", "_party", "_paused", "_queue", "_small",
        "_used", "_window", "queued_bytes",
    )  # fmt: skip

    def __init__(
        self,
        *,
        party: str,
        happened: Callable[[events.LinkEvent], None],
        offer_limit: int = OFFER_LIMIT,
        chunk_bytes: int = frames.CHUNK_LIMIT,
    ) -> None:
        self._party = party
        self._chunk_bytes = min(chunk_bytes, frames.CHUNK_LIMIT)
        self._happened = happened
        self._offer_limit = offer_limit
        self._last = 0
        self._open: dict[int, Outgoing] = {}
        self._queue: list[tuple[int, int, Outgoing]] = []  # (call number, id), lowest first
        self._offered: dict[int, Outgoing] = {}
        self._offered_heap: list[tuple[int, int, Outgoing]] = []  # highest call number first
        self._small: deque[Outgoing] = deque()
        self._large: deque[Outgoing] = deque()
        self._large_turn = False
        self._control: list[bytes] = []
        self._window = 0
        self._used = 0
        self._paused = True
        self._offsets: dict[int, int] = {}
        self.queued_bytes = 0

    # What the owner says.

    def send(
        self,
        head: bytes,
        views: Sequence[frames.Piece],
        *,
        number: int,
        call: int,
        index: int,
        kind: int,
        digest: bytes,
    ) -> Outgoing:
        """Number a message and put it in line, lowest call number first.

        Raises:
            UsageError: if the payload is empty, or a view is not contiguous.
        """
        pieces, size = _flat(head, views)
        self._last += 1
        out = Outgoing()
        out.id = self._last
        out.number = number
        out.size = size
        out.call = call
        out.index = index
        out.head_size = len(head)
        out.kind = kind
        out.digest = digest
        out.views = pieces
        out.charge = size + MESSAGE_OVERHEAD
        out.eager = out.offered = out.announce = out.told = False
        out.offset = out.at = out.pos = 0
        self._open[out.id] = out
        self.queued_bytes += size
        fits = self._used + out.charge <= self._window and not self._paused
        # A scalar for a later call does not wait behind large values that have no room.
        if fits and (not self._queue or size <= frames.INLINE_LIMIT):
            self._send_eagerly(out)
        else:
            out.state = _QUEUED
            heapq.heappush(self._queue, (number, out.id, out))
            if not self._paused:
                self._admit()
        return out

    @property
    def last_id(self) -> int:
        """Id of the latest message; 0 before the first."""
        return self._last

    @property
    def open_messages(self) -> int:
        """Messages neither delivered nor refused."""
        return len(self._open)

    # What the peer says.

    def granted(self, ids: Iterable[int]) -> None:
        """The peer has room for these messages; names of finished ones are passed over.

        Raises:
            TransportError: if one was never offered.
        """
        for number in ids:
            out = self._open.get(number)
            if out is None:
                if not 0 < number <= self._last:
                    raise self._broken("GRANT", f"message {number} was never sent")
                continue
            if out.state == _OFFERED:
                del self._offered[number]
            elif out.state != _QUEUED:
                continue
            elif not out.offered:
                raise self._broken("GRANT", f"message {number} was not offered")
            self._start(out)
        self._admit()

    def credited(self, window: int) -> None:
        """The peer's standing window, in bytes of charge since the session began."""
        if window > self._window:
            self._window = window
            self._admit()

    def acknowledged(self, ranges: Sequence[tuple[int, int]]) -> None:
        """The peer's consumer store has the messages in these ranges.

        Raises:
            TransportError: if the ranges are not ascending, or one of the messages does not exist
                or was not sent in full.
        """
        self._delivered("ACK", ranges)

    def refused(self, message: int, code: int, reason: str) -> None:
        """The peer will never take this message.

        Raises:
            TransportError: if the message was never announced.
        """
        out = self._open.get(message)
        if out is None:
            if not 0 < message <= self._last:
                raise self._broken("REFUSE", f"message {message} was never sent")
            return
        if not out.told:
            raise self._broken("REFUSE", f"message {message} was not announced")
        self._offered.pop(message, None)
        self._forget(out)
        self._happened(events.Refused(message=message, code=code, reason=reason))
        self._admit()

    # Connections come and go.

    def pause(self) -> None:
        """The connections are gone: stop, until `resume` says what the peer has."""
        self._paused = True
        self._control.clear()
        self._small.clear()
        self._large.clear()
        self._queue.clear()
        self._offered.clear()
        self._offered_heap.clear()
        self._offsets.clear()

    def resume_ranges(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Part of RESUME: messages that were delivered before the connections broke."""
        self._delivered("RESUME", ranges)

    def resume_offsets(self, offsets: Iterable[tuple[int, int]]) -> None:
        """Part of RESUME: (id, bytes received) of messages that may be sent on."""
        for number, offset in offsets:
            out = self._open.get(number)
            if out is None:
                if not 0 < number <= self._last:
                    raise self._broken("RESUME", f"message {number} was never sent")
                continue
            if offset > out.size:
                raise self._broken("RESUME", f"{offset} bytes of {out.size} of message {number}")
            self._offsets[number] = offset

    def resume(self) -> None:
        """RESUME is complete: go on where the peer is, and announce again what it does not know."""
        self._paused = False
        offsets, self._offsets = self._offsets, {}
        for out in self._open.values():
            out.offered = False
            offset = offsets.get(out.id)
            if offset is not None:
                out.announce = False
                out.seek(offset)
                if offset == out.size:
                    out.state = _SENT
                else:
                    self._line_up(out)
            elif out.eager:
                out.announce = True
                out.seek(0)
                self._line_up(out)
            else:
                out.state = _QUEUED
                out.seek(0)
                self._queue.append((out.number, out.id, out))
        heapq.heapify(self._queue)
        self._admit()

    def close(self) -> None:
        """Let go of everything: the link is over."""
        self.pause()
        for out in self._open.values():
            out.state = _GONE
            out.views = ()
        self._open.clear()
        self.queued_bytes = 0

    # What goes out.

    @property
    def has_control(self) -> bool:
        """True if `control` would give something."""
        return bool(self._control)

    def control(self) -> list[bytes]:
        """Frames for the control connection: offers, and offers taken back."""
        taken, self._control = self._control, []
        return taken

    @property
    def has_bulk(self) -> bool:
        """True if `bulk` would give something."""
        return bool(self._small or self._large)

    def bulk(self, limit: int) -> list[frames.Piece]:
        """The next pieces for the bulk connection: at least one frame if there is any.

        Stops after the frame that reaches `limit` bytes. Small messages go first; when they filled
        a whole turn, a chunk of a large one has the next, so that neither waits for ever.
        """
        pieces: list[frames.Piece] = []
        room = limit
        if self._large and self._large_turn:
            room -= self._chunk(self._large, pieces)
            self._large_turn = False
        small = self._small
        while small and room > 0:
            out = small[0]
            if out.announce and out.size <= frames.INLINE_LIMIT and out.state == _SENDING:
                small.popleft()
                pieces.append(frames.meta(out, flags=frames.META_EAGER | frames.META_INLINE))
                pieces += out.views
                out.announce = False
                out.offset = out.size
                out.state = _SENT
                room -= out.size + 88
            else:
                room -= self._chunk(small, pieces)
        self._large_turn = bool(small)
        while self._large and room > 0:
            room -= self._chunk(self._large, pieces)
        return pieces

    def _chunk(self, line: deque[Outgoing], pieces: list[frames.Piece]) -> int:
        """Append the next chunk of the first message in `line`, which then goes to its end."""
        out = line.popleft()
        if out.state != _SENDING:
            return 0
        if out.announce:
            out.announce = False
            pieces.append(frames.meta(out, flags=frames.META_EAGER))
        count = min(self._chunk_bytes, out.size - out.offset)
        pieces.append(frames.chunk(out.id, out.offset, count))
        out.cut(count, pieces)
        if out.offset == out.size:
            out.state = _SENT
        else:
            line.append(out)
        return count

    # How it is admitted.

    def _admit(self) -> None:
        """Start or offer what is in line, lowest call number first."""
        queue = self._queue
        while queue and not self._paused:
            out = queue[0][2]
            if out.state != _QUEUED:
                heapq.heappop(queue)
            elif self._used + out.charge <= self._window and not out.offered:
                heapq.heappop(queue)
                self._send_eagerly(out)
            elif len(self._offered) < self._offer_limit:
                heapq.heappop(queue)
                self._offer(out)
            elif not self._swap(out):
                return

    def _offer(self, out: Outgoing) -> None:
        out.state = _OFFERED
        out.offered = out.told = True
        self._offered[out.id] = out
        heapq.heappush(self._offered_heap, (-out.number, -out.id, out))
        self._control.append(frames.meta(out, flags=0))

    def _swap(self, out: Outgoing) -> bool:
        """Take back the offer with the highest call number, if `out` has a lower one."""
        heap = self._offered_heap
        while heap and heap[0][2].state != _OFFERED:
            heapq.heappop(heap)
        if not heap or heap[0][2].number <= out.number:
            return False
        worst = heapq.heappop(heap)[2]
        del self._offered[worst.id]
        worst.state = _QUEUED
        self._control.append(frames.small(frames.CANCEL, worst.id))
        heapq.heappush(self._queue, (worst.number, worst.id, worst))
        return True

    def _send_eagerly(self, out: Outgoing) -> None:
        self._used += out.charge
        out.eager = out.announce = out.told = True
        self._line_up(out)

    def _start(self, out: Outgoing) -> None:
        out.announce = False
        self._line_up(out)

    def _line_up(self, out: Outgoing) -> None:
        out.state = _SENDING
        (self._small if out.size <= SMALL_LIMIT else self._large).append(out)

    def _delivered(self, frame: str, ranges: Sequence[tuple[int, int]]) -> None:
        """Forget what the ranges name. O(ranges + the fewer of ids named and messages open)."""
        named = before = 0
        for first, last in ranges:
            if not before < first <= last <= self._last:
                raise self._broken(frame, f"messages {first} to {last} of {self._last}")
            named += last - first + 1
            before = last
        if named > len(self._open):
            ranges = _runs(self._open, ranges)
        for first, last in ranges:
            found = 0
            for number in range(first, last + 1):
                out = self._open.get(number)
                if out is None:
                    continue
                if out.state != _SENT:
                    raise self._broken(frame, f"message {number} was not sent in full")
                self._forget(out)
                found += 1
            if found:
                self._happened(events.Delivered(first=first, last=last))

    def _forget(self, out: Outgoing) -> None:
        out.state = _GONE
        out.views = ()
        self.queued_bytes -= out.size
        del self._open[out.id]

    def _broken(self, frame: str, what: str) -> errors.TransportError:
        return errors.TransportError(party=self._party, reason=f"{frame} frame refused: {what}")


def _runs(ids: Iterable[int], ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of the ascending `ids` that lie in the ascending `ranges`, as ranges again."""
    runs: list[tuple[int, int]] = []
    at = 0
    for number in ids:
        while at < len(ranges) and ranges[at][1] < number:
            at += 1
        if at == len(ranges):
            break
        if number < ranges[at][0]:
            continue
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _flat(head: bytes, views: Sequence[frames.Piece]) -> tuple[list[frames.Piece], int]:
    """The payload's pieces, each flat and not empty, and their size."""
    pieces: list[frames.Piece] = []
    size = len(head)
    if size:
        pieces.append(head if size < _TINY else memoryview(head))
    body = 0
    for view in views:
        flat = view
        if not isinstance(view, bytes) or len(view) >= _TINY:
            flat = memoryview(view)
            if not flat.c_contiguous:
                raise errors.UsageError(
                    problem="a view of a value to be sent is not contiguous",
                    fix="Have the codec copy it first",
                )
            if flat.ndim != 1 or flat.format != "B":
                flat = flat.cast("B") if flat.nbytes else memoryview(b"")
        if len(flat):
            if not body and size % ALIGNMENT:
                pieces.append(_ZEROS[: -size % ALIGNMENT])
            pieces.append(flat)
            body += len(flat)
    if body:
        size += -size % ALIGNMENT + body
    if not size:
        raise errors.UsageError(
            problem="a message without a payload can't be sent", fix="Send at least one byte"
        )
    return pieces, size
