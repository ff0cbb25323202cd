from __future__ import annotations

import pytest

from fed import errors
from fed.transport import events, frames, outbox

DIGEST = bytes(32)


class Sender:
    def __init__(self, *, window=0, offer_limit=1024, chunk_bytes=frames.CHUNK_LIMIT):
        self.happened = []
        self.box = outbox.Outbox(
            party="BOB", happened=self.happened.append, offer_limit=offer_limit,
            chunk_bytes=chunk_bytes,
        )  # fmt: skip
        self.box.resume()
        self.box.credited(window)

    def send(self, number, size=10, views=()):
        return self.box.send(
            b"x" * size, views, number=number, call=number, index=0, kind=0, digest=DIGEST
        ).id

    def control(self):
        """(frame's name, message) of what goes out on control."""
        return [
            (frames.NAMES[raw[0]], frames.HEADER.unpack_from(raw)[5]) for raw in self.box.control()
        ]

    def bulk(self, limit=1 << 30):
        """(frame's name, message, offset or size) of what goes out on bulk."""
        raw = b"".join(self.box.bulk(limit))
        found = []
        while raw:
            kind, _, _, _, length, a, b, c = frames.HEADER.unpack_from(raw)
            found.append((frames.NAMES[kind], a, b if kind == frames.CHUNK else c))
            raw = raw[32 + length :]
        return found


def test_without_a_window_everything_is_offered_and_waits_for_its_grant():
    made = Sender()
    made.send(5)
    made.send(3)
    assert made.control() == [("META", 1), ("META", 2)]
    assert made.bulk() == []
    made.box.granted([2])
    assert made.bulk() == [("CHUNK", 2, 0)]
    made.box.granted([1, 2])
    assert made.bulk() == [("CHUNK", 1, 0)]


def test_the_window_is_used_until_it_is_full_and_no_further():
    made = Sender(window=3 * (10 + outbox.MESSAGE_OVERHEAD) + 5)
    for number in range(1, 6):
        made.send(number)
    assert made.bulk() == [("META", n, 10) for n in (1, 2, 3)]
    assert made.control() == [("META", 4), ("META", 5)]
    made.box.acknowledged([(1, 3)])
    made.send(6)
    assert made.bulk() == [], "an acknowledgement is no credit"
    made.box.credited(100_000)
    made.send(7)
    assert made.bulk() == [("META", 7, 10)]


def test_a_scalar_passes_large_values_that_find_no_room():
    made = Sender(window=100_000, offer_limit=1)
    for number in (1, 2, 3):
        made.send(number, 1 << 20)
    scalar = made.send(9)
    assert made.control() == [("META", 1)]
    assert made.bulk() == [("META", scalar, 10)]


def test_an_old_credit_changes_nothing():
    made = Sender(window=10_000)
    made.box.credited(5)
    made.send(1)
    assert made.bulk() == [("META", 1, 10)]


def test_the_lowest_call_numbers_are_the_ones_offered():
    made = Sender(offer_limit=2)
    made.send(50)
    made.send(40)
    made.send(60)
    assert made.control() == [("META", 1), ("META", 2)]
    made.send(30)
    assert made.control() == [("CANCEL", 1), ("META", 4)]
    made.send(20)
    assert made.control() == [("CANCEL", 2), ("META", 5)]
    made.box.granted([4])
    assert made.control() == [("META", 2)], "the next lowest takes the free place"
    assert made.bulk() == [("CHUNK", 4, 0)]


def test_a_grant_that_crosses_a_cancel_holds():
    made = Sender(offer_limit=1)
    made.send(50)
    made.send(10)
    assert made.control() == [("META", 1), ("CANCEL", 1), ("META", 2)]
    made.box.granted([1])
    assert made.bulk() == [("CHUNK", 1, 0)]
    made.box.granted([2])
    assert made.bulk() == [("CHUNK", 2, 0)]
    assert made.control() == [], "the first is not offered again"


