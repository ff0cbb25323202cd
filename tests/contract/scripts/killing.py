"""`kill`: later calls fail, values that are there stay, other actors live on."""

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


@fed.remote
class Counter:
    def __init__(self):
        self.n = 0

    def bump(self, x=1):
        self.n += x
        return self.n

    def broken(self):
        raise ValueError("x")


@fed.remote
def value(x):
    return x


def program(note):
    a = Counter.party("ALICE").remote()
    other = Counter.party("ALICE").remote()
    first = a.bump.remote()
    note("before", lambda: fed.get(first))
    fed.kill(a)
    late = a.bump.remote()
    note("later call", lambda: fed.get(late))
    note("again, each its own", lambda: fed.get(a.bump.remote(5)))
    note("a method not asked for before", lambda: fed.get(a.broken.remote()))
    note("its consumer", lambda: fed.get(value.party("BOB").remote(late)))
    note("an earlier value stays", lambda: fed.get(value.party("BOB").remote(first)))
    note("the other lives", lambda: fed.get(other.bump.remote()))
    fed.kill(a)
    note("killed twice", lambda: fed.get(a.bump.remote()))
    fed.kill(other, no_restart=False)
    failed = other.broken.options(num_returns=2).remote()
    note("with two returns", lambda: fed.get(failed[1]))
    note("not an actor", lambda: fed.kill(first))
    note("a class", lambda: fed.kill(Counter))
    new = Counter.party("ALICE").remote()
    note("a new one has the next ordinal", lambda: fed.get(new.bump.remote()))


EXPECTED = {
    "before": 1,
    "later call": fails("ActorKilledError", party="ALICE", name="Counter.bump", actor=0, call=6),
    "again, each its own": fails("ActorKilledError", call=8),
    "a method not asked for before": fails("ActorKilledError", name="Counter.broken"),
    "its consumer": fails("ActorKilledError", same_as="later call"),
    "an earlier value stays": 1,
    "the other lives": 1,
    "killed twice": fails("ActorKilledError"),
    "with two returns": fails("ActorKilledError", actor=1, name="Counter.broken"),
    "not an actor": fails("UsageError", text="handle of an actor"),
    "a class": fails("UsageError", text="handle of an actor"),
    "a new one has the next ordinal": 1,
}

RECORDS = [
    "call 1: create Counter at 'ALICE'()",
    "call 2: create Counter at 'ALICE'()",
    "call 3: method Counter.bump of actor 0 at 'ALICE'()",
    "call 4: get at '*'(0=3#0)",
    "call 5: kill Counter of actor 0 at 'ALICE'()",
    "call 6: method Counter.bump of actor 0 at 'ALICE'()",
    "call 7: get at '*'(0=6#0)",
    "call 8: method Counter.bump of actor 0 at 'ALICE'()",
    "call 9: get at '*'(0=8#0)",
    "call 10: method Counter.broken of actor 0 at 'ALICE'()",
    "call 11: get at '*'(0=10#0)",
    "call 12: function value at 'BOB'(0=6#0)",
    "call 13: get at '*'(0=12#0)",
    "call 14: function value at 'BOB'(0=3#0)",
    "call 15: get at '*'(0=14#0)",
    "call 16: method Counter.bump of actor 1 at 'ALICE'()",
    "call 17: get at '*'(0=16#0)",
    "call 18: kill Counter of actor 0 at 'ALICE'()",
    "call 19: method Counter.bump of actor 0 at 'ALICE'()",
    "call 20: get at '*'(0=19#0)",
    "call 21: kill Counter of actor 1 at 'ALICE'()",
    "call 22: method Counter.broken of actor 1 at 'ALICE'() -> 2",
    "call 23: get at '*'(0=22#1)",
    "call 24: create Counter at 'ALICE'()",
    "call 25: method Counter.bump of actor 2 at 'ALICE'()",
    "call 26: get at '*'(0=25#0)",
]
