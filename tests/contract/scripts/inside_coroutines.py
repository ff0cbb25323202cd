"""What a coroutine body starts (tasks, threads, time limits) is that body: party, stream, refusals.

The thread's function waits for nothing, so that it may run at any time.
"""

import asyncio
import hashlib

import numpy as np

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


def stream(party, name, ordinal, index, seed=0):
    """The definition (DESIGN 2.2): Philox keyed by the SHA-256 of these."""
    text = "\0".join((str(seed), party, name, str(ordinal), str(index)))
    key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(key=key))


@fed.remote
def value(x=None):
    return x


@fed.remote
class Actor:
    def one(self, x=None):
        return 1


HELD = {}


def attempts():
    """What the verbs say here."""
    obj, actor = HELD["obj"], HELD["actor"]
    tried = {
        "function": lambda: value.party("ALICE").remote(1),
        "class": lambda: Actor.party("ALICE").remote(),
        "method": lambda: actor.one.remote(),
        "get": lambda: fed.get(obj),
        "put": lambda: fed.put(1, party="ALICE"),
        "wait": lambda: fed.wait([obj], party="ALICE"),
        "reduce": lambda: fed.reduce(max, [obj], party="ALICE"),
        "kill": lambda: fed.kill(actor),
        "shutdown": fed.shutdown,
    }
    went = []
    for name, attempt in tried.items():
        try:
            attempt()
            went.append(name)
        except fed.UsageError as error:
            if "inside the body of Starter." not in str(error):
                went.append(f"{name}: {error}")
    return went


@fed.remote
class Starter:
    async def tried(self, way):
        return await started(way, attempts)

    async def party(self, way):
        return await started(way, fed.current_party)

    async def draws(self, way):
        return [fed.rng().random(), await started(way, lambda: fed.rng().random())]

    async def later(self):
        """Leaves a task behind, which goes on while others run."""
        self.found = []

        async def look():
            for _ in range(5):
                await asyncio.sleep(0.001)
                self.found.append(fed.current_party())

        self.task = asyncio.create_task(look())

    async def left(self):
        await self.task
        return self.found


@fed.remote
class Busy:
    async def naps(self):
        for _ in range(10):
            await asyncio.sleep(0.001)
        return fed.current_party()


async def started(way, function):
    async def task():
        await asyncio.sleep(0)
        return function()

    if way == "gather":
        return (await asyncio.gather(task(), asyncio.sleep(0)))[0]
    if way == "wait_for":
        return await asyncio.wait_for(task(), 5)
    if way == "group":
        async with asyncio.TaskGroup() as group:
            made = group.create_task(task())
        return made.result()
    if way == "callback":
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: future.set_result(function()))
        return await future
    return await asyncio.to_thread(function)


WAYS = ["gather", "wait_for", "group", "callback", "thread"]


def program(note):
    HELD["obj"] = value.party("ALICE").remote(5)
    HELD["actor"] = Actor.party("ALICE").remote()
    starter = Starter.party("BOB").remote()
    for way in WAYS:
        note(f"party: {way}", lambda way=way: fed.get(starter.party.remote(way)))
    for way in WAYS:
        note(f"refused: {way}", lambda way=way: fed.get(starter.tried.remote(way)))
    for way in WAYS:
        note(f"stream: {way}", lambda way=way: fed.get(starter.draws.remote(way)))
    starter.later.remote()
    note("beside others", lambda: fed.get(Busy.party("ALICE").remote().naps.remote()))
    note("left behind", lambda: fed.get(starter.left.remote()))
    note("the script has no party", fed.current_party)
    note("the script has no stream", fed.rng)
    note("still there", lambda: fed.get(value.party("BOB").remote(HELD["obj"])))


EXPECTED = {
    **{f"party: {way}": "BOB" for way in WAYS},
    **{f"refused: {way}": [] for way in WAYS},
    **{
        f"stream: {way}": stream("BOB", "Starter.draws", 0, index).random(2).tolist()
        for index, way in enumerate(WAYS)
    },
    "beside others": "ALICE",
    "left behind": ["BOB"] * 5,
    "the script has no party": None,
    "the script has no stream": fails("UsageError", text="outside a body"),
    "still there": 5,
}
