"""Who takes part in an attack: ALICE is attacked, BOB is honest, CAROL and strangers attack.

Sockets, TLS and certificates are real. ALICE listens; BOB dials her, and his transfer goes on
during the attack and must finish. An attacker is a socket of the test: `Raw` with any certificate
or none, `Liar` with a party's valid one and a standing link.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

# Imported here, because nothing may be imported once an attack is on.
import fed.codec.arrays
import fed.codec.frames
import fed.codec.pickle_optin  # noqa: F401
from fed import errors
from fed.testing import certificates
from fed.transport import endpoint, frames, handshake, identity, peer_identity, sockets

FEDERATION = certificates.FEDERATION
JOB = "j1"
ROOT = Path(__file__).resolve().parents[3]
#: How long anything may take before a test fails; nothing here takes more than a second.
PATIENCE_S = 30.0
DAY = datetime.timedelta(days=1)


def wait_until(holds, what="it", timeout_s=PATIENCE_S):
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come in time"
        time.sleep(0.01)


class World:
    """The authority of all parties, and their right certificates."""

    def __init__(self, folder):
        self.folder = folder
        self.now = datetime.datetime.now(datetime.UTC)
        self.authority = self.new_authority()
        self._pairs = {}
        self._count = 0

    def new_authority(self):
        return certificates.authority(now=self.now)

    def new_folder(self):
        self._count += 1
        made = self.folder / f"{self._count}"
        made.mkdir()
        return made

    def of(self, party):
        """The party's right certificate."""
        if party not in self._pairs:
            self._pairs[party] = certificates.of_party(self.authority, party, now=self.now)
        return self._pairs[party]

    def saying(self, *uris, signer=None, begin=None, end=None):
        """A certificate with these URI names and dates, signed by the authority or another."""
        return certificates.saying(
            signer or self.authority, list(uris), not_before=begin or self.now - DAY,
            not_after=end or self.now + DAY,
        )  # fmt: skip

    def identity(self, party, peers, *, own=None, pins=None):
        """A party's identity; `pins` gives authorities or certificates of single peers."""
        pinned = {peer: (pins or {}).get(peer) for peer in peers}
        files = certificates.files(
            self.new_folder(), own or self.of(party), pinned, shared=self.authority
        )
        return identity.Identity(files, federation=FEDERATION, party=party)


class Log:
    """What the product said."""

    def __init__(self, caplog):
        self._caplog = caplog

    def lines(self, *words):
        """Warnings and errors that have all the words."""
        told = [one.getMessage() for one in list(self._caplog.records) if one.levelno >= 30]
        return [line for line in told if all(word in line for word in words)]

    def says(self, *words):
        """Wait until there is a warning or an error with all the words."""
        wait_until(lambda: self.lines(*words), f"a line of the log with {words}")


class Scene:
    """ALICE and BOB, connected, and an address to attack.

    Args:
        world: whose certificates.
        log: what they say.
        peers: ALICE's peers besides BOB: those that may dial her; with an address she dials.
        pins: authorities or certificates that ALICE pins for single peers.
        bob: BOB's certificate, if it is another one.
        through: makes a gateway on BOB's way to ALICE, from her place.
        given: settings and arguments of ALICE's endpoint.
    """

    def __init__(self, world, log, *, peers=("CAROL",), pins=None, bob=None, through=None, **given):
        self.world = world
        self.log = log
        names = endpoint.Settings.__dataclass_fields__
        settings = {name: given.pop(name) for name in list(given) if name in names}
        peers = dict(peers) if isinstance(peers, dict) else dict.fromkeys(peers)
        self.alice = endpoint.Endpoint(
            "ALICE", FEDERATION, JOB, peers={"BOB": None, **peers}, listen="127.0.0.1:0",
            identity=world.identity("ALICE", ["BOB", *peers], pins=pins),
            settings=endpoint.Settings(**settings), **given,
        )  # fmt: skip
        self.alice.listen()
        self.address = self.alice.address
        self.place = ("127.0.0.1", int(self.address.rsplit(":", 1)[1]))
        self.gateway = through(self.place) if through is not None else None
        way = self.address if self.gateway is None else self.gateway.address
        self.bob = endpoint.Endpoint(
            "BOB", FEDERATION, JOB, peers={"ALICE": way},
            identity=world.identity("BOB", ["ALICE"], own=bob),
        )  # fmt: skip
        self._attackers = []
        self._rounds = 0
        with contextlib.suppress(errors.PartyError):
            self.alice.start(0.0)  # the attackers are not there, and may never be
        self.bob.start(PATIENCE_S)

    def honest(self, name):
        """A transfer of BOB's that must finish; `name` says in the test which one it is."""
        return Transfer(self, name)

    def raw(self, pair=None, **given):
        """A connection to ALICE that shows a certificate or none."""
        made = Raw(self.place, self._written(pair), **given)
        self._attackers.append(made)
        return made

    def liar(self, party="CAROL", **given):
        """A party with a valid certificate, on a standing link with ALICE."""
        return Liar(self, party, **given)

    def _written(self, pair):
        return pair and certificates.write(self.world.new_folder(), "attacker", pair)

    def answer(self, n):
        """ALICE takes BOB's array and answers it."""
        got = self.alice.receive("BOB", n, number=n, timeout_s=PATIENCE_S)
        self.alice.send(answer_to(got), to="BOB", number=n, call=n)

    def next_round(self):
        self._rounds += 1
        return self._rounds

    def close(self):
        for one in self._attackers:
            one.close()
        closing = threading.Thread(target=self.bob.abort, args=("test is over",), daemon=True)
        closing.start()
        self.alice.abort("test is over")
        closing.join(PATIENCE_S)
        if self.gateway is not None:
            self.gateway.close()


