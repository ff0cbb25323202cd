"""The records of `reduce`: each object's fold at once, the closing record with the length."""

import threading

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


def plus(a, b):
    return a + b


def locks(a, b):
    return threading.Lock()


@fed.remote(num_returns=2)
def two():
    return 1, 2


@fed.remote
def value(x):
    return x


def program(note):
    a, b = two.party("ALICE").remote()

    def objects():
        yield b
        yield value.party("BOB").remote(5)
        yield a

    total = fed.reduce(plus, objects(), party="BOB")
    note("sum", lambda: fed.get(total))
    note("op's value can't be copied", lambda: fed.get(fed.reduce(locks, [a, b, a], party="BOB")))
    locked = fed.put([threading.Lock()], party="ALICE")
    note("an object may not cross", lambda: fed.get(fed.reduce(plus, [a, locked], party="BOB")))
    note(
        "initial can't be copied",
        lambda: fed.get(fed.reduce(plus, [a], party="BOB", initial=threading.Lock())),
    )


EXPECTED = {
    "sum": 8,
    "op's value can't be copied": fails("ValueRefusedError", type_name="_thread.lock", party="BOB"),
    "an object may not cross": fails("ValueRefusedError", party="ALICE"),
    "initial can't be copied": fails("ValueRefusedError", type_name="_thread.lock"),
}

RECORDS = [
    "call 1: function two at 'ALICE'() -> 2",
    "call 2: fold plus at 'BOB'(0=1#1)",
    "call 3: function value at 'BOB'()",
    "call 4: fold plus at 'BOB'(0=3#0)",
    "call 5: fold plus at 'BOB'(0=1#0)",
    "call 6: reduce plus at 'BOB'() -> 3",
    "call 7: get at '*'(0=6#0)",
    "call 8: fold locks at 'BOB'(0=1#0)",
    "call 9: fold locks at 'BOB'(0=1#1)",
    "call 10: fold locks at 'BOB'(0=1#0)",
    "call 11: reduce locks at 'BOB'() -> 3",
    "call 12: get at '*'(0=11#0)",
    "call 13: put at 'ALICE'()",
    "call 14: fold plus at 'BOB'(0=1#0)",
    "call 15: fold plus at 'BOB'(0=13#0)",
    "call 16: reduce plus at 'BOB'() -> 2",
    "call 17: get at '*'(0=16#0)",
    "call 18: fold plus at 'BOB'(0=1#0)",
    "call 19: reduce plus at 'BOB'()",
    "call 20: get at '*'(0=19#0)",
]
