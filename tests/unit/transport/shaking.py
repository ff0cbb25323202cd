"""TLS between two ends in memory: real handshakes, no port."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

#: More turns than any handshake has flights.
_TURNS = 10

Maker = Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject]


@dataclass
class End:
    """One end of a connection: what it came to."""

    tls: ssl.SSLObject
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    is_done: bool = False
    error: ssl.SSLError | None = None
    received: bytearray = field(default_factory=bytearray)

    def turn(self) -> None:
        """Go on as far as the bytes that are here allow."""
        if self.error is not None:
            return
        try:
            if not self.is_done:
                self.tls.do_handshake()
                self.is_done = True
            self.received += self.tls.read(1 << 16)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.error = error


class Connection:
    """A dialler and a listener, joined."""

    def __init__(self, dialler: Maker, listener: Maker) -> None:
        self.dialler = _end(dialler)
        self.listener = _end(listener)
        self.settle()

    def settle(self) -> None:
        """Let both go on until nothing moves."""
        for _ in range(_TURNS):
            for end, other in (
                (self.dialler, self.listener),
                (self.listener, self.dialler),
            ):
                end.turn()
                other.incoming.write(end.outgoing.read())

    def carries(self, data: bytes = b"value") -> bool:
        """True if both ends still get what the other one writes."""
        self.dialler.tls.write(data)
        self.listener.tls.write(data)
        self.settle()
        return self.listener.received.endswith(data) and self.dialler.received.endswith(data)


def _end(make: Maker) -> End:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    return End(make(incoming, outgoing), incoming, outgoing)
