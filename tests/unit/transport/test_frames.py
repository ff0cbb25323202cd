from __future__ import annotations

import struct

import hypothesis
import pytest
from hypothesis import strategies as st

from fed import errors
from fed.transport import frames

DIGEST = bytes(range(32))


class Recorder:
    """A sink that keeps what it was given and offers buffers for chunks."""

    def __init__(self, *, take_chunks=True):
        self.seen = []
        self.asked = []
        self.take_chunks = take_chunks

    def frame(self, kind, flags, a, b, c, body):
        self.seen.append((kind, flags, a, b, c, bytes(body)))

    def chunk(self, message, offset, length):
        self.asked.append((message, offset, length))
        self.place = bytearray(length)
        return memoryview(self.place) if self.take_chunks else None

    def chunk_end(self):
        message, offset, _ = self.asked[-1]
        self.seen.append((frames.CHUNK, 0, message, offset, 0, bytes(self.place)))


def decoder(sink, *, greeted=True):
    made = frames.Decoder(sink, party="BOB")
    if greeted:
        made.greeted()
    return made


def value(**changes):
    made = frames.Meta()
    made.id, made.number, made.size, made.call, made.index = 9, 7, 5, 3, 1
    made.head_size, made.kind, made.digest = 5, 2, DIGEST
    for name, changed in changes.items():
        setattr(made, name, changed)
    return made


def read_meta(*fields):
    made = frames.Meta()
    frames.read_meta(made, *fields, party="BOB")
    return made


