from __future__ import annotations

import random

import pytest
from tests.unit.transport import pair

from fed import errors
from fed.transport import events, inbox, mailbox, outbox

DIGEST = bytes(range(32))
OVERHEAD = outbox.MESSAGE_OVERHEAD


class Line:
    """Plays the inbox of one peer: makes parcels and writes down what the mailbox decides."""

    def __init__(self, box, party="BOB"):
        self.box = box
        self.party = party
        self.granted = []
        self.extended = 0
        self.done = []
        self.refused = {}

    def grant(self, parcel):
        self.granted.append(parcel.call)

    def extend(self, charge):
        self.extended += charge

    def acknowledge(self, parcel):
        parcel.account = inbox.GONE
        self.done.append(parcel.call)

    def refuse(self, parcel, code, reason):
        parcel.account = inbox.GONE
        self.refused[parcel.call] = (code, reason)

    def parcel(self, number, call, size, account=inbox.WAITING):
        made = inbox.Parcel()
        made.id, made.number, made.size, made.call, made.index = call, number, size, call, 0
        made.head_size, made.kind, made.digest = 1, 0, DIGEST
        made.inbox, made.party, made.key = self, self.party, (self.party, call, 0)
        made.charge, made.account = size + OVERHEAD, account
        made.buffer = made.token = None
        made.received = 0
        made.complete = made.taken = made.spilling = False
        return made

    def offer(self, number, call, size):
        made = self.parcel(number, call, size)
        self.box.offered(made)
        return made

    def eager(self, number, call, size, *, arrived=True):
        made = self.parcel(number, call, size, inbox.WINDOW)
        self.box.arriving(made)
        return self.arrive(made) if arrived else made

    def arrive(self, parcel):
        assert parcel.account != inbox.WAITING
        parcel.buffer = memoryview(bytearray(parcel.size))
        parcel.received = parcel.size
        parcel.complete = True
        self.box.arrived(parcel)
        return parcel


def mailbox_of(room, *, spill=0, **options):
    """A mailbox that keeps nothing back for windows: `room` bytes, a quarter of it reserve."""
    box = mailbox.Mailbox(budget_bytes=room, spill_bytes=spill, peers=0, **options)
    return box, Line(box)


def need(box, number, *calls, party="BOB"):
    box.need(number, *((party, call, 0) for call in calls))


def box_events(box, kind):
    """The events of one kind, taken out."""
    found = [event for event in box.events if isinstance(event, kind)]
    for event in found:
        box.events.remove(event)
    return found


def ready(box):
    return [event.parcel.call for event in box.events if isinstance(event, events.Ready)]


def hand_over(box, parcel):
    box.take(parcel, digest=DIGEST)
    box.handed_over(parcel)


def test_windows_take_at_most_half_of_the_budget():
    assert mailbox.Mailbox(budget_bytes=1 << 34, spill_bytes=0, peers=3).window_bytes == 64 << 20
    small = mailbox.Mailbox(budget_bytes=600, spill_bytes=0, peers=3)
    assert small.window_bytes == 100
    assert mailbox.Mailbox(budget_bytes=0, spill_bytes=0, peers=3).window_bytes == 0


def test_grants_go_to_the_lowest_call_number_first_whatever_the_order_of_offers():
    box, line = mailbox_of(4000)
    first = line.offer(1, 1, 2400)
    for number in (9, 5, 7, 2):
        line.offer(number, number, 1000)
    assert line.granted == [1], "the others do not fit beside it"
    line.arrive(first)
    need(box, 1, 1)
    hand_over(box, first)
    assert line.granted == [1, 2], "no more room than for one above it in the open part"


def test_spilling_that_would_not_be_enough_is_not_begun():
    box, line = mailbox_of(4000, spill=10_000)
    line.arrive(line.offer(9, 9, 1000))
    line.offer(2, 2, 50_000)
    assert not box.events


def test_a_smaller_value_does_not_overtake_a_lower_number():
    _box, line = mailbox_of(4000)
    line.offer(1, 1, 1500)
    line.offer(2, 2, 2000)
    line.offer(3, 3, 10)
    assert line.granted == [1]


def test_the_reserve_is_for_the_lowest_waiting_call_alone():
    box, line = mailbox_of(4000)
    line.offer(8, 8, 2400)
    line.offer(9, 9, 400)
    assert line.granted == [8]
    need(box, 5, 50)
    line.offer(5, 50, 400)
    assert line.granted == [8, 50]
    assert box.used_bytes <= 4000


