"""One connection at work: a thread that reads, a thread that writes, or nobody but the caller.

A small message is sent by the thread that made it: waking another one costs more than the sending.
Only where the network takes no more, or there is much to send, the writer does it.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from typing import Final, Protocol

from fed import errors, names
from fed.transport import link, peer_identity, sockets, tls

log = logging.getLogger(__name__)

#: Bytes that a writer takes from the link at a time, and a thread that sends in passing.
TURN_BYTES: Final = 1 << 20
PASSING_BYTES: Final = 64 << 10


class Owner(Protocol):
    """What a channel asks of the endpoint. Its lock guards the links and the mailbox."""

    lock: threading.Lock

    def received(self, channel: Channel, count: int) -> None:
        """`count` bytes are in the connection's buffer."""

    def ended(self, channel: Channel, reason: str) -> None:
        """Nobody reads the connection any more."""


class Channel:
    """One connection of a link on its carrier.

    Attributes:
        carrier: carries the bytes.
        connection: gives and takes them.
        party: the peer.
        refusal: what TLS said when it ended the connection; None if it did not.
        queued_bytes: what was put in line since the last turn; for whoever batches.
    """

    def __init__(
        self,
        owner: Owner,
        carrier: tls.Carrier,
        sock: socket.socket,
        connection: link.Connection,
        *,
        party: str,
    ) -> None:
        self.carrier = carrier
        self.connection = connection
        self.party = party
        self.queued_bytes = 0
        self.closing_since = 0.0  # for the owner's clock
        self.refusal: errors.HandshakeError | None = None
        self._owner = owner
        self._socket = sock
        self._sending = threading.Lock()
        self._gate = threading.Lock()
        self._gate.acquire()
        self._is_poked = False
        self._is_over = False
        self._is_finished = False
        self._staging = connection.buffer().obj

    def start(self, name: str) -> None:
        """Read and write from now on."""
        for what, run in (("read", self._read), ("write", self._write)):
            threading.Thread(target=run, name=f"fed-{name}-{what}", daemon=True).start()

    def settle(self, silence_s: float) -> None:
        """It stands as control or bulk: set the socket for that.

        Args:
            silence_s: how long the other machine may be silent before the kernel ends control.
        """
        with contextlib.suppress(OSError):  # it is gone: the reader says so
            if self.connection.channel == link.CONTROL:
                sockets.watch(self._socket, silence_s=silence_s)
            else:
                sockets.shorten(self._socket)

    def pump(self) -> None:
        """Send what there is, here if nobody does and it is little; else the writer does it."""
        if not self._sending.acquire(blocking=False):
            self.poke()
            return
        try:
            has_more = self._turn(PASSING_BYTES, wait=False)
        finally:
            self._sending.release()
        if has_more:
            self.poke()

    def poke(self) -> None:
        """Have the writer look what there is to send."""
        if not self._is_poked:
            self._is_poked = True
            with contextlib.suppress(RuntimeError):  # another thread did it at the same moment
                self._gate.release()

    def cut(self) -> None:
        """End it at once."""
        self.carrier.cut()

    def _turn(self, limit: int, *, wait: bool) -> bool:
        """Send one portion; True if there is more, or the network takes no more."""
        connection = self.connection
        with self._owner.lock:
            self.queued_bytes = 0
            pieces = connection.output(limit)
            closing = connection.closing
            has_more = connection.has_output
        try:
            if not self.carrier.send(pieces, wait=wait):
                return True
            if closing and not has_more and not self._is_finished:
                self._is_finished = True
                self.carrier.finish()
        except OSError:
            # The reader finds the same, and says so.
            self.carrier.cut()
            self._is_over = True
            return False
        return has_more

    def _write(self) -> None:
        while not self._is_over:
            self._gate.acquire()
            self._is_poked = False
            with self._sending:
                while not self._is_over and self._turn(TURN_BYTES, wait=True):
                    pass

    def _read(self) -> None:
        owner, connection, receive = self._owner, self.connection, self.carrier.receive
        staging = self._staging
        reason = ""
        try:
            while True:
                view = connection.buffer()
                count = receive(view, is_body=view.obj is not staging)
                if not count:
                    break
                owner.received(self, count)
        except ssl.SSLError as error:
            self.refusal = peer_identity.failure(error, expected=names.PartyId(self.party))
            reason = self.refusal.reason
        except OSError as error:
            reason = sockets.reason(error)
        except Exception:
            log.exception("reading from party %s failed", self.party)
            reason = "an error of this side, see its log"
        self._is_over = True
        self.carrier.cut()
        self.poke()
        with self._sending:
            self.carrier.close()
        owner.ended(self, reason)
