"""Async methods and functions: interleaved, ordered by virtual or real time, awaited at `get`."""

import asyncio

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


@fed.remote
class Server:
    def __init__(self):
        self.log = []
        self.event = None

    def signal(self):
        if self.event is None:
            self.event = asyncio.Event()
        return self.event

    async def quick(self, x):
        self.log.append(x)
        return x

    async def slow(self, x, seconds=0.05):
        self.log.append(f"{x} began")
        await asyncio.sleep(seconds)
        self.log.append(f"{x} ended")
        return x

    async def broken(self):
        await asyncio.sleep(0)
        raise ValueError("after a pause")

    async def wait(self):
        await self.signal().wait()
        return "released"

    async def release(self):
        self.signal().set()
        return "release"

    async def party(self):
        before = fed.current_party()
        await asyncio.sleep(0.01)
        return [before, fed.current_party()]

    async def gathered(self, n):
        async def part(i):
            await asyncio.sleep(0.001 * (n - i))
            return i

        return await asyncio.gather(*map(part, range(n)))

    async def limited(self):
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)
        except TimeoutError:
            return "too slow"

    async def lines(self):
        return list(self.log)


@fed.remote
async def alone(x):
    await asyncio.sleep(0.01)
    return [x, fed.current_party()]


@fed.remote
def value(x):
    return x


class Unawaited:
    """A coroutine as a value; closed at once, so that nobody misses its being awaited."""

    @staticmethod
    def make():
        made = alone.__wrapped__(1)
        made.close()
        return made


@fed.remote
def returns_a_coroutine():
    return Unawaited.make()


@fed.remote
class Sync:
    def returns_a_coroutine(self):
        return Unawaited.make()


def program(note):
    s = Server.party("ALICE").remote()
    note("at once", lambda: fed.get(s.quick.remote(1)))
    one, two = s.slow.remote("one", 0.2), s.slow.remote("two", 0.01)
    note("both", lambda: fed.get([one, two]))
    lines = fed.get(s.lines.remote())
    note("interleaved", lines)
    note("a function", lambda: fed.get(alone.party("BOB").remote(3)))
    note("party", lambda: fed.get(s.party.remote()))
    note("error", lambda: fed.get(s.broken.remote()))
    note("gathered", lambda: fed.get(s.gathered.remote(4)))
    note("own time limits", lambda: fed.get(s.limited.remote()))
    pending = s.slow.remote("three")
    note("a consumer waits", lambda: fed.get(value.party("BOB").remote([pending])))
    refused = [returns_a_coroutine.party("BOB").remote()]
    method = Sync.party("BOB").remote().returns_a_coroutine
    refused += [method.remote(), method.options(name="long way").remote()]
    for n, obj in enumerate(refused):
        note(f"a coroutine as a value {n}", lambda obj=obj: fed.get(obj))
    waiting = s.wait.remote()
    s.release.remote()
    note("released by a later call", lambda: fed.get(waiting))
    note(
        "other order of get",
        lambda: fed.get([s.slow.remote(n, 0.03 - 0.01 * n) for n in range(3)][::-1]),
    )


EXPECTED = {
    "at once": 1,
    "both": ["one", "two"],
    "interleaved": [1, "one began", "two began", "two ended", "one ended"],
    "a function": [3, "BOB"],
    "party": ["ALICE", "ALICE"],
    "error": fails(
        "FedRemoteError", type_name="ValueError", name="Server.broken", cause="ValueError"
    ),
    "gathered": [0, 1, 2, 3],
    "own time limits": "too slow",
    "a consumer waits": ["three"],
    **{f"a coroutine as a value {n}": fails("ValueRefusedError", party="BOB") for n in range(3)},
    "released by a later call": "released",
    "other order of get": [2, 1, 0],
}
