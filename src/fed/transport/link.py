"""The link to one peer: connections come and go below it, values pass once above it.

Pure: no thread, socket or clock. The carrier passes bytes and times in and takes bytes out:

    connection = link.opened(frames.HELLO_CONTROL, now)   # after TLS; or link.accepted(now)
    view = connection.buffer()                            # fill it, in as many steps as wanted
    connection.received(count, now)
    connection.output(limit)                              # pieces to send; [] if there is nothing
    connection.lost(reason, now)                          # exactly once, when its reader stopped
    link.tick(now)                                        # no later than link.deadline()

After any of these: `link.poll()` and the mailbox's events; `connection.closing` says that the
carrier is to send what `output` still gives and close; `link.wants_dial` says what to dial. The
`wake` given at the start is called when a connection has something to send.

One lock of the owner guards a mailbox and all links that feed it; only the filling of a view from
`buffer()` and the sending of pieces from `output` happen outside it. A reader thread per
connection may call `buffer()` without the lock.

A pair of connections, control and bulk, lives and dies together; a new pair is used only after
`lost` was said of the old ones, so that no reader of an old one can write into a buffer of values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fed import errors
from fed.transport import events, frames, handshake, inbox, mailbox, outbox

CONTROL: Final = frames.HELLO_CONTROL
BULK: Final = frames.HELLO_BULK
_CHANNELS: Final = {CONTROL: "control", BULK: "bulk"}

#: Connections of one peer that were accepted and have not said HELLO; one more is closed at once.
GREETING_LIMIT: Final = 8
#: Notes that may be on the way unconfirmed, and their bytes.
NOTE_LIMIT: Final = 1024
NOTE_BYTES_LIMIT: Final = 4 << 20

_NEW, _PARKED, _UP, _CLOSING, _GONE = range(5)
_STARTING, _DOWN, _STANDING, _FINISHED, _FAILED = range(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Times of a link in seconds, and the number of offers.

    Attributes:
        ping_interval_s: a PING is sent that often.
        peer_timeout_s: a peer without connections for that long is lost.
        stall_timeout_s: a peer whose connections stand but who says nothing for that long is
            stalled.
        handshake_timeout_s: a connection that is not ready after that long is closed.
        linger_s: after both said GOAWAY, how long to redial for the other's confirmation.
        offer_limit: offers that wait at the receiver; equal at both sides.
        chunk_bytes: size of a chunk; smaller ones let a scalar pass sooner on a slow network.
    """

    ping_interval_s: float = 5.0
    peer_timeout_s: float = 30.0
    stall_timeout_s: float = 600.0
    handshake_timeout_s: float = 10.0
    linger_s: float = 2.0
    offer_limit: int = outbox.OFFER_LIMIT
    chunk_bytes: int = frames.CHUNK_LIMIT


class Connection:
    """One connection of the pair, as the carrier sees it. Made by `Link.opened` and `accepted`."""

    __slots__ = (
        "_decoder", "_dialled", "_epoch", "_first", "_hello", "_link", "_state", "channel",
        "closing", "since",
    )  # fmt: skip

    def __init__(self, link: Link, *, channel: int, is_dialled: bool, now: float) -> None:
        self._link = link
        self._decoder = frames.Decoder(self, party=link.peer)
        self._dialled = is_dialled
        self._epoch = 0
        self._hello: handshake.Hello | None = None
        self._first: list[bytes] = []
        self._state = _NEW
        self.channel = channel  # 0 until the HELLO of an accepted one is there
        self.closing = ""
        self.since = now

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._decoder.buffer()

    def received(self, count: int, now: float) -> None:
        """`count` bytes were written into `buffer()`. What they break ends the link, by name."""
        link = self._link
        link.heard(now)
        try:
            self._decoder.received(count)
        except errors.TransportError as error:
            link.broken(self, error)

    def output(self, limit: int) -> list[frames.Piece]:
        """Pieces to send now: some `limit` bytes, and never less than a frame if there is any."""
        pieces: list[frames.Piece] = []
        if self._first:
            pieces += self._first
            self._first.clear()
        if self._state == _UP:
            pieces += self._link.output(self, limit)
        return pieces

    @property
    def has_output(self) -> bool:
        """True if `output` would give something."""
        return bool(self._first) or (self._state == _UP and self._link.has_output(self))

    def lost(self, reason: str, now: float) -> None:
        """The carrier closed the connection or saw it closed, and its reader has stopped."""
        if self._state != _GONE:
            self._link.lost(self, reason, now)

    def frame(self, kind: int, flags: int, a: int, b: int, c: int, body: memoryview) -> None:
        """See `frames.Sink`."""
        self._link.frame(self, kind, flags, a, b, c, body)

    def chunk(self, message: int, offset: int, length: int) -> memoryview | None:
        """See `frames.Sink`."""
        if self.channel != BULK:
            raise errors.TransportError(
                party=self._link.peer, reason="CHUNK frame refused: it came on control"
            )
        return self._link.inbox.chunk(message, offset, length)

    def chunk_end(self) -> None:
        """See `frames.Sink`."""
        self._link.inbox.chunk_end()


