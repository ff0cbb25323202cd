"""`put`, `get` with `parties=`, plain values, snapshots of what is put."""

import threading

import fed
from fed.testing.engines import fails, only

PARTIES = ["ALICE", "BOB", "CAROL"]


@fed.remote
def inside(x):
    # RayFed scripts read plain values in bodies.
    return fed.get(x)


@fed.remote
def length(x):
    return len(x)


def program(note):
    value = [1, {"k": [2]}]
    obj = fed.put(value, party="BOB")
    value[1]["k"].append(3)
    value.append("late")
    note("a snapshot", lambda: fed.get(obj))
    note("again", lambda: fed.get(obj))
    note("party", obj.party)
    note("to a call", lambda: fed.get(length.party("ALICE").remote(obj)))
    note("plain", lambda: fed.get([1, "x"]))
    note("in a body", lambda: fed.get(inside.party("CAROL").remote(obj)))
    note("for one", lambda: fed.get(obj, parties=["CAROL"]))
    note("for two", lambda: fed.get([obj, 5], parties=["CAROL", "ALICE", "CAROL"]))
    note("for all", lambda: fed.get(obj, parties=["BOB", "CAROL", "ALICE"]))
    note("with a limit", lambda: fed.get(obj, timeout=30))
    note("for a stranger", lambda: fed.get(obj, parties=["CAROLE"]))
    note("parties is a text", lambda: fed.get(obj, parties="CAROL"))
    note("limit is a text", lambda: fed.get(obj, timeout="1"))
    note("limit is negative", lambda: fed.get(obj, timeout=-1))
    note("to a stranger", lambda: fed.put(1, party="CAROLE"))
    note("put of an object", lambda: fed.put([obj], party="BOB"))
    locked = fed.put({"a": [threading.Lock()]}, party="ALICE")
    note("a lock", lambda: fed.get(locked))
    note("None", lambda: fed.get(fed.put(None, "ALICE")))


EXPECTED = {
    "a snapshot": [1, {"k": [2]}],
    "again": [1, {"k": [2]}],
    "party": "BOB",
    "to a call": 2,
    "plain": [1, "x"],
    "in a body": [1, {"k": [2]}],
    "for one": only(["CAROL"], [1, {"k": [2]}]),
    "for two": only(["ALICE", "CAROL"], [[1, {"k": [2]}], 5]),
    "for all": [1, {"k": [2]}],
    "with a limit": [1, {"k": [2]}],
    "for a stranger": fails("UnknownPartyError", party="CAROLE", text="'CAROL'"),
    "parties is a text": fails("UsageError", text="parties=['CAROL']"),
    "limit is a text": fails("UsageError", text="timeout"),
    "limit is negative": fails("UsageError", text="timeout"),
    "to a stranger": fails("UnknownPartyError", party="CAROLE"),
    "put of an object": fails("UsageError", text="fed objects"),
    "a lock": fails("ValueRefusedError", party="ALICE", type_name="_thread.lock"),
    "None": None,
}

RECORDS = [
    "call 1: put at 'BOB'()",
    "call 2: get at '*'(0=1#0)",
    "call 3: get at '*'(0=1#0)",
    "call 4: function length at 'ALICE'(0=1#0)",
    "call 5: get at '*'(0=4#0)",
    "call 6: function inside at 'CAROL'(0=1#0)",
    "call 7: get at '*'(0=6#0)",
    "call 8: get at 'CAROL'(0=1#0)",
    "call 9: get at 'ALICE,CAROL'(0=1#0)",
    "call 10: get at 'ALICE,BOB,CAROL'(0=1#0)",
    "call 11: get at '*'(0=1#0)",
    "call 12: put at 'ALICE'()",
    "call 13: get at '*'(0=12#0)",
    "call 14: put at 'ALICE'()",
    "call 15: get at '*'(0=14#0)",
]