class Apart(Scene):
    """ALICE in a process of her own: `victim_process.py`; her settings by name."""

    def __init__(self, world, folder, *, peers=("CAROL",), **settings):
        self.world = world
        self.log = self
        self.gateway = None
        self._attackers = []
        self._rounds = 0
        home = world.new_folder()
        pinned = dict.fromkeys(["BOB", *peers])
        certificates.files(home, world.of("ALICE"), pinned, shared=world.authority)
        self._told = folder / "log"
        with self._told.open("w") as told:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("victim_process.py")), str(home),
                 json.dumps({"peers": list(peers), **settings})],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            )  # fmt: skip
        self.address = self.process.stdout.readline().strip()
        assert self.address, self._told.read_text()
        self.place = ("127.0.0.1", int(self.address.rsplit(":", 1)[1]))
        self.bob = endpoint.Endpoint(
            "BOB", FEDERATION, JOB, peers={"ALICE": self.address},
            identity=world.identity("BOB", ["ALICE"]),
        )  # fmt: skip
        self.bob.start(PATIENCE_S)

    def ask(self, words):
        """What she answers."""
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def lines(self, *words):
        """Warnings and errors of her log that have all the words."""
        told = self._told.read_text().splitlines()
        told = [line for line in told if line.startswith(("WARNING", "ERROR"))]
        return [line for line in told if all(word in line for word in words)]

    def says(self, *words):
        """Wait until there is a warning or an error with all the words."""
        wait_until(lambda: self.lines(*words), f"a line of the log with {words}")

    def answer(self, n):
        """She does it by herself."""

    def close(self):
        for one in self._attackers:
            one.close()
        self.bob.abort("test is over")
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self.process.stdin.close()
        self.process.stdout.close()


def answer_to(value):
    """What ALICE answers to a value of the honest transfer."""
    return [value["round"], hashlib.sha256(value["w"]).digest()]