#: One frame of each type, with its bytes in hex: the wire format, which never changes.
GOLDEN = {
    "ERROR": (
        frames.small(frames.ERROR, 5, 12, body=frames.text("KeyError")),
        "02000000 08000000 0500000000000000 0c00000000000000 0000000000000000 4b65794572726f72",
    ),
    "GOAWAY": (
        frames.small(frames.GOAWAY, 40, 17, flags=frames.GOAWAY_CONFIRM, body=DIGEST),
        "03010100 20000000 2800000000000000 1100000000000000 0000000000000000" + DIGEST.hex(),
    ),
    "PING": (
        frames.small(frames.PING, 1, 40, body=DIGEST),
        "04000100 20000000 0100000000000000 2800000000000000 0000000000000000" + DIGEST.hex(),
    ),
    "PONG": (
        frames.small(frames.PONG, 1, 41, body=DIGEST),
        "05000100 20000000 0100000000000000 2900000000000000 0000000000000000" + DIGEST.hex(),
    ),
    "RESUME": (
        frames.small(
            frames.RESUME,
            3,
            flags=frames.RESUME_LAST | frames.RESUME_RANGES,
            body=frames.pairs([(1, 8)]),
        ),
        "06030100 10000000 0300000000000000 0000000000000000 0000000000000000"
        "0100000000000000 0800000000000000",
    ),
    "META": (
        frames.meta(value(), flags=0),
        "07000100 38000000 0900000000000000 0700000000000000 0500000000000000"
        "0300000000000000 01000000 05000000 0200 0000 00000000" + DIGEST.hex(),
    ),
    "META inline": (
        frames.meta(value(), flags=frames.META_EAGER | frames.META_INLINE) + b"hello",
        "07030100 3d000000 0900000000000000 0700000000000000 0500000000000000"
        "0300000000000000 01000000 05000000 0200 0000 00000000" + DIGEST.hex() + "68656c6c6f",
    ),
    "CHUNK": (
        frames.chunk(9, 1 << 20, 3) + b"abc",
        "08000100 03000000 0900000000000000 0000100000000000 0000000000000000 616263",
    ),
    "CANCEL": (
        frames.small(frames.CANCEL, 9),
        "09000100 00000000 0900000000000000 0000000000000000 0000000000000000",
    ),
    "GRANT": (
        frames.small(frames.GRANT, body=frames.ids([9, 11])),
        "0a000100 10000000 0000000000000000 0000000000000000 0000000000000000"
        "0900000000000000 0b00000000000000",
    ),
    "CREDIT": (
        frames.small(frames.CREDIT, 1 << 26),
        "0b000100 00000000 0000000400000000 0000000000000000 0000000000000000",
    ),
    "ACK": (
        frames.small(frames.ACK, 4, body=frames.pairs([(1, 9), (11, 11)])),
        "0c000100 20000000 0400000000000000 0000000000000000 0000000000000000"
        "0100000000000000 0900000000000000 0b00000000000000 0b00000000000000",
    ),
    "REFUSE": (
        frames.small(frames.REFUSE, 9, 1, body=frames.text("too large")),
        "0d000100 09000000 0900000000000000 0100000000000000 0000000000000000746f6f206c61726765",
    ),
    "NOTE": (
        frames.small(frames.NOTE, 5, 1, body=b"\x01"),
        "0e000100 01000000 0500000000000000 0100000000000000 0000000000000000 01",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_each_frame_has_its_golden_bytes(name):
    made, golden = GOLDEN[name]
    assert made == bytes.fromhex(golden.replace(" ", ""))


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_golden_bytes_decode_in_pieces_of_any_size(name, step):
    raw = GOLDEN[name][0]
    sink = Recorder()
    reader = decoder(sink)
    for at in range(0, 2 * len(raw), step):
        reader.feed((raw + raw)[at : at + step])
    kind, flags, _, _, _, a, b, c = frames.HEADER.unpack_from(raw)
    assert sink.seen == [(kind, flags, a, b, c, raw[frames.HEADER_SIZE :])] * 2


def test_the_fixed_part_of_a_value_comes_back_in_all_fields():
    raw = frames.meta(value(), flags=frames.META_EAGER)
    sink = Recorder()
    decoder(sink).feed(raw)
    _, flags, a, b, c, body = sink.seen[0]
    assert read_meta(flags, a, b, c, memoryview(body)).same_as(value())
    assert not value(number=8).same_as(value())


@pytest.mark.parametrize(
    ("changes", "flags", "payload"),
    [
        ({"size": 0, "head_size": 0}, 0, b""),
        ({"head_size": 6}, 0, b""),
        ({}, frames.META_EAGER | frames.META_INLINE, b"hell"),
        ({}, frames.META_EAGER | frames.META_INLINE, b"hello!"),
        ({}, frames.META_EAGER, b"hello"),
        ({}, frames.META_INLINE, b"hello"),
        ({"call": 1 << 63}, 0, b""),
    ],
)
def test_a_value_described_falsely_is_refused(changes, flags, payload):
    made = value(**changes)
    body = frames.meta(made, flags=flags)[frames.HEADER_SIZE :] + payload
    with pytest.raises(errors.TransportError, match="META"):
        read_meta(flags, made.id, made.number, made.size, memoryview(body))


def test_message_zero_is_refused():
    body = frames.meta(value(), flags=0)[frames.HEADER_SIZE :]
    with pytest.raises(errors.TransportError, match="META"):
        read_meta(0, 0, 7, 5, memoryview(body))


def longest(kind):
    return {
        frames.HELLO: frames.BODY_LIMIT,
        frames.ERROR: 4096,
        frames.GOAWAY: 32,
        frames.PING: 32,
        frames.PONG: 32,
        frames.RESUME: 65_504,
        frames.META: 56 + (16 << 10),
        frames.CHUNK: 1 << 20,
        frames.CANCEL: 0,
        frames.GRANT: 65_504,
        frames.CREDIT: 0,
        frames.ACK: 65_504,
        frames.REFUSE: 4096,
        frames.NOTE: frames.BODY_LIMIT,
    }[kind]


@pytest.mark.parametrize("kind", range(1, 15))
@pytest.mark.parametrize("over", [1, 16, (1 << 32) - 1])
def test_every_length_outside_its_limits_is_refused_before_a_body_is_asked_for(kind, over):
    sink = Recorder()
    reader = decoder(sink)
    length = min(longest(kind) + over, (1 << 32) - 1)
    version = 0 if kind in (frames.HELLO, frames.ERROR) else 1
    with pytest.raises(errors.TransportError, match=frames.NAMES[kind]) as caught:
        reader.feed(frames.HEADER.pack(kind, 0, version, 0, length, 0, 0, 0))
    assert caught.value.party == "BOB"
    assert sink.seen == sink.asked == []


@pytest.mark.parametrize(
    "raw",
    [
        frames.HEADER.pack(0, 0, 1, 0, 0, 0, 0, 0),
        frames.HEADER.pack(15, 0, 1, 0, 0, 0, 0, 0),
        frames.HEADER.pack(255, 0, 1, 0, 0, 0, 0, 0),
        frames.HEADER.pack(frames.CREDIT, 1, 1, 0, 0, 0, 0, 0),
        frames.HEADER.pack(frames.CREDIT, 0, 2, 0, 0, 0, 0, 0),
        frames.HEADER.pack(frames.CREDIT, 0, 1, 1, 0, 0, 0, 0),
        frames.HEADER.pack(frames.CREDIT, 0, 1, 0, 0, 1 << 63, 0, 0),
        frames.HEADER.pack(frames.CREDIT, 0, 1, 0, 0, 0, 1, 0),
        frames.HEADER.pack(frames.CHUNK, 0, 1, 0, 0, 1, 0, 0),
        frames.HEADER.pack(frames.CHUNK, 0, 1, 0, 4, 1, 0, 1),
        frames.HEADER.pack(frames.CHUNK, 0, 1, 0, 4, 1, (1 << 64) - 4, 0),
        frames.HEADER.pack(frames.ACK, 0, 1, 0, 8, 0, 0, 0),
        frames.HEADER.pack(frames.GRANT, 0, 1, 0, 0, 0, 0, 0),
        frames.HEADER.pack(frames.GRANT, 0, 1, 0, 8, 1, 0, 0),
        frames.HEADER.pack(frames.HELLO, 1, 1, 0, 8, 1, 0, 0),
    ],
)
def test_a_field_out_of_its_limits_is_refused(raw):
    sink = Recorder()
    reader = decoder(sink)
    with pytest.raises(errors.TransportError):
        reader.feed(raw + bytes(64))
    assert sink.seen == sink.asked == []
    reader.feed(GOLDEN["CREDIT"][0])
    assert sink.seen == [], "it went on after an error"


def test_nothing_but_a_hello_or_an_error_is_taken_first():
    for name in GOLDEN:
        reader = decoder(sink := Recorder(), greeted=False)
        if name == "ERROR":
            reader.feed(GOLDEN[name][0])
            assert len(sink.seen) == 1
        else:
            with pytest.raises(errors.TransportError, match="before the HELLO"):
                reader.feed(GOLDEN[name][0])


def test_a_chunk_is_written_into_the_place_that_the_sink_names():
    payload = bytes(range(256)) * 4096
    final = memoryview(bytearray(len(payload)))

    class Owner(Recorder):
        def chunk(self, message, offset, length):
            self.asked.append((message, offset, length))
            return final[offset : offset + length]

        def chunk_end(self):
            self.seen.append("end")

    sink = Owner()
    reader = decoder(sink)
    reader.feed(GOLDEN["PING"][0] + frames.chunk(9, 0, len(payload)) + payload[:1000])
    assert bytes(final[:1000]) == payload[:1000]
    assert reader.partial == 1000
    rest = reader.buffer()
    assert len(rest) == len(payload) - 1000
    assert rest.obj is final.obj, "the carrier decrypts straight into the final buffer"
    rest[:] = payload[1000:]
    reader.received(len(rest))
    assert sink.seen[1:] == ["end"]
    assert final == payload
    assert reader.partial == 0


@pytest.mark.parametrize("step", [1000, 7001, 100_000])
def test_frames_that_cross_the_end_of_the_staging_buffer_come_whole(step):
    bodies = [bytes([n]) * (n * 997 % 65_000) for n in range(1, 60)]
    raw = b"".join(frames.small(frames.NOTE, 1, 1, body=body) for body in bodies)
    sink = Recorder()
    reader = decoder(sink)
    for at in range(0, len(raw), step):
        reader.feed(raw[at : at + step])
    assert [seen[5] for seen in sink.seen] == bodies


def test_an_unwanted_chunk_is_thrown_away_without_a_buffer():
    sink = Recorder(take_chunks=False)
    reader = decoder(sink)
    raw = frames.chunk(9, 0, 300_000) + bytes(300_000) + GOLDEN["PING"][0]
    for at in range(0, len(raw), 70_001):
        reader.feed(raw[at : at + 70_001])
    assert [seen[0] for seen in sink.seen] == [frames.PING]


def test_a_stopped_decoder_takes_nothing():
    sink = Recorder()
    reader = decoder(sink)
    reader.feed(GOLDEN["PING"][0][:10])
    reader.stop()
    reader.buffer()[:22] = GOLDEN["PING"][0][10:32]
    reader.received(22)
    assert sink.seen == []


PIECES = st.one_of(
    st.sampled_from([raw for raw, _ in GOLDEN.values()]),
    st.binary(max_size=100),
    st.builds(
        struct.Struct("<BBBBIQQQ").pack,
        st.integers(0, 20), st.integers(0, 8), st.integers(0, 2), st.just(0),
        st.one_of(st.integers(0, 70_000), st.integers(0, (1 << 32) - 1)),
        st.integers(0, (1 << 64) - 1), st.integers(0, 10), st.integers(0, 1),
    ),
)  # fmt: skip


@hypothesis.given(st.lists(PIECES, max_size=12), st.integers(1, 5000), st.booleans())
def test_any_bytes_give_frames_or_a_named_error(pieces, step, take_chunks):
    raw = b"".join(pieces)
    sink = Recorder(take_chunks=take_chunks)
    reader = decoder(sink)
    refused = None
    try:
        for at in range(0, len(raw), step):
            assert len(reader.buffer()) > 0
            reader.feed(raw[at : at + step])
    except errors.TransportError as error:
        refused = error
    assert refused is None or (refused.party == "BOB" and refused.reason)
    assert all(length <= frames.CHUNK_LIMIT for _, _, length in sink.asked)
    assert sum(32 + len(seen[5]) for seen in sink.seen) <= len(raw)


def test_text_of_a_peer_is_clipped_and_harmless():
    assert frames.read_text("no\x1b[31m\n\u202e\x00ok".encode()) == "no?[31m???ok"
    assert frames.read_text(b"\xff\xfe") == "\ufffd\ufffd"
    assert len(frames.read_text(b"x" * 10_000)) == 2000
    assert len(frames.text("\u20ac" * 5000)) <= 4096


def test_small_neighbours_are_joined_and_large_pieces_passed_through():
    large = memoryview(bytes(20_000))
    pieces = [b"a", memoryview(b"b"), large, b"c", large, large]
    joined = frames.coalesce(pieces)
    assert [bytes(piece) for piece in joined] == [b"ab", large, b"c", large, large]
    assert joined[1] is large
    assert b"".join(joined) == b"".join(pieces)
