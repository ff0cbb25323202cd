"""`timeout` of `get` and `wait`: it ends the wait, and nothing else."""

import asyncio

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


@fed.remote
class Gate:
    def __init__(self):
        self.event = None

    def _event(self):
        self.event = self.event or asyncio.Event()
        return self.event

    async def wait(self):
        await self._event().wait()
        return "open"

    async def open(self):
        self._event().set()

    async def nap(self, seconds):
        await asyncio.sleep(seconds)
        return seconds

    async def endless(self, n):
        """Is always ready to go on."""
        while self.event is None:  # noqa: ASYNC110  (it shall never be quiet)
            await asyncio.sleep(0)
        return n


@fed.remote
def value(x):
    return x


def polled(gate):
    """Looks again and again, without waiting: it must come some day."""
    nap = gate.nap.remote(0.02)
    for _ in range(100_000):
        ready, _ = fed.wait([nap], timeout=0, party="BOB")
        if ready:
            return fed.get(ready)
    return "never"


def program(note):
    gate = Gate.party("ALICE").remote()
    waits = gate.wait.remote()
    note("not yet", lambda: fed.get(waits, timeout=0.05))
    note("not yet, among others", lambda: fed.get([value.party("BOB").remote(1), waits], timeout=0))
    at_once = value.party("BOB").remote(1)
    ready, pending = fed.wait([waits, at_once], num_returns=2, timeout=0.05, party="BOB")
    note("fewer", [obj.id for obj in ready] == [at_once.id])
    note("the rest", [obj.id for obj in pending] == [waits.id])
    ready, pending = fed.wait([waits], timeout=0.05, party="BOB")
    note("none", [len(ready), len(pending)])
    gate.open.remote()
    note("it stays valid", lambda: fed.get(waits, timeout=30))
    note("there already", lambda: fed.get(waits, timeout=0))
    note("in time", lambda: fed.get(gate.nap.remote(0.01), timeout=30))
    busy = Gate.party("BOB").remote()
    endless = busy.endless.remote(3)
    note("never quiet", lambda: fed.get(endless, timeout=0.05))
    busy.open.remote()
    note("quiet at last", lambda: fed.get(endless))
    note("polled", lambda: polled(gate))
    note("negative", lambda: fed.get(at_once, timeout=-1))


EXPECTED = {
    "not yet": fails("FedTimeoutError", party="ALICE", text="Gate.wait", waited_s=0.05),
    "not yet, among others": fails("FedTimeoutError", party="ALICE", text="Gate.wait"),
    "fewer": True,
    "the rest": True,
    "none": [0, 1],
    "it stays valid": "open",
    "there already": "open",
    "in time": 0.01,
    "never quiet": fails("FedTimeoutError", party="BOB", text="get it again"),
    "quiet at last": 3,
    "polled": [0.02],
    "negative": fails("UsageError", text="timeout"),
}
