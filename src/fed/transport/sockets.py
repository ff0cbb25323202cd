"""How the link's TCP sockets are set, and whose a busy port is."""

from __future__ import annotations

import errno
import math
import os
import socket
import struct
from pathlib import Path
from typing import Final

#: A peer whose machine answers no packet for that long is unreachable: the connection ends, and
#: the redial tells whether it is back. `peer_timeout_s` begins then, so that a cut cable is a loss
#: within `peer_timeout_s` and this.
SILENCE_S: Final = 4.0

#: A peer within that round trip is near, and that much in a socket's buffer keeps it busy: 1 GB/s.
NEAR_S: Final = 1e-3
NEAR_BYTES: Final = 512 << 10
#: Where `tcpi_rtt`, microseconds, ends in Linux' `struct tcp_info`.
_RTT_END: Final = 72


def set_up(sock: socket.socket) -> None:
    """No waiting for more to send; set before TLS, on both connections of a pair."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def shorten(sock: socket.socket) -> None:
    """Keep what waits in the kernel short, so that a scalar does not queue behind megabytes.

    What was not sent yet is bounded always; the peer's buffer only where it is near, since far away
    it has to hold what is on the way (bandwidth times round trip).
    """
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, NEAR_BYTES)
    if round_trip_s(sock) < NEAR_S:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NEAR_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, NEAR_BYTES)


def round_trip_s(sock: socket.socket) -> float:
    """The round trip as the kernel measured it; infinite where it does not tell."""
    if not hasattr(socket, "TCP_INFO"):
        return math.inf
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RTT_END)
    except OSError:
        return math.inf
    if len(info) < _RTT_END:
        return math.inf
    (rtt_us,) = struct.unpack_from("=I", info, _RTT_END - 4)
    return float(rtt_us) / 1e6 if rtt_us else math.inf


def watch(sock: socket.socket, *, silence_s: float) -> None:
    """End the connection when the other machine does not answer: for control alone.

    A process that is stopped or busy is no silence, its kernel answers. Bulk must not have it: its
    peer may rightly have its window closed for long.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, int(silence_s * 1000)))
    interval_s = max(1, int(silence_s / 4))
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, interval_s)
    if hasattr(socket, "TCP_KEEPINTVL"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval_s)
        probes = max(1, round(silence_s / interval_s))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)


def shown(address: tuple[object, ...]) -> str:
    """A socket's address as the settings write it: `10.0.0.7:9000`, `[2001:db8::1]:9000`."""
    host, port = str(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reason(error: OSError) -> str:
    """What went wrong, in words that tell the usual cases apart."""
    if isinstance(error, socket.gaierror):
        return f"name unknown ({error.strerror})"
    if error.errno == errno.ECONNREFUSED:
        return "refused: nothing listens there"
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return "no answer"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "no way leads there"
    if error.errno == errno.ECONNRESET:
        return "reset by the other side"
    return error.strerror or str(error)


def holder(port: int) -> str:
    """The process that listens at a port, such as `process 4711 (python train.py)`, if seen.

    Linux alone tells (`/proc`), and of other users' processes only to root; else it is empty.
    """
    inodes = _listening(port)
    if not inodes:
        return ""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            with os.scandir(process / "fd") as entries:
                if any(os.readlink(entry.path) in inodes for entry in entries):
                    return f"process {process.name} ({_command(process)})"
        except OSError:
            continue  # another user's, or it has ended
    return ""


def _listening(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            is_listening = fields[3] == "0A"
            if is_listening and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return found


def _command(process: Path) -> str:
    words = (process / "cmdline").read_bytes().split(b"\0")
    # The first words only: what follows may hold what is nobody's business.
    return " ".join(os.path.basename(word.decode("utf-8", "replace")) for word in words[:2] if word)