def test_the_next_waiting_call_is_always_served():
    box, line = mailbox_of(4000)
    unread = line.offer(9, 9, 2400)
    line.arrive(unread)
    need(box, 3, 30)
    line.offer(3, 30, 1 << 20)
    assert line.granted == [9, 30], "one value above the budget"
    assert box.used_bytes > 4000
    line.offer(4, 40, 10)
    need(box, 4, 40)
    assert line.granted == [9, 30], "and only one, for the lowest"


def test_only_the_lowest_waiting_call_passes_the_budget():
    box, line = mailbox_of(1000)
    need(box, 3, 30)
    need(box, 4, 40)
    line.offer(4, 40, 5000)
    assert line.granted == []
    first = line.offer(3, 30, 5000)
    assert line.granted == [30]
    line.arrive(first)
    hand_over(box, first)
    assert line.granted == [30, 40], "then it is the next one's turn"


def test_values_that_leave_make_room_again():
    box, line = mailbox_of(4000)
    for number in range(1, 40):
        need(box, number, number)
        line.offer(number, number, 1000)
    for number in range(1, 40):
        parcel = next(e.parcel for e in iter_ready(box, line) if e.parcel.number == number)
        hand_over(box, parcel)
    assert sorted(line.granted) == list(range(1, 40))
    assert line.done == list(range(1, 40))
    assert box.used_bytes == 0


def iter_ready(box, line):
    for parcel in list(box._by_key.values()):
        if parcel.account != inbox.WAITING and not parcel.complete:
            line.arrive(parcel)
    return [event for event in box.events if isinstance(event, events.Ready)]


def test_eager_values_move_into_the_budget_and_their_window_opens_again():
    box, line = mailbox_of(4200)
    line.eager(1, 1, 1000)
    assert line.extended == 1000 + OVERHEAD
    assert box.used_bytes == 1000 + OVERHEAD
    line.eager(2, 2, 1000, arrived=False)
    line.eager(3, 3, 1000)
    assert line.extended == 2 * (1000 + OVERHEAD), "the third stays in the window"
    need(box, 1, 1)
    hand_over(box, box.events.popleft().parcel)
    assert line.extended == 3 * (1000 + OVERHEAD)


def test_a_value_taken_out_of_the_window_opens_it():
    box, line = mailbox_of(0)
    parcel = line.eager(1, 1, 1000)
    need(box, 1, 1)
    assert ready(box) == [1]
    hand_over(box, parcel)
    assert line.extended == 1000 + OVERHEAD
    assert box.used_bytes == 0


def test_ready_comes_once_whichever_of_need_and_value_is_first():
    box, line = mailbox_of(100_000)
    need(box, 1, 1)
    line.eager(1, 1, 10)
    line.eager(2, 2, 10)
    assert ready(box) == [1]
    need(box, 2, 2)
    need(box, 3, 2)
    assert ready(box) == [1, 2]


def test_two_calls_may_wait_for_one_value_and_the_lower_one_counts():
    box, line = mailbox_of(1000)
    need(box, 9, 1)
    need(box, 3, 1, 2)
    assert box.waiting_call == 3
    line.offer(9, 1, 5000)
    assert line.granted == [1]
    box.forget(3)
    assert box.waiting_call == 9
    line.arrive(box._by_key["BOB", 1, 0])
    assert ready(box) == [1]
    assert box.waiting_call is None


def test_a_call_that_stopped_waiting_is_not_served_above_the_budget():
    box, line = mailbox_of(1000)
    need(box, 3, 1)
    box.forget(3)
    line.offer(3, 1, 5000)
    assert line.granted == []
    need(box, 7, 1)
    assert line.granted == [1]


def test_unread_values_that_are_read_later_go_to_disk():
    box, line = mailbox_of(4200, spill=10_000)
    late = line.arrive(line.offer(9, 9, 2000))
    line.offer(2, 2, 2000)
    spill = box.events.popleft()
    assert spill.parcel is late
    assert line.granted == [9], "not before it is written"
    assert box.spilled(late, "file-9")
    assert line.granted == [9, 2]
    assert late.buffer is None
    assert box.spilled_bytes == 2000
    need(box, 9, 9)
    assert ready(box) == [9]
    box.take(late, digest=DIGEST)
    assert late.token == "file-9"
    box.handed_over(late)
    assert box.spilled_bytes == 0
    assert line.done == [9]


