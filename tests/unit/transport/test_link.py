from __future__ import annotations

import dataclasses
import random

import hypothesis
import pytest
from hypothesis import strategies as st
from tests.unit.transport import pair

from fed import errors
from fed.transport import events, frames, handshake, link


def control(side):
    return side.link._control


def inject(made, side, raw, *, bulk=False):
    """Have `side` receive bytes on one of its standing connections, as if the peer sent them."""
    made.settle()
    connection = side.link._bulk if bulk else side.link._control
    lane = next(
        lane for pipe in made.wire.pipes for lane in pipe.lanes if lane.target is connection
    )
    lane.flight += raw
    made.settle()


def meta(number=1, *, id=1, size=5, call=1, flags=0, payload=b""):
    made = frames.Meta()
    made.id, made.number, made.size, made.call, made.index = id, number, size, call, 0
    made.head_size, made.kind, made.digest = 1, 0, pair.DIGEST
    return frames.meta(made, flags=flags) + payload


# Handshake.


def test_both_sides_are_up_after_two_connections_and_know_each_others_position():
    made = pair.Pair()
    made.bob.number = 7
    made.settle()
    assert made.alice.link.is_up
    assert made.bob.link.is_up
    assert len(made.wire.pipes) == 2
    assert made.alice.seen(events.Up) == [events.Up(epoch=1)]
    assert made.alice.seen(events.Progress) == [events.Progress(number=7, digest=pair.DIGEST)]


@pytest.mark.parametrize("dialler", ["alice", "bob"])
def test_a_party_that_can_not_dial_is_dialled(dialler):
    other = {"alice": "bob", "bob": "alice"}[dialler]
    made = pair.Pair(**{other: {"can_dial": False}}).settle()
    assert getattr(made, dialler).link._control._dialled
    assert made.alice.link.is_up
    assert made.bob.link.is_up


@pytest.mark.parametrize("seed", range(20))
def test_when_both_dial_the_connections_of_the_smaller_name_stay(seed):
    made = pair.Pair(rng=random.Random(seed))
    made.wire.dial(0)
    # BOB's dial is already under way when ALICE's arrives: both TLS handshakes end together.
    mine = made.bob.link.opened(link.CONTROL, made.clock())
    made.wire.pipes.append(wire_pipe(mine, made.alice.link.accepted(made.clock())))
    for _ in range(300):
        made.wire.step()
    made.settle()
    assert made.alice.link._control._dialled
    assert made.alice.link._bulk._dialled
    assert made.alice.link.is_up
    assert made.bob.link.is_up
    assert len(made.wire.pipes) == 2
    assert made.alice.error is made.bob.error is None


def wire_pipe(dialler, listener):
    from fed.testing import wire

    return wire.Pipe(dialler, listener)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": {"seed": "1"}}, ["'seed' is '1' at 'BOB' and '0' at 'ALICE'"]),
        ({"protocol_min": 2, "protocol_max": 2, "version": "2.0"}, ["2 to 2", "'1.0'", "'2.0'"]),
    ],
)
def test_a_mismatch_ends_both_links_at_once_and_names_both_values(changes, words):
    bob = pair.local("BOB", **changes)
    made = pair.Pair()
    made.bob.link._local = bob
    made.settle()
    for side in made.sides:
        assert isinstance(side.error, errors.HandshakeError)
        assert side.error.party == side.peer
    theirs = str(made.alice.error) + str(made.bob.error)
    theirs = theirs.replace("'0' at 'ALICE' and '1' at 'BOB'", "'1' at 'BOB' and '0' at 'ALICE'")
    for word in words:
        assert word in theirs
    assert made.wire.pipes == []
    assert made.alice.allocated == made.bob.allocated == []


