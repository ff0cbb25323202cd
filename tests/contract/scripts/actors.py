"""Actors: state, order, ordinals, inheritance, static and class methods, constructors that fail."""

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


class Base:
    """A plain class, so that remote classes can inherit from it."""

    made = 0

    def __init__(self, start=0, *, step=1):
        self.total = start
        self.step = step

    def bump(self, by=1):
        """Add to the total."""
        self.total += by * self.step
        return self.total


@fed.remote
class Counter(Base):
    def log(self, *items, **named):
        self.items = (items, named)
        return self.items

    def both(self, left, right):
        return (left, right, self.total)

    @staticmethod
    def double(x):
        return 2 * x

    @classmethod
    def name(cls):
        return cls.__name__

    def _private(self):
        return "private"

    def raises(self):
        self.total += 100
        raise KeyError("k")


@fed.remote
class Broken:
    def __init__(self, x):
        raise OSError("no disk")

    def go(self, x=None):
        return x


@fed.remote
class Empty:
    pass


def program(note):
    a = Counter.party("ALICE").remote(5)
    b = Counter.party("BOB").remote(start=7, step=10)
    c = Counter.party("ALICE").remote()
    first = a.bump.remote()
    note("own state each", lambda: fed.get([first, b.bump.remote(), c.bump.remote(by=3)]))
    note("across actors", lambda: fed.get(b.bump.remote(a.bump.remote(first))))
    note("stars", lambda: fed.get(a.log.remote(1, first, k=first)))
    note("by name", lambda: fed.get(a.both.remote(right=first, left=2)))
    note("half by name", lambda: fed.get(a.both.remote(first, right=2)))
    note("static", lambda: fed.get(a.double.remote(21)))
    note("class method", lambda: fed.get(a.name.remote()))
    note("private", lambda: fed.get(a._private.remote()))
    failed = a.raises.remote()
    note("raised", lambda: fed.get(failed))
    note("state after the error", lambda: fed.get(a.bump.remote(0)))
    broken = Broken.party("BOB").remote(first)
    note("constructor failed", lambda: fed.get(broken.go.remote()))
    note("again, unchanged", lambda: fed.get(broken.go.remote(1)))
    note("of a failed argument", lambda: fed.get(Broken.party("BOB").remote(failed).go.remote()))
    note("unknown method", lambda: a.bumb)
    note("state is not reached", lambda: a.total)
    note("wrong arguments", lambda: a.both.remote(1))
    note("called directly", lambda: a.bump(1))
    Empty.party("ALICE").remote()
    note("last", lambda: fed.get(c.bump.remote()))


EXPECTED = {
    "own state each": [6, 17, 3],
    "across actors": 17 + 120,
    "stars": ((1, 6), {"k": 6}),
    "by name": (2, 6, 12),
    "half by name": (6, 2, 12),
    "static": 42,
    "class method": "Counter",
    "private": "private",
    "raised": fails(
        "FedRemoteError", party="ALICE", call=23, name="Counter.raises", actor=0,
        type_name="KeyError", detail="", level="type", cause="KeyError",
    ),
    "state after the error": 112,
    "constructor failed": fails(
        "FedRemoteError", party="BOB", call=27, name="Broken", actor=0, type_name="OSError"
    ),
    "again, unchanged": fails("FedRemoteError", same_as="constructor failed"),
    "of a failed argument": fails("FedRemoteError", same_as="raised"),
    "unknown method": fails("UnknownMethodError", text="did you mean 'bump'"),
    "state is not reached": fails("UnknownMethodError", text="by its methods only"),
    "wrong arguments": fails("TypeError", text="right"),
    "called directly": fails("UsageError", text=".bump.remote(...)"),
    "last": 4,
}  # fmt: skip

RECORDS = [
    "call 1: create Counter at 'ALICE'()",
    "call 2: create Counter at 'BOB'()",
    "call 3: create Counter at 'ALICE'()",
    "call 4: method Counter.bump of actor 0 at 'ALICE'()",
    "call 5: method Counter.bump of actor 0 at 'BOB'()",
    "call 6: method Counter.bump of actor 1 at 'ALICE'()",
    "call 7: get at '*'(0=4#0, 1=5#0, 2=6#0)",
    "call 8: method Counter.bump of actor 0 at 'ALICE'(0=4#0)",
    "call 9: method Counter.bump of actor 0 at 'BOB'(0=8#0)",
    "call 10: get at '*'(0=9#0)",
    "call 11: method Counter.log of actor 0 at 'ALICE'(1=4#0, k=4#0)",
    "call 12: get at '*'(0=11#0)",
    "call 13: method Counter.both of actor 0 at 'ALICE'(1=4#0)",
    "call 14: get at '*'(0=13#0)",
    "call 15: method Counter.both of actor 0 at 'ALICE'(0=4#0)",
    "call 16: get at '*'(0=15#0)",
    "call 17: method Counter.double of actor 0 at 'ALICE'()",
    "call 18: get at '*'(0=17#0)",
    "call 19: method Counter.name of actor 0 at 'ALICE'()",
    "call 20: get at '*'(0=19#0)",
    "call 21: method Counter._private of actor 0 at 'ALICE'()",
    "call 22: get at '*'(0=21#0)",
    "call 23: method Counter.raises of actor 0 at 'ALICE'()",
    "call 24: get at '*'(0=23#0)",
    "call 25: method Counter.bump of actor 0 at 'ALICE'()",
    "call 26: get at '*'(0=25#0)",
    "call 27: create Broken at 'BOB'(0=4#0)",
    "call 28: method Broken.go of actor 0 at 'BOB'()",
    "call 29: get at '*'(0=28#0)",
    "call 30: method Broken.go of actor 0 at 'BOB'()",
    "call 31: get at '*'(0=30#0)",
    "call 32: create Broken at 'BOB'(0=23#0)",
    "call 33: method Broken.go of actor 1 at 'BOB'()",
    "call 34: get at '*'(0=33#0)",
    "call 35: create Empty at 'ALICE'()",
    "call 36: method Counter.bump of actor 1 at 'ALICE'()",
    "call 37: get at '*'(0=36#0)",
]
