"""A connection without TLS: between processes of one machine, or where `insecure` is written out.

Who is at the other end is what it says of itself in its HELLO, so nobody is protected from anybody.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final

from fed.transport import frames, peer_identity

#: Pieces per system call; the kernel's limit is 1024 (IOV_MAX).
_PIECES: Final = 512
#: Bytes taken from the network at once where a header may be among them.
_SMALL_READ: Final = 16 << 10


class Plain:
    """A connection without TLS. See `tls.Carrier`.

    Args:
        sock: connected, blocking.
        peer: who is said to be at the other end.
        address: where that is.
        first: bytes that were read from the socket before.
    """

    def __init__(
        self, sock: socket.socket, *, peer: peer_identity.Peer, address: str, first: bytes = b""
    ) -> None:
        self.peer = peer
        self.address = address
        self._socket = sock
        self._first = memoryview(first)
        self._rest: deque[frames.Piece] = deque()

    def receive(self, view: memoryview, *, is_body: bool) -> int:
        """See `tls.Carrier`."""
        if self._first:
            count = min(len(view), len(self._first))
            view[:count] = self._first[:count]
            self._first = self._first[count:]
            return count
        return self._socket.recv_into(view, 0 if is_body else min(len(view), _SMALL_READ))

    @property
    def has_more(self) -> bool:
        """See `tls.Carrier`."""
        return len(self._first) > 0

    def send(self, pieces: Sequence[frames.Piece], *, wait: bool) -> bool:
        """See `tls.Carrier`."""
        rest = self._rest
        rest.extend(frames.coalesce(pieces, limit=4 << 10))
        while rest:
            some = [rest[at] for at in range(min(len(rest), _PIECES))]
            try:
                count = self._socket.sendmsg(some, (), 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            while count:
                if count < len(rest[0]):
                    rest[0] = memoryview(rest[0])[count:]
                    break
                count -= len(rest.popleft())
        return True

    def finish(self) -> None:
        """See `tls.Carrier`."""
        with contextlib.suppress(OSError):  # it broke before: the reader says so
            self._socket.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """See `tls.Carrier`."""
        with contextlib.suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See `tls.Carrier`."""
        self._socket.close()
        self._rest.clear()
