"""A party's end of the links to all others: values in at one party, values out at another.

What the engine and the bench use; one endpoint per process and job.

    end = endpoint.Endpoint(
        "ALICE", "hospitals", "job-1", peers={"BOB": "10.0.0.7:9000"}, listen="0.0.0.0:9000",
        identity=identity.Identity(...), types=types.UserTypes(...),
    )
    end.start(60.0)                                     # all peers are there, or an error says why
    sent = end.send(value, to="BOB", number=7, call=5)  # made by call 5, for call 7 at BOB
    value = end.receive("BOB", 6, number=8, timeout_s=30)  # made by BOB's call 6, for our call 8
    end.shutdown(60.0)                                  # all delivered at both sides; or `abort`

* `send` returns at once; the value may not change until it is delivered. `Sent.result(timeout_s)`
  waits for that, `done=` is called then, `drain` waits for all.
* `receive` waits for one value, `receive_all` for several, which come together. `expect` does not
  wait: `done=` is called with the `Request`, whose `taken()` gives the values or raises. Say it
  when nothing else keeps the call from starting (see `mailbox.Mailbox`). A value is given once per
  object: calls that wait for it at the same time all get it, later ones have to keep it.
* `note` sends small messages, once and in order; `heard=` is called with (party, event) for what
  the peers do: `events.Noted`, `Progress`, `Up`, `Down`, `GoneAway`, `Finished`, `Failed`.
* `position=` gives this program's latest call number and the digest there, `digest_at=` the digest
  at a call number; both are called under the endpoint's lock, so they must be quick and not call
  the endpoint. Left out, digests are all zeros.
* `done` and `heard` are called by threads of the endpoint (or by the one that caused it), under no
  lock. They may call the endpoint, but while they run values of one peer do not move.

A link that fails (lost, stalled, refused) fails the requests that wait for that peer and whatever
is sent to it later, with that error. The other links go on; whether the job does is the engine's
to say. All threads are daemons: nothing here holds the process' exit.
"""

from __future__ import annotations

import copy
import functools
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fed import errors, names
from fed.codec import types as table
from fed.codec import wire
from fed.transport import (
    arrivals,
    border,
    channel,
    dialer,
    events,
    frames,
    handshake,
    identity,
    inbox,
    link,
    listener,
    mailbox,
    pool,
    reach,
    requests,
    sockets,
    spill,
    tls,
)

log = logging.getLogger(__name__)

#: Of the receive budget, what may be kept of memory that no value is in, one part in so many.
_KEPT_SHARE: Final = 4
_KEPT_LIMIT: Final = 1 << 30
#: After the last word of a connection, how long the peer may take to read it.
_LAST_WORD_S: Final = 2.0
#: Where both connections of a pair end, how long the end of bulk waits for that of control.
_CONTROL_FIRST_S: Final = 0.1
#: Connections of one peer, those that are closing included: each costs two threads and 400 KB.
_CHANNEL_LIMIT: Final = 16
#: Between two tries to dial.
_FIRST_RETRY_S: Final = 0.05
_RETRY_S: Final = 1.0
#: While the start waits, who is missing is said that often.
_TELL_S: Final = 5.0
#: Messages in flight up to which each is sent at once; beyond it they are put together.
_AT_ONCE: Final = 8
#: A larger payload is left to the writer thread.
_PASSING_BYTES: Final = 64 << 10
_TOGETHER_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Times in seconds and limits in bytes; docs/settings.md says what they mean.

    Attributes:
        proxy: `host:port` of a proxy that takes HTTP CONNECT, for all that is dialled.
        insecure: allow connections beyond this machine without TLS.
        chunk_bytes: see `link.Settings`.
    """

    peer_timeout_s: float = 30.0
    stall_timeout_s: float = 600.0
    handshake_timeout_s: float = 10.0
    ping_interval_s: float = 5.0
    receive_budget_bytes: int = 1 << 30
    spill_quota_bytes: int = 0
    spill_dir: Path | None = None
    max_value_bytes: int = 16 << 30
    proxy: str | None = None
    insecure: bool = False
    chunk_bytes: int = frames.CHUNK_LIMIT


@dataclass(slots=True, eq=False)
class _Peer:
    """What the endpoint has of one peer. Guarded by the endpoint's lock."""

    party: names.PartyId
    link: link.Link
    route: dialer.Route | None
    channels: list[channel.Channel] = field(default_factory=list)
    sent: dict[int, requests.Sent] = field(default_factory=dict)
    cause: errors.FedError | None = None  # why the last try came to nothing
    error: errors.FedError | None = None  # the link's end
    was_reached: bool = False  # TLS stood once
    was_up: bool = False
    closed_told: float = -1.0  # when a connection without a place was last logged
    marks: int = 0  # which of its connections have something to send
    dial: threading.Event = field(default_factory=threading.Event)