def test_another_job_is_refused_and_the_link_goes_on_waiting():
    made = pair.Pair(alice={"can_dial": False})
    made.bob.link._local = pair.local("BOB", job="yesterday")
    made.wire.dial(1)
    for _ in range(5):
        for pipe in made.wire.pipes:
            for lane in pipe.lanes:
                made.wire.load(lane, 1000)
                lane.deliver(1 << 20, made.clock())
        made.wire.close_ended()
    for side in made.sides:
        assert not side.link.is_over
        assert side.error is None
        assert "job" in side.link.last_cause
    assert "'yesterday'" in made.alice.link.last_cause
    assert "'j1'" in made.alice.link.last_cause
    made.bob.link._local = pair.local("BOB")
    made.settle()
    assert made.alice.link.is_up, "the right process came later and was let in"


def test_a_new_session_id_at_the_redial_is_loss_at_once():
    made = pair.Pair().settle()
    made.wire.cut()
    made.wire.close_ended()
    again = pair.Side("BOB", "ALICE", made.clock)
    again.link._local = pair.local("BOB", session=b"2" * 16)
    made.wire.links = (made.alice.link, again.link)
    made.settle()
    assert isinstance(made.alice.error, errors.PartyLostError)
    assert made.alice.error.party == "BOB"
    assert "started again" in str(made.alice.error)
    assert made.clock() == 1000.0, "no time had to pass"
    assert again.error is None, "ALICE may be started again too: the new process waits for her"
    assert not again.link.is_over


def test_a_new_process_that_dials_is_told_that_the_job_is_over():
    made = pair.Pair(alice={"can_dial": False}).settle()
    made.wire.cut()
    made.wire.close_ended()
    again = pair.Side("BOB", "ALICE", made.clock)
    again.link._local = pair.local("BOB", session=b"2" * 16)
    made.wire.links = (made.alice.link, again.link)
    made.settle()
    for error in (made.alice.error, again.error):
        assert isinstance(error, errors.PartyLostError)
        assert "started again" in str(error)


def test_a_connection_without_a_hello_ends_at_the_deadline():
    made = pair.Pair().settle()
    silent = made.alice.link.accepted(made.clock())
    assert made.alice.link.deadline() <= made.clock() + 10
    made.pass_time(9.5)
    assert silent.closing == ""
    made.pass_time(1)
    assert "in time" in silent.closing
    assert made.alice.link.is_up, "the honest connection stays"
    assert silent.output(1000) == []


def test_connections_that_say_nothing_are_few():
    made = pair.Pair().settle()
    opened = [made.alice.link.accepted(made.clock()) for _ in range(50)]
    assert [bool(one.closing) for one in opened] == [False] * 8 + [True] * 42
    for one in opened:
        one.lost("closed", made.clock())
    assert not made.alice.link.accepted(made.clock()).closing
    assert made.alice.link.is_up


def test_a_second_connection_that_never_comes_breaks_the_first():
    made = pair.Pair()
    made.wire.dial(0)
    for _ in range(4):
        for lane in made.wire.pipes[0].lanes:
            made.wire.load(lane, 1000)
            lane.deliver(1 << 20, made.clock())
    assert control(made.alice) is not None
    for _ in range(12):
        made.clock.advance(1)
        for side in made.sides:
            side.link.tick(made.clock())
    assert "second connection" in made.alice.link.last_cause
    assert control(made.alice) is None
    made.settle()
    assert made.alice.link.is_up


def test_garbage_before_the_handshake_ends_that_connection_only():
    made = pair.Pair().settle()
    stranger = made.alice.link.accepted(made.clock())
    view = stranger.buffer()
    view[:40] = b"GET / HTTP/1.1\r\nHost: alice\r\n\r\n         "
    stranger.received(40, made.clock())
    assert "no frame has the type 71" in stranger.closing
    assert b"".join(stranger.output(1000))[0] == frames.ERROR
    made.alice.send(b"still")
    made.bob.need(1, 1)
    made.settle()
    assert made.bob.take_ready() == {1: b"still"}
    assert made.alice.error is None


# Values.


