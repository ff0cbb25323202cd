"""Snapshots: what anybody changes later is seen by nobody else, across parties and inside one."""

import dataclasses

import numpy as np

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


@dataclasses.dataclass
class Box:
    items: list


class Thing:
    """Hashable by identity and changeable: stays inside its party."""

    def __init__(self):
        self.x = 0


@fed.remote
class Owner:
    def __init__(self):
        self.w = np.zeros(3)
        self.kept = {"w": np.zeros(3), "l": [0], "box": Box([0])}
        self.things = {Thing()}

    def array(self):
        return self.w

    def views(self):
        return [self.w[1:], self.w.reshape(3, 1), self.w.T]

    def fresh_view(self):
        self.buffer = np.zeros(4)
        return self.buffer[:2]

    def fresh_kept(self):
        made = np.zeros(3)
        self.last = made
        return made

    def fresh_in_kept_list(self):
        made = [np.zeros(3)]
        self.last = made
        return made

    def kept_container(self):
        return self.kept

    def part(self):
        return self.kept["l"]

    def thing_set(self):
        return self.things

    def keep(self, x):
        self.held = x
        return 0

    def held_value(self):
        return self.held

    def change(self):
        self.w += 1
        self.kept["w"] += 1
        self.kept["l"].append(1)
        self.kept["box"].items.append(1)
        for name in ("buffer", "last"):
            found = getattr(self, name, None)
            if isinstance(found, list):
                found = found[0]
            if found is not None:
                found += 1
        return self.w.flags.writeable

    def state(self):
        return [self.w, self.kept["w"], self.kept["l"], self.kept["box"].items]


@fed.remote
def write(x):
    x[0] = 99.0
    return "written"


@fed.remote
def unlock(x):
    x.flags.writeable = True
    return "unlocked"


@fed.remote
def add_in_place(x, y):
    x += y
    return x


@fed.remote
def change(x):
    x["l"].append(99)
    x["w"] = None
    x["box"].items.append(99)
    return sorted(x)


@fed.remote
def mark(things):
    for thing in things:
        thing.x += 1
    return [thing.x for thing in things]


@fed.remote
def total(x):
    return float(np.sum(x)) if not isinstance(x, list) else [float(np.sum(part)) for part in x]


@fed.remote
def lists(x):
    return [x["l"], x["box"].items, float(x["w"].sum())]


@fed.remote
def read_later(x):
    return x


def at(note, where):
    owner = Owner.party("ALICE").remote()
    made = [owner.array.remote(), owner.views.remote(), owner.fresh_view.remote()]
    made += [owner.fresh_kept.remote(), owner.kept_container.remote(), owner.part.remote()]
    listed = owner.fresh_in_kept_list.remote()
    note(f"{where}: state is never frozen", lambda o=owner: fed.get(o.change.remote()))
    sums = [total.party(where).remote(x) for x in made[:4]]
    note(f"{where}: later changes are not seen", lambda s=sums: fed.get(s))
    note(f"{where}: in a fresh list", lambda x=listed: fed.get(total.party(where).remote(x)))
    note(f"{where}: in a kept one", lambda m=made: fed.get(lists.party(where).remote(m[4])))
    note(f"{where}: part of it", lambda m=made: fed.get(read_later.party(where).remote(m[5])))
    note(f"{where}: write", lambda m=made: fed.get(write.party(where).remote(m[0])))
    note(f"{where}: unlock", lambda m=made: fed.get(unlock.party(where).remote(m[0])))
    note(f"{where}: unlock fresh", lambda m=made: fed.get(unlock.party(where).remote(m[3])))
    note(f"{where}: in place", lambda m=made: fed.get(add_in_place.party(where).remote(m[0], 1)))
    note(f"{where}: its own dict", lambda m=made: fed.get(change.party(where).remote(m[4])))
    note(f"{where}: and the next reader", lambda m=made: fed.get(lists.party(where).remote(m[4])))
    note(f"{where}: still", lambda m=made: fed.get(total.party(where).remote(m[3])))
    note(
        f"{where}: the owner",
        lambda o=owner: [
            x.tolist() if hasattr(x, "tolist") else x for x in fed.get(o.state.remote())
        ],
    )


def program(note):
    at(note, "ALICE")
    at(note, "BOB")
    owner = Owner.party("BOB").remote()
    things = owner.thing_set.remote()
    note("objects in a set", lambda: fed.get([mark.party("BOB").remote(things) for _ in range(2)]))
    literal = [1, [2]]
    array = np.zeros(2)
    owner.keep.remote([literal, array])
    literal[1].append(3)
    array += 5
    note("an argument", lambda: fed.get(owner.held_value.remote()))
    result = fed.get(owner.array.remote())
    note("what get gave is read-only", lambda: write.__wrapped__(result))
    got = fed.get(owner.kept_container.remote() if False else owner.part.remote())
    got.append("mine")
    note("and the script's own", lambda: fed.get(owner.part.remote()))


def _expected(where):
    return {
        f"{where}: state is never frozen": True,
        f"{where}: later changes are not seen": [0.0, [0.0, 0.0, 0.0], 0.0, 0.0],
        f"{where}: in a fresh list": [0.0],
        f"{where}: in a kept one": [[0], [0], 0.0],
        f"{where}: part of it": [0],
        f"{where}: write": fails("FedRemoteError", type_name="ValueError"),
        f"{where}: unlock": fails("FedRemoteError", type_name="ValueError"),
        f"{where}: unlock fresh": fails("FedRemoteError", type_name="ValueError"),
        f"{where}: in place": fails("FedRemoteError", type_name="ValueError"),
        f"{where}: its own dict": ["box", "l", "w"],
        f"{where}: and the next reader": [[0], [0], 0.0],
        f"{where}: still": 0.0,
        f"{where}: the owner": [[1.0] * 3, [1.0] * 3, [0, 1], [0, 1]],
    }


EXPECTED = {
    **_expected("ALICE"),
    **_expected("BOB"),
    "objects in a set": [[1], [1]],
    "an argument": [[1, [2]], np.zeros(2)],
    "what get gave is read-only": fails("ValueError", text="read-only"),
    "and the script's own": [0],
}
