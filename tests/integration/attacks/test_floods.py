"""Too many, too slow, too much: what it costs ALICE is bounded, and BOB does not notice.

ALICE is a process of her own here, and what she costs is counted there.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import time

import pytest
from tests.integration.attacks import scenes

from fed.transport import frames, listener, outbox, sockets

TRANSFER = "BOB's arrays to ALICE, over connections that he makes anew meanwhile"
MANY = 1000
#: What strangers may cost: TLS's state and some kilobytes each, at most `STRANGER_LIMIT` of them.
STRANGERS_BYTES = 48 << 20
#: What connections of one party may cost: 16 of them with 400 KB each, twice over.
PARTY_BYTES = 64 << 20
SLACK_THREADS = 8


@pytest.fixture(autouse=True)
def descriptors():
    """This process holds the attackers' ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY + 500
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.skip(f"needs {wanted} file descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def client_hello():
    """The first bytes of an honest handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["fed/1"])
    one = context.wrap_bio(incoming, outgoing, server_hostname="alice")
    with contextlib.suppress(ssl.SSLWantReadError):
        one.do_handshake()
    return outgoing.read()


def bounded(scene, before, *, growth, threads=SLACK_THREADS):
    """What ALICE costs more than before is within bounds."""
    now = scene.ask("state")
    assert now["peak"] - before["peak"] < growth
    assert now["threads"] <= before["threads"] + threads
    assert now["strangers"] <= listener.STRANGER_LIMIT
    assert now["descriptors"] <= before["descriptors"] + listener.STRANGER_LIMIT + threads + 16


def warm(scene):
    """What ALICE costs once an honest transfer has passed."""
    with scene.honest("BOB's first arrays to ALICE") as transfer:
        transfer.finish(10)
    return scene.ask("state")


def test_a_thousand_half_open_connections(make_apart):
    # One says nothing, the next the half of a greeting, the next all of it and nothing more.
    hello = client_hello()
    first = (b"", hello[: len(hello) // 2], hello)
    scene = make_apart(handshake_timeout_s=20.0)
    before = warm(scene)
    opened = []
    try:
        with scene.honest(TRANSFER) as transfer:
            for n in range(MANY):
                one = socket.create_connection(scene.place, scenes.PATIENCE_S)
                opened.append(one)
                with contextlib.suppress(OSError):  # she has closed it by now
                    one.sendall(first[n % 3])
                if n % 250 == 100:
                    scene.bob.cut("ALICE")
            transfer.finish()
        bounded(scene, before, growth=STRANGERS_BYTES)
        scene.says("a connection from 127.0.0.1:", "did not say who they are yet")
        assert not scene.lines("link to party")
    finally:
        for one in opened:
            one.close()


def test_slow_handshakes(make_apart):
    # Strangers say one byte of a right greeting now and then, and never come to its end.
    hello = client_hello()
    scene = make_apart(handshake_timeout_s=3.0)
    before = warm(scene)
    slow = {socket.create_connection(scene.place, scenes.PATIENCE_S): 0 for _ in range(40)}
    names = {one: sockets.shown(one.getsockname()) for one in slow}
    for one in slow:
        one.setblocking(False)
    ended = set()
    deadline = time.monotonic() + scenes.PATIENCE_S
    try:
        with scene.honest(TRANSFER) as transfer:
            while len(ended) < len(slow) and time.monotonic() < deadline:
                for one, at in slow.items():
                    if one in ended:
                        continue
                    try:
                        one.send(hello[at : at + 1])
                        slow[one] = min(at + 1, len(hello) - 2)
                        if not one.recv(10):
                            ended.add(one)
                    except BlockingIOError:
                        pass
                    except OSError:
                        ended.add(one)
                if slow and max(slow.values()) == 5:
                    scene.bob.cut("ALICE")
                time.sleep(0.05)
            transfer.finish()
        assert len(ended) == len(slow), "some slow handshakes did not end"
        bounded(scene, before, growth=STRANGERS_BYTES)
        assert scene.ask("state")["strangers"] == 0
        scene.says("it did not say who it is within 3 s")
        assert any(scene.lines(name) for name in names.values())
    finally:
        for one in slow:
            one.close()


def test_hundreds_of_connections_of_a_party_that_say_nothing(make_apart, world):
    # With a valid certificate each costs more, so fewer of them are kept.
    scene = make_apart(handshake_timeout_s=20.0)
    before = warm(scene)
    files = scene._written(world.of("CAROL"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["fed/1"])
    context.load_cert_chain(*files)
    opened = []
    try:
        with scene.honest(TRANSFER) as transfer:
            for _ in range(300):
                plain = socket.create_connection(scene.place, scenes.PATIENCE_S)
                try:
                    opened.append(context.wrap_socket(plain, server_hostname="alice"))
                except OSError:
                    plain.close()
            transfer.finish()
        bounded(scene, before, growth=PARTY_BYTES, threads=2 * 16 + SLACK_THREADS)
        scene.says("a connection of party CAROL was closed")
        assert not scene.lines("link to party BOB")
    finally:
        for one in opened:
            one.close()


def pings(liar):
    for _ in range(20_000):
        liar.tell(frames.PING, 1, body=bytes(32))


def notes(liar):
    for n in range(1, 3_000):
        liar.tell(frames.NOTE, n, 1, body=bytes(16_000))


def offers(liar):
    for call in range(outbox.OFFER_LIMIT + 100):
        liar.control.send(liar.meta(1 << 33, call=call, flags=0, head_size=1))


def unread_values(liar):
    for call in range(1000):
        liar.send(bytes(1 << 20), call=call)


def repeated_refusals(liar):
    # Each announcement of a refused message is answered; she never reads the answers.
    meta = liar.meta(1 << 40, call=1, flags=0, head_size=1)
    for _ in range(2_000):
        liar.control.send(meta * 100)


FLOODS = {
    "pings": (pings, ""),
    "notes": (notes, ""),
    "offers": (offers, "offers wait"),
    "unread values": (unread_values, "window"),
    "repeated refusals": (repeated_refusals, ""),
}


@pytest.mark.parametrize("name", FLOODS)
def test_the_honest_peer_finishes(make_apart, name):
    # CAROL has a standing link, sends without end, and reads nothing of what comes back.
    flood, words = FLOODS[name]
    budget = 32 << 20
    scene = make_apart(receive_budget_bytes=budget)
    before = warm(scene)
    liar = scene.liar()
    liar.control.socket.settimeout(3)
    liar.bulk.socket.settimeout(3)
    with scene.honest("BOB's arrays to ALICE") as transfer:
        flood(liar)
        transfer.finish()
    bounded(scene, before, growth=budget + PARTY_BYTES)
    if words:
        scene.says("the link to party CAROL ended", words)
    assert not scene.lines("link to party BOB")