@pytest.mark.parametrize("size", [1, 5000, 16 << 10, (16 << 10) + 1, 100_000, 3 << 20])
def test_a_value_arrives_once_with_its_head_and_body(size):
    made = pair.Pair(budget=1 << 26).settle()
    head, body = b"h" * 70, bytes(range(256)) * (size // 256 + 1)
    made.alice.send(head, views=[memoryview(body)[:size], b"", b"tail"])
    made.bob.need(1, 1)
    made.settle()
    parcel = made.bob.box.events[0].parcel
    assert parcel.head_size == 70
    assert parcel.body_start == 128
    payload = made.bob.take_ready()[1]
    assert payload[:70] == head
    assert payload[70:128] == bytes(58)
    assert payload[128:] == body[:size] + b"tail"
    assert made.bob.allocated == [128 + size + 4]
    assert made.alice.seen(events.Delivered) == []
    made.settle()
    assert made.alice.seen(events.Delivered) == [events.Delivered(first=1, last=1)]
    assert made.alice.link.undrained == ""


def test_a_value_of_the_codec_crosses_without_a_copy_at_the_receiver():
    import numpy as np

    from fed.codec import types, wire

    user = types.UserTypes([], None)
    value = {"w": np.arange(300_000, dtype="<f8"), "b": np.ones(3, "<f4"), "n": [1, "x", None]}
    coded = wire.encode(value, types=user)
    made = pair.Pair(budget=1 << 26).settle()
    made.alice.send(coded.header, views=list(coded.body()))
    made.bob.need(1, 1)
    made.settle()
    parcel = made.bob.box.events.popleft().parcel
    made.bob.box.take(parcel, digest=pair.DIGEST)
    got = wire.decode(*parcel.parts(), types=user)
    made.bob.box.handed_over(parcel)
    assert got["n"] == value["n"]
    assert (got["w"] == value["w"]).all()
    assert (got["b"] == value["b"]).all()
    assert len(made.bob.allocated) == 1
    assert not got["w"].flags.owndata


def test_bodies_are_passed_through_without_a_copy():
    made = pair.Pair(budget=1 << 26, alice={"chunk_bytes": 1 << 20}).settle()
    body = memoryview(bytearray(3 << 20))
    made.alice.send(b"h", views=[body])
    pieces = made.alice.link._bulk.output(4 << 20)
    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert sum(map(len, views)) == len(body)
    assert all(view.obj is body.obj for view in views)
    assert max(map(len, views)) <= 1 << 20


def test_a_wide_array_is_sent_by_its_bytes():
    import array

    made = pair.Pair().settle()
    numbers = array.array("d", [1.5, 2.5])
    made.alice.send(b"h", views=[memoryview(numbers)])
    made.bob.need(1, 1)
    made.settle()
    assert made.bob.take_ready()[1][64:] == numbers.tobytes()


def test_acknowledged_at_the_hand_over_and_not_before():
    made = pair.Pair().settle()
    made.alice.send(b"x")
    made.bob.need(1, 1)
    made.settle()
    parcel = made.bob.box.events.popleft().parcel
    made.bob.box.take(parcel, digest=pair.DIGEST)
    made.settle()
    assert made.alice.seen(events.Delivered) == []
    assert made.alice.link.undrained != ""
    made.bob.box.handed_over(parcel)
    made.settle()
    assert made.alice.seen(events.Delivered) == [events.Delivered(first=1, last=1)]


def test_small_values_pass_a_large_one_and_large_ones_take_turns():
    made = pair.Pair(budget=1 << 28).settle()
    made.alice.send(b"L" * (3 << 20), number=1)
    made.alice.send(b"M" * (3 << 20), number=2)
    made.alice.send(b"s", number=3)
    order = []
    while made.alice.link._bulk.has_output:
        pieces = [bytes(piece) for piece in made.alice.link._bulk.output(1 << 20)]
        order += [piece[:1] for piece in pieces if piece[:1] in b"LMs" and piece[1:2] in b"LM"]
    assert b"".join(order) == b"sLMLMLM"


def test_a_stream_of_small_values_does_not_starve_a_large_one():
    made = pair.Pair(budget=1 << 28).settle()
    made.alice.send(b"L" * (3 << 20))
    out = made.alice.link._bulk
    for turn in range(8):  # noqa: B007
        for _ in range(40):
            made.alice.send(b"s" * 10_000)
        pieces = out.output(256 << 10)
        if any(len(piece) == 1 << 20 for piece in pieces):
            break
    assert turn < 3


def test_a_value_above_the_peers_limit_is_refused_before_it_is_sent():
    made = pair.Pair(bob={"max_value_bytes": 1000}).settle()
    with pytest.raises(errors.ValueRefusedError, match="1000 bytes"):
        made.alice.send(b"x" * 1001)
    assert made.alice.link.undrained == ""


@pytest.mark.parametrize("flags", [0, frames.META_EAGER, frames.META_EAGER | frames.META_INLINE])
def test_nothing_is_allocated_for_a_sender_that_ignores_the_limit(flags):
    made = pair.Pair(bob={"max_value_bytes": 1000}).settle()
    payload = bytes(1001) if flags & frames.META_INLINE else b""
    raw = meta(size=1001 if flags else 1 << 40, flags=flags, payload=payload)
    inject(made, made.bob, raw, bulk=bool(flags))
    assert made.bob.allocated == []
    rejected = [event for event in made.bob.box.events if isinstance(event, events.Rejected)]
    assert "1000 allowed here" in rejected[0].reason
    assert made.bob.box.used_bytes == 0


def test_a_refusal_reaches_the_sender_with_its_reason():
    made = pair.Pair().settle()
    made.alice.send(b"a lambda")
    made.bob.need(1, 1)
    made.settle()
    made.bob.box.refuse(made.bob.box.events.popleft().parcel, 2, "policy: no code")
    made.settle()
    refused = made.alice.seen(events.Refused)
    assert refused == [events.Refused(message=1, code=2, reason="policy: no code")]
    assert made.alice.link.undrained == ""
    assert made.bob.box.used_bytes == 0


def test_a_refusal_that_was_cut_off_is_repeated():
    made = pair.Pair(budget=0).settle()
    made.alice.send(b"one")
    made.bob.need(1, 1)
    made.settle()
    made.bob.box.refuse(made.bob.box.events.popleft().parcel, 2, "no")
    made.wire.cut()
    made.settle()
    assert len(made.alice.seen(events.Refused)) == 1


# Notes.


def test_notes_come_once_in_order_over_cuts():
    made = pair.Pair(rng=random.Random(1)).settle()
    for number in range(3000):
        made.alice.link.note(1, b"%d" % number)
        if number % 500 == 499:
            made.wire.cut()
            for _ in range(100):
                made.wire.step()
                made.bob.poll()
    for _ in range(10):
        made.settle()
        made.bob.poll()
    bodies = [int(event.body) for event in made.bob.seen(events.Noted)]
    assert bodies == list(range(3000))
    made.settle()
    assert made.alice.link.undrained == ""


def test_notes_that_nobody_polls_stop_at_the_limit():
    made = pair.Pair().settle()
    for _ in range(5000):
        made.alice.link.note(1, b"x")
    made.settle()
    assert made.bob.link._notes_received == link.NOTE_LIMIT
    assert made.bob.error is None


def test_more_notes_than_may_wait_end_the_link():
    made = pair.Pair().settle()
    raw = b"".join(frames.small(frames.NOTE, n, 1, body=b"x") for n in range(1, 1026))
    inject(made, made.bob, raw)
    assert "more notes than may wait" in str(made.bob.error)


# Cuts.


def test_a_cut_value_goes_on_at_the_byte_that_arrived():
    made = pair.Pair(budget=1 << 26, rng=random.Random(3)).settle()
    payload = bytes(range(256)) * 20_000
    made.alice.send(payload)
    made.bob.need(1, 1)
    sent = there = 0
    for _ in range(60):
        bulk = made.alice.link._bulk
        lane = next(lane for pipe in made.wire.pipes for lane in pipe.lanes if lane.source is bulk)
        sent += lane.load(1 << 20)
        lane.deliver(150_000, made.clock())
        if not bulk.has_output and not lane.flight:
            break
        made.wire.cut(next(pipe for pipe in made.wire.pipes if lane in pipe.lanes))
        lane.flight.clear()
        made.wire.close_ended()
        before = made.bob.link.inbox._parcels[1].received
        assert before >= there + 149_000, "the part of a chunk that arrived counts"
        there = before
        for side in (1, 0):
            made.wire.dial(side)
        for _ in range(8):
            made.wire.close_ended()
            made.wire.dial(0)
            for pipe in made.wire.pipes:
                for lane in pipe.lanes:
                    if lane.source.channel != link.BULK or lane.source._first:
                        lane.load(1)
                        lane.deliver(1 << 20, made.clock())
        out = made.alice.link.outbox._open[1]
        assert out.offset >= before, "bytes that had arrived were to be sent again"
    made.settle()
    assert made.bob.take_ready() == {1: payload}
    assert made.bob.allocated == [len(payload)], "one buffer, however often it was cut"


@pytest.mark.parametrize("which", [0, 1])
def test_losing_one_connection_takes_the_other_and_both_come_back(which):
    made = pair.Pair().settle()
    made.wire.cut(made.wire.pipes[which])
    made.settle()
    assert made.alice.link.is_up
    assert made.bob.link.is_up
    assert made.alice.seen(events.Up)[-1].epoch == 2
    assert len(made.alice.seen(events.Down)) == 1


def test_a_new_pair_waits_until_the_old_readers_have_stopped():
    made = pair.Pair().settle()
    old = control(made.bob), made.bob.link._bulk
    # ALICE saw the cut, BOB has not: his readers still stand in the old connections.
    for connection in (control(made.alice), made.alice.link._bulk):
        connection.lost("reset", made.clock())
    made.wire.pipes.clear()
    made.wire.dial(0)
    new = made.bob.link._connections[-1]
    for _ in range(3):
        for lane in made.wire.pipes[0].lanes:
            lane.load(1000)
            lane.deliver(1 << 20, made.clock())
    assert all(connection.closing for connection in old)
    assert not new.has_output, "answered while an old reader may still write"
    for connection in old:
        connection.lost("closed here", made.clock())
    assert new.has_output
    made.settle()
    assert made.bob.link.is_up


def test_bytes_of_an_earlier_connection_are_ignored():
    made = pair.Pair().settle()
    made.alice.send(b"secret")
    stale = made.bob.link._bulk
    late = b"".join(made.alice.link._bulk.output(1 << 20))
    made.wire.cut()
    made.settle()
    view = stale.buffer()
    view[: len(late)] = late
    stale.received(len(late), made.clock())
    stale.lost("again", made.clock())
    made.bob.need(1, 1)
    made.settle()
    assert made.bob.take_ready() == {1: b"secret"}
    assert made.bob.allocated == [6], "the value came once, on the new connection"
    assert made.bob.link.is_up


def test_repeated_frames_change_nothing():
    made = pair.Pair(rng=random.Random(5), repeat_rate=1.0, budget=40_000).settle()
    sizes = [10, 20_000, 5, 70_000, 300]
    for call, size in enumerate(sizes, 1):
        made.alice.send(b"%d" % call * size, number=call)
        made.alice.link.note(1, b"%d" % call)
    made.bob.need(1, *range(1, 6))
    taken = {}
    for _ in range(20):
        made.settle()
        for call, data in made.bob.take_ready().items():
            assert call not in taken
            taken[call] = data
        made.bob.poll()
    assert taken == {call: b"%d" % call * size for call, size in enumerate(sizes, 1)}
    assert len(made.bob.seen(events.Noted)) == 5
    assert made.alice.link.undrained == ""
    assert made.alice.error is made.bob.error is None


# Liveness.


def test_lost_and_stalled_are_told_apart():
    stalled = pair.Pair(stall_timeout_s=60.0).settle()
    # BOB's process is stopped: his kernel keeps the connections, nothing answers.
    for _ in range(58):
        stalled.clock.advance(1)
        stalled.alice.link.tick(stalled.clock())
    assert stalled.alice.error is None, "longer than peer_timeout_s, and not lost"
    for _ in range(3):
        stalled.clock.advance(1)
        stalled.alice.link.tick(stalled.clock())
    assert isinstance(stalled.alice.error, errors.PartyStalledError)
    assert stalled.alice.error.waited_s == pytest.approx(60, abs=1)

    lost = pair.Pair(stall_timeout_s=60.0).settle()
    lost.wire.is_broken = True
    lost.wire.cut()
    lost.pass_time(29)
    assert lost.alice.error is None
    lost.pass_time(2)
    for side in lost.sides:
        assert isinstance(side.error, errors.PartyLostError)
        assert side.error.party == side.peer
        assert "connection refused" in str(side.error)


def test_a_redial_in_time_is_no_loss():
    made = pair.Pair().settle()
    made.wire.is_broken = True
    made.wire.cut()
    made.pass_time(28)
    made.wire.is_broken = False
    made.pass_time(10)
    assert made.alice.link.is_up
    assert made.alice.error is made.bob.error is None


def test_the_side_that_can_not_dial_waits_as_long():
    made = pair.Pair(bob={"can_dial": False}).settle()
    made.wire.is_broken = True
    made.wire.cut()
    made.pass_time(31)
    assert isinstance(made.bob.error, errors.PartyLostError)


def test_ones_own_pause_is_not_blamed_on_the_peer():
    made = pair.Pair(stall_timeout_s=60.0).settle()
    made.clock.advance(500)
    made.alice.link.tick(made.clock())
    assert made.alice.error is None
    made.settle()
    made.pass_time(5)
    assert made.alice.link.is_up


def test_ones_own_pause_does_not_end_a_handshake_or_a_redial():
    made = pair.Pair()
    made.wire.dial(0)
    young = made.alice.link._connections[0]
    made.alice.link.tick(made.clock())
    made.clock.advance(500)
    made.alice.link.tick(made.clock())
    assert young.closing == ""
    made.settle()
    made.wire.is_broken = True
    made.wire.cut()
    made.wire.close_ended()
    made.clock.advance(500)
    made.alice.link.tick(made.clock())
    assert made.alice.error is None
    made.wire.is_broken = False
    made.settle()
    assert made.alice.link.is_up


def test_a_carrier_that_ticks_only_at_the_deadline_misses_nothing():
    made = pair.Pair(stall_timeout_s=47.0).settle()
    start = made.clock()
    for _ in range(100):
        due = made.alice.link.deadline()
        assert due >= made.clock()
        made.clock.now_s = due
        made.alice.link.tick(due)
        if made.alice.error:
            break
    assert made.clock() - start == pytest.approx(47.0)


def test_quiet_links_ping_and_stay():
    made = pair.Pair(stall_timeout_s=20.0).settle()
    made.alice.number = 3
    made.pass_time(100)
    assert made.alice.link.is_up
    assert made.bob.link.is_up
    assert made.bob.seen(events.Progress)[-1].number == 3


def test_a_flood_of_pings_is_answered_by_one_pong():
    made = pair.Pair().settle()
    lane = next(
        lane for pipe in made.wire.pipes for lane in pipe.lanes if lane.target is control(made.bob)
    )
    lane.flight += b"".join(
        frames.small(frames.PING, n, 1, body=pair.DIGEST) for n in range(1, 2001)
    )
    lane.deliver(1 << 20, made.clock())
    answer = b"".join(control(made.bob).output(1 << 20))
    assert len(answer) == 64
    assert answer[0] == frames.PONG
    assert frames.HEADER.unpack_from(answer)[5] == 2000


# The end.


def test_an_orderly_end_is_no_loss():
    made = pair.Pair().settle()
    made.alice.number = made.bob.number = 9
    made.alice.send(b"last")
    made.alice.link.finish()
    made.settle()
    assert made.alice.seen(events.Finished) == []
    made.bob.need(1, 1)
    made.settle()
    made.bob.take_ready()
    made.settle()
    assert [event.number for event in made.bob.seen(events.GoneAway)] == [9]
    assert made.alice.seen(events.Finished) == [], "BOB has not ended yet"
    made.bob.link.finish()
    made.settle()
    for side in made.sides:
        assert len(side.seen(events.Finished)) == 1
        assert side.error is None
        assert side.link.is_over
    assert made.wire.pipes == []
    made.pass_time(100)
    assert made.alice.error is made.bob.error is None


@pytest.mark.parametrize("seed", range(40))
def test_an_end_that_is_cut_anywhere_is_still_no_loss(seed):
    made = pair.Pair(rng=random.Random(seed)).settle()
    made.alice.send(b"last")
    made.bob.need(1, 1)
    made.alice.link.finish()
    made.bob.link.finish()
    for step in range(400):
        made.wire.step()
        made.bob.take_ready()
        if step == seed * 4:
            made.wire.cut()
    # Whoever is done is gone: nobody answers a dial any more.
    made.wire.settle()
    made.bob.take_ready()
    made.pass_time(10)
    for side in made.sides:
        assert side.error is None
        assert len(side.seen(events.Finished)) == 1


def test_nothing_can_be_sent_after_the_end():
    made = pair.Pair().settle()
    made.alice.link.finish()
    with pytest.raises(errors.UsageError):
        made.alice.send(b"x")
    with pytest.raises(errors.UsageError):
        made.alice.link.note(1, b"x")


def test_a_failing_party_tells_the_other_first():
    made = pair.Pair().settle()
    made.alice.link.abort("KeyError")
    made.settle()
    assert isinstance(made.bob.error, errors.PartyLostError)
    assert "KeyError" in str(made.bob.error)
    assert made.alice.error is None
    assert made.alice.link.is_over
    assert made.wire.pipes == []


def test_a_peer_that_missed_why_the_link_ended_hears_it_at_its_redial():
    made = pair.Pair().settle()
    made.wire.cut()
    made.wire.close_ended()
    made.alice.link.abort("KeyError")
    pipe = wire_pipe(
        made.bob.link.opened(link.CONTROL, made.clock()), made.alice.link.accepted(made.clock())
    )
    made.wire.pipes.append(pipe)
    made.settle()
    assert isinstance(made.bob.error, errors.PartyLostError)
    assert "KeyError" in str(made.bob.error)


def test_values_on_the_way_are_let_go_when_a_link_ends():
    made = pair.Pair(budget=1 << 26).settle()
    made.alice.send(b"x" * 100_000)
    made.bob.need(1, 1)
    made.settle()
    assert made.bob.box.used_bytes > 100_000
    parcel = made.bob.box.events[0].parcel
    made.alice.link.close("tired")
    made.settle()
    assert "tired" in str(made.bob.error)
    assert made.bob.box.used_bytes == 0
    assert not made.bob.box.events, "no value of a dead link is said to be ready"
    with pytest.raises(errors.TransportError, match="dropped"):
        made.bob.box.take(parcel, digest=pair.DIGEST)


# Lies.


@pytest.mark.parametrize(
    ("bulk", "raw", "word"),
    [
        (False, meta(flags=frames.META_EAGER), "wrong connection"),
        (True, meta(flags=0), "wrong connection"),
        (True, frames.small(frames.PING, 1, 1, body=pair.DIGEST), "wrong connection"),
        (True, frames.small(frames.ACK), "wrong connection"),
        (False, frames.chunk(1, 0, 5) + b"hello", "on control"),
        (True, frames.chunk(1, 0, 5) + b"hello", "not announced"),
        (False, frames.small(frames.RESUME, flags=1), "twice"),
        (False, frames.small(frames.PONG, 999, 1, body=pair.DIGEST), "never sent"),
        (False, frames.small(frames.GRANT, body=frames.ids([3])), "never sent"),
        (False, frames.small(frames.REFUSE, 3, 1), "never sent"),
        (False, frames.small(frames.ACK, body=frames.pairs([(1, 1)])), "ACK"),
        (False, frames.small(frames.ACK, 5), "note 5"),
        (False, frames.small(frames.NOTE, 2, 1), "note 2 after 0"),
        (False, frames.small(frames.GOAWAY, 1, 3, body=pair.DIGEST), "some did not arrive"),
        (False, frames.small(frames.GOAWAY, 1, 0, flags=1, body=pair.DIGEST), "confirms"),
        (False, bytes(32), "type 0"),
    ],
)
def test_a_broken_rule_ends_the_link_with_an_error_on_both_sides(bulk, raw, word):
    made = pair.Pair().settle()
    inject(made, made.bob, raw, bulk=bulk)
    assert isinstance(made.bob.error, errors.TransportError)
    assert made.bob.error.party == "ALICE"
    assert word in str(made.bob.error)
    assert isinstance(made.alice.error, errors.TransportError)
    assert word in str(made.alice.error), "the peer is told which rule"
    assert made.bob.allocated == []
    assert made.wire.pipes == []


def test_a_second_hello_ends_the_link():
    made = pair.Pair().settle()
    inject(made, made.bob, made.alice.link._hello(link.CONTROL, 1))
    assert "it came twice" in str(made.bob.error)


def test_a_peer_that_claims_another_name_is_refused():
    made = pair.Pair()
    made.bob.link._local = dataclasses.replace(pair.local("BOB"), party="CAROL")
    made.settle()
    assert isinstance(made.alice.error, errors.HandshakeError)
    assert "'CAROL'" in str(made.alice.error)
    assert made.alice.error.party == "BOB", "the certificate's name, not the claimed one"


LIES = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([k for k in range(1, 15) if k not in (frames.HELLO, frames.ERROR)]),
        st.integers(0, 3),
        st.integers(0, 4),
        st.integers(0, 40),
        st.binary(max_size=80),
    ),
    max_size=8,
)


