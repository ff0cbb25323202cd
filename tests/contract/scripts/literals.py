"""Arguments as the script gives them: the callee's own, whatever they are made of."""

import dataclasses

import fed

PARTIES = ["ALICE", "BOB"]


class Key:
    """Hashable by identity, and changeable."""

    def __init__(self):
        self.hits = 0


@dataclasses.dataclass
class Box:
    inside: object


@fed.remote
def value(x=None):
    return x


@fed.remote
def hit(x):
    for key in x:
        key.hits += 1
    return [key.hits for key in x]


@fed.remote
def append(box):
    box.extra.append(1)
    return [box.inside, box.extra]


@fed.remote
def depth(x):
    levels = 0
    while isinstance(x, list):
        x, levels = x[-1], levels + 1
    return levels


@fed.remote
def is_endless(x):
    return x[1]["back"] is x


def graph():
    """2**40 ways lead to its innermost list."""
    made = [1]
    for _ in range(40):
        made = [made, made]
    return made


def program(note):
    obj = value.party("ALICE").remote(7)
    key = Key()
    note("keys", lambda: fed.get([hit.party("ALICE").remote({key: 1}) for _ in range(2)]))
    note("keys of objects", lambda: fed.get(hit.party("BOB").remote({key: obj})))
    note("the script's key", key.hits)
    box = Box(obj)
    box.extra = []
    note("beside the fields", lambda: fed.get(append.party("BOB").remote(box)))
    note("the script's box", box.extra)
    cycle = [1]
    cycle.append({"back": cycle})
    note("got a cycle", lambda: fed.get(cycle) is cycle)
    note("passed a cycle", lambda: fed.get(is_endless.party("ALICE").remote(cycle)))
    shared = graph()
    note("got a graph", lambda: fed.get(shared) is shared)
    note("passed a graph", lambda: fed.get(depth.party("BOB").remote(shared)))
    note("beside an object", lambda: fed.get(depth.party("BOB").remote([obj, shared])))


EXPECTED = {
    "keys": [[1], [1]],
    "keys of objects": [1],
    "the script's key": 0,
    "beside the fields": [7, [1]],
    "the script's box": [],
    "got a cycle": True,
    "passed a cycle": True,
    "got a graph": True,
    "passed a graph": 41,
    "beside an object": 42,
}
