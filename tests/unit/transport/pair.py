"""Two links with their mailboxes and a wire between them."""

from __future__ import annotations

import dataclasses

from fed.testing import clock as fake
from fed.testing import wire
from fed.transport import events, handshake, link, mailbox

DIGEST = bytes(range(32))


def local(party, **changes):
    made = handshake.Local(
        federation="demo", job="j1", party=party, session=party[0].lower().encode() * 16,
        settings={"seed": "0"}, version="1.0",
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


class Side:
    """One party: its link, its mailbox, and what was allocated."""

    def __init__(
        self, party, peer, clock, *, budget=1 << 24, spill=0, can_dial=True, peers=1, **changes
    ):
        settings = {
            f.name: changes.pop(f.name)
            for f in dataclasses.fields(link.Settings)
            if f.name in changes
        }
        self.party = party
        self.peer = peer
        self.allocated = []
        self.number = 1
        self.digest = DIGEST
        self.box = mailbox.Mailbox(budget_bytes=budget, spill_bytes=spill, peers=peers)
        self.log = []
        self.woken = []
        self.link = link.Link(
            local(party, **changes),
            peer=peer,
            box=self.box,
            settings=link.Settings(**settings),
            can_dial=can_dial,
            allocate=self.allocate,
            position=lambda: (self.number, self.digest),
            wake=self.woken.append,
            now=clock(),
        )

    def allocate(self, size):
        self.allocated.append(size)
        return memoryview(bytearray(size))

    def send(self, payload, *, number=1, call=None, **fields):
        self.call = getattr(self, "call", 0) + 1
        return self.link.send(
            payload, fields.pop("views", ()), number=number,
            call=self.call if call is None else call, index=0, kind=0, digest=DIGEST, **fields,
        )  # fmt: skip

    def need(self, number, *calls):
        self.box.need(number, *((self.peer, call, 0) for call in calls))

    def poll(self):
        happened = self.link.poll()
        self.log += happened
        return happened

    def take_ready(self):
        """Take, copy and hand over every value that is ready; gives {call: bytes}."""
        taken = {}
        for event in list(self.box.events):
            if isinstance(event, events.Ready):
                self.box.events.remove(event)
                parcel = event.parcel
                self.box.take(parcel, digest=DIGEST)
                taken[parcel.call] = bytes(parcel.buffer)
                self.box.handed_over(parcel)
        return taken

    def seen(self, kind):
        self.poll()
        return [event for event in self.log if isinstance(event, kind)]

    @property
    def error(self):
        failed = self.seen(events.Failed)
        return failed[0].error if failed else None


class Pair:
    def __init__(
        self, *, alice=None, bob=None, rng=None, capacity=1 << 20, repeat_rate=0.0, **both
    ):
        self.clock = fake.FakeClock()
        self.alice = Side("ALICE", "BOB", self.clock, **{**both, **(alice or {})})
        self.bob = Side("BOB", "ALICE", self.clock, **{**both, **(bob or {})})
        self.wire = wire.Wire(
            self.alice.link, self.bob.link, now=self.clock, rng=rng, capacity=capacity,
            repeat_rate=repeat_rate,
        )  # fmt: skip

    @property
    def sides(self):
        return self.alice, self.bob

    def settle(self):
        self.wire.settle()
        return self

    def pass_time(self, seconds, *, step=1.0, moving=True):
        """Let time pass in small steps, with ticks as a carrier makes them."""
        end = self.clock() + seconds
        while self.clock() < end:
            self.clock.advance(min(step, end - self.clock()))
            for side in self.sides:
                side.link.tick(self.clock())
            if moving:
                self.wire.settle()
