"""What may not cross: the outcome of the consuming call, with the path inside the value."""

import threading
from collections import OrderedDict

import numpy as np

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]
RAN = []
HELD = {}


class Private:
    """In no type table, but anything goes inside a party."""

    def __init__(self, x=1):
        self.x = x


class MyDict(dict):
    pass


class MyInt(int):
    pass


def cyclic():
    value = [1]
    value.append({"self": value})
    return value


def nested(levels):
    value = 0
    for _ in range(levels):
        value = [value]
    return value


MAKERS = {
    "user class": lambda: {"model": [1, 2, 3, Private()]},
    "lambda": lambda: [1, lambda: 2],
    "lock": lambda: {"a": (threading.Lock(),)},
    "generator": lambda: {"g": (x for x in range(3))},
    "open file": lambda: [HELD["file"]],
    "dict subclass": lambda: [MyDict(a=1)],
    "int subclass": lambda: (MyInt(5),),
    "exception": lambda: [ValueError("x")],
    "class": lambda: {"cls": Private},
    "function": lambda: [print],
    "module": lambda: [threading],
    "bytearray": lambda: [bytearray(b"x")],
    "range": lambda: [range(3)],
    "object array": lambda: {"x": np.array([1, "a", None], dtype=object)},
    "array subclass": lambda: [np.ma.masked_array([1, 2], mask=[0, 1])],
    "long double": lambda: [np.zeros(2, dtype=np.longdouble)],
    "cycle": cyclic,
    "deep": lambda: nested(65),
    "in a key": lambda: {(1, Private()): 2},
    "in an ordered dict": lambda: OrderedDict(a=OrderedDict(b=Private())),
}


@fed.remote
def make(name):
    return MAKERS[name]()


@fed.remote
def touch(x):
    RAN.append(type(x).__name__)
    return "ran"


@fed.remote
def attribute(x):
    return x["model"][3].x


@fed.remote
class Maker:
    def make(self, name):
        return MAKERS[name]()

    def touch(self, x):
        return "ran"


def program(note):
    with open(__file__) as file:
        HELD["file"] = file
        refused(note)
    HELD.clear()
    obj = make.party("ALICE").remote("user class")
    note("inside a party", lambda: fed.get(attribute.party("ALICE").remote(obj)))
    note("an argument", lambda: fed.get(touch.party("BOB").remote([threading.Lock()])))
    note("by name", lambda: fed.get(touch.party("BOB").remote(x={"k": (0, threading.Lock())})))
    note("deepest", lambda: fed.get(fed.put(nested(64), party="ALICE")) == nested(64))


def refused(note):
    maker = Maker.party("ALICE").remote()
    at_bob = Maker.party("BOB").remote()
    for name in MAKERS:
        obj = make.party("ALICE").remote(name)
        note(f"{name}: get", lambda obj=obj: fed.get(obj))
        obj = maker.make.remote(name)
        note(f"{name}: method", lambda obj=obj: fed.get(at_bob.touch.remote(obj)))
        note(f"{name}: call", lambda obj=obj: fed.get(touch.party("BOB").remote([obj])))
    note("consumers never ran", list(RAN))


def _expected():
    paths = {
        "user class": 'result["model"][3]',
        "lambda": "result[1]",
        "lock": None,
        "generator": None,
        "open file": None,
        "dict subclass": "result[0]",
        "int subclass": "result[0]",
        "exception": "result[0]",
        "class": 'result["cls"]',
        "function": "result[0]",
        "module": "result[0]",
        "bytearray": "result[0]",
        "range": "result[0]",
        "object array": 'result["x"]',
        "array subclass": "result[0]",
        "long double": "result[0]",
        "cycle": 'result[1]["self"]',
        "deep": None,
        "in a key": None,
        "in an ordered dict": 'result["a"]["b"]',
    }
    # What can't even be copied is refused at once, and its path is the same.
    paths |= {"lock": 'result["a"][0]', "generator": 'result["g"]', "open file": "result[0]"}
    found = {}
    for name, path in paths.items():
        fields = {} if path is None else {"path": path}
        if name == "deep":
            fields["limit"] = "64 levels"
        for way in ("get", "method", "call"):
            found[f"{name}: {way}"] = fails("ValueRefusedError", party="ALICE", **fields)
    return found


EXPECTED = {
    **_expected(),
    "consumers never ran": [],
    "inside a party": 1,
    "an argument": fails("ValueRefusedError", path="argument 0[0]", type_name="_thread.lock"),
    "by name": fails("ValueRefusedError", path='argument 0["k"][1]'),
    "deepest": True,
}
