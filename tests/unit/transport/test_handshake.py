from __future__ import annotations

import dataclasses

import hypothesis
import pytest
from hypothesis import strategies as st

from fed import errors
from fed.transport import frames, handshake

ALICE = handshake.Local(
    federation="demo", job="j1", party="ALICE", session=b"a" * 16,
    settings={"seed": "0", "strict": "false"}, version="1.0", max_value_bytes=1 << 30,
)  # fmt: skip
BOB = dataclasses.replace(ALICE, party="BOB", session=b"b" * 16)


def hello(local=BOB, **changes):
    fields = {
        "local": local,
        "peer": "ALICE",
        "peer_session": handshake.NO_SESSION,
        "flags": frames.HELLO_CONTROL,
        "epoch": 1,
        "number": 12,
        "digest": bytes(range(32)),
    }
    return handshake.Hello(**{**fields, **changes})


def decode(raw):
    kind, flags, _, _, length, a, b, _ = frames.HEADER.unpack_from(raw)
    assert kind == frames.HELLO
    assert length == len(raw) - 32
    return handshake.Hello.decode(flags, a, b, memoryview(raw)[32:], party="BOB")


def test_a_hello_has_its_golden_bytes():
    local = handshake.Local(
        federation="f", job="j", party="BOB", session=b"s" * 16, settings={"seed": "0"},
        max_value_bytes=256, version="1",
    )  # fmt: skip
    assert hello(local, epoch=2, flags=frames.HELLO_BULK).encode() == bytes.fromhex(
        "01020000 72000000 0200000000000000 0c00000000000000 0000000000000000"
        "4645444c 0100 0100" + "73" * 16 + "00" * 16 + bytes(range(32)).hex() + "0001000000000000"
        "0100 0000 0100 66 0100 6a 0300 424f42 0500 414c494345 0100 31 0400 73656564 0100 30"
    )


def test_a_hello_comes_back_as_it_was():
    assert decode(hello().encode()) == hello()


@hypothesis.given(
    st.text(max_size=50), st.dictionaries(st.text(max_size=20), st.text(max_size=50), max_size=9)
)
def test_any_texts_come_back(text, settings):
    local = dataclasses.replace(BOB, job=text, settings=settings)
    assert decode(hello(local).encode()) == hello(local)


@hypothesis.given(st.binary(max_size=200), st.integers(0, 300), st.integers(0, 7))
def test_a_damaged_hello_is_refused_or_read_by_its_rules(garbage, cut, flags):
    raw = hello().encode()[32:]
    body = memoryview(raw[:cut] + garbage)
    refused = None
    try:
        read = handshake.Hello.decode(flags, 1, 0, body, party="BOB")
    except errors.TransportError as error:
        refused = error
    assert "HELLO" in refused.reason if refused else read.flags in (1, 2, 5, 6)


@pytest.mark.parametrize("flags", [0, 3, 4, 7])
def test_a_hello_is_for_one_connection(flags):
    with pytest.raises(errors.TransportError, match="flags"):
        handshake.Hello.decode(flags, 1, 0, memoryview(hello().encode())[32:], party="BOB")


def test_equal_parties_agree():
    assert handshake.check(ALICE, hello(), peer="BOB") is None


@pytest.mark.parametrize("name", ["CAROL", "bob", "BOB."])
def test_a_name_other_than_the_certificates_is_refused(name):
    said = hello(dataclasses.replace(BOB, party=name))
    refusal = handshake.check(ALICE, said, peer="BOB")
    assert refusal is not None
    assert refusal.code == handshake.MISMATCH
    assert repr(name) in refusal.reason
    assert "'BOB'" in refusal.reason


@pytest.mark.parametrize(
    ("theirs", "words", "code"),
    [
        (hello(peer="CAROL"), ["'CAROL'", "'ALICE'"], handshake.MISMATCH),
        (hello(dataclasses.replace(BOB, federation="other")), ["'other'", "'demo'"], 1),
        (hello(dataclasses.replace(BOB, job="j2")), ["'j2'", "'j1'"], handshake.REFUSED),
        (
            hello(dataclasses.replace(BOB, protocol_min=2, protocol_max=3, version="2.0")),
            ["2 to 3", "1 to 1", "'2.0'", "'1.0'"],
            handshake.MISMATCH,
        ),
        (
            hello(dataclasses.replace(BOB, settings={"seed": "7", "party": "x"})),
            ["'seed' is '7' at 'BOB' and '0' at 'ALICE'", "'strict' is not set", "'party' is 'x'"],
            handshake.MISMATCH,
        ),
    ],
)
def test_every_field_that_must_agree_is_named(theirs, words, code):
    refusal = handshake.check(ALICE, theirs, peer="BOB")
    assert refusal is not None
    assert refusal.code == code
    assert refusal.fix
    for word in words:
        assert word in refusal.reason


def test_a_wider_range_of_versions_agrees():
    wide = dataclasses.replace(BOB, protocol_min=1, protocol_max=9)
    assert handshake.check(ALICE, hello(wide), peer="BOB") is None


def test_words_of_the_peer_are_harmless_in_the_reason():
    said = hello(dataclasses.replace(BOB, job="x\x1b[2J\n" + "y" * 5000))
    refusal = handshake.check(ALICE, said, peer="BOB")
    assert refusal is not None
    assert "\x1b" not in refusal.reason
    assert "\\x1b" not in refusal.reason
    assert len(refusal.reason) < 500


def test_settings_that_do_not_fit_are_refused_here():
    big = dataclasses.replace(BOB, settings={"a": "x" * 60_000, "b": "y" * 60_000})
    with pytest.raises(errors.UsageError, match="settings"):
        hello(big).encode()
