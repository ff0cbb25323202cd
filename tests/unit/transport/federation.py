"""A model of whole federations: drivers, mailboxes, links and wires in one thread, seeded.

A program is a list of calls; each party's driver runs all of it, as in multi-controller mode:
its own calls wait for their values, start in the order of their lane, and their results are pushed
to the parties whose calls need them. The model checks at every step what must never happen.
"""

from __future__ import annotations

import dataclasses
import itertools
import random

from tests.unit.transport import pair

from fed import errors
from fed.testing import clock as fake
from fed.testing import wire
from fed.transport import events, inbox, link, mailbox


@dataclasses.dataclass(frozen=True)
class Call:
    number: int
    party: str
    args: tuple[int, ...]
    size: int  # of its result


@dataclasses.dataclass(frozen=True)
class Plan:
    """One federation: its program and its limits."""

    calls: tuple[Call, ...]
    parties: tuple[str, ...]
    budget: int
    spill: int
    lanes: int
    pending: int
    takes_singly: bool
    offer_limit: int = 1024
    chunk_bytes: int = 4096
    repeat_rate: float = 0.0
    capacity: int = 1 << 16
    cut_rate: float = 0.0
    spill_fails: float = 0.0


def draw_plan(rng: random.Random) -> Plan:
    parties = ("ALICE", "BOB", "CAROL")[: rng.choice((2, 2, 3))]
    largest = rng.choice((10, 2000, 20_000, 100_000))
    count = rng.choice((5, 20, 60))
    fan_in = rng.choice((1, 3, 10))
    calls = []
    for number in range(1, count + 1):
        args = rng.sample(range(1, number), min(number - 1, rng.randint(0, fan_in)))
        size = rng.randint(1, largest)
        calls.append(Call(number, rng.choice(parties), tuple(args), size))
    return Plan(
        calls=tuple(calls),
        parties=parties,
        budget=rng.choice((0, 2000, 20_000, 200_000, 4_000_000)),
        spill=rng.choice((0, 50_000, 10_000_000)),
        lanes=rng.choice((1, 3)),
        pending=rng.choice((1, 4, 1000)),
        takes_singly=rng.random() < 0.4,
        offer_limit=rng.choice((1, 2, 1024)),
        chunk_bytes=rng.choice((700, 4096, 1 << 20)),
        repeat_rate=rng.choice((0.0, 0.3)),
        capacity=rng.choice((200, 1 << 16)),
        cut_rate=rng.choice((0.0, 0.002, 0.02)),
        spill_fails=rng.choice((0.0, 0.0, 0.5)),
    )


