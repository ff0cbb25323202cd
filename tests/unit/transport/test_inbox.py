from __future__ import annotations

import pytest

from fed import errors
from fed.transport import frames, inbox, outbox

DIGEST = bytes(32)
EAGER = frames.META_EAGER


class Keeper:
    """A mailbox that only writes down."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda parcel, *rest: self.calls.append((name, parcel.id))


class Receiver:
    def __init__(self, *, window=0, offer_limit=4, most=1 << 40):
        self.keeper = Keeper()
        self.allocated = []
        self.box = inbox.Inbox(
            party="BOB", keeper=self.keeper, window=window, max_value_bytes=most,
            allocate=self.allocate, wake=lambda: None, offer_limit=offer_limit,
        )  # fmt: skip

    def allocate(self, size):
        self.allocated.append(size)
        return memoryview(bytearray(size))

    def meta(self, message, *, size=10, flags=0, payload=b"", number=1):
        made = frames.Meta()
        made.id, made.number, made.size, made.call, made.index = message, number, size, message, 0
        made.head_size, made.kind, made.digest = 1, 0, DIGEST
        raw = frames.meta(made, flags=flags)[32:] + payload
        self.box.meta(flags, message, number, size, memoryview(raw))
        return self.box._parcels.get(message)

    def chunk(self, message, offset, data):
        place = self.box.chunk(message, offset, len(data))
        if place is not None:
            place[:] = data
            self.box.chunk_end()
        return place is not None

    def control(self):
        return [
            (frames.NAMES[raw[0]], raw[32:], frames.HEADER.unpack_from(raw)[5])
            for raw in self.box.control(0)
        ]


def test_an_offer_waits_for_its_grant_and_then_fills_one_buffer():
    made = Receiver()
    parcel = made.meta(1)
    assert made.keeper.calls == [("offered", 1)]
    assert made.allocated == []
    parcel.account = inbox.BUDGET
    made.box.grant(parcel)
    assert made.control() == [("GRANT", frames.ids([1]), 0)]
    made.chunk(1, 0, b"01234")
    assert made.keeper.calls == [("offered", 1)]
    made.chunk(1, 5, b"56789")
    assert made.keeper.calls[-1] == ("arrived", 1)
    assert bytes(parcel.buffer) == b"0123456789"
    assert made.allocated == [10]


@pytest.mark.parametrize("flags", [0, EAGER])
def test_data_without_credit_is_refused(flags):
    made = Receiver(window=0)
    if flags:
        with pytest.raises(errors.TransportError, match="window"):
            made.meta(1, flags=EAGER)
    else:
        made.meta(1)
        with pytest.raises(errors.TransportError, match="not granted"):
            made.box.chunk(1, 0, 5)
    assert made.allocated == []


def test_the_window_counts_what_came_and_grows_by_what_is_freed():
    charge = 10 + outbox.MESSAGE_OVERHEAD
    made = Receiver(window=2 * charge)
    made.meta(1, flags=EAGER)
    made.meta(2, flags=EAGER)
    with pytest.raises(errors.TransportError, match="window"):
        made.meta(3, flags=EAGER)

    made = Receiver(window=2 * charge)
    assert made.control() == [("CREDIT", b"", 2 * charge)]
    made.meta(1, flags=EAGER)
    made.box.extend(charge)
    assert made.control() == [("CREDIT", b"", 3 * charge)]
    made.meta(2, flags=EAGER)
    made.meta(3, flags=EAGER)
    with pytest.raises(errors.TransportError, match="window"):
        made.meta(4, flags=EAGER)


def test_more_announcements_than_allowed_are_refused():
    made = Receiver(offer_limit=4)
    for message in range(1, 5):
        made.meta(message)
    made.box.cancelled(4)
    made.meta(5)
    with pytest.raises(errors.TransportError, match="more than 4 offers"):
        made.meta(6)


def test_a_credit_that_may_have_been_cut_off_is_repeated():
    made = Receiver(window=10_000)
    assert made.control() == [("CREDIT", b"", 10_000)]
    assert made.control() == []
    made.box.pause()
    made.box.resume(0)
    assert made.control() == [("CREDIT", b"", 10_000)]


@pytest.mark.parametrize(
    ("offset", "length", "word"),
    [(1, 4, "0 are there"), (0, 11, "11 bytes"), (10, 1, "0 are there")],
)
def test_bytes_that_are_not_the_next_ones_are_refused(offset, length, word):
    made = Receiver(window=10_000)
    made.meta(1, flags=EAGER)
    with pytest.raises(errors.TransportError, match=word):
        made.box.chunk(1, offset, length)
    assert made.allocated == []


def test_bytes_that_were_there_are_dropped_and_an_overlap_is_refused():
    made = Receiver(window=10_000)
    made.meta(1, flags=EAGER)
    made.chunk(1, 0, b"01234")
    assert not made.chunk(1, 0, b"xxxxx")
    with pytest.raises(errors.TransportError, match="5 are there"):
        made.box.chunk(1, 4, 2)
    made.chunk(1, 5, b"56789")
    assert bytes(made.box._parcels[1].buffer) == b"0123456789"


def test_a_value_is_delivered_once_and_a_repeat_is_acknowledged_again():
    made = Receiver(window=10_000)
    parcel = made.meta(1, size=3, flags=EAGER | frames.META_INLINE, payload=b"abc")
    parcel.account = inbox.BUDGET
    made.box.acknowledge(parcel)
    made.control()
    made.meta(1, size=3, flags=EAGER | frames.META_INLINE, payload=b"abc")
    assert made.control() == [("ACK", frames.pairs([(1, 1)]), 0)]
    assert not made.chunk(1, 0, b"abc")
    assert made.keeper.calls == [("arriving", 1), ("arrived", 1)]


def test_an_announcement_that_contradicts_the_first_is_refused():
    made = Receiver()
    made.meta(1)
    made.meta(1)
    assert made.keeper.calls == [("offered", 1)]
    with pytest.raises(errors.TransportError, match="differently"):
        made.meta(1, number=2)


def test_a_granted_offer_that_is_repeated_is_granted_again():
    made = Receiver()
    parcel = made.meta(1)
    parcel.account = inbox.BUDGET
    made.box.grant(parcel)
    made.control()
    made.meta(1)
    assert made.control() == [("GRANT", frames.ids([1]), 0)]
    made.box.cancelled(1)
    made.chunk(1, 0, b"0123456789")
    assert made.keeper.calls[-1] == ("arrived", 1), "a grant holds against a cancel"


def test_after_a_break_it_says_what_it_has():
    made = Receiver(window=100_000)
    done = made.meta(1, size=3, flags=EAGER | frames.META_INLINE, payload=b"abc")
    done.account = inbox.BUDGET
    made.box.acknowledge(done)
    made.meta(2, flags=EAGER)
    made.chunk(2, 0, b"0123")
    made.box.chunk(2, 4, 6)
    made.box.chunk_part(2)  # the connection broke two bytes into the chunk
    made.meta(3)
    refused = made.meta(4)
    made.box.refuse(refused, 2, "no")
    made.box.pause()
    assert made.keeper.calls[-1] == ("withdrawn", 3), "offers are forgotten, to be repeated"
    ranges, offsets, last = made.box.resume(7)
    assert ranges[32:] == frames.pairs([(1, 1)])
    assert offsets[32:] == frames.pairs([(2, 6)])
    assert frames.HEADER.unpack_from(last)[1] == frames.RESUME_LAST
    assert frames.HEADER.unpack_from(last)[5] == 7
    assert ("REFUSE", b"no", 4) in made.control()
    assert made.chunk(2, 6, b"6789")
    assert bytes(made.box._parcels[2].buffer) == b"0123" + bytes(2) + b"6789"


def test_a_process_without_memory_ends_the_link_by_name():
    made = Receiver(window=100_000)
    made.meta(1, flags=EAGER)

    def nothing(size):
        raise MemoryError

    made.box._allocate = nothing
    with pytest.raises(errors.TransportError, match="no memory for a value of 10 bytes"):
        made.box.chunk(1, 0, 5)


def test_a_peer_that_collects_refusals_is_refused_itself(monkeypatch):
    monkeypatch.setattr(inbox, "REFUSAL_LIMIT", 3)
    made = Receiver(most=5)
    for message in (1, 2, 3):
        made.meta(message)
    with pytest.raises(errors.TransportError, match="3 messages had to be refused"):
        made.meta(4)


def test_answers_to_repeated_announcements_are_merged():
    made = Receiver(most=100)
    made.meta(1, size=1000)
    parcel = made.meta(2)
    parcel.account = inbox.BUDGET
    made.box.grant(parcel)
    for _ in range(1000):
        made.meta(1, size=1000)
        made.meta(2)
    assert [(kind, body[:8]) for kind, body, _ in made.control() if kind == "GRANT"] == [
        ("GRANT", frames.ids([2]))
    ]
    made.meta(1, size=1000)
    made.meta(1, size=1000)
    assert [kind for kind, _, _ in made.control()] == ["REFUSE"]


def test_many_acknowledgements_fit_their_frames():
    made = Receiver(window=1 << 40)
    for message in range(1, 20_001, 2):
        parcel = made.meta(message, size=1, flags=EAGER | frames.META_INLINE, payload=b"x")
        parcel.account = inbox.BUDGET
        made.box.acknowledge(parcel)
    acks = [body for name, body, _ in made.control() if name == "ACK"]
    assert all(len(body) <= frames.BODY_LIMIT for body in acks)
    pairs = [pair for body in acks for pair in frames.read_pairs(memoryview(body))]
    assert pairs == [(n, n) for n in range(1, 20_001, 2)]
