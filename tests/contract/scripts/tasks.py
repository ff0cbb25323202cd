"""Functions: values and fed objects as arguments, by position and by name, defaults, the record."""

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


@fed.remote
def add(a, b=10, *rest, scale=1, **more):
    return (a + b + sum(rest) + sum(more.values())) * scale


@fed.remote
def pair(left, right):
    return [left, right]


@fed.remote
def nothing():
    return None


def plain(x):
    return x


remote_plain = fed.remote(plain)
with_options = fed.remote(num_cpus=1, name="n")(plain)


def program(note):
    one = add.party("ALICE").remote(1)
    note("default", lambda: fed.get(one))
    note("nothing", lambda: fed.get(nothing.party("BOB").remote()))
    note("mixed", lambda: fed.get(add.party("BOB").remote(one, one, one, scale=2, z=1, y=one)))
    note("by position", lambda: fed.get(pair.party("BOB").remote(one, 5)))
    note("by name", lambda: fed.get(pair.party("BOB").remote(right=5, left=one)))
    note("half", lambda: fed.get(pair.party("BOB").remote(one, right=5)))
    note("same object twice", lambda: fed.get(pair.party("BOB").remote(one, one)))
    note("plain", lambda: fed.get(remote_plain.party("ALICE").remote({"a": (1, 2.5)})))
    at_bob = with_options.party("BOB")
    note("options keep the party", lambda: fed.get(at_bob.options(num_cpus=2).remote("x")))
    note("party", one.party + one.get_party())
    note("too few", lambda: pair.party("BOB").remote(1))
    note("too many", lambda: pair.party("BOB").remote(1, 2, 3))
    note("unknown name", lambda: pair.party("BOB").remote(1, wrong=3))
    note("no party", lambda: add.remote(1))
    note("called directly", lambda: add(1))
    note("bad party", lambda: add.party("EVE").remote(1))
    note("after the misuse", lambda: fed.get(add.party("ALICE").remote(1, 1)))


EXPECTED = {
    "default": 11,
    "nothing": None,
    "mixed": (11 + 11 + 11 + 1 + 11) * 2,
    "by position": [11, 5],
    "by name": [11, 5],
    "half": [11, 5],
    "same object twice": [11, 11],
    "plain": {"a": (1, 2.5)},
    "options keep the party": "x",
    "party": "ALICEALICE",
    "too few": fails("TypeError", text="right"),
    "too many": fails("TypeError", text="pair"),
    "unknown name": fails("TypeError", text="wrong"),
    "no party": fails("MissingPartyError", text="add.party('NAME').remote(...)"),
    "called directly": fails("UsageError", text=".party('NAME').remote(...)"),
    "bad party": fails("UnknownPartyError", party="EVE"),
    "after the misuse": 2,
}

#: What goes wrong at the call takes no number.
RECORDS = [
    "call 1: function add at 'ALICE'()",
    "call 2: get at '*'(0=1#0)",
    "call 3: function nothing at 'BOB'()",
    "call 4: get at '*'(0=3#0)",
    "call 5: function add at 'BOB'(0=1#0, 1=1#0, 2=1#0, y=1#0)",
    "call 6: get at '*'(0=5#0)",
    "call 7: function pair at 'BOB'(0=1#0)",
    "call 8: get at '*'(0=7#0)",
    "call 9: function pair at 'BOB'(0=1#0)",
    "call 10: get at '*'(0=9#0)",
    "call 11: function pair at 'BOB'(0=1#0)",
    "call 12: get at '*'(0=11#0)",
    "call 13: function pair at 'BOB'(0=1#0, 1=1#0)",
    "call 14: get at '*'(0=13#0)",
    "call 15: function plain at 'ALICE'()",
    "call 16: get at '*'(0=15#0)",
    "call 17: function plain at 'BOB'()",
    "call 18: get at '*'(0=17#0)",
    "call 19: function add at 'ALICE'()",
    "call 20: get at '*'(0=19#0)",
]