class Link:
    """What passes between this party and one peer in one job.

    Args:
        local: what this side says of itself.
        peer: the other party's name, as its certificate has to have it.
        box: the mailbox that incoming values go to.
        settings: times and limits.
        can_dial: whether this side has an address to dial.
        allocate: gives a flat writable buffer of exactly that many bytes.
        position: gives the program's latest call number and the digest there.
        wake: called with `CONTROL` or `BULK` when that connection has something to send.
        now: seconds of a clock that never goes back, as everywhere here.
    """

    def __init__(
        self,
        local: handshake.Local,
        *,
        peer: str,
        box: mailbox.Mailbox,
        settings: Settings,
        can_dial: bool,
        allocate: Callable[[int], memoryview],
        position: Callable[[], tuple[int, bytes]],
        wake: Callable[[int], None],
        now: float,
    ) -> None:
        self.peer = peer
        self.last_cause = "not connected yet"
        self._local = local
        self._settings = settings
        self._can_dial = can_dial
        self._position = position
        self._wake = wake
        self._box = box
        self._now = now
        self._ticked = now
        self._events: deque[events.LinkEvent] = deque()
        self._state = _STARTING
        self._peer_session = handshake.NO_SESSION
        self._peer_max_value = frames.NUMBER_LIMIT
        self._peer_position: tuple[int, bytes] | None = None
        self._epoch = 0
        self._connections: list[Connection] = []  # all that are not gone
        self._control: Connection | None = None
        self._bulk: Connection | None = None
        self._is_resumed = False
        self._was_up_now = False
        self._last_words: tuple[int, str] | None = None
        self._down_since = now
        self._heard = now
        self._next_ping = now
        self._pings = 0
        self._ping_due = False
        self._pong_due = 0
        self._notes: deque[tuple[int, bytes]] = deque()  # waiting for their turn
        self._notes_open: deque[tuple[int, int, bytes]] = deque()  # (seq, kind, body) unconfirmed
        self._notes_open_bytes = 0
        self._notes_sent = 0  # sequence of the last one in `_notes_open`
        self._notes_told = 0  # sequence of the last one sent in this epoch
        self._notes_received = 0
        self._notes_polled = 0
        self._notes_confirmed = 0
        self._notes_waiting_bytes = 0
        self._is_finishing = False
        self._goaway_sent = False  # in this epoch
        self._goaway_said = False  # ever
        self._goaway_confirmed = False
        self._goaway_received = False
        self._confirm_due = False
        self.outbox = outbox.Outbox(
            party=peer,
            happened=self._events.append,
            offer_limit=settings.offer_limit,
            chunk_bytes=settings.chunk_bytes,
        )
        self.inbox = inbox.Inbox(
            party=peer,
            keeper=box,
            window=box.window_bytes,
            max_value_bytes=local.max_value_bytes,
            allocate=allocate,
            wake=self._wake_control,
            offer_limit=settings.offer_limit,
        )

    # The owner's side.

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
    ) -> int:
        """Send a value: the codec's head and its buffers, which may not change before delivery.

        Args:
            head: the codec's tree.
            views: the body's pieces, contiguous, padding included where the codec wants it.
            number: the call at the peer that consumes it.
            call: the call that made the object.
            index: which of its results.
            kind: what it is, between the engines.
            digest: this side's digest at `number`.

        Returns:
            The message's id, which `Delivered` and `Refused` name.

        Raises:
            ValueRefusedError: if the payload is larger than the peer takes.
            UsageError: if it is empty or not contiguous, or after `finish`.
        """
        if self._is_finishing:
            raise errors.UsageError(
                problem=f"a value for party {self.peer!r} after the end of the program"
            )
        size = len(head)
        if views:
            size += -size % outbox.ALIGNMENT + sum(map(_size, views))
        if size > self._peer_max_value:
            raise errors.ValueRefusedError(
                path="result",
                type_name="payload",
                reason=f"{size} bytes encoded are more than party {self.peer!r} takes",
                limit=f"{self._peer_max_value} bytes",
                call=call,
            )
        out = self.outbox.send(
            head, views, number=number, call=call, index=index, kind=kind, digest=digest
        )
        if self.outbox.has_bulk:
            self._wake(BULK)
        if self.outbox.has_control:
            self._wake(CONTROL)
        return out.id

    def note(self, kind: int, body: bytes) -> None:
        """Send a small message of the engine on control, once and in order.

        Raises:
            UsageError: if it is longer than a frame, or after `finish`.
        """
        if self._is_finishing or len(body) > frames.BODY_LIMIT:
            raise errors.UsageError(
                problem=f"a note of {len(body)} bytes for party {self.peer!r} can't be sent",
                fix=f"Send at most {frames.BODY_LIMIT} bytes, before the end of the program",
            )
        self._notes.append((kind, body))
        self._admit_notes()

    def finish(self) -> None:
        """The program ended: say so to the peer once all it has to get is acknowledged."""
        self._is_finishing = True
        self._after_delivery()

    def abort(self, type_name: str) -> None:
        """The program failed with an error of this type: tell the peer, and end the link."""
        self._end(
            errors.TransportError(party=self.peer, reason=f"ended here: {type_name}"),
            handshake.ABORTED,
            type_name,
            is_told=False,
        )

    def close(self, reason: str, *, code: int = handshake.CLOSED) -> None:
        """End the link here and now; the peer is told why (`DIVERGED` where programs differ)."""
        self._end(
            errors.TransportError(party=self.peer, reason=reason),
            code,
            reason,
            is_told=False,
        )

    def poll(self) -> list[events.LinkEvent]:
        """What happened since the last time. Notes in it are confirmed to the peer."""
        if not self._events:
            return []
        happened = list(self._events)
        self._events.clear()
        if self._notes_polled != self._notes_received:
            self._notes_polled = self._notes_received
            self._notes_waiting_bytes = 0
            self._wake_control()
        return happened

    @property
    def is_up(self) -> bool:
        """Both connections stand and both sides know where to go on."""
        return self._was_up_now

    @property
    def is_over(self) -> bool:
        """The link finished or failed; it is not to be used again."""
        return self._state in (_FINISHED, _FAILED)

    @property
    def undrained(self) -> str:
        """What is still to be delivered to the peer, in words; empty if nothing is."""
        count = self.outbox.open_messages
        notes = len(self._notes) + len(self._notes_open)
        if not count and not notes:
            return ""
        return f"{count} values of {self.outbox.queued_bytes} bytes and {notes} notes"

    @property
    def max_value_bytes(self) -> int:
        """The largest payload that the peer takes, once it has said so."""
        return self._peer_max_value

    # The carrier's side.

    @property
    def wants_dial(self) -> int:
        """`CONTROL` or `BULK` if the carrier should dial that now; 0 if it should not.

        It stays so while the carrier dials. With a peer that dials too, both may.
        """
        if not self._can_dial or self.is_over:
            return 0
        if self._control is None:
            return 0 if self._connections else CONTROL
        if self._bulk is None and self._control._dialled and self._control._state == _UP:
            return 0 if len(self._connections) > 1 else BULK
        return 0

    def opened(self, channel: int, now: float) -> Connection:
        """This side dialled, and TLS stands: a connection that says HELLO first."""
        connection = Connection(self, channel=channel, is_dialled=True, now=now)
        self._connections.append(connection)
        self._now = max(self._now, now)
        connection._epoch = self._epoch + (channel == CONTROL)
        if self.is_over or not self._is_of_use(connection):
            self._close(connection, "it is not needed any more")
        else:
            connection._first.append(self._hello(channel, connection._epoch))
        return connection

    def _is_of_use(self, dialled: Connection) -> bool:
        if dialled.channel == CONTROL:
            others = [one for one in self._connections if one is not dialled and one._dialled]
            return self._control is None and not others
        control = self._control
        return control is not None and control._dialled and self._bulk is None

    def accepted(self, now: float) -> Connection:
        """The peer dialled, and TLS stands: its certificate is this peer's."""
        connection = Connection(self, channel=0, is_dialled=False, now=now)
        self._connections.append(connection)
        self._now = max(self._now, now)
        if self._last_words is not None:
            # The peer has not heard why.
            code, words = self._last_words
            self._close(connection, "the link is over", code, words)
        elif self.is_over:
            self._close(connection, "the link is over")
        elif sum(not one.channel for one in self._connections) > GREETING_LIMIT:
            self._close(connection, f"{GREETING_LIMIT} others have not said HELLO yet")
        return connection

    def dial_failed(self, reason: str, now: float) -> None:
        """No connection came of a dial; kept as the cause that errors name."""
        self._now = max(self._now, now)
        self.last_cause = reason

    def tick(self, now: float) -> None:
        """Look at the clock: pings, handshakes that take too long, loss and stall.

        A time in which this process itself did not run (stopped, or its lock held) is not counted
        against the peer.
        """
        self._now = max(self._now, now)
        settings = self._settings
        pause = now - self._ticked - settings.ping_interval_s
        if pause > settings.ping_interval_s:
            self._heard += pause
            self._down_since += pause
            for connection in self._connections:
                connection.since += pause
        self._ticked = now
        if self.is_over:
            return
        for connection in list(self._connections):
            is_slow = now - connection.since >= settings.handshake_timeout_s
            if connection._state in (_NEW, _PARKED) and is_slow:
                self._close(connection, "no answer to the HELLO in time")
        if self._state == _STANDING:
            if not self._was_up_now:
                control = self._control
                if control is not None and now - control.since >= settings.handshake_timeout_s:
                    self._break("the second connection did not come in time")
                return
            if now - self._heard >= settings.stall_timeout_s:
                waited = now - self._heard
                self._end(
                    errors.PartyStalledError(party=self.peer, waited_s=waited),
                    handshake.STALLED,
                    f"no answer for {waited:g} s",
                )
            elif now >= self._next_ping:
                self._next_ping = now + settings.ping_interval_s
                self._ping_due = True
                self._wake_control()
        elif self._state == _DOWN:
            gone = now - self._down_since
            if self._lingers:
                if gone >= settings.linger_s:
                    self._finish()
            elif gone >= settings.peer_timeout_s:
                reason = f"no connection for {gone:g} s: {self.last_cause}"
                self._end(
                    errors.PartyLostError(party=self.peer, reason=reason), handshake.LOST, reason
                )

    def deadline(self) -> float:
        """When `tick` is to be called next, at the latest."""
        settings = self._settings
        soonest = self._ticked + settings.ping_interval_s
        for connection in self._connections:
            if connection._state in (_NEW, _PARKED) or not self._was_up_now:
                soonest = min(soonest, connection.since + settings.handshake_timeout_s)
        if self._state == _STANDING:
            soonest = min(soonest, self._next_ping, self._heard + settings.stall_timeout_s)
        elif self._state == _DOWN:
            wait = settings.linger_s if self._lingers else settings.peer_timeout_s
            soonest = min(soonest, self._down_since + wait)
        return soonest

    # What connections say: used by `Connection` alone.

    def heard(self, now: float) -> None:
        """Something came from the peer."""
        if now > self._now:
            self._now = now
        self._heard = self._now

    def broken(self, connection: Connection, error: errors.TransportError) -> None:
        """The peer broke a rule: the link ends.

        Before its handshake is through a connection is not known to be of this session, so then
        it ends alone.
        """
        if connection._state in (_NEW, _PARKED):
            self.last_cause = error.reason
            self._close(connection, error.reason, handshake.PROTOCOL)
        elif connection._state == _UP:
            self._end(error, handshake.PROTOCOL, error.reason)

    def lost(self, connection: Connection, reason: str, now: float) -> None:
        """The connection is closed and nobody reads it any more."""
        self._now = max(self._now, now)
        connection._decoder.stop()
        was = connection._state
        connection._state = _GONE
        self._connections.remove(connection)
        if connection in (self._control, self._bulk):
            self._break(reason or "closed by the peer")
        elif was == _NEW and self._state in (_STARTING, _DOWN):
            self.last_cause = reason or "closed during the handshake"
        self._unpark()

    def frame(
        self, connection: Connection, kind: int, flags: int, a: int, b: int, c: int,
        body: memoryview,
    ) -> None:  # fmt: skip
        """Act on one whole frame."""
        if kind == frames.META:
            if bool(flags) != (connection.channel == BULK):
                raise self._refused(kind, "it came on the wrong connection")
            if not self._is_resumed and not flags:
                raise self._refused(kind, "it came before RESUME")
            self.inbox.meta(flags, a, b, c, body)
            return
        if kind == frames.HELLO:
            self._greeted(connection, flags, a, b, body)
            return
        if kind == frames.ERROR:
            self._told(connection, a, frames.read_text(body))
            return
        if connection.channel != CONTROL:
            raise self._refused(kind, "it came on the wrong connection")
        _HANDLERS[kind](self, flags, a, b, body)

    def has_output(self, connection: Connection) -> bool:
        """True if `output` would give something."""
        if connection is self._bulk:
            return self._is_resumed and self.outbox.has_bulk
        return connection is self._control and (
            self._pong_due > 0
            or self._ping_due
            or self._confirm_due
            or self.inbox.has_control
            or self._notes_polled != self._notes_confirmed
            or (
                self._is_resumed
                and (
                    self.outbox.has_control
                    or self._notes_told != self._notes_sent
                    or self._goaway_is_due
                )
            )
        )

    def output(self, connection: Connection, limit: int) -> list[frames.Piece]:
        """What a standing connection sends next."""
        if connection is self._bulk:
            return self.outbox.bulk(limit) if self._is_resumed else []
        pieces: list[frames.Piece] = []
        if connection is not self._control:
            return pieces
        if self._pong_due:
            pieces.append(self._position_frame(frames.PONG, self._pong_due))
            self._pong_due = 0
        if self._ping_due:
            self._pings += 1
            pieces.append(self._position_frame(frames.PING, self._pings))
            self._ping_due = False
        pieces += self.inbox.control(self._notes_polled)
        if self._notes_confirmed != self._notes_polled:
            self._notes_confirmed = self._notes_polled
            pieces.append(frames.small(frames.ACK, self._notes_polled))
        if self._is_resumed:
            pieces += self.outbox.control()
            if self._notes_told != self._notes_sent:
                for seq, kind, body in self._notes_open:
                    if seq > self._notes_told:
                        pieces.append(frames.small(frames.NOTE, seq, kind, body=body))
                self._notes_told = self._notes_sent
            if self._goaway_is_due:
                self._goaway_sent = self._goaway_said = True
                number, digest = self._position()
                pieces.append(frames.small(frames.GOAWAY, number, self.outbox.last_id, body=digest))
        if self._confirm_due:
            self._confirm_due = False
            number, digest = self._position()
            pieces.append(
                frames.small(
                    frames.GOAWAY, number, self.outbox.last_id, flags=frames.GOAWAY_CONFIRM,
                    body=digest,
                )
            )  # fmt: skip
            self._check_finished()
        return pieces

    # Handshake.

    def _hello(self, flags: int, epoch: int) -> bytes:
        number, digest = self._position()
        return handshake.Hello(
            local=self._local,
            peer=self.peer,
            peer_session=self._peer_session,
            flags=flags,
            epoch=epoch,
            number=number,
            digest=digest,
        ).encode()

    def _greeted(
        self, connection: Connection, flags: int, epoch: int, number: int, body: memoryview
    ) -> None:
        if connection._state != _NEW:
            raise self._refused(frames.HELLO, "it came twice")
        hello = handshake.Hello.decode(flags, epoch, number, body, party=self.peer)
        channel = flags & ~frames.HELLO_REPLY
        is_reply = bool(flags & frames.HELLO_REPLY)
        if is_reply != connection._dialled or connection.channel not in (0, channel):
            raise self._refused(frames.HELLO, f"flags {flags:#x} at this place")
        refusal = handshake.check(self._local, hello, peer=self.peer)
        is_new = self._peer_session not in (handshake.NO_SESSION, hello.local.session)
        if refusal is not None and (refusal.code == handshake.REFUSED or not is_new):
            self._refuse_hello(connection, refusal)
            return
        if is_new:
            reason = "it was started again: its session id is another one"
            self._close(connection, reason, handshake.LOST)
            self._end(errors.PartyLostError(party=self.peer, reason=reason), handshake.LOST, reason)
            return
        if hello.peer_session not in (handshake.NO_SESSION, self._local.session):
            # It may be started again as well, so this side goes on waiting.
            self.last_cause = f"{self.peer!r} is in a job with an earlier process of this party"
            self._close(connection, "this party was started again", handshake.LOST)
            return
        connection.channel = channel
        connection._hello = hello
        if is_reply:
            if epoch != connection._epoch:
                raise self._refused(frames.HELLO, f"epoch {epoch} instead of {connection._epoch}")
            self._stand(connection)
            return
        connection._epoch = epoch
        problem = self._why_not(connection)
        if problem:
            self._close(connection, problem, handshake.SUPERSEDED)
        elif channel == BULK:
            self._stand(connection)
        else:
            for other in list(self._connections):
                if other is not connection:
                    self._close(other, "a newer connection of the pair took its place")
            if self._control is not None:
                self._break("the peer dialled again")
            connection._state = _PARKED
            self._unpark()

    def _why_not(self, connection: Connection) -> str:
        """Why an accepted connection is of no use; empty if it is."""
        epoch = connection._epoch
        control = self._control
        if connection.channel == BULK:
            stands = control is not None and control._state == _UP and not control._dialled
            if not stands or epoch != self._epoch or self._bulk is not None:
                return "it belongs to no control connection"
            return ""
        if epoch < self._epoch:
            return f"epoch {epoch} is over"
        if epoch == self._epoch and control is not None and control._dialled:
            return "the other connection of this epoch stands"
        pending = any(
            one._dialled and one._state == _NEW and one.channel == CONTROL
            for one in self._connections
        )
        if pending and self._local.party.casefold() < self.peer.casefold():
            return "both dialled, and the connection of the smaller name stays"
        return ""

    def _unpark(self) -> None:
        """Accept the connection that waited for older ones to be gone."""
        parked = [one for one in self._connections if one._state == _PARKED]
        if any(one._state in (_UP, _CLOSING) for one in self._connections):
            return
        for one in parked[:-1]:
            self._close(one, "a newer connection of the pair took its place", handshake.SUPERSEDED)
        if parked:
            self._stand(parked[-1])

    def _stand(self, connection: Connection) -> None:
        """The connection is agreed on: it is the pair's control or bulk from now on."""
        hello = connection._hello
        if hello is None or self.is_over:
            return
        if connection.channel == BULK and (self._control is None or self._bulk is not None):
            self._close(connection, "it belongs to no control connection")
            return
        connection._state = _UP
        connection._decoder.greeted()
        connection.since = self._now
        if not connection._dialled:
            flags = connection.channel | frames.HELLO_REPLY
            connection._first.append(self._hello(flags, connection._epoch))
        if connection.channel == BULK:
            self._bulk = connection
        else:
            self._control = connection
            self._epoch = connection._epoch
            self._peer_session = hello.local.session
            self._peer_max_value = hello.local.max_value_bytes
            self._state = _STANDING
            self._heard = self._next_ping = self._now
            connection._first += self.inbox.resume(self._notes_polled)
            self._notes_confirmed = self._notes_polled
            self._goaway_sent = False
            self._moved(hello.number, hello.digest)
        self._wake(connection.channel)
        self._check_up()

    def _check_up(self) -> None:
        if self._is_resumed and self._bulk is not None and not self._was_up_now:
            self._was_up_now = True
            self._events.append(events.Up(epoch=self._epoch))
            self._admit_notes()
            self._wake(BULK)
            self._wake_control()

    def _refuse_hello(self, connection: Connection, refusal: handshake.Refusal) -> None:
        self.last_cause = refusal.reason
        self._close(connection, refusal.reason, refusal.code)
        if refusal.code == handshake.MISMATCH:
            self._end(
                errors.HandshakeError(party=self.peer, reason=refusal.reason, fix=refusal.fix),
                refusal.code,
                refusal.reason,
            )

    def _told(self, connection: Connection, code: int, words: str) -> None:
        """The peer closes this connection, or the link, and says why."""
        connection._decoder.stop()
        is_stray = code == handshake.PROTOCOL and connection._state == _NEW
        if code in (handshake.REFUSED, handshake.SUPERSEDED) or is_stray:
            if code != handshake.SUPERSEDED:
                self.last_cause = f"party {self.peer!r} refused: {words}"
            self._close(connection, f"refused by the peer: {words}")
            return
        if connection._state == _NEW and not connection._dialled:
            raise self._refused(frames.ERROR, "it came instead of a HELLO")
        error: errors.FedError
        if code == handshake.MISMATCH:
            error = errors.HandshakeError(party=self.peer, reason=f"it refused this side: {words}")
        elif code == handshake.ABORTED:
            error = errors.PartyLostError(
                party=self.peer, reason=f"its program failed with {words or 'an error'}"
            )
        elif code == handshake.LOST:
            error = errors.PartyLostError(party=self.peer, reason=f"it gave this side up: {words}")
        elif code == handshake.STALLED:
            error = errors.PartyLostError(
                party=self.peer, reason=f"it took this side for stalled: {words}"
            )
        elif code == handshake.DIVERGED:
            error = errors.TransportError(
                party=self.peer, reason=f"its program differs from this one: {words}"
            )
        else:
            error = errors.TransportError(party=self.peer, reason=f"it ended the link: {words}")
        self._close(connection, "the peer ended the link")
        self._end(error, 0, "")

    def _position_frame(self, kind: int, sequence: int) -> bytes:
        number, digest = self._position()
        return frames.small(kind, sequence, number, body=digest)

    # Frames on control.

    def _on_ping(self, flags: int, a: int, b: int, body: memoryview) -> None:
        # Only the latest is answered: a flood of them costs one PONG.
        self._pong_due = max(a, 1)
        self._moved(b, bytes(body))
        self._wake_control()

    def _on_pong(self, flags: int, a: int, b: int, body: memoryview) -> None:
        if a > self._pings:
            raise self._refused(frames.PONG, f"PING {a} was never sent")
        self._moved(b, bytes(body))

    def _on_resume(self, flags: int, a: int, b: int, body: memoryview) -> None:
        if self._is_resumed:
            raise self._refused(frames.RESUME, "it came twice")
        pairs = frames.read_pairs(body)
        if flags & frames.RESUME_RANGES:
            self.outbox.resume_ranges(pairs)
        else:
            self.outbox.resume_offsets(pairs)
        if flags & frames.RESUME_LAST:
            self._notes_acknowledged(a)
            if self._notes_open:
                self._notes_told = self._notes_open[0][0] - 1
            else:
                self._notes_told = self._notes_sent
            self._is_resumed = True
            self.outbox.resume()
            self._after_delivery()
            self._check_up()
            self._wake_control()
            self._wake(BULK)

    def _on_cancel(self, flags: int, a: int, b: int, body: memoryview) -> None:
        self.inbox.cancelled(a)

    def _on_grant(self, flags: int, a: int, b: int, body: memoryview) -> None:
        self._in_order(frames.GRANT)
        self.outbox.granted(frames.read_ids(body))
        self._after_outbox()

    def _on_credit(self, flags: int, a: int, b: int, body: memoryview) -> None:
        self.outbox.credited(a)
        self._after_outbox()

    def _on_ack(self, flags: int, a: int, b: int, body: memoryview) -> None:
        self._in_order(frames.ACK)
        self._notes_acknowledged(a)
        if len(body):
            self.outbox.acknowledged(frames.read_pairs(body))
        self._after_delivery()

    def _on_refuse(self, flags: int, a: int, b: int, body: memoryview) -> None:
        self._in_order(frames.REFUSE)
        self.outbox.refused(a, b, frames.read_text(body))
        self._after_outbox()
        self._after_delivery()

    def _on_note(self, flags: int, a: int, b: int, body: memoryview) -> None:
        if a <= self._notes_received:
            return
        if a != self._notes_received + 1:
            raise self._refused(frames.NOTE, f"note {a} after {self._notes_received}")
        if a - self._notes_polled > NOTE_LIMIT or self._notes_waiting_bytes > NOTE_BYTES_LIMIT:
            raise self._refused(frames.NOTE, "more notes than may wait")
        self._notes_received = a
        self._notes_waiting_bytes += len(body)
        self._events.append(events.Noted(kind=b, body=bytes(body)))

    def _on_goaway(self, flags: int, a: int, b: int, body: memoryview) -> None:
        if flags & frames.GOAWAY_CONFIRM:
            if not self._goaway_said:
                raise self._refused(frames.GOAWAY, "it confirms what was not said")
            self._goaway_confirmed = True
        else:
            if not self.inbox.has_all(b):
                raise self._refused(frames.GOAWAY, f"of {b} messages some did not arrive")
            self._moved(a, bytes(body))
            if not self._goaway_received:
                self._goaway_received = True
                self._events.append(events.GoneAway(number=a, digest=bytes(body)))
            self._confirm_due = True
            self._wake_control()
        self._check_finished()

    # How it goes on.

    def _moved(self, number: int, digest: bytes) -> None:
        if self._peer_position != (number, digest):
            self._peer_position = (number, digest)
            self._events.append(events.Progress(number=number, digest=digest))

    def _admit_notes(self) -> None:
        notes = self._notes
        while notes and len(self._notes_open) < NOTE_LIMIT:
            if self._notes_open_bytes >= NOTE_BYTES_LIMIT:
                break
            kind, body = notes.popleft()
            self._notes_sent += 1
            self._notes_open.append((self._notes_sent, kind, body))
            self._notes_open_bytes += len(body)
        if self._notes_told != self._notes_sent:
            self._wake_control()

    def _notes_acknowledged(self, last: int) -> None:
        if last > self._notes_sent:
            raise self._refused(frames.ACK, f"note {last} was never sent")
        is_news = False
        while self._notes_open and self._notes_open[0][0] <= last:
            self._notes_open_bytes -= len(self._notes_open.popleft()[2])
            is_news = True
        if is_news:
            self._admit_notes()

    def _after_outbox(self) -> None:
        if self.outbox.has_bulk:
            self._wake(BULK)
        if self.outbox.has_control:
            self._wake_control()

    def _after_delivery(self) -> None:
        if self._is_finishing and self._goaway_is_due:
            self._wake_control()

    @property
    def _goaway_is_due(self) -> bool:
        return (
            self._is_finishing
            and not self._goaway_sent
            and not self._goaway_confirmed
            and not self.outbox.open_messages
            and not self._notes
            and not self._notes_open
        )

    @property
    def _lingers(self) -> bool:
        """Both said GOAWAY, or the peer has and everything of ours was acknowledged."""
        return self._goaway_received and self._is_finishing and not self.undrained

    def _check_finished(self) -> None:
        if self._goaway_received and self._goaway_confirmed and not self._confirm_due:
            self._finish()

    def _finish(self) -> None:
        if self.is_over:
            return
        self._state = _FINISHED
        self._events.append(events.Finished())
        for connection in list(self._connections):
            self._close(connection, "the program ended")
        self._control = self._bulk = None
        self._was_up_now = self._is_resumed = False

    def _in_order(self, kind: int) -> None:
        if not self._is_resumed:
            raise self._refused(kind, "it came before RESUME")

    def _wake_control(self) -> None:
        self._wake(CONTROL)

    def _break(self, reason: str) -> None:
        """The pair of connections is gone: stop, close what is left of it, and wait for another."""
        if self._state != _STANDING:
            return
        self._state = _DOWN
        self._down_since = self._now
        self.last_cause = reason
        for connection in (self._control, self._bulk):
            if connection is None:
                continue
            part = connection._decoder.partial
            if part:
                self.inbox.chunk_part(part)
            if connection._state != _GONE:
                self._close(connection, "the other connection of the pair is gone")
        self._control = self._bulk = None
        was_up, self._is_resumed, self._was_up_now = self._was_up_now, False, False
        self.outbox.pause()
        self.inbox.pause()
        self._ping_due = self._confirm_due = False
        self._pong_due = 0
        if was_up:
            self._events.append(events.Down(reason=reason))

    def _end(self, error: errors.FedError, code: int, words: str, *, is_told: bool = True) -> None:
        """The link ends with an error; the peer is told if there is a `code`."""
        if self.is_over:
            return
        self._state = _FAILED
        self._last_words = (code, words) if code else None
        for connection in list(self._connections):
            # On all, because the peer looks at no other once it sees the end of one.
            self._close(connection, str(error), code, words)
        self._control = self._bulk = None
        self._was_up_now = self._is_resumed = False
        self.outbox.close()
        self._box.leave(self.inbox.close())
        if is_told:
            self._events.append(events.Failed(error=error))

    def _close(
        self, connection: Connection, reason: str, code: int = 0, words: str | None = None
    ) -> None:
        """Have the carrier close it, after an ERROR frame if there is a `code`."""
        if connection._state in (_CLOSING, _GONE):
            return
        if connection._state != _UP:
            connection._first.clear()
        connection._state = _CLOSING
        connection._decoder.stop()
        if code:
            number, _ = self._position()
            body = frames.text(reason if words is None else words)
            connection._first.append(frames.small(frames.ERROR, code, number, body=body))
        connection.closing = reason
        self._wake(connection.channel or CONTROL)

    def _refused(self, kind: int, what: str) -> errors.TransportError:
        return errors.TransportError(
            party=self.peer, reason=f"{frames.NAMES[kind]} frame refused: {what}"
        )


_HANDLERS: Final = {
    frames.GOAWAY: Link._on_goaway,
    frames.PING: Link._on_ping,
    frames.PONG: Link._on_pong,
    frames.RESUME: Link._on_resume,
    frames.CANCEL: Link._on_cancel,
    frames.GRANT: Link._on_grant,
    frames.CREDIT: Link._on_credit,
    frames.ACK: Link._on_ack,
    frames.REFUSE: Link._on_refuse,
    frames.NOTE: Link._on_note,
}


def _size(view: frames.Piece) -> int:
    return view.nbytes if isinstance(view, memoryview) else len(view)