@hypothesis.given(LIES)
def test_whatever_a_peer_sends_ends_in_order_or_in_its_name(lies):
    made = pair.Pair(budget=10_000).settle()
    made.bob.send(b"y" * 30)
    made.bob.send(b"z" * 8000)
    made.bob.need(1, 1)
    made.settle()
    for bulk, kind, flags, a, b, body in lies:
        if made.bob.link.is_over:
            break
        fields = frames._FIELDS[kind]
        raw = frames.small(
            kind, a if fields else 0, b if fields > 1 else 0, len(body) if fields > 2 else 0,
            flags=flags & frames._FLAGS[kind], body=body,
        )  # fmt: skip
        connection = made.bob.link._bulk if bulk else control(made.bob)
        if connection is None:
            break
        for at in range(0, len(raw), 50):
            part = raw[at : at + 50]
            view = connection.buffer()
            if len(view) < len(part):
                break
            view[: len(part)] = part
            connection.received(len(part), made.clock())
        made.bob.take_ready()
    assert sum(made.bob.allocated) <= 10_000 + 600
    assert made.bob.error is None or made.bob.error.party == "ALICE"


def test_writers_are_woken_for_what_they_have_to_send():
    made = pair.Pair().settle()
    for side in made.sides:
        side.woken.clear()
    made.alice.send(b"x")
    assert link.BULK in made.alice.woken
    made.settle()
    made.bob.woken.clear()
    made.bob.need(1, 1)
    made.bob.take_ready()
    assert link.CONTROL in made.bob.woken, "an acknowledgement waits"


def test_codes_and_texts_of_the_peer_are_shown_harmless():
    made = pair.Pair().settle()
    inject(made, made.bob, frames.small(frames.ERROR, handshake.CLOSED, 1, body=b"a\x1b[2Jb\n"))
    assert "a?[2Jb?" in str(made.bob.error)