def test_large_payloads_go_in_chunks_small_ones_inline():
    made = Sender(window=1 << 30, chunk_bytes=100_000)
    made.send(1, 250_000)
    made.send(2, frames.INLINE_LIMIT)
    made.send(3, frames.INLINE_LIMIT + 1)
    assert made.bulk() == [
        ("META", 2, frames.INLINE_LIMIT),
        ("META", 3, frames.INLINE_LIMIT + 1), ("CHUNK", 3, 0),
        ("META", 1, 250_000), ("CHUNK", 1, 0), ("CHUNK", 1, 100_000), ("CHUNK", 1, 200_000),
    ]  # fmt: skip


def test_a_turn_stops_at_its_limit():
    made = Sender(window=1 << 30)
    for number in range(1, 101):
        made.send(number, 1000)
    assert 10 <= len(made.bulk(10_000)) <= 11
    assert made.box.has_bulk


def test_after_a_break_it_goes_on_where_the_peer_is():
    made = Sender(window=100_000, chunk_bytes=8000)
    ids = [made.send(number, 20_000) for number in (1, 2, 3)]
    offered = made.send(4, 200_000)
    made.bulk(), made.control()
    late = made.send(5)
    made.box.pause()
    assert made.bulk() == made.control() == []
    made.box.resume_ranges([(ids[0], ids[0])])
    made.box.resume_offsets([(ids[1], 13_000)])
    made.box.resume()
    assert made.happened == [events.Delivered(first=1, last=1)]
    assert made.bulk() == [
        ("CHUNK", ids[1], 13_000),
        ("META", ids[2], 20_000),
        ("CHUNK", ids[2], 0),
        ("META", late, 10),
        ("CHUNK", ids[2], 8000),
        ("CHUNK", ids[2], 16_000),
    ]
    assert made.control() == [("META", offered)], "offers are repeated"


def test_a_message_that_arrived_in_full_is_not_sent_again():
    made = Sender(window=100_000)
    made.send(1)
    made.bulk()
    made.box.pause()
    made.box.resume_offsets([(1, 10)])
    made.box.resume()
    assert made.bulk() == made.control() == []
    made.box.acknowledged([(1, 1)])
    assert made.box.open_messages == 0


@pytest.mark.parametrize(
    "ranges", [[(2, 2)], [(0, 1)], [(1, 1 << 62)], [(3, 1)], [(1, 1), (1, 1)], [(3, 3), (1, 1)]]
)
def test_an_acknowledgement_of_what_was_not_sent_is_refused(ranges):
    made = Sender()
    for number in (1, 2, 3):
        made.send(number)
    made.box.granted([1, 3])
    made.bulk()
    with pytest.raises(errors.TransportError, match="ACK"):
        made.box.acknowledged(ranges)


def test_a_long_range_costs_what_is_open_not_what_it_names():
    made = Sender(window=1 << 40)
    for number in range(1, 3001):
        made.send(number)
    made.bulk()
    made.box.acknowledged([(1, 2000)])
    for _ in range(2000):
        made.box.acknowledged([(1, 2999)])
    assert made.box.open_messages == 1


@pytest.mark.parametrize("offsets", [[(9, 0)], [(0, 0)], [(1, 11)]])
def test_a_resume_that_can_not_be_is_refused(offsets):
    made = Sender()
    made.send(1)
    made.box.pause()
    with pytest.raises(errors.TransportError, match="RESUME"):
        made.box.resume_offsets(offsets)


def test_a_grant_of_what_was_never_offered_is_refused():
    made = Sender(offer_limit=1)
    made.send(1)
    made.send(2)
    with pytest.raises(errors.TransportError, match="not offered"):
        made.box.granted([2])


def test_a_refused_message_is_let_go_wherever_it_was():
    made = Sender(window=200_000, chunk_bytes=1000)
    made.send(1, 100_000)
    made.send(2, 1 << 20)
    made.bulk(10)
    made.box.refused(1, 1, "no")
    made.box.refused(2, 1, "no")
    assert made.bulk() == []
    assert [event.message for event in made.happened] == [1, 2]
    assert made.box.open_messages == made.box.queued_bytes == 0
    made.box.refused(1, 1, "again")
    assert len(made.happened) == 2


def test_an_empty_message_is_refused():
    with pytest.raises(errors.UsageError, match="one byte"):
        Sender().send(1, 0, [b""])


def test_a_view_with_gaps_is_refused():
    with pytest.raises(errors.UsageError, match="contiguous"):
        Sender().send(1, 5, [memoryview(bytes(10_000))[::2]])
