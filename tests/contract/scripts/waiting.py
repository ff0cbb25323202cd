"""`wait`: one party decides. Which objects it picks may differ between modes, nothing else."""

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB", "CAROL"]


@fed.remote
def square(x):
    return x * x


@fed.remote
def broken():
    raise ValueError("x")


@fed.remote
class Sleeper:
    async def nap(self, x):
        import asyncio

        await asyncio.sleep(0.01)
        return x


def program(note):
    objs = [square.party(name).remote(n) for n, name in enumerate(["ALICE", "BOB", "CAROL"])]
    ready, pending = fed.wait(objs, num_returns=2, party="BOB")
    note("counts", [len(ready), len(pending)])
    note("same objects", sorted(obj.id for obj in ready + pending))
    note("in the order given", [o.id for o in ready] == sorted(o.id for o in ready))
    note("all values", lambda: sorted(fed.get(ready) + fed.get(pending)))
    ready, pending = fed.wait(tuple(objs), num_returns=3, party="ALICE", timeout=60)
    note("all ready", [[o.id for o in ready], pending])
    fails_too = broken.party("CAROL").remote()
    ready, _ = fed.wait([fails_too], party="ALICE")
    note("a failed one is ready", lambda: ready == [fails_too])
    note("its error", lambda: fed.get(ready))
    nap = Sleeper.party("BOB").remote().nap.remote(5)
    ready, _ = fed.wait([nap], party="CAROL")
    note("suspended", lambda: fed.get(ready))
    note("no party", lambda: fed.wait(objs))
    note("stranger", lambda: fed.wait(objs, party="EVE"))
    note("too many", lambda: fed.wait(objs, num_returns=4, party="BOB"))
    note("none", lambda: fed.wait(objs, num_returns=0, party="BOB"))
    note("twice the same", lambda: fed.wait([objs[0], objs[0]], party="BOB"))
    note("values", lambda: fed.wait([1, 2], party="BOB"))
    note("nothing", lambda: fed.wait([], party="BOB"))
    note("a generator", lambda: fed.wait((o for o in objs), party="BOB"))
    note("one object", lambda: fed.wait(objs[0], party="BOB"))


EXPECTED = {
    "counts": [2, 1],
    "same objects": ["1#0", "2#0", "3#0"],
    "in the order given": True,
    "all values": [0, 1, 4],
    "all ready": [["1#0", "2#0", "3#0"], []],
    "a failed one is ready": True,
    "its error": fails("FedRemoteError", party="CAROL", type_name="ValueError"),
    "suspended": [5],
    "no party": fails("MissingPartyError", text="fed.wait"),
    "stranger": fails("UnknownPartyError", party="EVE"),
    "too many": fails("UsageError", text="from 1 to 3"),
    "none": fails("UsageError", text="from 1 to 3"),
    "twice the same": fails("UsageError", text="twice"),
    "values": fails("UsageError", text="fed objects"),
    "nothing": fails("UsageError", text="num_returns"),
    "a generator": fails("UsageError", text="list"),
    "one object": fails("UsageError", text="list"),
}
