"""Fed objects inside containers arrive as values; `get` takes containers too."""

import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB", "CAROL"]

Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Box:
    inside: Any
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Sealed:
    inside: Any


@fed.remote
def value(x):
    return x


@fed.remote
def kinds(x):
    def walk(item):
        if isinstance(item, dict):
            return [type(item).__name__, *((key, walk(inner)) for key, inner in item.items())]
        if isinstance(item, list | tuple):
            return [type(item).__name__, *map(walk, item)]
        if dataclasses.is_dataclass(item):
            fields = [field.name for field in dataclasses.fields(item)]
            return [type(item).__name__, *(walk(getattr(item, name)) for name in fields)]
        return item

    return walk(x)


def deep(obj):
    for _ in range(40):
        obj = [obj]
    return obj


def program(note):
    a = value.party("ALICE").remote(1)
    b = value.party("BOB").remote("two")
    tree = {
        "list": [a, [b, 3]],
        "tuple": (a, (b,)),
        "dict": {"k": a, 5: {"n": b}},
        "named": Point(a, [b]),
        "box": Box(inside=[a, Box(b, "in")], note="out"),
        "sealed": Sealed((a, b)),
        "ordered": OrderedDict(z=a, a=b),
        "set": {1, 2},
    }
    note("arrived", lambda: fed.get(kinds.party("CAROL").remote(tree)))
    note("same party", lambda: fed.get(kinds.party("ALICE").remote([a, (b,)])))
    note("got", lambda: fed.get(tree))
    note("one object, two places", lambda: fed.get([a, a]))
    note("the script's own is untouched", [tree["list"][0] is a, tree["named"].x is a])
    note("deep", lambda: str(fed.get(kinds.party("BOB").remote(deep(a)))).count("list"))
    note("empty", lambda: fed.get([]))
    note("no objects", lambda: fed.get({"x": (1, None)}))
    note("in a set", lambda: value.party("BOB").remote({a, b}))
    note("get of a set", lambda: fed.get({a, b}))
    note("as a key", lambda: value.party("BOB").remote({a: 1}))
    note("in a key", lambda: value.party("BOB").remote({(1, a): 1}))
    cycle = [a]
    cycle.append(cycle)
    note("cycle", lambda: value.party("BOB").remote(cycle))


EXPECTED = {
    "arrived": [
        "dict",
        ("list", ["list", 1, ["list", "two", 3]]),
        ("tuple", ["tuple", 1, ["tuple", "two"]]),
        ("dict", ["dict", ("k", 1), (5, ["dict", ("n", "two")])]),
        ("named", ["Point", 1, ["list", "two"]]),
        ("box", ["Box", ["list", 1, ["Box", "two", "in"]], "out"]),
        ("sealed", ["Sealed", ["tuple", 1, "two"]]),
        ("ordered", ["OrderedDict", ("z", 1), ("a", "two")]),
        ("set", {1, 2}),
    ],
    "same party": ["list", 1, ["tuple", "two"]],
    "got": {
        "list": [1, ["two", 3]],
        "tuple": (1, ("two",)),
        "dict": {"k": 1, 5: {"n": "two"}},
        "named": Point(1, ["two"]),
        "box": Box(inside=[1, Box("two", "in")], note="out"),
        "sealed": Sealed((1, "two")),
        "ordered": OrderedDict(z=1, a="two"),
        "set": {1, 2},
    },
    "one object, two places": [1, 1],
    "the script's own is untouched": [True, True],
    "deep": 40,
    "empty": [],
    "no objects": {"x": (1, None)},
    "in a set": fails("UsageError", text="set"),
    "get of a set": fails("UsageError", text="set"),
    "as a key": fails("UsageError", text="key"),
    "in a key": fails("UsageError", text="key"),
    "cycle": fails("UsageError", text="contains itself"),
}

RECORDS = [
    "call 1: function value at 'ALICE'()",
    "call 2: function value at 'BOB'()",
    "call 3: function kinds at 'CAROL'(0=1#0, 0=2#0, 0=1#0, 0=2#0, 0=1#0, 0=2#0, ...)",
    "call 4: get at '*'(0=3#0)",
    "call 5: function kinds at 'ALICE'(0=1#0, 0=2#0)",
    "call 6: get at '*'(0=5#0)",
    "call 7: get at '*'(0=1#0, 1=2#0, 2=1#0, 3=2#0, 4=1#0, 5=2#0, ...)",
    "call 8: get at '*'(0=1#0, 1=1#0)",
    "call 9: function kinds at 'BOB'(0=1#0)",
    "call 10: get at '*'(0=9#0)",
]