def test_values_read_sooner_than_the_offer_stay_in_memory():
    box, line = mailbox_of(4200, spill=10_000)
    line.arrive(line.offer(1, 1, 2000))
    line.offer(2, 2, 2000)
    assert not box.events
    assert line.granted == [1]


def test_a_spill_that_fails_leaves_the_value_where_it_is():
    box, line = mailbox_of(4200, spill=10_000)
    late = line.arrive(line.offer(9, 9, 2000))
    line.offer(2, 2, 2000)
    box.not_spilled(box.events.popleft().parcel)
    assert late.buffer is not None
    assert box.spilled_bytes == 0
    assert not box.events, "it is not asked for again"
    need(box, 9, 9)
    hand_over(box, late)
    assert line.granted == [9, 2]


def test_a_value_taken_while_it_is_written_is_not_on_disk_for_us():
    box, line = mailbox_of(4200, spill=10_000)
    late = line.arrive(line.offer(9, 9, 2000))
    line.offer(2, 2, 2000)
    need(box, 9, 9)
    hand_over(box, late)
    assert not box.spilled(late, "file-9"), "the owner may delete the file"
    assert box.spilled_bytes == 0
    assert box.used_bytes == 2000 + OVERHEAD


def test_beyond_budget_and_quota_a_named_error():
    box, line = mailbox_of(4000, spill=1000)
    need(box, 12, 1, 2, 3)
    for call in (1, 2, 3):
        line.offer(12, call, 3000)
    assert line.granted == [1, 2], "one in the budget, one above it"
    line.arrive(box._by_key["BOB", 1, 0])
    assert not any(isinstance(event, events.Overflow) for event in box.events)
    line.arrive(box._by_key["BOB", 2, 0])
    overflow = [event for event in box.events if isinstance(event, events.Overflow)]
    assert len(overflow) == 1
    assert overflow[0].number == 12
    assert overflow[0].parcel.call == 3
    for word in ("call 12", "4000 bytes", "1000 bytes", "BOB"):
        assert word in str(overflow[0].error)


def test_with_disk_the_same_call_gets_all_its_values():
    box, line = mailbox_of(4000, spill=100_000)
    need(box, 12, 1, 2, 3)
    for call in (1, 2, 3):
        line.offer(12, call, 3000)
    line.arrive(box._by_key["BOB", 1, 0])
    line.arrive(box._by_key["BOB", 2, 0])
    for event in box_events(box, events.Spill):
        box.spilled(event.parcel, "file")
    for event in box_events(box, events.Spill):
        box.spilled(event.parcel, "file")
    assert line.granted == [1, 2, 3]
    line.arrive(box._by_key["BOB", 3, 0])
    assert sorted(ready(box)) == [1, 2, 3]


def test_an_owner_that_takes_singly_never_overflows():
    box, line = mailbox_of(4000, takes_singly=True)
    need(box, 12, *range(1, 30))
    for call in range(1, 30):
        line.offer(12, call, 3000)
    for _ in range(1, 30):
        for event in iter_ready(box, line):
            hand_over(box, event.parcel)
        box.events.clear()
    assert line.done == sorted(line.done)
    assert len(line.done) == 29


def test_a_value_of_another_program_is_not_handed_over():
    box, line = mailbox_of(4000)
    parcel = line.eager(7, 1, 10)
    need(box, 7, 1)
    with pytest.raises(errors.DivergenceError) as caught:
        box.take(parcel, digest=b"other program's digest..........")
    assert caught.value.call == 7
    assert caught.value.party == "BOB"
    assert line.done == []
    hand_over(box, parcel)
    assert line.done == [1]


def test_an_object_sent_twice_is_refused_the_second_time():
    box, line = mailbox_of(4000)
    line.eager(7, 1, 10)
    again = line.parcel(7, 1, 10)
    box.offered(again)
    assert line.refused[1][0] == inbox.TWICE
    assert box.used_bytes == 10 + OVERHEAD


def test_an_offer_taken_back_is_not_granted():
    box, line = mailbox_of(1000)
    line.offer(1, 1, 5000)
    parcel = line.offer(2, 2, 5000)
    need(box, 2, 2)
    assert line.granted == [2]
    box, line = mailbox_of(1000)
    parcel = line.offer(2, 2, 5000)
    box.withdrawn(parcel)
    parcel.account = inbox.GONE
    need(box, 2, 2)
    assert line.granted == []


