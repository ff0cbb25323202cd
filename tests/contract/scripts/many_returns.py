"""`num_returns`: N fed objects, each of its own; what does not match is everybody's outcome."""

import threading

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


@fed.remote(num_returns=3)
def three(x):
    return x, [x], {"x": x}


@fed.remote
def some(n):
    return list(range(n))


@fed.remote
def lock_second():
    return 1, threading.Lock(), 3


@fed.remote
def fails_all():
    raise ValueError("none")


@fed.remote
class Splitter:
    def split(self, x):
        return x, x + 1

    def whole(self, x):
        return x


@fed.remote
def join(*parts):
    return list(parts)


def program(note):
    a, b, c = three.party("ALICE").remote(4)
    note("each", lambda: fed.get([c, b, a]))
    note("ids", [a.id, b.id, c.id])
    note("joined", lambda: fed.get(join.party("BOB").remote(b, a, [c])))
    note("one", lambda: fed.get(some.party("ALICE").options(num_returns=1).remote(2)))
    (left, right) = some.party("BOB").options(num_returns=2).remote(2)
    note("list is as good as a tuple", lambda: fed.get((left, right)))
    s = Splitter.party("BOB").remote()
    low, high = s.split.options(num_returns=2).remote(left)
    note("of a method", lambda: fed.get([low, high]))
    too_many = some.party("ALICE").options(num_returns=2).remote(3)
    note("too many", lambda: fed.get(too_many[1]))
    note("all share it", lambda: fed.get(too_many[0]))
    none = s.whole.options(num_returns=2).remote(7)
    note("no tuple", lambda: fed.get(none[0]))
    parts = lock_second.party("ALICE").options(num_returns=3).remote()
    note("others are good", lambda: fed.get([parts[0], parts[2]]))
    note("one is refused", lambda: fed.get(parts[1]))
    broken = fails_all.party("ALICE").options(num_returns=2).remote()
    note("both fail", lambda: fed.get(broken[1]))
    note("by the same error", lambda: fed.get(broken[0]))
    note("zero", lambda: some.options(num_returns=0))
    note("true", lambda: some.options(num_returns=True))
    note("streaming", lambda: some.options(num_returns="streaming"))


EXPECTED = {
    "each": [{"x": 4}, [4], 4],
    "ids": ["1#0", "1#1", "1#2"],
    "joined": [[4], 4, [{"x": 4}]],
    "one": [0, 1],
    "list is as good as a tuple": (0, 1),
    "of a method": [0, 1],
    "too many": fails("ReturnCountError", party="ALICE", expected=2, got="3 values"),
    "all share it": fails("ReturnCountError", same_as="too many"),
    "no tuple": fails("ReturnCountError", party="BOB", expected=2, text="int"),
    "others are good": [1, 3],
    "one is refused": fails("ValueRefusedError", path="result[1]", party="ALICE"),
    "both fail": fails("FedRemoteError", type_name="ValueError"),
    "by the same error": fails("FedRemoteError", same_as="both fail"),
    "zero": fails("UsageError", text="num_returns"),
    "true": fails("UsageError", text="num_returns"),
    "streaming": fails("UsageError", text="refused"),
}

RECORDS = [
    "call 1: function three at 'ALICE'() -> 3",
    "call 2: get at '*'(0=1#2, 1=1#1, 2=1#0)",
    "call 3: function join at 'BOB'(0=1#1, 1=1#0, 2=1#2)",
    "call 4: get at '*'(0=3#0)",
    "call 5: function some at 'ALICE'()",
    "call 6: get at '*'(0=5#0)",
    "call 7: function some at 'BOB'() -> 2",
    "call 8: get at '*'(0=7#0, 1=7#1)",
    "call 9: create Splitter at 'BOB'()",
    "call 10: method Splitter.split of actor 0 at 'BOB'(0=7#0) -> 2",
    "call 11: get at '*'(0=10#0, 1=10#1)",
    "call 12: function some at 'ALICE'() -> 2",
    "call 13: get at '*'(0=12#1)",
    "call 14: get at '*'(0=12#0)",
    "call 15: method Splitter.whole of actor 0 at 'BOB'() -> 2",
    "call 16: get at '*'(0=15#0)",
    "call 17: function lock_second at 'ALICE'() -> 3",
    "call 18: get at '*'(0=17#0, 1=17#2)",
    "call 19: get at '*'(0=17#1)",
    "call 20: function fails_all at 'ALICE'() -> 2",
    "call 21: get at '*'(0=20#1)",
    "call 22: get at '*'(0=20#0)",
]
