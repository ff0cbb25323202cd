"""Classes that the setting `codec_pickle` names cross as pickles; others do not."""

import numpy as np

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]
SETTINGS = {"codec_pickle": ["__main__.Named"]}


class Named:
    def __init__(self, inside):
        self.inside = inside


class Unnamed:
    pass


@fed.remote
def named(inside=1):
    return Named(inside)


@fed.remote
def listed():
    return [Named(np.arange(3.0)), {"k": Named([1])}]


@fed.remote
def unnamed(where):
    return Named(Unnamed()) if where == "inside" else Unnamed()


@fed.remote
def inside(x):
    return [type(x).__name__, x.inside]


@fed.remote
def all_inside(x):
    return [x[0].inside.tolist(), x[0].inside.flags.writeable, x[1]["k"].inside]


@fed.remote
def change(x):
    x.inside.append(2)
    return x.inside


def program(note):
    bob = inside.party("BOB")
    note("crosses", lambda: fed.get(bob.remote(named.party("ALICE").remote())))
    note("is got", lambda: fed.get(named.party("ALICE").remote([5])).inside)
    note(
        "in containers",
        lambda: fed.get(all_inside.party("BOB").remote(listed.party("ALICE").remote())),
    )
    made = named.party("ALICE").remote([1])
    note("each its own", lambda: fed.get([change.party("BOB").remote(made) for _ in range(2)]))
    for where in ("inside", "alone"):
        other = unnamed.party("ALICE").remote(where)
        note(f"unnamed {where}", lambda o=other: fed.get(bob.remote(o)))
        note(f"unnamed {where} at home", lambda o=other: fed.get(home.party("ALICE").remote(o)))


@fed.remote
def home(x):
    return type(x).__name__


EXPECTED = {
    "crosses": ["Named", 1],
    "is got": [5],
    "in containers": [[0.0, 1.0, 2.0], False, [1]],
    "each its own": [[1, 2], [1, 2]],
    "unnamed inside": fails("ValueRefusedError", text="Unnamed isn't accepted"),
    "unnamed inside at home": "Named",
    "unnamed alone": fails("ValueRefusedError", text="Unnamed"),
    "unnamed alone at home": "Unnamed",
}
