"""Calls behind suspended ones: consumers of every kind, actors that are not built yet, kill."""

import asyncio

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB", "CAROL"]


@fed.remote
class Gate:
    def __init__(self):
        self.events = {}

    def _event(self, name):
        return self.events.setdefault(name, asyncio.Event())

    async def wait(self, name):
        await self._event(name).wait()
        return name

    async def fail(self, name):
        await self._event(name).wait()
        raise ValueError(name)

    async def open(self, name):
        self._event(name).set()

    async def echo(self, x):
        await asyncio.sleep(0.01)
        return ["echo", x]


@fed.remote
class Log:
    def __init__(self, first=None):
        self.lines = [first]

    def add(self, x):
        self.lines.append(x)
        return len(self.lines)

    def all(self):
        return self.lines


@fed.remote
class AsyncLog:
    def __init__(self, first=None):
        self.lines = [first]

    async def add(self, x):
        self.lines.append(x)
        return len(self.lines)

    def all(self):
        return self.lines


@fed.remote
def value(x):
    return [x]


@fed.remote
async def async_value(x):
    await asyncio.sleep(0.01)
    return [x]


@fed.remote
def two(x):
    return x, [x]


@fed.remote
def where(x):
    return [x, fed.current_party()]


def plus(a, b):
    return a + b


def program(note):
    gate = Gate.party("ALICE").remote()
    waits = gate.wait.remote("a")
    chain = value.party("CAROL").remote(value.party("BOB").remote(waits))
    by_coroutine = async_value.party("BOB").remote(waits)
    by_method = gate.echo.remote(waits)
    both = two.party("BOB").options(num_returns=2).remote(waits)
    party = where.party("CAROL").remote(waits)
    gate.open.remote("a")
    note("a chain", lambda: fed.get(chain))
    note("by a coroutine", lambda: fed.get(by_coroutine))
    note("by an async method", lambda: fed.get(by_method))
    note("with two returns", lambda: fed.get(both))
    note("in its party", lambda: fed.get(party))

    # A sync actor runs its calls in submission order, waiting for arguments included.
    waits = gate.wait.remote("b")
    log = Log.party("BOB").remote()
    log.add.remote(1)
    log.add.remote(waits)
    third = log.add.remote(3)
    gate.open.remote("b")
    note("in submission order", lambda: fed.get(third))
    note("lines", lambda: fed.get(log.all.remote()))

    # An actor whose constructor waits.
    for name, cls in (("sync", Log), ("async", AsyncLog)):
        waits = gate.wait.remote(name)
        log = cls.party("CAROL").remote(waits)
        added = log.add.remote("x")
        lines = log.all.remote()
        gate.open.remote(name)
        note(f"{name} actor built late", lambda added=added, lines=lines: fed.get([added, lines]))

    # Failure of what is waited for.
    waits = gate.fail.remote("c")
    consumer = value.party("BOB").remote(waits)
    broken = Log.party("BOB").remote(waits)
    line = broken.add.remote(1)
    gate.open.remote("c")
    note("failed", lambda: fed.get(waits))
    note("its consumer", lambda: fed.get(consumer))
    note("the actor", lambda: fed.get(line))

    # Arguments are snapshots of the moment of the call, also where the body runs later.
    waits = gate.wait.remote("d")
    argument = [1]
    late = value.party("BOB").remote([waits, argument])
    argument.append(2)
    gate.open.remote("d")
    note("a snapshot", lambda: fed.get(late))

    note("party of the object", waits.party + late.party)
    total = fed.reduce(plus, [gate.echo.remote(n) for n in range(3)], party="BOB")
    note("reduce waits", lambda: fed.get(total))


EXPECTED = {
    "a chain": [["a"]],
    "by a coroutine": ["a"],
    "by an async method": ["echo", "a"],
    "with two returns": ["a", ["a"]],
    "in its party": ["a", "CAROL"],
    "in submission order": 4,
    "lines": [None, 1, "b", 3],
    "sync actor built late": [2, ["sync", "x"]],
    "async actor built late": [2, ["async", "x"]],
    "failed": fails("FedRemoteError", type_name="ValueError", name="Gate.fail"),
    "its consumer": fails("FedRemoteError", same_as="failed"),
    "the actor": fails("FedRemoteError", same_as="failed"),
    "a snapshot": [["d", [1]]],
    "party of the object": "ALICEBOB",
    "reduce waits": ["echo", 0, "echo", 1, "echo", 2],
}