class Endpoint:
    """See the module.

    Args:
        party: this party.
        federation: name of the federation, as in the certificates.
        job: name of the job; only peers of the same job are talked to.
        peers: all other parties, by name: `host:port` to dial, or None for one that dials.
        listen: `host:port` to listen at; None to dial only. Port 0 takes a free one (`address`).
        identity: certificate and pins; None for connections without TLS.
        types: the user's classes that may cross.
        settings: times and limits.
        agreed: names and texts of the settings that all parties must have alike.
        position: see the module.
        digest_at: see the module.
        heard: see the module.
        border: asked before a value leaves or enters (policy, audit).
        session: 16 bytes, new in each run; random if left out.

    Raises:
        ConfigError: a peer can't be dialled nor dial here, an address is none, or is beyond this
            machine without TLS.
    """

    def __init__(
        self,
        party: str,
        federation: str,
        job: str,
        *,
        peers: Mapping[str, str | None],
        listen: str | None = None,
        identity: identity.Identity | None = None,
        types: table.UserTypes | None = None,
        settings: Settings | None = None,
        agreed: Mapping[str, str] | None = None,
        position: Callable[[], tuple[int, bytes]] | None = None,
        digest_at: Callable[[int], bytes] | None = None,
        heard: Callable[[str, events.LinkEvent], None] | None = None,
        border: border.Border | None = None,
        session: bytes | None = None,
        version: str = "",
    ) -> None:
        self.party = names.PartyId(party)
        self.lock = threading.Lock()
        self._settings = settings = settings or Settings()
        self._identity = identity
        self._types = types or table.UserTypes(None, None)
        self._limits = wire.Limits(total_bytes=settings.max_value_bytes)
        self._listen = listen
        self._heard = heard
        reach.check(peers, listen, has_tls=identity is not None, insecure=settings.insecure)
        budget = settings.receive_budget_bytes
        self._border = border
        self._box = _new_mailbox(
            border, budget_bytes=budget, spill_bytes=settings.spill_quota_bytes, peers=len(peers)
        )
        self._pool = pool.Pool(
            keep_bytes=min(budget // _KEPT_SHARE, _KEPT_LIMIT), clock=time.monotonic
        )
        self._spill = spill.Spill(settings.spill_dir)
        self._spilling = spill.Writer(
            self._spill, take=self._buffer_to_spill, done=self._spilled, name=f"fed-spill-{party}"
        )
        self._listener: listener.Listener | None = None
        self._settled: deque[requests.Sent | requests.Request] = deque()
        self._turned_back: deque[tuple[str, int, errors.FedError]] = deque()
        self._arrivals = arrivals.Arrivals(
            self._box,
            digest_at=digest_at or _no_digest_at,
            settled=self._settled.append,
            refused=self._turned_back.append,
            to_spill=self._spilling.add,
        )
        self._news: deque[tuple[str, events.LinkEvent]] = deque()
        self._telling = threading.Lock()
        self._marked: list[_Peer] = []
        self._changed = threading.Condition(self.lock)
        self._is_closed = False
        self._due = threading.Event()
        local = handshake.Local(
            federation=federation, job=job, party=party, session=session or os.urandom(16),
            settings=dict(agreed or {}), max_value_bytes=settings.max_value_bytes, version=version,
        )  # fmt: skip
        times = link.Settings(
            ping_interval_s=settings.ping_interval_s, peer_timeout_s=settings.peer_timeout_s,
            stall_timeout_s=settings.stall_timeout_s,
            handshake_timeout_s=settings.handshake_timeout_s, chunk_bytes=settings.chunk_bytes,
        )  # fmt: skip
        self._peers: dict[str, _Peer] = {}
        for name, address in peers.items():
            self._peers[name] = self._new_peer(name, address, local, times, position)

    def _new_peer(
        self,
        name: str,
        address: str | None,
        local: handshake.Local,
        times: link.Settings,
        position: Callable[[], tuple[int, bytes]] | None,
    ) -> _Peer:
        party = names.PartyId(name)
        route = None
        if address is not None:
            route = dialer.Route(party=party, address=address, proxy=self._settings.proxy)
        made = link.Link(
            local,
            peer=name,
            box=self._box,
            settings=times,
            can_dial=route is not None,
            allocate=self._pool.get,
            position=position or _no_position,
            wake=lambda channel: self._mark(peer, channel),
            now=time.monotonic(),
        )
        peer = _Peer(party, made, route)
        return peer

    # Start and end.

    @property
    def used_bytes(self) -> int:
        """Memory of the receive budget in use, what peers may send at any time not counted."""
        return self._box.used_bytes

    @property
    def spilled_bytes(self) -> int:
        """Disk in use for values that nobody has read yet."""
        return self._box.spilled_bytes

    @property
    def address(self) -> str | None:
        """Where this party listens: `host:port`, the first of several; None if it does not."""
        return self._listener.addresses[0] if self._listener is not None else None

    def listen(self) -> None:
        """Listen from now on; `start` does it if it was not done before.

        Raises:
            ConfigError: the address can't be listened at.
        """
        if self._listen is None or self._listener is not None:
            return
        self._listener = listener.Listener(
            listener.bind(self._listen),
            own=self._identity,
            known=self._accepted,
            refused=self._turned_away,
            is_open_to_all=self._settings.insecure,
            timeout_s=self._settings.handshake_timeout_s,
        )
        self._listener.start()

    def start(self, timeout_s: float) -> None:
        """Connect to all peers; when it returns, all are there.

        After an error the endpoint goes on trying; `abort` ends it.

        Raises:
            ConfigError: the address can't be listened at.
            PartyUnreachableError: somebody is missing after that time; it names all who are, each
                with the last cause.
            HandshakeError: a peer answered, and it or this party was refused.
            FedError: a link failed meanwhile.
        """
        self.listen()
        self._spawn(self._tick, "tick")
        for peer in self._peers.values():
            if peer.route is not None:
                self._spawn(functools.partial(self._dial, peer), f"dial-{peer.party}")
        begin = time.monotonic()
        deadline = begin + timeout_s
        tell = begin + _TELL_S
        with self._changed:
            while True:
                for peer in self._peers.values():
                    if peer.error is not None:
                        raise copy.copy(peer.error)
                missing = [peer for peer in self._peers.values() if not peer.was_up]
                if not missing:
                    return
                now = time.monotonic()
                if now >= deadline:
                    raise reach.error_of([_about(one) for one in missing], now - begin)
                if now >= tell:
                    tell = now + _TELL_S
                    whom = "; ".join(f"{one.party} ({_about(one).why})" for one in missing)
                    log.info("waiting for %s", whom)
                self._changed.wait(min(deadline, tell) - now)

    def drain(self, timeout_s: float) -> None:
        """All that was sent is delivered when it returns.

        Raises:
            FedTimeoutError: it is not within the time.
            FedError: a link failed.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                for peer in self._peers.values():
                    if peer.error is not None:
                        raise copy.copy(peer.error)
                rest = [peer for peer in self._peers.values() if peer.link.undrained]
                if not rest:
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    raise errors.FedTimeoutError(
                        what=f"the delivery of {rest[0].link.undrained}", party=rest[0].party,
                        waited_s=timeout_s,
                    )  # fmt: skip
                self._changed.wait(left)

    def shutdown(self, timeout_s: float) -> None:
        """The program ended here: deliver what is left, hear the same of all peers, and close.

        Raises:
            TransportError: it did not come to that within the time; it names what was left where.
            FedError: a link failed meanwhile.
        """
        with self.lock:
            for peer in self._peers.values():
                peer.link.finish()
        self._pump()
        deadline = time.monotonic() + timeout_s
        left: list[_Peer] = []
        with self._changed:
            while True:
                left = [peer for peer in self._peers.values() if not peer.link.is_over]
                wait_s = deadline - time.monotonic()
                if not left or wait_s <= 0:
                    break
                self._changed.wait(wait_s)
            failed = [peer.error for peer in self._peers.values() if peer.error is not None]
            what = "; ".join(
                f"party {one.party!r}: {one.link.undrained or 'its program has not ended'}"
                for one in left
            )
            for peer in left:
                peer.link.close(f"not drained within {timeout_s:g} s")
        self._close()
        if failed:
            raise copy.copy(failed[0])
        if left:
            raise errors.TransportError(
                party=left[0].party,
                reason=f"shutdown was not through after {timeout_s:g} s: {what}",
            )

    def abort(self, type_name: str) -> None:
        """The program failed here with an error of this type: tell all peers, and close."""
        with self.lock:
            for peer in self._peers.values():
                peer.link.abort(type_name)
        self._pump()
        self._close()

    def _close(self) -> None:
        """Let connections say their last words for a short time, then drop everything."""
        deadline = time.monotonic() + _LAST_WORD_S
        with self._changed:
            while time.monotonic() < deadline:
                if not any(peer.channels for peer in self._peers.values()):
                    break
                self._changed.wait(0.05)
            self._is_closed = True
            channels = [one for peer in self._peers.values() for one in peer.channels]
        for one in channels:
            one.cut()
        if self._listener is not None:
            self._listener.close()
        self._due.set()
        self._spilling.close()
        for peer in self._peers.values():
            peer.dial.set()
        gone = errors.SessionError(problem="the endpoint is closed")
        with self.lock:
            self._arrivals.close(gone)
        self._tell()

    def cut(self, party: str, reason: str = "cut by hand") -> None:
        """Drop the connections to a peer, as a failing network does; they are made again."""
        log.info("connections to party %s are cut: %s", party, reason)
        with self.lock:
            channels = list(self._peers[party].channels)
        for one in channels:
            one.cut()

    # Values out.

    def encode(self, value: object, *, call: int | None = None) -> wire.Encoded:
        """A value ready to be sent, to several peers perhaps: `send` takes it too.

        Raises:
            ValueRefusedError: it may not cross.
        """
        return wire.encode(
            value, types=self._types, limits=self._limits, party=self.party, call=call
        )

    def send(
        self,
        value: object,
        *,
        to: str,
        number: int,
        call: int,
        index: int = 0,
        kind: int = 0,
        digest: bytes = frames.NO_DIGEST,
        done: Callable[[requests.Sent], None] | None = None,
    ) -> requests.Sent:
        """Send a value to a peer's call; it may not change until it is delivered.

        Args:
            value: anything that may cross, or what `encode` gave.
            to: the peer.
            number: the call at the peer that consumes it (the first, if there are several).
            call: the call that made it.
            index: which of that call's results.
            kind: what it is, between the engines, in 0..65535.
            digest: this side's digest at `number`.
            done: called when it is delivered, or never will be.

        Raises:
            ValueRefusedError: it may not cross, or is larger than the peer takes.
            FedError: the border does not let it leave.
            PartyError: the link to the peer has failed.
            UsageError: after `shutdown`.
        """
        encoded = value if type(value) is wire.Encoded else self.encode(value, call=call)
        views = list(encoded.body()) if encoded.buffers else ()
        peer = self._peers[to]
        size = len(encoded.header) + sum(map(len, views))
        sent = requests.Sent(to, call, size, done)
        if self._border is not None:
            plain = None if encoded is value else value
            sent.outcome = self._border.leaves(
                plain, encoded, to=to, number=number, call=call, index=index
            )
        try:
            with self.lock:
                if peer.error is not None:
                    raise copy.copy(peer.error)
                self._check_open()
                message = peer.link.send(
                    encoded.header, views, number=number, call=call, index=index, kind=kind,
                    digest=digest,
                )  # fmt: skip
                peer.sent[message] = sent
                channels = self._marked_channels()
                is_alone = len(peer.sent) <= _AT_ONCE
        except errors.FedError as error:
            if sent.outcome is not None:
                sent.outcome(error)
            raise
        for one in channels:
            if is_alone and size <= _PASSING_BYTES:
                one.pump()
                continue
            one.queued_bytes += size
            if size <= _PASSING_BYTES and one.queued_bytes >= _TOGETHER_BYTES:
                one.pump()
            else:
                one.poke()
        return sent

    def note(self, kind: int, body: bytes, *, to: str) -> None:
        """Send a small message of the engine, once and in order.

        Raises:
            PartyError: the link to the peer has failed.
            UsageError: it is too long, or after `shutdown`.
        """
        peer = self._peers[to]
        with self.lock:
            if peer.error is not None:
                raise copy.copy(peer.error)
            self._check_open()
            peer.link.note(kind, body)
        self._pump()

    # Values in.

    def receive(
        self, party: str, call: int, index: int = 0, *, number: int, timeout_s: float | None = None
    ) -> object:
        """The value that a peer's call made, for this party's call `number`.

        Raises: as `receive_all`.
        """
        return self.receive_all([(party, call, index)], number=number, timeout_s=timeout_s)[0]

    def receive_all(
        self, keys: Sequence[mailbox.Key], *, number: int, timeout_s: float | None = None
    ) -> list[object]:
        """The values of several objects, each (party, call, index), for one call.

        Raises:
            FedTimeoutError: they are not there within the time; they stay on their way.
            ValueRefusedError: one of them may not come in.
            PartyLostError: the party that has one is lost, or ended without sending it.
            FedError: its link failed otherwise.
        """
        request = self.expect(keys, number=number)
        if not request.wait(timeout_s):
            with self.lock:
                is_late = not request.is_done
                if is_late:
                    self._arrivals.forget(request)
            self._pump()
            if is_late:
                call = request.keys[0][1]
                raise errors.FedTimeoutError(
                    what=f"the value of call {call}", party=request.keys[0][0],
                    waited_s=timeout_s or 0.0,
                )  # fmt: skip
        return request.taken()

    def expect(
        self,
        keys: Sequence[mailbox.Key],
        *,
        number: int,
        done: Callable[[requests.Request], None] | None = None,
    ) -> requests.Request:
        """Wait for values without blocking: `done` gets the request once all are there.

        Raises:
            KeyError: a party that is no peer.
        """
        for party, _, _ in keys:
            self._peers[party]  # KeyError for who is no peer
        request = requests.Request(number, keys, done)
        with self.lock:
            self._check_open()
            parcels = self._arrivals.expect(request)
        self._proceed(parcels)
        return request

    def forget(self, request: requests.Request) -> None:
        """Nobody waits for it any more; its values stay where they are."""
        with self.lock:
            if not request.is_done:
                self._arrivals.forget(request)
        self._pump()

    # What connections say: `channel.Owner`.

    def received(self, channel: channel.Channel, count: int) -> None:
        """See `channel.Owner`."""
        peer = self._peers[channel.party]
        with self.lock:
            channel.connection.received(count, time.monotonic())
            self._poll(peer)
            parcels = self._arrivals.sorted_events()
        if parcels:
            self._proceed(parcels, reader=channel)
        elif not channel.carrier.has_more:
            self._pump()
        if self._settled or self._news or self._turned_back:
            self._tell()

    def ended(self, channel: channel.Channel, reason: str) -> None:
        """See `channel.Owner`."""
        peer = self._peers[channel.party]
        with self._changed:
            if channel.connection.channel == link.BULK and not reason:
                # What control has to say of it comes first: most ends are orderly ones.
                self._changed.wait_for(lambda: self._has_ended(peer), _CONTROL_FIRST_S)
            if channel in peer.channels:
                peer.channels.remove(channel)
            if channel.refusal is not None:
                # In TLS 1.3 the listener's refusal comes only now, out of the first read.
                peer.cause = channel.refusal
            was_greeted = channel.connection.channel != 0
            closing = "" if was_greeted or peer.link.is_over else channel.connection.closing
            channel.connection.lost(reason, time.monotonic())
            self._poll(peer)
            parcels = self._arrivals.sorted_events()
            self._changed.notify_all()
            peer.dial.set()
        if closing:
            self._tell_closed(peer, closing)
        self._proceed(parcels)

    def _tell_closed(self, peer: _Peer, why: str) -> None:
        """Log that a connection was closed before it was one of the link's; not all of a flood."""
        now = time.monotonic()
        if now - peer.closed_told >= 1.0:
            peer.closed_told = now
            log.warning("a connection of party %s was closed: %s", peer.party, why)

    def _has_ended(self, peer: _Peer) -> bool:
        """The link is over, or has no control connection. Lock held."""
        channels = [one.connection.channel for one in peer.channels]
        return peer.link.is_over or link.CONTROL not in channels

    def _accepted(self, carrier: tls.Carrier, sock: socket.socket) -> None:
        """A peer dialled, and is known."""
        peer = self._peers.get(carrier.peer.party)
        if peer is None:
            log.warning(
                "a connection from %s was refused: party %s is not in this job",
                carrier.address, carrier.peer.party,
            )  # fmt: skip
            carrier.close()
            return
        with self.lock:
            is_one_too_many = len(peer.channels) >= _CHANNEL_LIMIT
        if is_one_too_many:
            carrier.close()
            self._tell_closed(peer, f"{_CHANNEL_LIMIT} others stand or are closing")
            return
        with self.lock:
            peer.cause, peer.was_reached = None, True
            connection = peer.link.accepted(time.monotonic())
            made = channel.Channel(self, carrier, sock, connection, party=peer.party)
            peer.channels.append(made)
        made.start(f"{peer.party}-in")
        made.pump()

    def _turned_away(self, party: str, error: errors.HandshakeError) -> None:
        """Somebody dialled and may not come in."""
        log.warning("a connection was refused: %s", error)
        peer = self._peers.get(party)
        if peer is not None:
            with self._changed:
                peer.cause = error
                peer.link.dial_failed(str(error), time.monotonic())
                self._changed.notify_all()

    # Threads of its own.

    def _spawn(self, run: Callable[[], None], name: str) -> None:
        def guarded() -> None:
            try:
                run()
            except Exception:
                log.exception("a thread of the link ended")

        threading.Thread(target=guarded, name=f"fed-{name}", daemon=True).start()

    def _tick(self) -> None:
        """Look at the clock, for all links and connections."""
        while not self._is_closed:
            now = time.monotonic()
            soonest = now + 1.0
            cut = []
            with self._changed:
                for peer in self._peers.values():
                    peer.link.tick(now)
                    self._poll(peer)
                    soonest = min(soonest, peer.link.deadline())
                    cut += [one for one in peer.channels if self._is_to_be_cut(one, now)]
                    if any(one.closing_since for one in peer.channels):
                        soonest = min(soonest, now + _LAST_WORD_S / 4)
                    if peer.link.wants_dial:
                        peer.dial.set()
                parcels = self._arrivals.sorted_events()
            for one in cut:
                one.cut()
            self._proceed(parcels)
            self._pool.trim()
            self._due.wait(max(0.005, soonest - time.monotonic()))

    def _is_to_be_cut(self, one: channel.Channel, now: float) -> bool:
        if one.connection.closing:
            # Its writer may be stuck in a network that is gone, and no other pair comes before.
            one.closing_since = one.closing_since or now
            return now - one.closing_since > _LAST_WORD_S
        if time.time() > one.carrier.peer.not_after:
            log.warning(
                "the certificate of party %s has ended: its connection is closed", one.party
            )
            return True
        return False

    def _dial(self, peer: _Peer) -> None:
        """Dial the peer whenever its link wants it."""
        route = peer.route
        retry_s = _FIRST_RETRY_S
        while route is not None and not self._is_closed:
            with self.lock:
                wanted = peer.link.wants_dial
                peer.dial.clear()
            if not wanted:
                if peer.link.is_over:
                    return
                peer.dial.wait(1.0)
                continue
            try:
                carrier, sock = dialer.dial(
                    route, own=self._identity, timeout_s=self._settings.handshake_timeout_s
                )
            except (errors.PartyUnreachableError, errors.HandshakeError) as error:
                reason = getattr(error, "reason", "")
                if isinstance(error, errors.HandshakeError) and str(error) != str(peer.cause):
                    log.warning("the connection to %s was refused: %s", route.address, error)
                with self._changed:
                    peer.cause = error
                    peer.link.dial_failed(f"{route.address}: {reason}", time.monotonic())
                    self._changed.notify_all()
                self._due.wait(retry_s)
                retry_s = min(2 * retry_s, _RETRY_S)
                continue
            with self.lock:
                peer.cause, peer.was_reached = None, True
                connection = peer.link.opened(wanted, time.monotonic())
                made = channel.Channel(self, carrier, sock, connection, party=peer.party)
                peer.channels.append(made)
            made.start(f"{peer.party}-out")
            made.pump()
            # The link says nothing while it waits for the answer; then it wants bulk, or again.
            begin = time.monotonic()
            self._settle_dial(peer, wanted)
            with self.lock:
                is_up, still_wanted = peer.link.is_up, peer.link.wants_dial == wanted
            if is_up or time.monotonic() - begin > _RETRY_S:
                retry_s = _FIRST_RETRY_S
            elif still_wanted:
                self._due.wait(retry_s)
                retry_s = min(2 * retry_s, _RETRY_S)

    def _settle_dial(self, peer: _Peer, wanted: int) -> None:
        """Wait until the connection just dialled stands or is gone."""
        while not self._is_closed:
            with self.lock:
                peer.dial.clear()
                if peer.link.wants_dial != 0 or peer.link.is_up or peer.link.is_over:
                    return
            peer.dial.wait(0.5)

    def _buffer_to_spill(self, parcel: inbox.Parcel) -> memoryview | None:
        """What is to be written; None if it is not wanted on disk any more."""
        with self.lock:
            return parcel.buffer if parcel.spilling else None

    def _spilled(self, parcel: inbox.Parcel, token: spill.Token | None) -> None:
        """It was written, or could not be."""
        with self.lock:
            if token is None:
                self._box.not_spilled(parcel)
            else:
                self._box.spilled(parcel, token)
            parcels = self._arrivals.sorted_events()
        self._proceed(parcels)

    # What the pure parts say. Those that begin here with the lock held say so.

    def _mark(self, peer: _Peer, channel: int) -> None:
        """The link has something to send there. Lock held."""
        if not peer.marks:
            self._marked.append(peer)
        peer.marks |= channel

    def _marked_channels(self) -> list[channel.Channel]:
        """Connections that have something to send. Lock held."""
        if not self._marked:
            return []
        found = []
        for peer in self._marked:
            marks, peer.marks = peer.marks, 0
            for one in peer.channels:
                # One that has not said what it is has something to send only when it closes.
                channel = one.connection.channel
                if channel & marks or (not channel and one.connection.closing):
                    found.append(one)
        self._marked.clear()
        return found

    def _pump(self) -> None:
        """Send what there is to send."""
        while self._marked:
            with self.lock:
                channels = self._marked_channels()
            for one in channels:
                one.pump()

    def _poll(self, peer: _Peer) -> None:
        """Take in what the link says. Lock held."""
        for event in peer.link.poll():
            kind = type(event)
            if kind is events.Delivered:
                self._delivered(peer, event)  # type: ignore[arg-type]
                continue
            if isinstance(event, events.Refused):
                sent = peer.sent.pop(event.message, None)
                if sent is not None:
                    self._settled.append(_with_error(sent, _refusal(event, sent)))
                self._changed.notify_all()
                continue
            if isinstance(event, events.Up):
                peer.was_up = True
                for one in peer.channels:
                    one.settle(min(sockets.SILENCE_S, self._settings.peer_timeout_s))
            elif isinstance(event, events.Down):
                peer.dial.set()
            elif isinstance(event, events.GoneAway):
                # All that it sent was acknowledged, so what is not here does not exist.
                reason = "its program ended without sending that"
                gone = errors.PartyLostError(party=peer.party, reason=reason)
                self._arrivals.end(peer.party, gone)
            elif isinstance(event, events.Failed):
                self._failed(peer, event.error)
            self._changed.notify_all()
            self._news.append((peer.party, event))
        if peer.link.wants_dial:
            peer.dial.set()

    def _delivered(self, peer: _Peer, event: events.Delivered) -> None:
        sent = peer.sent
        span: Iterable[int] = range(event.first, event.last + 1)
        if event.last - event.first >= len(sent):
            span = [number for number in sent if event.first <= number <= event.last]
        for number in span:
            one = sent.pop(number, None)
            if one is not None:
                self._settled.append(one)
        if not sent:
            self._changed.notify_all()

    def _failed(self, peer: _Peer, error: errors.FedError) -> None:
        """The link is over, and nothing of it will come or go any more. Lock held."""
        peer.error = error
        self._arrivals.end(peer.party, error)
        for sent in peer.sent.values():
            self._settled.append(_with_error(sent, copy.copy(error)))
        peer.sent.clear()

    def _proceed(
        self, parcels: list[inbox.Parcel], *, reader: channel.Channel | None = None
    ) -> None:
        """Decode and hand over, and again what came by that; then send and tell."""
        while parcels:
            outcomes = [(parcel, *self._decoded(parcel)) for parcel in parcels]
            with self.lock:
                for parcel, value, refusal in outcomes:
                    if refusal is None:
                        self._arrivals.hand_over(parcel, value)
                    else:
                        self._arrivals.turn_back(parcel, *refusal)
                parcels = self._arrivals.sorted_events()
            del outcomes
        if reader is None or not reader.carrier.has_more:
            self._pump()
        self._tell()

    def _decoded(self, parcel: inbox.Parcel) -> tuple[object, tuple[int, errors.FedError] | None]:
        """The value, or with which code and error it is refused."""
        try:
            if parcel.token is not None:
                buffer = parcel.token.read()
                head, body = buffer[: parcel.head_size], buffer[parcel.body_start :]
            else:
                buffer = parcel.buffer
                head, body = parcel.parts()
            value = wire.decode(
                head, body, types=self._types, limits=self._limits, party=parcel.party
            )
        except errors.FedError as error:
            return None, (inbox.NOT_DECODED, error)
        except OSError as error:
            lost = errors.SpillError(
                size_bytes=parcel.size, reason=f"it can't be read back: {error.strerror or error}",
                site=f"party {parcel.party}",
            )  # fmt: skip
            return None, (inbox.NO_ROOM, lost)
        if self._border is not None:
            try:
                self._border.enters(value, parcel, buffer)
            except errors.FedError as error:
                return None, (inbox.FORBIDDEN, error)
        return value, None

    def _tell(self) -> None:
        """Call back whoever wants to know, in order per peer, under no lock."""
        while self._turned_back:
            try:
                party, call, why = self._turned_back.popleft()
            except IndexError:
                break  # another thread took it
            # It may name what the peer made up, such as a class.
            words = frames.read_text(str(why).encode("utf-8", "replace"))
            log.warning("the value of call %d of party %s may not come in: %s", call, party, words)
        while self._settled:
            try:
                one = self._settled.popleft()
            except IndexError:
                break  # another thread took it
            try:
                one.settle()
            except Exception:
                log.exception("the callback of a value failed")
        while self._news:
            if not self._telling.acquire(blocking=False):
                return
            try:
                while self._news:
                    party, event = self._news.popleft()
                    _log_event(party, event)
                    if self._heard is not None:
                        self._heard(party, event)
            except Exception:
                log.exception("the callback of an event failed")
            finally:
                self._telling.release()

    def _check_open(self) -> None:
        if self._is_closed:
            raise errors.SessionError(problem="the endpoint is closed")


def _log_event(party: str, event: events.LinkEvent) -> None:
    if isinstance(event, events.Up):
        log.debug("party %s is connected", party)
    elif isinstance(event, events.Down):
        log.warning("the connection to party %s broke: %s", party, event.reason)
    elif isinstance(event, events.Failed):
        log.error("the link to party %s ended: %s", party, event.error)


def _new_mailbox(
    asked: border.Border | None, *, budget_bytes: int, spill_bytes: int, peers: int
) -> mailbox.Mailbox:
    if asked is None:
        return mailbox.Mailbox(budget_bytes=budget_bytes, spill_bytes=spill_bytes, peers=peers)
    return border.GuardedMailbox(
        asked, budget_bytes=budget_bytes, spill_bytes=spill_bytes, peers=peers
    )


def _no_position() -> tuple[int, bytes]:
    return 0, frames.NO_DIGEST


def _no_digest_at(number: int) -> bytes:
    return frames.NO_DIGEST


def _with_error(sent: requests.Sent, error: errors.FedError) -> requests.Sent:
    sent.error = error
    return sent


def _refusal(event: events.Refused, sent: requests.Sent) -> errors.FedError:
    return errors.ValueRefusedError(
        path="result",
        type_name="payload",
        reason=f"party {sent.party!r} refused it: {event.reason}",
        call=sent.call,
    )


def _about(peer: _Peer) -> reach.Missing:
    return reach.Missing(
        party=peer.party,
        address=peer.route.address if peer.route is not None else "",
        cause=peer.cause,
        was_reached=peer.was_reached,
        last_cause=peer.link.last_cause,
    )
