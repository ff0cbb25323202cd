"""Frames that no honest party sends, on a standing link with a valid certificate.

Each ends CAROL's link with an error that names the frame, and nothing else: BOB's goes on.
"""

from __future__ import annotations

import itertools
import struct

import pytest
from tests.integration.attacks import scenes

from fed import errors
from fed.transport import frames, handshake

TRANSFER = "BOB's arrays to ALICE, answered by their digests"
KINDS = range(1, len(frames.NAMES))
#: As a C program would read them: -1, the least number, and one above the largest frame.
LENGTHS = (0xFFFFFFFF, 0x80000000, (1 << 20) + 1)
TIMELESS = (frames.HELLO, frames.ERROR)


def head(kind, length=0, a=0, b=0, c=0, *, flags=0, version=None, zero=0):
    """A header with anything in it."""
    if version is None:
        version = 0 if kind in TIMELESS else 1
    return frames.HEADER.pack(kind, flags, version, zero, length, a, b, c)


def ends_the_link(scene, liar, send, *words):
    """What `send` sends ends CAROL's link by name, and no memory was taken for it."""
    request = scene.alice.expect([("CAROL", 1, 0)], number=1_000_001)
    with scene.honest(TRANSFER) as transfer:
        send(liar)
        # On both connections, since she may look at either first.
        code, text = liar.control.last_words()
        assert liar.bulk.last_words() == (code, text)
        transfer.finish()
    assert code == handshake.PROTOCOL
    for word in words:
        assert word in text
    scene.log.says("the link to party CAROL ended", *words)
    assert not scene.log.lines("party BOB")
    assert request.wait(scenes.PATIENCE_S)
    with pytest.raises(errors.TransportError) as caught:
        request.taken()
    assert caught.value.party == "CAROL"
    assert scene.alice.used_bytes == 0


@pytest.mark.parametrize("length", LENGTHS)
def test_oversized_and_negative_lengths(make_scene, length):
    # A frame of each kind, each of another party, whose link it ends.
    scene = make_scene(peers=[f"LIAR{kind}" for kind in KINDS])
    with scene.honest(TRANSFER) as transfer:
        for kind in KINDS:
            liar = scene.liar(f"LIAR{kind}")
            on = liar.bulk if kind in (frames.META, frames.CHUNK) else liar.control
            on.send(head(kind, length, 1, 1, 1) + bytes(100))
            code, text = liar.control.last_words()
            assert code == handshake.PROTOCOL
            words = (frames.NAMES[kind], f"body of {length} bytes")
            assert all(word in text for word in words)
            scene.log.says(f"the link to party LIAR{kind} ended", *words)
        transfer.finish()
    assert not scene.log.lines("party BOB")
    assert scene.alice.used_bytes == 0


NUMBERS = (1 << 63, (1 << 64) - 1)


@pytest.mark.parametrize(("field", "number"), list(itertools.product("abc", NUMBERS)))
@pytest.mark.parametrize("kind", [frames.META, frames.CHUNK])
def test_negative_numbers(scene, kind, field, number):
    fields = dict.fromkeys("abc", 1) | {field: number}
    length = frames.META_SIZE if kind == frames.META else 100
    frame = head(kind, length, **fields, flags=1 if kind == frames.META else 0) + bytes(length)
    ends_the_link(
        scene, scene.liar(), lambda liar: liar.bulk.send(frame), frames.NAMES[kind], "2**63"
    )


def on_bulk(*parts):
    return lambda liar: liar.bulk.send(b"".join(parts))


def on_control(*parts):
    return lambda liar: liar.control.send(b"".join(parts))


def announce(size, **given):
    """An announcement within the window, which is far smaller than the sizes here."""
    given = {"call": 1, "flags": frames.META_EAGER, "head_size": 1, **given}
    return lambda liar: liar.bulk.send(liar.meta(size, **given))


def chunk(offset, length, *, size=100_000):
    """A chunk of an announced value."""

    def send(liar):
        liar.bulk.send(liar.meta(size, call=1, flags=frames.META_EAGER, head_size=1))
        liar.bulk.send(frames.chunk(1, offset, length) + bytes(length))

    return send


def pairs(kind, *items, **given):
    return on_control(frames.small(kind, body=frames.pairs(items), **given))


