"""The carrier alone, over a pair of sockets; the listener against strangers; the pool."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import socket
import ssl
import threading
import time

import numpy as np
import pytest
from tests.integration.transport import ends

from fed import errors
from fed.transport import dialer, frames, listener, plain, pool, tls


def shaken(certificates):
    """ALICE's and BOB's carriers with TLS between them."""
    near, far = socket.socketpair()
    alice, bob = (ends.identity_of(certificates, party) for party in ("ALICE", "BOB"))
    bios = [[ssl.MemoryBIO(), ssl.MemoryBIO()] for _ in range(2)]
    objects = [alice.dialling("BOB", *bios[0]), bob.accepting(*bios[1])]
    for _ in range(4):
        for at, one in enumerate(objects):
            with contextlib.suppress(ssl.SSLWantReadError):
                one.do_handshake()
            bios[1 - at][0].write(bios[at][1].read())
    peers = [alice.peer(objects[0], expected="BOB"), bob.peer(objects[1])]
    return [
        tls.Tls(sock, one, *pair, peer=peer, address="test")
        for sock, one, pair, peer in zip((near, far), objects, bios, peers, strict=True)
    ]


@pytest.fixture(params=("tls", "plain"))
def pair(request, certificates):
    if request.param == "tls":
        made = shaken(certificates)
    else:
        made = [
            plain.Plain(sock, peer=listener.unproven("x"), address="test")
            for sock in socket.socketpair()
        ]
    yield made
    for one in made:
        one.cut()
        one.close()


def read(carrier, count, *, is_body=True):
    data = memoryview(bytearray(count))
    got = 0
    while got < count:
        step = carrier.receive(data[got:], is_body=is_body)
        if not step:
            break
        got += step
    return bytes(data[:got])


def test_the_peer_is_who_its_certificate_says(certificates):
    alice, bob = shaken(certificates)
    assert (alice.peer.party, bob.peer.party) == ("BOB", "ALICE")
    for one in (alice, bob):
        one.close()


@pytest.mark.soak(seeds=30)
def test_both_ways_at_once_every_byte_arrives(pair, seed):
    rng = random.Random(seed)
    data = [rng.randbytes(4_000_000) for _ in pair]

    def send(carrier, payload):
        at = 0
        while at < len(payload):
            step = rng.choice((1, 32, 4096, 70_000, 1 << 20))
            pieces = [payload[at : at + step // 2], payload[at + step // 2 : at + step]]
            carrier.send([piece for piece in pieces if piece], wait=True)
            at += step

    workers = [
        threading.Thread(target=send, args=(carrier, payload), daemon=True)
        for carrier, payload in zip(pair, data, strict=True)
    ]
    found = [b"", b""]

    def take(at):
        found[at] = read(pair[at], 4_000_000, is_body=rng.random() < 0.5)

    workers += [threading.Thread(target=take, args=(at,), daemon=True) for at in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert found == data[::-1]


def test_what_the_network_does_not_take_is_kept_in_order(pair):
    near, far = pair
    payload = os.urandom(8 << 20)
    step = 1 << 20
    took = [near.send([payload[at : at + step]], wait=False) for at in range(0, 8 * step, step)]
    assert not took[-1], "the network took 8 MiB that nobody read"
    found = []
    taker = threading.Thread(target=lambda: found.append(read(far, len(payload))), daemon=True)
    taker.start()
    assert near.send([], wait=True)
    taker.join(20)
    assert found == [payload]


def test_what_follows_a_header_stays_in_tls(certificates):
    near, far = shaken(certificates)
    header, body = b"h" * 32, b"b" * 100_000
    near.send([header, body], wait=True)
    staging = memoryview(bytearray(frames.STAGING_SIZE))
    assert far.receive(staging, is_body=False) == 32
    assert far.has_more
    assert read(far, len(body)) == body
    assert not far.has_more
    for one in (near, far):
        one.close()


def test_the_end_is_seen_after_all_that_was_sent(pair):
    near, far = pair
    near.send([b"last words"], wait=True)
    near.finish()
    assert read(far, 100) == b"last words"
    # The other way still stands.
    far.send([b"heard"], wait=True)
    assert read(near, 5) == b"heard"


def test_cutting_wakes_who_receives(pair):
    near, _ = pair
    ended = threading.Event()

    def take():
        with contextlib.suppress(OSError):
            near.receive(memoryview(bytearray(10)), is_body=True)
        ended.set()

    threading.Thread(target=take, daemon=True).start()
    time.sleep(0.05)
    near.cut()
    assert ended.wait(10)


def test_changed_bytes_are_refused(certificates):
    near, far = shaken(certificates)
    near._socket.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(ssl.SSLError):
        far.receive(memoryview(bytearray(100)), is_body=True)
    for one in (near, far):
        one.close()


# --- the listener ---------------------------------------------------------------------------------


class Listening:
    """BOB's listener, and what came of it."""

    def __init__(self, certificates, **changes):
        self.known = []
        self.refused = []
        self.listener = listener.Listener(
            listener.bind("127.0.0.1:0"),
            own=ends.identity_of(certificates, "BOB") if certificates else None,
            known=lambda carrier, sock: self.known.append(carrier),
            refused=lambda party, error: self.refused.append((party, error)),
            **changes,
        )
        self.listener.start()
        self.address = self.listener.addresses[0]
        self.place = ("127.0.0.1", int(self.address.rsplit(":", 1)[1]))

    def dial(self, certificates, party="ALICE"):
        own = ends.identity_of(certificates, party) if certificates else None
        route = dialer.Route(party="BOB", address=self.address)
        return dialer.dial(route, own=own, timeout_s=10)[0]

    def close(self):
        self.listener.close()
        for one in self.known:
            one.close()


