"""`fed.rng`: the stream that its key says, whatever ran before and in whatever order."""

import asyncio
import hashlib

import numpy as np

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]
SETTINGS = {"seed": 7}


def stream(party, name, ordinal, index, seed=7):
    """The definition (DESIGN 2.2): Philox keyed by the SHA-256 of these."""
    text = "\0".join((str(seed), party, name, str(ordinal), str(index)))
    key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(key=key))


def first(*key):
    return stream(*key).random(2).tolist()


@fed.remote
def draw(x=None):
    return fed.rng().random(2).tolist()


@fed.remote
def draw_twice():
    return fed.rng() is fed.rng(), fed.rng().random(), fed.rng().random()


@fed.remote
class Drawer:
    def __init__(self):
        self.first = fed.rng().random(2).tolist()

    def draw(self, x=None):
        return fed.rng().random(2).tolist()

    def fail(self):
        raise ValueError("x")

    def at_creation(self):
        return self.first

    async def late(self):
        before = fed.rng().random()
        await asyncio.sleep(0.01)
        return [before, fed.rng().random()]


def program(note):
    note(
        "functions count per party",
        lambda: fed.get([draw.party(p).remote() for p in ("ALICE", "BOB", "ALICE")]),
    )
    note("one generator per body", lambda: fed.get(draw_twice.party("ALICE").remote()))
    a, b = Drawer.party("ALICE").remote(), Drawer.party("ALICE").remote()
    c = Drawer.party("BOB").remote()
    note("actors have ordinals", lambda: fed.get([x.draw.remote() for x in (a, b, c)]))
    note("constructors", lambda: fed.get([x.at_creation.remote() for x in (a, b, c)]))
    lates = [a.late.remote(), b.late.remote()]
    note("second calls", lambda: fed.get([x.draw.remote([1]) for x in (a, b, c)]))
    note("coroutines", lambda: fed.get(lates))
    failed = draw.party("ALICE").remote(a.fail.remote())
    note("a call that did not run counts", lambda: fed.get(failed))
    note("next", lambda: fed.get(draw.party("ALICE").remote()))
    note("outside a body", fed.rng)


EXPECTED = {
    "functions count per party": [
        first("ALICE", "draw", 0, 0), first("BOB", "draw", 0, 0), first("ALICE", "draw", 0, 1),
    ],
    "one generator per body": (True, *first("ALICE", "draw_twice", 0, 0)),
    "actors have ordinals": [
        first("ALICE", "Drawer.draw", 0, 0), first("ALICE", "Drawer.draw", 1, 0),
        first("BOB", "Drawer.draw", 0, 0),
    ],
    "constructors": [
        first("ALICE", "Drawer", 0, 0), first("ALICE", "Drawer", 1, 0), first("BOB", "Drawer", 0, 0)
    ],
    "second calls": [
        first("ALICE", "Drawer.draw", 0, 1), first("ALICE", "Drawer.draw", 1, 1),
        first("BOB", "Drawer.draw", 0, 1),
    ],
    "coroutines": [first("ALICE", "Drawer.late", 0, 0), first("ALICE", "Drawer.late", 1, 0)],
    "a call that did not run counts": fails("FedRemoteError", name="Drawer.fail"),
    "next": first("ALICE", "draw", 0, 3),
    "outside a body": fails("UsageError", text="outside a body"),
}  # fmt: skip
