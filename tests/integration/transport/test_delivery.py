"""What must hold whatever happens to connections and processes: each value once, or a named error.

Short versions of the drills run always; those of full size with `make soak`.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import threading
import time

import numpy as np
import pytest
from tests.integration.transport import ends

from fed import errors
from fed.transport import events, frames, tls


def exchange(alice, bob, values, *, timeout_s=60.0):
    """All values both ways at once; says how often each came."""
    counts = {}

    def came(request):
        who = request.keys[0][0]
        (value,) = request.taken()
        assert np.array_equal(value, values[request.number])
        counts[who, request.number] = counts.get((who, request.number), 0) + 1

    for n in values:
        bob.expect([("ALICE", n, 0)], number=n, done=came)
        alice.expect([("BOB", n, 0)], number=n, done=came)
    for n, value in values.items():
        alice.send(value, to="BOB", number=n, call=n)
        bob.send(value, to="ALICE", number=n, call=n)
    alice.drain(timeout_s)
    bob.drain(timeout_s)
    ends.wait_until(lambda: len(counts) == 2 * len(values))
    assert set(counts.values()) == {1}


def mixed(rng, count, largest):
    made = {}
    for n in range(1, count + 1):
        size = rng.choice((10, 1000, 20_000, largest // 4, largest))
        made[n] = np.frombuffer(rng.randbytes(size), np.uint8)
    return made


# --- connections that break -----------------------------------------------------------------------


def test_a_connection_cut_every_megabyte(certificates):
    rng = random.Random(1)
    with ends.connected(
        certificates, through=lambda address: ends.Network(address, lambda: 1_000_000)
    ) as (alice, bob, network):
        exchange(alice, bob, mixed(rng, 30, 1_500_000))
        assert network.cuts >= 10


@pytest.mark.soak(seeds=200)
def test_connections_cut_at_seeded_points(certificates, seed):
    rng = random.Random(seed)
    # At least a handshake gets through, or nothing ever would.
    cut_after = lambda: rng.choice((12_000, 100_000, 700_000, None)) and rng.randint(9_000, 900_000)  # noqa: E731
    with ends.connected(
        certificates, through=lambda address: ends.Network(address, cut_after),
        receive_budget_bytes=rng.choice((1 << 20, 64 << 20)),
    ) as (alice, bob, _):  # fmt: skip
        exchange(alice, bob, mixed(rng, 12, 600_000))
        ends.shut_down(alice, bob)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_connection_cut_every_50_megabytes_in_2_gigabytes(certificates):
    rng = random.Random(2)
    values = {n: np.frombuffer(rng.randbytes(100_000_000), np.uint8) for n in range(1, 11)}
    with ends.connected(
        certificates, through=lambda address: ends.Network(address, lambda: 50_000_000)
    ) as (alice, bob, network):
        exchange(alice, bob, values, timeout_s=500)
        assert network.cuts >= 30


def test_notes_survive_cuts(certificates):
    heard = []

    def hear(party, event):
        if isinstance(event, events.Noted):
            heard.append(event.body)

    with ends.connected(certificates, bob={"heard": hear}, through=ends.Network) as (
        alice, _, network,
    ):  # fmt: skip
        for n in range(600):
            alice.note(1, b"%d" % n, to="BOB")
            if n % 150 == 50:
                network.cut()
        ends.wait_until(lambda: len(heard) == 600)
    assert heard == [b"%d" % n for n in range(600)]


@pytest.mark.soak(seeds=50)
def test_repeated_frames_change_nothing(certificates, monkeypatch, seed):
    """What TLS makes impossible on the way is done at the carrier's seam: frames sent twice.

    The two connections are out of step too: each portion waits a while of its own.
    """
    rng = random.Random(seed)
    repeatable = (
        frames.META, frames.CHUNK, frames.GRANT, frames.CREDIT, frames.ACK, frames.REFUSE,
        frames.NOTE, frames.PING,
    )  # fmt: skip
    plain_send = tls.Tls.send
    repeated = [0]

    def send(self, pieces, *, wait):
        if not pieces:
            return plain_send(self, pieces, wait=wait)
        data = b"".join(pieces)
        made, at = [], 0
        while at < len(data):
            kind, _, _, _, length, *_ = frames.HEADER.unpack_from(data, at)
            end = at + frames.HEADER_SIZE + length
            twice = kind in repeatable and rng.random() < 0.3
            made += [data[at:end]] * (1 + twice)
            repeated[0] += twice
            at = end
        time.sleep(rng.random() * 0.005)
        return plain_send(self, made, wait=wait)

    monkeypatch.setattr(tls.Tls, "send", send)
    with ends.connected(certificates, receive_budget_bytes=4 << 20) as (alice, bob, _):
        exchange(alice, bob, mixed(rng, 30, 1_200_000))
    assert repeated[0] >= 10


# --- loss and stall -------------------------------------------------------------------------------


def test_a_peer_that_can_not_be_reached_any_more_is_lost(certificates):
    with ends.connected(certificates, through=ends.Network, peer_timeout_s=0.5) as (
        alice, bob, network,
    ):  # fmt: skip
        requests = [
            alice.expect([("BOB", 1, 0)], number=1),
            bob.expect([("ALICE", 1, 0)], number=1),
        ]
        network.close()
        for request, party in zip(requests, ("BOB", "ALICE"), strict=True):
            assert request.wait(1.5), "not lost within peer_timeout_s + 1 s"
            with pytest.raises(errors.PartyLostError, match=r"no connection for") as caught:
                request.taken()
            assert caught.value.party == party
            assert caught.value.waiting_for == "the value of call 1"


def test_a_break_that_is_mended_in_time_is_no_loss(certificates):
    with ends.connected(certificates, through=ends.Network, peer_timeout_s=3.0) as (
        alice, bob, network,
    ):  # fmt: skip
        network.is_open = False
        network.cut()
        time.sleep(1.0)
        network.is_open = True
        alice.send("after", to="BOB", number=1, call=1)
        assert bob.receive("ALICE", 1, number=1, timeout_s=10) == "after"


class Peer:
    """BOB in a process of his own, and ALICE here."""

    def __init__(self, certificates, *, alice=None, **both):
        self.process = ends.Process(certificates, **both)
        for name in ("echo", "namespace", "listen"):
            both.pop(name, None)
        self.heard = []
        self.alice = ends.make_end(
            certificates, "ALICE", {"BOB": self.process.address}, listen=None,
            heard=lambda party, event: self.heard.append((time.monotonic(), event)),
            **{**both, **(alice or {})},
        )  # fmt: skip
        self.alice.start(20)
        assert self.process.line() == "up"

    def echo(self, number, value, timeout_s=20):
        self.alice.send(value, to="BOB", number=number, call=number)
        return self.alice.receive("BOB", number, number=number, timeout_s=timeout_s)

    def failures(self):
        return [event for _, event in self.heard if isinstance(event, events.Failed)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.alice.abort("test is over")
        self.process.end()


def test_a_killed_process_is_lost_in_time_and_by_name(certificates):
    with Peer(certificates, peer_timeout_s=1.0) as peer:
        assert peer.echo(1, "alive") == "alive"
        request = peer.alice.expect([("BOB", 2, 0)], number=2)
        sent = peer.alice.send(bytes(100_000), to="BOB", number=50, call=50)
        begin = time.monotonic()
        os.kill(peer.process.pid, signal.SIGKILL)
        assert request.wait(2.0), "not lost within peer_timeout_s + 1 s"
        with pytest.raises(errors.PartyLostError) as caught:
            request.taken()
        assert caught.value.party == "BOB"
        with pytest.raises(errors.PartyLostError):
            sent.result(1)
        down = [at for at, event in peer.heard if isinstance(event, events.Down)]
        assert down[0] - begin < 0.5, "the end of the process is known at once"


def test_a_stopped_process_goes_on_where_it_was(certificates):
    with Peer(certificates, peer_timeout_s=0.8, ping_interval_s=0.2) as peer:
        assert peer.echo(1, "before") == "before"
        os.kill(peer.process.pid, signal.SIGSTOP)
        sent = [peer.alice.send(bytes(300_000), to="BOB", number=n, call=n) for n in range(2, 12)]
        time.sleep(2.5)
        assert not peer.failures()
        os.kill(peer.process.pid, signal.SIGCONT)
        for n in range(2, 12):
            got = peer.alice.receive("BOB", n, number=n, timeout_s=20)
            assert got == bytes(300_000)
        for one in sent:
            one.result(10)
        assert not peer.failures()


def test_a_process_stopped_for_too_long_is_stalled_not_lost(certificates):
    with Peer(
        certificates, peer_timeout_s=0.5, ping_interval_s=0.2,
        alice={"stall_timeout_s": 1.5},
    ) as peer:  # fmt: skip
        os.kill(peer.process.pid, signal.SIGSTOP)
        request = peer.alice.expect([("BOB", 1, 0)], number=1)
        assert request.wait(5)
        with pytest.raises(errors.PartyStalledError, match=r"has not answered for 1\.5"):
            request.taken()
        os.kill(peer.process.pid, signal.SIGCONT)
        assert peer.process.line().startswith("failed PartyLostError")


def test_a_process_that_holds_the_interpreter_lock_is_not_lost(certificates):
    with Peer(certificates, peer_timeout_s=0.5, ping_interval_s=0.1) as peer:
        assert peer.echo(1, "before") == "before"
        peer.process.say("hold 1.6")
        assert peer.echo(2, "during", timeout_s=20) == "during"
        assert peer.process.line() == "held"
        time.sleep(0.5)
        assert not peer.failures()
        assert peer.echo(3, "after") == "after"


def test_this_process_holding_its_lock_does_not_lose_the_peer(certificates):
    import ctypes

    with Peer(certificates, peer_timeout_s=0.4, ping_interval_s=0.1) as peer:
        assert peer.echo(1, "before") == "before"
        ctypes.PyDLL(None).usleep(1_500_000)
        assert peer.echo(2, "after") == "after"
        assert not peer.failures()


def test_a_process_started_again_is_lost_at_once(certificates):
    with Peer(certificates, peer_timeout_s=20.0) as peer:
        port = peer.process.address.rsplit(":", 1)[1]
        request = peer.alice.expect([("BOB", 1, 0)], number=1)
        peer.process.end()
        again = ends.Process(certificates, listen=f"127.0.0.1:{port}")
        assert request.wait(10)
        with pytest.raises(errors.PartyLostError, match="started again"):
            request.taken()
        again.end()


COUNTER = itertools.count()


def ip(*words):
    subprocess.run(["ip", *words], check=True, timeout=20)


@pytest.fixture
def apart():
    """A namespace with a cable to it: (its name, its address, the cable's end in it)."""
    own = f"{os.getpid()}x{next(COUNTER)}"
    # A namespace's end of the cable fades only after the namespace, so each has its own subnet.
    subnet = f"10.213.{os.getpid() % 200 + next(COUNTER)}"
    name, here, there = f"fedtest{own}", f"fa{own}", f"fb{own}"
    ip("netns", "add", name)
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there)
        ip("link", "set", there, "netns", name)
        ip("address", "add", f"{subnet}.1/30", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "address", "add", f"{subnet}.2/30", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        yield name, f"{subnet}.2", there
    finally:
        ip("netns", "delete", name)


@pytest.mark.namespaces
def test_a_cut_cable_is_a_loss_in_time(certificates, apart):
    name, address, cable = apart
    with Peer(
        certificates, namespace=name, listen=f"{address}:0", peer_timeout_s=2.0, ping_interval_s=1.0
    ) as peer:
        assert peer.echo(1, "before") == "before"
        request = peer.alice.expect([("BOB", 2, 0)], number=2)
        ip("-n", name, "link", "set", cable, "down")
        assert request.wait(2.0 + 5.0), "not lost within peer_timeout_s + 5 s"
        with pytest.raises(errors.PartyLostError) as caught:
            request.taken()
        assert caught.value.party == "BOB"
        assert peer.process.line().startswith("failed PartyLostError")


@pytest.mark.namespaces
def test_a_cable_that_is_mended_in_time_is_no_loss(certificates, apart):
    name, address, cable = apart
    with Peer(
        certificates, namespace=name, listen=f"{address}:0", peer_timeout_s=30.0,
        ping_interval_s=1.0,
    ) as peer:  # fmt: skip
        assert peer.echo(1, "before") == "before"
        ip("-n", name, "link", "set", cable, "down")
        # More than the kernel takes, so that the writer is stuck in a network that is gone.
        sent = peer.alice.send(bytes(9_000_000), to="BOB", number=2, call=2)
        old = list(peer.alice._peers["BOB"].channels)
        ends.wait_until(lambda: not set(old) & set(peer.alice._peers["BOB"].channels), 12.0)
        ip("-n", name, "link", "set", cable, "up")
        assert peer.alice.receive("BOB", 2, number=2, timeout_s=20) == bytes(9_000_000)
        sent.result(10)


# --- memory ---------------------------------------------------------------------------------------


def stalled_receiver(certificates, *, budget, count, size, spill=0):
    """`count` values offered to a receiver that takes none; its peak memory; then it takes all."""
    value = np.frombuffer(os.urandom(size), np.uint8)
    with Peer(
        certificates, echo=False, receive_budget_bytes=budget, spill_quota_bytes=spill
    ) as peer:
        peer.process.say("peak")
        before = int(peer.process.line())
        sent = [peer.alice.send(value, to="BOB", number=n, call=n) for n in range(1, count + 1)]
        time.sleep(1.5)
        assert not any(one.is_done for one in sent)
        peer.process.say("peak")
        stalled = int(peer.process.line()) - before
        peer.process.say(f"take 1 {count + 1}")
        assert peer.process.line() == "taken"
        for one in sent:
            one.result(60)
        peer.process.say("peak")
        return stalled, int(peer.process.line()) - before


def test_a_receiver_that_takes_nothing_keeps_its_budget(certificates):
    budget, size = 32 << 20, 2_000_000
    stalled, in_all = stalled_receiver(certificates, budget=budget, count=120, size=size)
    # One value above the budget may come, the pool keeps a quarter of it, the rest is Python's.
    limit = budget + budget // 4 + size + (16 << 20)
    assert budget // 4 < stalled < limit, "it took nothing at all, or more than it may"
    assert in_all < limit


def test_it_does_with_a_spill_quota_too(certificates):
    budget, size = 32 << 20, 2_000_000
    stalled, _ = stalled_receiver(certificates, budget=budget, count=120, size=size, spill=1 << 30)
    assert stalled < budget + budget // 4 + size + (16 << 20)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_10_gigabytes_for_a_receiver_that_stalls(certificates):
    budget, size = 256 << 20, 20_000_000
    stalled, in_all = stalled_receiver(certificates, budget=budget, count=500, size=size)
    limit = budget + budget // 4 + size + (64 << 20)
    assert stalled < limit
    assert in_all < limit


def test_the_sender_lets_go_of_what_was_delivered(certificates):
    import weakref

    with ends.connected(certificates) as (alice, bob, _):
        value = np.zeros(500_000)
        seen = weakref.ref(value)
        bob.expect([("ALICE", 1, 0)], number=1)
        alice.send(value, to="BOB", number=1, call=1).result(10)
        del value
        ends.wait_until(lambda: seen() is None)


def test_memory_of_a_value_is_free_when_the_value_dies(certificates):
    import gc

    with ends.connected(certificates) as (alice, bob, _):
        gc.disable()
        try:
            for n in range(1, 6):
                alice.send(np.full(1_000_000, n), to="BOB", number=n, call=n)
                got = bob.receive("ALICE", n, number=n, timeout_s=10)
                assert got[-1] == n
                del got
                ends.wait_until(lambda: bob._pool.free_bytes >= 8_000_000)
                assert bob._pool.free_bytes < 9_000_000, "a new buffer was made"
        finally:
            gc.enable()


# --- many threads ---------------------------------------------------------------------------------


def test_many_threads_send_and_receive(certificates):
    with ends.connected(certificates) as (alice, bob, _):
        found = []

        def send(start):
            for n in range(start, start + 200):
                alice.send([n, "x" * (n % 500)], to="BOB", number=n, call=n)

        def take(start):
            for n in range(start, start + 200):
                value = bob.receive("ALICE", n, number=n, timeout_s=30)
                found.append(value == [n, "x" * (n % 500)])

        threads = [
            threading.Thread(target=run, args=(1 + 200 * at,), daemon=True)
            for at in range(8)
            for run in (send, take)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert found == [True] * 1600
