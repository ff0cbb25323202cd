"""`reduce`: lazily, in order, in blocks of 1024, the same bits everywhere."""

import math
import struct

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB", "CAROL"]

#: Sums of these depend on the order of addition.
FLOATS = [math.sin(n) * 10.0 ** (n % 17 - 8) for n in range(2500)]


def plus(a, b):
    return a + b


def append(a, b):
    a.append(b)
    return a


def nest(a, b):
    return (a, b)


def broken(a, b):
    if b == 3:
        raise ZeroDivisionError("at three")
    return a + b


@fed.remote
def value(x):
    return x


@fed.remote
def fails_here(x):
    raise KeyError(x)


def blocks(values, initial=None):
    """The definition, plainly."""
    total = None
    for start in range(0, len(values), 1024):
        block = values[start : start + 1024]
        if start == 0 and initial is not None:
            block = [initial, *block]
        folded = block[0]
        for item in block[1:]:
            folded = folded + item
        total = folded if total is None else total + folded
    return total


def bits(x):
    return struct.pack("<d", x).hex()


def program(note):
    parties = ["ALICE", "BOB"]
    made = []

    def objects(values):
        for n, item in enumerate(values):
            made.append(n)
            yield value.party(parties[n % 2]).remote(item)

    for count in (1, 2, 1023, 1024, 1025, 2048, 2500):
        total = fed.reduce(plus, objects(FLOATS[:count]), party="CAROL")
        note(f"bits of {count}", lambda total=total: bits(fed.get(total)))
    note("left to right is another sum", bits(sum(FLOATS[1:], FLOATS[0])) != bits(blocks(FLOATS)))
    total = fed.reduce(plus, objects(FLOATS), party="CAROL", initial=1e9)
    note("initial first", lambda: bits(fed.get(total)))
    few = [value.party("ALICE").remote(n) for n in range(4)]
    note("order", lambda: fed.get(fed.reduce(nest, few, party="BOB")))
    note("in place", lambda: fed.get(fed.reduce(append, iter(few), party="BOB", initial=[])))
    note("initial alone", lambda: fed.get(fed.reduce(plus, [], party="BOB", initial=7)))
    note("None is a value", lambda: fed.get(fed.reduce(nest, few[:1], party="BOB", initial=None)))
    note("one", lambda: fed.get(fed.reduce(plus, few[2:3], party="BOB")))
    note("feeds a call", lambda: fed.get(value.party("ALICE").remote(total.party)))
    failed = fed.reduce(broken, few + few, party="BOB")
    note("op raised", lambda: fed.get(failed))
    note("for its consumer too", lambda: fed.get(value.party("ALICE").remote(failed)))
    early = fails_here.party("ALICE").remote("early")
    late = fails_here.party("BOB").remote("late")
    mixed = fed.reduce(plus, [few[0], late, few[1], early], party="CAROL")
    note("lowest failed object", lambda: fed.get(mixed))
    note("late", lambda: fed.get(late))
    note("no objects", lambda: fed.reduce(plus, [], party="BOB"))
    note("no fed object", lambda: fed.reduce(plus, [few[0], 5], party="BOB"))
    note("op is remote", lambda: fed.reduce(value, few, party="BOB"))
    note("op is none", lambda: fed.reduce(None, few, party="BOB"))
    note("stranger", lambda: fed.reduce(plus, few, party="EVE"))
    note("taken lazily", len(made))


EXPECTED = {
    **{f"bits of {n}": bits(blocks(FLOATS[:n])) for n in (1, 2, 1023, 1024, 1025, 2048, 2500)},
    "left to right is another sum": True,
    "initial first": bits(blocks(FLOATS, 1e9)),
    "order": (((0, 1), 2), 3),
    "in place": [0, 1, 2, 3],
    "initial alone": 7,
    "None is a value": (None, 0),
    "one": 2,
    "feeds a call": "CAROL",
    "op raised": fails("FedRemoteError", party="BOB", type_name="ZeroDivisionError", name="broken"),
    "for its consumer too": fails("FedRemoteError", same_as="op raised"),
    "lowest failed object": fails("FedRemoteError", party="ALICE", type_name="KeyError"),
    "late": fails("FedRemoteError", party="BOB", type_name="KeyError"),
    "no objects": fails("UsageError", text="initial"),
    "no fed object": fails("UsageError", text="5"),
    "op is remote": fails("UsageError", text="plain function"),
    "op is none": fails("UsageError", text="plain function"),
    "stranger": fails("UnknownPartyError", party="EVE"),
    "taken lazily": 1 + 2 + 1023 + 1024 + 1025 + 2048 + 2500 + 2500,
}