def content(call: Call) -> bytes:
    return (b"%d." % call.number * (call.size // 2 + 1))[: call.size]


class Driver:
    """One party: runs the program, holds the values that its calls took."""

    def __init__(self, party: str, plan: Plan, clock: fake.FakeClock, rng: random.Random) -> None:
        self.party = party
        self.plan = plan
        self.rng = rng
        self.at = 0  # calls submitted
        self.values: dict[int, bytes] = {}
        self.ready: dict[int, inbox.Parcel] = {}
        self.lanes: dict[int, list[Call]] = {lane: [] for lane in range(plan.lanes)}
        self.asked: set[int] = set()
        self.running: Call | None = None
        self.executed: list[int] = []
        self.pushes: dict[int, list[tuple[str, int]]] = {}  # object -> (peer, consumer)
        self.pushed: set[tuple[int, str]] = set()
        self.received: list[int] = []
        self.spills: list[inbox.Parcel] = []
        self.error: errors.FedError | None = None
        self.overflow: events.Overflow | None = None
        self.box = mailbox.Mailbox(
            budget_bytes=plan.budget, spill_bytes=plan.spill, peers=len(plan.parties) - 1,
            takes_singly=plan.takes_singly,
        )  # fmt: skip
        self.links = {
            peer: link.Link(
                pair.local(party),
                peer=peer,
                box=self.box,
                settings=link.Settings(offer_limit=plan.offer_limit, chunk_bytes=plan.chunk_bytes),
                can_dial=True,
                allocate=lambda size: memoryview(bytearray(size)),
                position=lambda: (self.at, pair.DIGEST),
                wake=lambda channel: None,
                now=clock(),
            )
            for peer in plan.parties
            if peer != party
        }

    def by_number(self, number: int) -> Call:
        return self.plan.calls[number - 1]

    @property
    def unfinished(self) -> int:
        return sum(map(len, self.lanes.values()))

    def submit(self) -> bool:
        """Make the program's next call, as `.remote()` does."""
        if self.at == len(self.plan.calls) or self.unfinished >= self.plan.pending:
            return False
        call = self.plan.calls[self.at]
        self.at += 1
        if call.party == self.party:
            self.lanes[call.number % self.plan.lanes].append(call)
            return True
        for arg in call.args:
            if self.by_number(arg).party == self.party and (arg, call.party) not in self.pushed:
                self.pushed.add((arg, call.party))
                if arg in self.values:
                    self.push(arg, call.party, call.number)
                else:
                    self.pushes.setdefault(arg, []).append((call.party, call.number))
        return True

    def push(self, number: int, peer: str, consumer: int) -> None:
        data = self.values[number]
        cut = min(len(data) - 1, 7)
        self.links[peer].send(
            data[: cut + 1], [data[cut + 1 :]] if data[cut + 1 :] else [], number=consumer,
            call=number, index=0, kind=0, digest=pair.DIGEST,
        )  # fmt: skip

    def ask(self) -> bool:
        """Tell the mailbox what the calls need that nothing but values keeps from starting."""
        moved = False
        for lane in self.lanes.values():
            call = lane[0] if lane else None
            if call is None or call.number in self.asked or call is self.running:
                continue
            own = [arg for arg in call.args if self.by_number(arg).party == self.party]
            if any(arg not in self.values for arg in own):
                continue
            self.asked.add(call.number)
            keys = [
                (self.by_number(arg).party, arg, 0)
                for arg in call.args
                if arg not in self.values and self.by_number(arg).party != self.party
            ]
            if keys:
                self.box.need(call.number, *keys)
            moved = True
        return moved

    def hear(self) -> bool:
        """Act on the events of the mailbox and the links."""
        moved = False
        while self.box.events:
            event = self.box.events.popleft()
            moved = True
            if isinstance(event, events.Ready):
                assert event.parcel.complete
                self.ready[event.parcel.call] = event.parcel
                if self.plan.takes_singly:
                    self.take(event.parcel.call)
            elif isinstance(event, events.Spill):
                self.spills.append(event.parcel)
            elif isinstance(event, events.Overflow):
                self.overflow = event
                self.error = event.error
            else:
                raise AssertionError(event)
        for one in self.links.values():
            for told in one.poll():
                moved = True
                if isinstance(told, events.Failed):
                    self.error = self.error or told.error
        return moved

    def take(self, number: int) -> None:
        parcel = self.ready.pop(number)
        self.box.take(parcel, digest=pair.DIGEST)
        data = parcel.token if parcel.token is not None else parcel.buffer
        head, body = data[: parcel.head_size], data[parcel.body_start :]
        assert bytes(head) + bytes(body) == content(self.by_number(number)), "a value is damaged"
        assert number not in self.values, "a value came twice"
        self.values[number] = content(self.by_number(number))
        self.received.append(number)
        self.box.handed_over(parcel)

    def start(self) -> bool:
        """Start one call at the head of its lane that has all it needs."""
        if self.running is not None:
            return False
        for lane in self.lanes.values():
            if not lane or lane[0].number not in self.asked:
                continue
            call = lane[0]
            if all(arg in self.values or arg in self.ready for arg in call.args):
                for arg in call.args:
                    if arg in self.ready:
                        self.take(arg)
                self.running = call
                return True
        return False

    def end(self) -> bool:
        """End the running body: its result is there, and goes where it is needed."""
        call, self.running = self.running, None
        if call is None:
            return False
        self.lanes[call.number % self.plan.lanes].remove(call)
        self.executed.append(call.number)
        self.values[call.number] = content(call)
        for peer, consumer in self.pushes.pop(call.number, ()):
            self.push(call.number, peer, consumer)
        return True

    def write_spill(self) -> bool:
        if not self.spills:
            return False
        parcel = self.spills.pop(self.rng.randrange(len(self.spills)))
        if self.rng.random() < self.plan.spill_fails:
            self.box.not_spilled(parcel)
        else:
            data = bytes(parcel.buffer) if parcel.buffer is not None else b""
            self.box.spilled(parcel, data)
        return True

    def work(self) -> bool:
        """Everything this driver can do by itself, once each."""
        moved = self.hear()
        for step in (self.submit, self.ask, self.start, self.end, self.write_spill):
            moved |= step()
        return moved | self.hear()

    @property
    def is_done(self) -> bool:
        return self.at == len(self.plan.calls) and not self.unfinished


class Federation:
    def __init__(self, plan: Plan, rng: random.Random) -> None:
        self.plan = plan
        self.rng = rng
        self.clock = fake.FakeClock()
        self.drivers = {party: Driver(party, plan, self.clock, rng) for party in plan.parties}
        self.wires = [
            wire.Wire(
                self.drivers[one].links[other], self.drivers[other].links[one], now=self.clock,
                rng=rng, capacity=plan.capacity, repeat_rate=plan.repeat_rate,
            )
            for one, other in itertools.combinations(plan.parties, 2)
        ]  # fmt: skip
        self.largest = max(call.size for call in plan.calls)
        self.peak = 0

    @property
    def failures(self) -> dict[str, errors.FedError]:
        return {d.party: d.error for d in self.drivers.values() if d.error is not None}

    @property
    def is_done(self) -> bool:
        return all(driver.is_done for driver in self.drivers.values())

    def check(self) -> None:
        """What must hold at every moment."""
        allowance = self.largest + 64 + 512
        for driver in self.drivers.values():
            box = driver.box
            windows = box.window_bytes * len(driver.links)
            assert box.used_bytes <= box.budget_bytes - windows + allowance, "budget passed"
            assert 0 <= box.spilled_bytes <= box.spill_bytes, "quota passed"
            held = sum(
                len(parcel.buffer)
                for one in driver.links.values()
                for parcel in one.inbox._parcels.values()
                if parcel.buffer is not None
            )
            self.peak = max(self.peak, held)
            assert held <= box.budget_bytes + allowance, "memory passed"

    def tick(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for driver in self.drivers.values():
            for one in driver.links.values():
                one.tick(self.clock())

    def stir(self, steps: int) -> None:
        """Random moves of everything, in random order."""
        rng = self.rng
        drivers = list(self.drivers.values())
        for count in range(steps):
            if self.failures:
                return
            line = rng.choice(self.wires)
            line.step()
            if line.pipes and rng.random() < self.plan.cut_rate:
                line.cut(rng.choice(line.pipes))
            driver = rng.choice(drivers)
            rng.choice((driver.submit, driver.ask, driver.start, driver.end, driver.write_spill))()
            driver.hear()
            if rng.random() < 0.02:
                self.tick(rng.choice((0.01, 0.3)))
            if count % 16 == 0:
                self.check()

    def drain(self) -> None:
        """Move everything that can move until the program is done, failed, or stuck."""
        still = 0
        while not self.failures and still < 40:
            moved = False
            for driver in self.drivers.values():
                moved |= driver.work()
            for line in self.wires:
                moved |= line.close_ended()
                for side in (0, 1):
                    moved |= line.dial(side)
                for pipe in list(line.pipes):
                    for lane in pipe.lanes:
                        went = line.load(lane, 1 << 16) + lane.deliver(
                            len(lane.flight), self.clock()
                        )
                        # A ping answered is no progress of the program.
                        moved |= went > 0 and lane.source.channel == link.BULK
            self.check()
            if self.is_done:
                return
            still = 0 if moved else still + 1
            self.tick(0.001 if moved else 1.0)

    def why_stuck(self) -> str:
        lines = []
        for driver in self.drivers.values():
            heads = [lane[0].number for lane in driver.lanes.values() if lane]
            lines.append(
                f"{driver.party}: {driver.at} of {len(self.plan.calls)} submitted, heads {heads}, "
                f"waiting call {driver.box.waiting_call}, used {driver.box.used_bytes} of "
                f"{driver.box.budget_bytes}, spilled {driver.box.spilled_bytes}, ready "
                f"{sorted(driver.ready)}, "
                + ", ".join(
                    f"{peer}: up {one.is_up} {one.undrained!r} cause {one.last_cause!r} "
                    f"parcels {list(one.inbox._parcels.values())[:5]}"
                    for peer, one in driver.links.items()
                )
            )
        return "\n".join(lines)