@pytest.fixture
def listening(certificates):
    made = Listening(certificates, timeout_s=0.5)
    yield made
    made.close()


def test_strangers_are_few_and_a_party_gets_in_among_them(certificates, listening):
    strangers = [socket.create_connection(listening.place) for _ in range(200)]
    carrier = listening.dial(certificates)
    ends.wait_until(lambda: listening.known)
    assert listening.known[0].peer.party == "ALICE"
    assert listening.listener.strangers <= listener.STRANGER_LIMIT
    ends.wait_until(lambda: listening.listener.strangers == 0)
    for one in (*strangers, carrier):
        one.close()


def test_a_handshake_byte_by_byte_ends_at_its_deadline(listening):
    with socket.create_connection(listening.place, 5) as slow:
        sent = 0
        with contextlib.suppress(OSError):
            for byte in b"\x16\x03\x01\x02\x00" + bytes(500):
                slow.sendall(bytes([byte]))
                sent += 1
                time.sleep(0.02)
        assert 0 < sent < 200


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1\r\n\r\n", os.urandom(400), b"\0" * 200_000])
def test_what_is_no_tls_is_turned_away(certificates, listening, greeting):
    with socket.create_connection(listening.place, 5) as stranger:
        try:
            stranger.sendall(greeting)
            while stranger.recv(1000):
                pass
        except OSError:
            pass
    listening.dial(certificates).close()
    ends.wait_until(lambda: listening.known)


def test_a_party_without_a_place_here_is_told_why(certificates):
    # Its authority is trusted, but it is no peer: the reason comes as a frame, after TLS.
    bob = Listening(certificates)
    bob.listener._own = ends.identity_of(certificates, "BOB", parties=("ALICE", "BOB"))
    own = ends.identity_of(certificates, "CAROL")
    route = dialer.Route(party="BOB", address=bob.address)
    carrier, _ = dialer.dial(route, own=own, timeout_s=10)
    said = read(carrier, 10_000)
    kind, _, _, _, length, *_ = frames.HEADER.unpack_from(said)
    assert kind == frames.ERROR
    assert "CAROL" in said[32 : 32 + length].decode()
    ends.wait_until(lambda: bob.refused)
    assert "party/CAROL" in str(bob.refused[0][1])
    carrier.close()
    bob.close()


def test_without_tls_what_is_no_hello_is_turned_away():
    bob = Listening(None)
    too_long = b"\x01\0\0\0\xff\xff\xff\xff" + bytes(24)
    for greeting in (bytes(64), b"\x01\0\0\0\x20\0\0\0" + os.urandom(100), too_long):
        with socket.create_connection(bob.place, 5) as stranger:
            try:
                stranger.sendall(greeting)
                while stranger.recv(1000):
                    pass
            except OSError:
                pass
    ends.wait_until(lambda: len(bob.refused) == 3)
    assert not bob.known
    bob.close()


def test_another_party_than_the_one_dialled_is_refused(certificates):
    bob = Listening(certificates)
    route = dialer.Route(party="CAROL", address=bob.address)
    with pytest.raises(errors.HandshakeError, match="'BOB'") as caught:
        dialer.dial(route, own=ends.identity_of(certificates, "ALICE"), timeout_s=10)
    assert caught.value.party == "CAROL"
    bob.close()


# --- the pool -------------------------------------------------------------------------------------


def make_pool(**changes):
    clock = [0.0]
    made = pool.Pool(clock=lambda: clock[0], **{"keep_bytes": 1 << 24, **changes})
    return made, clock


def test_a_buffer_is_used_again_when_its_last_view_dies():
    made, _ = make_pool()
    body = made.get(1_000_000)
    place = np.frombuffer(body, np.uint8).ctypes.data
    array = np.frombuffer(body[64:], np.float32, 1000)
    gc.disable()
    try:
        del body
        assert made.free_bytes == 0, "a view still lives"
        del array
        assert made.free_bytes == 1_000_000
    finally:
        gc.enable()
    again = made.get(990_000)
    assert len(again) == 990_000
    assert np.frombuffer(again, np.uint8).ctypes.data == place


def test_a_buffer_that_is_much_too_large_is_left():
    made, _ = make_pool()
    del_me = made.get(4_000_000)
    del del_me
    made.get(1_000_000)
    assert made.free_bytes >= 4_000_000


def test_free_buffers_are_bounded_and_let_go():
    made, clock = make_pool(keep_bytes=3_000_000)
    bodies = [made.get(1_000_000) for _ in range(10)]
    bodies.clear()
    assert made.free_bytes == 3_000_000
    clock[0] = 100.0
    made.trim()
    assert made.free_bytes == 0


def test_room_is_made_before_a_buffer_is_allocated():
    made, _ = make_pool(keep_bytes=5_000_000)
    body = made.get(4_000_000)
    del body
    kept = made.get(8_000_000)
    assert made.free_bytes == 0
    del kept


def test_views_may_die_in_any_thread():
    made, _ = make_pool()

    def run():
        for size in range(100_000, 200_000, 1000):
            body = made.get(size)
            body[:1] = b"x"

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert made.free_bytes <= 1 << 24
    assert not made._out