def test_a_refused_value_gives_its_room_back():
    box, line = mailbox_of(4000)
    parcel = line.arrive(line.offer(1, 1, 2000))
    line.offer(2, 2, 2000)
    box.refuse(parcel, inbox.FORBIDDEN, "policy")
    assert line.refused == {1: (inbox.FORBIDDEN, "policy")}
    assert line.granted == [1, 2]


def test_what_a_lost_peer_left_is_forgotten_and_others_get_the_room():
    box, line = mailbox_of(4200, spill=10_000)
    other = Line(box, "CAROL")
    mine = line.arrive(line.offer(1, 1, 2000))
    need(box, 1, 1)
    other.offer(2, 2, 2000)
    assert other.granted == []
    box.leave([mine])
    assert other.granted == [2]
    assert ready(box) == []
    assert box.used_bytes == 2000 + OVERHEAD
    box.handed_over(mine)
    assert line.done == []


def test_a_value_in_hand_stays_with_its_consumer_when_the_peer_is_lost():
    box, line = mailbox_of(4000)
    parcel = line.eager(1, 1, 10)
    need(box, 1, 1)
    box.take(parcel, digest=DIGEST)
    box.leave([parcel])
    assert parcel.buffer is not None
    box.handed_over(parcel)
    assert line.done == []
    assert box.used_bytes == 0


def test_entries_of_values_long_gone_do_not_pile_up():
    box, line = mailbox_of(1 << 20, spill=1 << 20)
    for number in range(1, 5001):
        need(box, number, number)
        hand_over(box, line.eager(number, number, 10))
        box.events.clear()
    assert len(box._spillable) < 200
    assert len(box._numbers) < 200
    assert not box._by_key
    assert not box._needs


@pytest.mark.soak(seeds=1000)
def test_memory_and_disk_stay_bounded(seed):
    """A sender that offers what it likes, a consumer that reads when it likes."""
    rng = random.Random(seed)
    room, quota = rng.choice((0, 3000, 50_000)), rng.choice((0, 20_000))
    box, line = mailbox_of(room, spill=quota)
    largest = rng.choice((100, 5000, 60_000))
    waiting, call = [], 0
    for _ in range(600):
        action = rng.random()
        if action < 0.4:
            call += 1
            line.offer(rng.randint(1, 40), call, rng.randint(1, largest))
        elif action < 0.5:
            need(box, rng.randint(1, 40), rng.randint(1, call + 3))
        elif action < 0.7:
            coming = [
                one
                for one in box._by_key.values()
                if one.account not in (inbox.WAITING, inbox.GONE) and not one.complete
            ]
            if coming:
                line.arrive(rng.choice(coming))
        elif action < 0.9:
            while box.events:
                event = box.events.popleft()
                if isinstance(event, events.Ready):
                    waiting.append(event.parcel)
                elif isinstance(event, events.Spill):
                    if rng.random() < 0.8:
                        box.spilled(event.parcel, "file")
                    else:
                        box.not_spilled(event.parcel)
        elif waiting:
            parcel = waiting.pop(rng.randrange(len(waiting)))
            if parcel.account != inbox.GONE:
                hand_over(box, parcel)
        held = sum(one.size for one in box._by_key.values() if one.buffer is not None)
        assert held <= box.used_bytes <= room + largest + OVERHEAD
        assert 0 <= box.spilled_bytes <= quota


def test_ten_gigabytes_for_a_stalled_consumer_stay_with_the_sender():
    made = pair.Pair(budget=1 << 20).settle()
    gigabyte = memoryview(bytearray(1 << 16))  # one array, offered again and again
    for number in range(1, 2001):
        made.alice.send(b"h", number=number, views=[gigabyte])
    made.settle()
    assert sum(made.bob.allocated) <= 1 << 20
    assert made.alice.link.outbox.open_messages == 2000
    made.pass_time(60)
    assert made.alice.link.is_up, "a slow reader is not a lost peer"
    taken = {}
    for number in range(1, 2001):
        made.bob.need(number, number)
        for _ in range(4):
            made.wire.settle()
            taken.update(made.bob.take_ready())
            if number in taken:
                break
        taken[number] = len(taken[number])
    assert set(taken.values()) == {(1 << 16) + 64}
