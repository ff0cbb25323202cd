"""Parameters and methods may be called what they like: also as what an engine's own code uses."""

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


@fed.remote
class Odd:
    def type(self, type):
        return ["type", type]

    def remote(self, object):
        return ["remote", object]

    def party(self, len, self_=1):
        return ["party", len, self_]

    def options(self, BaseException, IndexError):
        return ["options", BaseException, IndexError]

    def divide(self, BaseException):
        return 1 / BaseException

    def engine(self, obj, value):
        return ["engine", obj, value]

    def spec(self, _value0, _party):
        return ["spec", _value0, _party]

    def call(this, self):
        return ["call", self]

    def _fed_party(self):
        return "hidden"

    def __getitem__(self, key):
        return key


@fed.remote
def odd(args, kwargs, len=5, *rest, tuple=None, dict=3, **self):
    return [args, kwargs, len, list(rest), tuple, dict, sorted(self.items())]


@fed.remote
def value(x):
    return x


def program(note):
    odd_actor = Odd.party("ALICE").remote()
    five = value.party("BOB").remote(5)
    for name in ("type", "remote", "party", "call"):
        method = getattr(odd_actor, name)
        note(name, lambda method=method: fed.get(method.remote(five)))
        note(f"{name} of a literal", lambda method=method: fed.get(method.remote("x")))
    for name in ("options", "engine", "spec"):
        method = getattr(odd_actor, name)
        note(name, lambda method=method: fed.get(method.remote(five, [five])))
        note(f"{name} of literals", lambda method=method: fed.get(method.remote(five, "x")))
    note("raises", lambda: fed.get(odd_actor.divide.remote(0)))
    note("raises no more", lambda: fed.get(odd_actor.divide.remote(five)))
    note("function", lambda: fed.get(odd.party("BOB").remote(1, five, 3, five, dict=4, x=five)))
    note("by name", lambda: fed.get(odd.party("BOB").remote(kwargs=1, args=2, tuple=5)))


EXPECTED = {
    "type": ["type", 5],
    "type of a literal": ["type", "x"],
    "remote": ["remote", 5],
    "remote of a literal": ["remote", "x"],
    "party": ["party", 5, 1],
    "party of a literal": ["party", "x", 1],
    "call": ["call", 5],
    "call of a literal": ["call", "x"],
    "options": ["options", 5, [5]],
    "options of literals": ["options", 5, "x"],
    "engine": ["engine", 5, [5]],
    "engine of literals": ["engine", 5, "x"],
    "spec": ["spec", 5, [5]],
    "spec of literals": ["spec", 5, "x"],
    "raises": fails("FedRemoteError", type_name="ZeroDivisionError"),
    "raises no more": 0.2,
    "function": [1, 5, 3, [5], None, 4, [("x", 5)]],
    "by name": [2, 1, 5, [], 5, 3, []],
}