BROKEN = {
    "no type 0": (on_control(head(0)), "type 0"),
    "no type 15": (on_control(head(15)), "type 15"),
    "no type 255": (on_bulk(head(255, 0xFFFFFFFF)), "type 255"),
    "another version": (on_control(head(frames.PING, 32, version=2) + bytes(32)), "version 2"),
    "a byte that is 0": (on_control(head(frames.PING, 32, zero=1) + bytes(32)), "PING"),
    "flags": (on_control(head(frames.PING, 32, flags=0x80) + bytes(32)), "flags 0x80"),
    "HELLO twice": (on_control(scenes.hello("CAROL")), "twice"),
    "HELLO of BOB": (on_control(scenes.hello("BOB")), "twice"),
    "a size beyond the window": (announce(1 << 62), "window"),
    "the largest size": (announce((1 << 63) - 1), "window"),
    "a head larger than the value": (announce(10, head_size=11), "head of 11"),
    "a value of no bytes": (announce(0, head_size=0), "message 1 of 0"),
    "message 0": (announce(10, message=0), "message 0"),
    "inline without bytes": (
        lambda liar: liar.bulk.send(b"\x07\x03" + liar.meta(10, call=1, flags=1)[2:]),
        "0 bytes inline of a payload of 10",
    ),
    "an eager value on control": (
        lambda liar: liar.control.send(liar.meta(10, call=1, flags=1)),
        "wrong connection",
    ),
    "an offer on bulk": (announce(10, flags=0), "wrong connection"),
    "a chunk of nothing": (on_bulk(frames.chunk(7, 0, 9), bytes(9)), "was not announced"),
    "a chunk on control": (on_control(frames.chunk(1, 0, 9), bytes(9)), "on control"),
    "a chunk from afar": (chunk(1 << 62, 100), "bytes from"),
    "a chunk out of order": (chunk(100, 100), "bytes from 100"),
    "a chunk beyond the value": (chunk(0, 2000, size=1000), "2000 bytes of message 1"),
    "a message announced otherwise": (
        lambda liar: [announce(size, message=1)(liar) for size in (1000, 2000)],
        "announced differently",
    ),
    "an answer to no PING": (on_control(head(frames.PONG, 32, 9) + bytes(32)), "PING 9"),
    "a note out of order": (on_control(frames.small(frames.NOTE, 5, 1)), "note 5"),
    "confirms no GOAWAY": (
        on_control(head(frames.GOAWAY, 32, flags=1) + bytes(32)),
        "confirms what was not said",
    ),
    "GOAWAY before it all arrived": (
        on_control(head(frames.GOAWAY, 32, 0, 5) + bytes(32)),
        "some did not arrive",
    ),
    "RESUME twice": (pairs(frames.RESUME, flags=frames.RESUME_LAST), "twice"),
    "acknowledges a note of none": (on_control(frames.small(frames.ACK, 1)), "note 1"),
    "acknowledges what was not sent": (pairs(frames.ACK, (1, 1)), "ACK"),
    "acknowledges a huge range": (pairs(frames.ACK, (1, 1 << 62)), "ACK"),
    "acknowledges backwards": (pairs(frames.ACK, (5, 1)), "ACK"),
    "refuses what was not sent": (on_control(frames.small(frames.REFUSE, 1, 1)), "REFUSE"),
    "grants what was not offered": (
        on_control(frames.small(frames.GRANT, body=struct.pack("<Q", 77))),
        "GRANT",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_frames_that_break_a_rule(scene, name):
    send, words = BROKEN[name]
    ends_the_link(scene, scene.liar(), send, words)


def test_a_chunk_that_was_not_granted(make_scene):
    # The budget has no room for what she offers, so it waits; she sends all the same.
    scene = make_scene(receive_budget_bytes=4 << 20)
    liar = scene.liar()

    def send(liar):
        for call in range(1, 9):
            liar.control.send(liar.meta(3 << 20, call=call, flags=0, head_size=1))
        liar.bulk.send(frames.chunk(8, 0, 9) + bytes(9))

    ends_the_link(scene, liar, send, "message 8")


def test_frames_before_the_hello(make_scene, world):
    # Each ends its connection, by name; a link that its party may have later is not touched.
    kinds = [kind for kind in KINDS if kind != frames.ERROR]
    scene = make_scene(peers=[f"LIAR{kind}" for kind in kinds])
    with scene.honest(TRANSFER) as transfer:
        for kind in kinds:
            one = scene.raw(world.of(f"LIAR{kind}"))
            one.send(head(kind, 0x80000000, 1, 1, 1) + bytes(100))
            code, words = one.last_words()
            assert code == handshake.PROTOCOL
            assert frames.NAMES[kind] in words
            one.close()
            scene.log.says(f"party LIAR{kind}", frames.NAMES[kind])
        liar = scene.liar(f"LIAR{frames.CHUNK}")
        liar.tell(frames.PING, 1, body=bytes(32))
        assert frames.PONG in iter(lambda: liar.control.frame()[0], None)
        transfer.finish()
    assert not scene.log.lines("the link to party")


@pytest.mark.parametrize("length", [0, 1, 50, 127])
def test_hellos_that_are_cut_short(scene, world, length):
    with scene.honest(TRANSFER) as transfer:
        one = scene.raw(world.of("CAROL"))
        whole = scenes.hello("CAROL")[frames.HEADER_SIZE :]
        body = (whole + bytes(200))[:length]
        one.send(head(frames.HELLO, len(body), 1, flags=1) + body)
        code, words = one.last_words()
        one.close()
        transfer.finish()
    assert code == handshake.PROTOCOL
    assert "HELLO" in words
    scene.log.says("CAROL", "HELLO")


def test_replayed_frames(scene):
    # All that makes a value, three times: it comes in once, and the link stands.
    liar = scene.liar()
    payload = b"FED\x01" + bytes(4) + b"\x2a"  # the number 42
    meta = liar.meta(len(payload), call=1, flags=3)
    with scene.honest(TRANSFER) as transfer:
        for _ in range(3):
            liar.bulk.send(meta + payload)
        got = scene.alice.receive("CAROL", 1, number=1_000_000, timeout_s=scenes.PATIENCE_S)
        assert got == 42
        for _ in range(3):
            liar.bulk.send(meta + payload)
        with pytest.raises(errors.FedTimeoutError):
            scene.alice.receive("CAROL", 1, number=1_000_001, timeout_s=0.3)
        for _ in range(1000):
            liar.tell(frames.NOTE, 1, 7, body=b"x")
        transfer.finish()
    assert not scene.log.lines("the link to party CAROL ended")
    liar.send(b"FED\x01" + bytes(4) + b"\x2b", call=2)
    assert scene.alice.receive("CAROL", 2, number=1_000_002, timeout_s=scenes.PATIENCE_S) == 43
