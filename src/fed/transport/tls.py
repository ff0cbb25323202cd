"""One connection as the link's shell uses it: bytes in, pieces out, encrypted by TLS 1.3.

TLS goes through memory BIOs: all calls of one connection's SSL object are made under one lock, and
none of them blocks; the socket is read and written outside it. (One SSLSocket in two threads loses
data or crashes the interpreter: openssl/openssl#20446, python/cpython#137583.)
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from fed.transport import frames, peer_identity

#: Bytes of records per system call, both ways.
BATCH_BYTES: Final = 256 << 10


class Carrier(Protocol):
    """One connection below the link; `Tls` here, `plain.Plain` where there is no TLS.

    One thread at a time receives, one at a time sends, both at the same time.

    Attributes:
        peer: who is at the other end.
        address: where that is, for messages.
    """

    peer: peer_identity.Peer
    address: str

    def receive(self, view: memoryview, *, is_body: bool) -> int:
        """Wait for bytes and put them into `view`; 0 when the peer has closed.

        A body's view gets all that there is. Another one gets less, so that what follows a header
        can still be put straight into its final place.

        Raises:
            OSError: the connection broke, or TLS refuses what came (`ssl.SSLError`).
        """

    def send(self, pieces: Sequence[frames.Piece], *, wait: bool) -> bool:
        """Send the pieces in order, after what is left of those before.

        False if the network takes no more now and `wait` is not given: the rest is kept, encrypted,
        and goes out with the next call.

        Raises:
            OSError: the connection broke.
        """

    @property
    def has_more(self) -> bool:
        """True if `receive` would give something without the network."""

    def finish(self) -> None:
        """Say that nothing follows; the peer's bytes may still be received."""

    def cut(self) -> None:
        """Wake whoever receives or sends: both end. Any thread, any number of times."""

    def close(self) -> None:
        """Give the socket back; nobody receives or sends any more."""


class Tls:
    """A connection whose handshake is done and whose peer is known. See `Carrier`."""

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLObject,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        *,
        peer: peer_identity.Peer,
        address: str,
    ) -> None:
        self.peer = peer
        self.address = address
        self._socket = sock
        self._tls = tls
        # Into a buffer it gives a count, which its stub does not say.
        self._read = cast(Callable[[int, memoryview], int], tls.read)
        self._incoming = incoming
        self._outgoing = outgoing
        self._lock = threading.Lock()
        self._records = memoryview(bytearray(BATCH_BYTES))
        self._rest: deque[memoryview] = deque()
        self._is_in_record = False

    def receive(self, view: memoryview, *, is_body: bool) -> int:
        """See `Carrier`. What is no body gets one record of TLS at a time."""
        read, incoming, size = self._read, self._incoming, len(view)
        while True:
            # Raising WANT_READ is dear, so nothing is read where nothing is left.
            if incoming.pending or self._is_in_record:
                got = 0
                with self._lock:
                    try:
                        got = read(size, view)
                        if not got:
                            return 0
                        while is_body and got < size and incoming.pending:
                            count = read(size - got, view[got:])
                            if not count:
                                break
                            got += count
                    except ssl.SSLWantReadError:
                        pass
                    except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                        return got  # the peer's closing words; after `got` they come again
                    # Only a full view can end within a record.
                    self._is_in_record = got == size and self._tls.pending() > 0
                if got:
                    return got
            count = self._socket.recv_into(self._records)
            if not count:
                return 0
            with self._lock:
                incoming.write(self._records[:count])

    @property
    def has_more(self) -> bool:
        """See `Carrier`."""
        return self._is_in_record or self._incoming.pending > 0

    def send(self, pieces: Sequence[frames.Piece], *, wait: bool) -> bool:
        """See `Carrier`."""
        write, outgoing = self._tls.write, self._outgoing
        for piece in frames.coalesce(pieces) if len(pieces) > 1 else pieces:
            at, size = 0, len(piece)
            while at < size:
                with self._lock:
                    at += write(piece[at : at + BATCH_BYTES] if at or size > BATCH_BYTES else piece)
                if outgoing.pending >= BATCH_BYTES:
                    self._push(wait)
        return self._push(wait)

    def _push(self, wait: bool) -> bool:
        with self._lock:
            data = self._outgoing.read()
        rest = self._rest
        if data and not rest:
            if wait:
                self._socket.sendall(data)
                return True
            try:
                count = self._socket.send(data, socket.MSG_DONTWAIT)
            except BlockingIOError:
                count = 0
            if count == len(data):
                return True
            rest.append(memoryview(data)[count:])
            return False
        if data:
            rest.append(memoryview(data))
        while rest:
            try:
                count = self._socket.send(rest[0], 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            if count == len(rest[0]):
                rest.popleft()
            else:
                rest[0] = rest[0][count:]
        return True

    def finish(self) -> None:
        """See `Carrier`."""
        with contextlib.suppress(OSError):  # it broke before: the reader says so
            # `unwrap` says the closing words, then wants the peer's: those the reader waits for.
            with self._lock, contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._push(wait=True)
            self._socket.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """See `Carrier`."""
        with contextlib.suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Carrier`."""
        self._socket.close()
        self._rest.clear()
