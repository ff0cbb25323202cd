"""Endpoints with real certificates on loopback, a network that cuts, and peers in processes."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from fed.transport import endpoint, identity, issuing

FEDERATION = "demo"
PARTIES = ("ALICE", "BOB", "CAROL")
ROOT = Path(__file__).resolve().parents[3]


def make_certificates(folder, parties=PARTIES, federation=FEDERATION):
    issuing.throw_away(folder, federation, parties, now=datetime.datetime.now(datetime.UTC))
    return folder


def identity_of(folder, party, parties=PARTIES, **changes):
    files = identity.Files(
        certificate=folder / f"{party}.pem",
        key=folder / f"{party}.key",
        peers=dict.fromkeys(one for one in parties if one != party),
        authority=folder / "ca.pem",
    )
    return identity.Identity(files, federation=FEDERATION, party=party, **changes)


def make_end(folder, party, peers, *, listen="127.0.0.1:0", job="j1", **given):
    """An endpoint; settings and arguments of it by name."""
    names = endpoint.Settings.__dataclass_fields__
    settings = {name: given.pop(name) for name in list(given) if name in names}
    own = None if folder is None else identity_of(folder, party)
    return endpoint.Endpoint(
        party, FEDERATION, job, peers=peers, listen=listen, identity=own,
        settings=endpoint.Settings(**settings), **given,
    )  # fmt: skip


def start_all(*ends, timeout_s=20.0):
    """Start them side by side; raises what the first of them raised."""
    found = []

    def run(end):
        try:
            end.start(timeout_s)
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=run, args=(end,), daemon=True) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s + 5)
    if found:
        raise found[0]


@contextlib.contextmanager
def connected(folder, *, alice=None, bob=None, through=None, **both):
    """ALICE, who dials, and BOB. `through` makes a network between from BOB's address."""
    second = make_end(folder, "BOB", {"ALICE": None}, **{**both, **(bob or {})})
    second.listen()
    address = second.address
    network = through(address) if through is not None else None
    if network is not None:
        address = network.address
    first = make_end(folder, "ALICE", {"BOB": address}, listen=None, **{**both, **(alice or {})})
    try:
        start_all(first, second)
        yield first, second, network
    finally:
        first.abort("test is over")
        second.abort("test is over")
        if network is not None:
            network.close()


def shut_down(*ends, timeout_s=20.0):
    """Shut them down side by side; raises what the first of them raised."""
    found = []

    def run(end):
        try:
            end.shutdown(timeout_s)
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=run, args=(end,), daemon=True) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s + 5)
    if found:
        raise found[0]


def wait_until(holds, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.005)


class Network:
    """A forwarder of TCP connections that cuts them, as failing networks do.

    `cut_after` gives, for each connection, after how many bytes forwarded it is reset; None never.
    """

    def __init__(self, target, cut_after=lambda: None):
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._cut_after = cut_after
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.cuts = 0
        self.connections = 0
        self.is_open = True
        self._live = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._socket.accept()
            except OSError:
                return
            if not self.is_open:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target, 5)
            except OSError:
                near.close()
                continue
            self.connections += 1
            left = [self._cut_after()]
            pair = (near, far)
            for one in pair:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._live.add(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(
                    target=self._carry, args=(source, sink, pair, left), daemon=True
                ).start()

    def _carry(self, source, sink, pair, left):
        try:
            while data := source.recv(1 << 16):
                if left[0] is not None:
                    left[0] -= len(data)
                    if left[0] <= 0:
                        # Part of it still arrives: the cut is in the middle of a record.
                        sink.sendall(data[: left[0]])
                        self.cuts += 1
                        break
                sink.sendall(data)
        except OSError:
            pass
        self._end(pair)

    def _end(self, pair):
        with self._lock:
            if pair not in self._live:
                return
            self._live.discard(pair)
        for one in pair:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def cut(self):
        """Cut all that stand now."""
        self.cuts += 1
        for pair in list(self._live):
            self._end(pair)

    def close(self):
        self.is_open = False
        self._socket.close()
        self.cut()


class Process:
    """A party in a process of its own: tests/integration/transport/party_process.py."""

    def __init__(self, folder, *, namespace="", **told):
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        self.process = subprocess.Popen(
            [*inside, sys.executable, str(Path(__file__).with_name("party_process.py")),
             str(folder), json.dumps(told)],
            stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        )  # fmt: skip
        self.address = self.process.stdout.readline().strip()

    @property
    def pid(self):
        return self.process.pid

    def line(self):
        return self.process.stdout.readline().strip()

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.wait(10)
        self.process.stdout.close()
        self.process.stdin.close()