class Transfer:
    """BOB's arrays to ALICE one after the other, each answered by its digest, until it is told.

    Used as a context: it begins before the attack; `finish` says that the attack is on, and waits
    until some more arrays have crossed both ways.
    """

    BYTES = 256 << 10

    def __init__(self, scene, name):
        self.name = name
        self.rounds = 0
        self._scene = scene
        self._is_last = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run, name="fed-honest", daemon=True)

    def __enter__(self):
        self._thread.start()
        self._wait_for(1)
        return self

    def __exit__(self, *told):
        self._is_last.set()
        self._thread.join(PATIENCE_S)

    def finish(self, rounds=3):
        """It finishes while the attack is on."""
        self._wait_for(self.rounds + rounds)
        self._is_last.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), f"{self.name} did not finish"
        assert self._error is None, f"{self.name} failed: {self._error}"

    def _wait_for(self, rounds):
        wait_until(lambda: self.rounds >= rounds or self._error is not None, self.name)
        assert self._error is None, f"{self.name} failed: {self._error}"

    def _run(self):
        try:
            while not self._is_last.wait(0.002):
                self._round(self._scene.next_round())
                self.rounds += 1
        except Exception as error:
            self._error = error

    def _round(self, n):
        bob = self._scene.bob
        array = np.arange(n, n + self.BYTES // 8)
        sent = bob.send({"round": n, "w": array}, to="ALICE", number=n, call=n)
        self._scene.answer(n)
        expected = [n, hashlib.sha256(array).digest()]
        assert bob.receive("ALICE", n, number=n, timeout_s=PATIENCE_S) == expected
        sent.result(PATIENCE_S)


class Raw:
    """A TCP connection and what TLS, certificate and bytes one likes on it.

    Args:
        place: where to.
        files: certificate and key; None to show none.
        alpn: protocols offered.
        newest: newest version of TLS that is spoken.
        shakes: set TLS up; else the bytes go as they are.

    Attributes:
        address: of this end, as the log has it.
        error: what TLS or TCP said in the end; None for an orderly one.
    """

    def __init__(
        self, place, files=None, *, alpn=(peer_identity.PROTOCOL,), newest=None, shakes=True
    ):
        self.socket = socket.create_connection(place, PATIENCE_S)
        self.address = sockets.shown(self.socket.getsockname())
        self.error = None
        if not shakes:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols(list(alpn))
        if newest is not None:
            context.maximum_version = newest
        if files is not None:
            context.load_cert_chain(*files)
        plain = self.socket
        try:
            self.socket = context.wrap_socket(plain, server_hostname="alice")
        except OSError as error:
            self.error = error
            plain.close()

    def send(self, data):
        """Send it all; that nobody listens any more is seen by `rest`."""
        try:
            self.socket.sendall(data)
        except OSError as error:
            self.error = self.error or error

    def read(self, count):
        """Exactly that many bytes, or fewer at the end."""
        got = bytearray()
        try:
            while len(got) < count:
                data = self.socket.recv(min(count - len(got), 1 << 20))
                if not data:
                    break
                got += data
        except TimeoutError:
            pytest.fail("ALICE neither answers nor closes")
        except OSError as error:
            self.error = self.error or error
        return bytes(got)

    def rest(self):
        """All that still comes, up to the end of the connection."""
        return self.read(1 << 40)

    def frame(self):
        """The next frame: kind, flags, a, b, c, body; None at the end."""
        head = self.read(frames.HEADER_SIZE)
        if len(head) < frames.HEADER_SIZE:
            return None
        kind, flags, _, _, length, a, b, c = frames.HEADER.unpack(head)
        return kind, flags, a, b, c, self.read(length)

    def last_words(self):
        """Code and text of the ERROR frame that comes some time; None if none does."""
        while (found := self.frame()) is not None:
            if found[0] == frames.ERROR:
                return found[2], found[5].decode()
        return None

    def close(self):
        self.socket.close()


def hello(party, *, flags=frames.HELLO_CONTROL, epoch=1, job=JOB, session=b"s" * 16):
    """The frame by which somebody says to ALICE that it is that party."""
    local = handshake.Local(federation=FEDERATION, job=job, party=party, session=session)
    return handshake.Hello(
        local=local, peer="ALICE", peer_session=handshake.NO_SESSION, flags=flags, epoch=epoch,
        number=0, digest=frames.NO_DIGEST,
    ).encode()  # fmt: skip


class Liar:
    """A party with a valid certificate and a standing link with ALICE, that says what it likes.

    Attributes:
        control: its control connection.
        bulk: its bulk connection.
    """

    def __init__(self, scene, party):
        self.party = party
        self._scene = scene
        self._last = 0
        self.control = self.dial(flags=frames.HELLO_CONTROL)
        self.bulk = self.dial(flags=frames.HELLO_BULK)
        self.control.send(frames.small(frames.RESUME, flags=frames.RESUME_LAST))

    def dial(self, *, flags, epoch=1):
        """A connection on which HELLO is answered."""
        made = self._scene.raw(self._scene.world.of(self.party))
        made.send(hello(self.party, flags=flags, epoch=epoch))
        found = made.frame()
        assert found is not None, made.error
        assert found[0] == frames.HELLO, found
        return made

    def meta(self, size, *, call, flags, head_size=None, number=None, message=None):
        """An announcement, as a frame."""
        made = frames.Meta()
        self._last += 1
        made.id = self._last if message is None else message
        made.number = call if number is None else number
        made.size, made.call, made.index, made.kind = size, call, 0, 0
        made.head_size = size if head_size is None else head_size
        made.digest = frames.NO_DIGEST
        return frames.meta(made, flags=flags)

    def send(self, head, body=b"", *, call):
        """A payload that it says is an encoded value; within ALICE's window."""
        payload = head + bytes(-len(head) % 64) + body if body else head
        inline = len(payload) <= frames.INLINE_LIMIT
        flags = frames.META_EAGER | (frames.META_INLINE if inline else 0)
        self.bulk.send(self.meta(len(payload), call=call, flags=flags, head_size=len(head)))
        if inline:
            self.bulk.send(payload)
            return
        view, at = memoryview(payload), 0
        while at < len(payload):
            part = view[at : at + frames.CHUNK_LIMIT]
            self.bulk.send(frames.chunk(self._last, at, len(part)))
            self.bulk.send(part)
            at += len(part)

    def refusals(self, count):
        """The next REFUSE frames: message, code and words of each."""
        found = []
        while len(found) < count:
            frame = self.control.frame()
            assert frame is not None, f"the link ended: {self.control.error}"
            kind, _, a, b, _, body = frame
            assert kind != frames.ERROR, body
            if kind == frames.REFUSE:
                found.append((a, b, body.decode()))
        return found

    def tell(self, kind, a=0, b=0, c=0, **given):
        """A small frame on control."""
        self.control.send(frames.small(kind, a, b, c, **given))

    def answers(self, count):
        """What became of the next messages: `delivered` or `refused`."""
        found = []
        while len(found) < count:
            frame = self.control.frame()
            assert frame is not None, f"the link ended: {self.control.error}"
            kind, _, _, _, _, body = frame
            assert kind != frames.ERROR, body
            if kind == frames.REFUSE:
                found.append("refused")
            elif kind == frames.ACK:
                ranges = frames.read_pairs(memoryview(body))
                found += ["delivered"] * sum(high - low + 1 for low, high in ranges)
        return found
