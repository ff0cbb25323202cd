"""Dialling a peer: its name resolved, through a proxy if there is one, TLS set up, and it is it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fed import errors, names
from fed.config import endpoints
from fed.transport import identity, listener, peer_identity, plain, sockets, tls

_READ_BYTES: Final = 16 << 10
#: The answer of a proxy to CONNECT, up to its empty line.
_PROXY_ANSWER_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How a peer is reached.

    Attributes:
        party: the peer.
        address: `host:port`; with a proxy it is the proxy that resolves the name.
        proxy: `host:port` of a proxy that takes HTTP CONNECT; None to dial directly.
    """

    party: names.PartyId
    address: str
    proxy: str | None = None


def dial(
    route: Route, *, own: identity.Identity | None, timeout_s: float
) -> tuple[tls.Carrier, socket.socket]:
    """A connection to the peer, known to be the peer's; its socket for options of the kernel.

    Args:
        route: how it is reached.
        own: this party's identity; None for a connection without TLS.
        timeout_s: for all of it, resolving the name aside.

    Raises:
        PartyUnreachableError: no connection came about; nothing was sent.
        HandshakeError: somebody answered, who is not the peer or does not take this party.
    """
    begin = time.monotonic()
    deadline = begin + timeout_s
    sock = None
    try:
        sock = _connect(route, deadline)
        sockets.set_up(sock)
        if own is None:
            sock.settimeout(None)
            peer = listener.unproven(route.party)
            return plain.Plain(sock, peer=peer, address=route.address), sock
        carrier = _shake(sock, route, own, deadline)
        sock.settimeout(None)
    except OSError as error:
        if sock is not None:
            sock.close()
        raise errors.PartyUnreachableError(
            party=route.party,
            waited_s=round(time.monotonic() - begin, 1),
            address=route.address,
            reason=sockets.reason(error),
        ) from error
    except BaseException:
        if sock is not None:
            sock.close()
        raise
    return carrier, sock


def _connect(route: Route, deadline: float) -> socket.socket:
    if route.proxy is None:
        return _connect_to(route.address, deadline)
    try:
        sock = _connect_to(route.proxy, deadline)
    except OSError as error:
        raise OSError(error.errno, f"the proxy {route.proxy}: {sockets.reason(error)}") from error
    with _closing_on_error(sock):
        _ask_proxy(sock, route, deadline)
    return sock


def _connect_to(address: str, deadline: float) -> socket.socket:
    """A TCP connection to one of the addresses that a name stands for, tried in order."""
    where = endpoints.split(address)
    found = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)
    last: OSError | None = None
    for at, (family, kind, protocol, _, place) in enumerate(found):
        sock = socket.socket(family, kind, protocol)
        # A dead address leaves time for the next one.
        share = max(0.1, (deadline - time.monotonic()) / (len(found) - at))
        sock.settimeout(share)
        try:
            sock.connect(place)
        except OSError as error:
            sock.close()
            last = error
            continue
        if sock.getsockname() == sock.getpeername():
            # A free port of this machine, dialled from that very port: TCP connects to itself.
            sock.close()
            last = ConnectionRefusedError(111, "refused")
            continue
        return sock
    if last is None:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    raise last


def _ask_proxy(sock: socket.socket, route: Route, deadline: float) -> None:
    """Have the proxy connect to the peer.

    Raises:
        OSError: it does not, or does not answer.
    """
    ask = f"CONNECT {route.address} HTTP/1.1\r\nHost: {route.address}\r\n\r\n"
    sock.sendall(ask.encode("ascii"))
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        _patience(sock, deadline)
        # Byte by byte: what follows the empty line is the peer's.
        data = sock.recv(1)
        if not data or len(answer) >= _PROXY_ANSWER_BYTES:
            raise OSError(None, f"the proxy {route.proxy} gave no answer of HTTP")
        answer += data
    line = answer.split(b"\r\n", 1)[0].decode("latin-1")
    words = line.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/") or words[1] != "200":
        shown = "".join(char if char.isprintable() else "?" for char in line[:200])
        raise OSError(None, f"the proxy {route.proxy} answered {shown!r}")


def _shake(
    sock: socket.socket, route: Route, own: identity.Identity, deadline: float
) -> tls.Carrier:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = own.dialling(route.party, incoming, outgoing)
    while True:
        try:
            secured.do_handshake()
        except ssl.SSLWantReadError:
            _send(sock, outgoing, deadline)
        except ssl.SSLError as error:
            with contextlib.suppress(OSError):
                _send(sock, outgoing, deadline)  # the alert, so that the other side knows
            raise peer_identity.failure(
                error, expected=route.party, address=route.address
            ) from error
        else:
            break
        _patience(sock, deadline)
        data = sock.recv(_READ_BYTES)
        if not data:
            raise errors.HandshakeError(
                party=route.party,
                reason=f"{route.address} closed the connection while TLS was being set up",
                fix="Look at its log, and whether a party listens there",
            )
        incoming.write(data)
    peer = own.peer(secured, expected=route.party, address=route.address)
    _send(sock, outgoing, deadline)
    return tls.Tls(sock, secured, incoming, outgoing, peer=peer, address=route.address)


def _send(sock: socket.socket, outgoing: ssl.MemoryBIO, deadline: float) -> None:
    _patience(sock, deadline)
    sock.sendall(outgoing.read())


def _patience(sock: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)


@contextlib.contextmanager
def _closing_on_error(sock: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        sock.close()
        raise
