"""The one port of a party: listening exactly where told, and getting to know whoever dials.

One thread accepts and does all handshakes. What has not said who it is yet is a *stranger*: its
number and time are bounded, and it costs a socket and some kilobytes, no thread.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from fed import errors, names
from fed.config import endpoints
from fed.transport import frames, handshake, identity, peer_identity, plain, sockets, tls

log = logging.getLogger(__name__)

#: Strangers at a time. One more ends the oldest: a party's handshake takes milliseconds, so the
#: oldest is hardly ever a party, however many strangers come.
STRANGER_LIMIT: Final = 64
#: Connections that the kernel keeps for us.
_BACKLOG: Final = 128
_READ_BYTES: Final = 16 << 10
#: A client's side of a TLS handshake is shorter: its certificates are some kilobytes.
_STRANGER_BYTES: Final = 128 << 10


def bind(address: str) -> list[socket.socket]:
    """Sockets that listen at the address, and nowhere else; nobody else can listen there.

    Args:
        address: `host:port`; a name listens at all addresses of this machine that it stands for.
            Port 0 takes a free one, the same for all. `0.0.0.0` and `[::]` are all interfaces, of
            IPv4 or of IPv6.

    Raises:
        ConfigError: the port is taken (by whom, where the system tells), the name unknown, or the
            address none of this machine's.
    """
    try:
        where = endpoints.split(address)
        found = socket.getaddrinfo(
            where.host, where.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except ValueError as error:
        raise _config(f"{address} {error}") from error
    except socket.gaierror as error:
        raise _config(f"the name {where.host!r} is unknown here ({error.strerror})") from error
    made: list[socket.socket] = []
    missing: OSError | None = None
    port = where.port
    for family, _, _, _, place in dict.fromkeys(found):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            _listen(sock, (place[0], port, *place[2:]))
        except OSError as error:
            sock.close()
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) and len(found) > 1:
                missing = error  # such as a name's IPv6 address on a machine without IPv6
                continue
            for other in made:
                other.close()
            raise _not_bound(address, port, error) from error
        made.append(sock)
        port = sock.getsockname()[1]
    if not made and missing is not None:
        raise _not_bound(address, port, missing) from missing
    return made


def _listen(sock: socket.socket, place: tuple[Any, ...]) -> None:
    # Lets a party start again while connections of its last run fade (TIME_WAIT). On Linux two
    # sockets that listen can't share a port by it; SO_REUSEPORT could, and is never set.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind(place)
    sock.listen(_BACKLOG)
    sock.setblocking(False)


def _not_bound(address: str, port: int, error: OSError) -> errors.ConfigError:
    if error.errno == errno.EADDRINUSE:
        by = sockets.holder(port)
        return _config(
            f"{address} is taken{f' by {by}' if by else ''}", fix="End that, or choose another port"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return _config(
            f"{address} is no address of this machine",
            fix="Give listen: the address here, where the others dial another one",
        )
    return _config(f"{address} can't be listened at: {error.strerror or error}")


def _config(problem: str, fix: str = "") -> errors.ConfigError:
    return errors.ConfigError(problem=problem, fix=fix, key="listen")


class _Stranger:
    """A connection on its way to being known."""

    def __init__(self, sock: socket.socket, address: str, deadline: float) -> None:
        self.sock = sock
        self.address = address
        self.deadline = deadline
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls: ssl.SSLObject | None = None
        self.first = b""
        self.received = 0


class Listener:
    """Accepts connections, and gives them on once their peer is known.

    Args:
        socks: from `bind`.
        own: this party's identity; None for connections without TLS.
        known: gives a connection on. It must not block.
        refused: told of each refusal: the party if it is known, else the address; and the error.
        is_open_to_all: without TLS, accept connections from other machines (`insecure`).
        timeout_s: how long a stranger may take.
    """

    def __init__(
        self,
        socks: list[socket.socket],
        *,
        own: identity.Identity | None,
        known: Callable[[tls.Carrier, socket.socket], None],
        refused: Callable[[str, errors.HandshakeError], None],
        is_open_to_all: bool = False,
        timeout_s: float = 10.0,
    ) -> None:
        self._socks = socks
        self._own = own
        self._known = known
        self._refused = refused
        self._is_open_to_all = is_open_to_all
        self._timeout_s = timeout_s
        self._selector = selectors.DefaultSelector()
        self._strangers: dict[int, _Stranger] = {}  # by file descriptor, oldest first
        self._is_closing = False
        self._dropped = 0
        self._dropped_told = 0.0
        self._wake, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="fed-listener", daemon=True)

    @property
    def addresses(self) -> list[str]:
        """Where it listens."""
        return [sockets.shown(sock.getsockname()) for sock in self._socks]

    @property
    def strangers(self) -> int:
        """Connections that are not known yet."""
        return len(self._strangers)

    def start(self) -> None:
        """Accept from now on."""
        for sock in self._socks:
            self._selector.register(sock, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread.start()

    def close(self) -> None:
        """Stop listening: the port is free when this returns, or within a second."""
        self._is_closing = True
        with contextlib.suppress(OSError):  # it was closed before
            self._waker.send(b"x")
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(1.0)

    def _run(self) -> None:
        try:
            while not self._is_closing:
                try:
                    self._step()
                except Exception:
                    # Nothing that a stranger does may end the listening.
                    log.exception("a connection could not be accepted")
        finally:
            for sock in (*self._socks, *(one.sock for one in self._strangers.values())):
                sock.close()
            self._selector.close()
            self._wake.close()
            self._waker.close()

    def _step(self) -> None:
        for key, _ in self._selector.select(self._patience()):
            if self._is_closing or key.fileobj is self._wake:
                return
            if key.data is not None:
                self._hear(key.data)
            else:
                self._accept(key.fileobj)  # type: ignore[arg-type]
        now = time.monotonic()
        for stranger in list(self._strangers.values()):
            if stranger.deadline > now:
                break
            self._drop(stranger, f"it did not say who it is within {self._timeout_s:g} s")

    def _patience(self) -> float | None:
        for stranger in self._strangers.values():
            return max(0.0, stranger.deadline - time.monotonic())
        return None

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock, place = listening.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                log.warning("no connection can be accepted: %s", error.strerror)
                time.sleep(0.1)  # the same error would come at once, and again
            return
        address = sockets.shown(place)
        is_checked = self._own is not None or self._is_open_to_all
        if not is_checked and not endpoints.Endpoint(str(place[0]), int(place[1])).is_loopback:
            sock.close()
            self._count_drop(address, "without TLS only this machine is listened to")
            return
        sock.setblocking(False)
        sockets.set_up(sock)
        if len(self._strangers) >= STRANGER_LIMIT:
            oldest = next(iter(self._strangers.values()))
            self._drop(oldest, f"{STRANGER_LIMIT} newer connections did not say who they are yet")
        stranger = _Stranger(sock, address, time.monotonic() + self._timeout_s)
        self._strangers[sock.fileno()] = stranger
        self._selector.register(sock, selectors.EVENT_READ, stranger)

    def _hear(self, stranger: _Stranger) -> None:
        if self._strangers.get(stranger.sock.fileno()) is not stranger:
            return
        try:
            data = stranger.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._drop(stranger, sockets.reason(error))
            return
        stranger.received += len(data)
        if not data or stranger.received > _STRANGER_BYTES:
            self._drop(stranger, "it closed" if not data else "its greeting is too long")
            return
        try:
            carrier = (
                self._greet(stranger, data) if self._own is None else self._shake(stranger, data)
            )
        except errors.HandshakeError as error:
            self._turn_away(stranger, error)
            return
        if carrier is None:
            return
        self._forget(stranger)
        stranger.sock.setblocking(True)
        self._known(carrier, stranger.sock)

    def _shake(self, stranger: _Stranger, data: bytes) -> tls.Carrier | None:
        """Go on with the handshake of TLS; the carrier once it is done and the peer known.

        Raises:
            HandshakeError: it can't be, or the peer may not come in.
        """
        own = self._own
        if own is None:
            return None
        if stranger.tls is None:
            stranger.tls = own.accepting(stranger.incoming, stranger.outgoing)
        stranger.incoming.write(data)
        try:
            stranger.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush(stranger)
            return None
        except ssl.SSLError as error:
            # Without the alert the other side would not know why.
            self._flush(stranger)
            raise peer_identity.failure(error, address=stranger.address) from error
        peer = own.peer(stranger.tls, address=stranger.address)
        self._flush(stranger)
        return tls.Tls(
            stranger.sock, stranger.tls, stranger.incoming, stranger.outgoing,
            peer=peer, address=stranger.address,
        )  # fmt: skip

    def _greet(self, stranger: _Stranger, data: bytes) -> tls.Carrier | None:
        """Without TLS: the carrier once the HELLO is there, whose word is all there is."""
        stranger.first += data
        first = stranger.first
        if len(first) < frames.HEADER_SIZE:
            return None
        kind, flags, _, _, length, epoch, number, _ = frames.HEADER.unpack_from(first)
        if kind != frames.HELLO or length > frames.BODY_LIMIT:
            fix = "Look whether it has TLS, which this party has not"
            raise errors.HandshakeError(
                party=stranger.address, reason="it does not say HELLO", fix=fix
            )
        if len(first) < frames.HEADER_SIZE + length:
            return None
        body = memoryview(first)[frames.HEADER_SIZE : frames.HEADER_SIZE + length]
        try:
            hello = handshake.Hello.decode(flags, epoch, number, body, party=stranger.address)
        except errors.TransportError as error:
            raise errors.HandshakeError(party=stranger.address, reason=error.reason) from error
        peer = unproven(hello.local.party)
        return plain.Plain(stranger.sock, peer=peer, address=stranger.address, first=first)

    def _flush(self, stranger: _Stranger) -> None:
        data = stranger.outgoing.read()
        try:
            # A handshake's few kilobytes always fit an empty socket's buffer.
            if data:
                stranger.sock.send(data)
        except OSError:
            pass  # it is gone: the next read says so

    def _turn_away(self, stranger: _Stranger, error: errors.HandshakeError) -> None:
        if stranger.tls is not None:
            words = frames.text(error.reason)
            frame = frames.small(frames.ERROR, handshake.REFUSED, body=words)
            try:
                stranger.tls.write(frame)
                self._flush(stranger)
            except ssl.SSLError:
                pass  # TLS did not come about, and its alert was sent
        self._forget(stranger)
        _end(stranger.sock)
        self._refused(error.party, error)

    def _drop(self, stranger: _Stranger, why: str) -> None:
        self._forget(stranger)
        stranger.sock.close()
        self._count_drop(stranger.address, why)

    def _count_drop(self, address: str, why: str) -> None:
        """Log it, but not a thousand times a second."""
        self._dropped += 1
        now = time.monotonic()
        if now - self._dropped_told >= 1.0:
            self._dropped_told = now
            log.warning(
                "a connection from %s was closed: %s (%d of the kind so far)",
                address, why, self._dropped,
            )  # fmt: skip

    def _forget(self, stranger: _Stranger) -> None:
        self._selector.unregister(stranger.sock)
        self._strangers.pop(stranger.sock.fileno(), None)


def unproven(party: str) -> peer_identity.Peer:
    """A peer that nothing proves: without TLS its word is all there is."""
    return peer_identity.Peer(party=names.PartyId(party), not_after=float("inf"), sha256="")


def _end(sock: socket.socket) -> None:
    """Close so that what was sent is still read: unread bytes would turn the end into a reset."""
    try:
        sock.shutdown(socket.SHUT_WR)
        sock.setblocking(False)
        while sock.recv(_READ_BYTES):
            pass
    except OSError:
        pass  # nothing is there to be read, or it is gone
    sock.close()
