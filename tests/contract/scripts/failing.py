"""Errors: the outcome of the call, of every consumer, unchanged; the lowest-numbered one wins."""

import threading

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB", "CAROL"]


class OwnError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@fed.remote
def broken(text):
    raise ValueError(text)


@fed.remote
def own():
    raise OwnError(threading.Lock())


@fed.remote
def stops(kind):
    raise {"stop": StopIteration, "exit": SystemExit, "base": BaseException}[kind]("x")


@fed.remote
def value(x=None, *more, **named):
    RAN.append(x)
    return x


class Private:
    """Picklable, and in no type table."""


@fed.remote
def private():
    return Private()


RAN = []


def program(note):
    one = broken.party("ALICE").remote("one")
    two = broken.party("BOB").remote("two")
    note("raised", lambda: fed.get(one))
    note("raised again", lambda: fed.get(one))
    consumer = value.party("CAROL").remote(two, [one])
    note("lowest, wherever it stands", lambda: fed.get(consumer))
    note("by name", lambda: fed.get(value.party("CAROL").remote(two, z=one, a=two)))
    note("through three parties", lambda: fed.get(value.party("BOB").remote(consumer)))
    three = value.party("ALICE").remote(two)
    note(
        "lowest object, not lowest error", lambda: fed.get(value.party("ALICE").remote(three, one))
    )
    # `three` is call 11 and failed by call 2's error; the object with the lowest number decides.
    note("get of many", lambda: fed.get([three, {"x": two}]))
    note("get of all", lambda: fed.get((two, one)))
    note("does not run", list(RAN))
    refused = private.party("ALICE").remote()
    note("a refusal counts as failed", lambda: fed.get([broken.party("BOB").remote("x"), refused]))
    later = broken.party("BOB").remote("later")
    note("in a call too", lambda: fed.get(value.party("CAROL").remote(later, refused)))
    note("own error", lambda: fed.get(own.party("ALICE").remote()))
    for kind in ("stop", "exit", "base"):
        note(kind, lambda kind=kind: fed.get(stops.party("BOB").remote(kind)))
    note("a handle as a value", lambda: bool(one))
    note("iterated", lambda: list(one))
    note("measured", lambda: len(one))
    note("still working", lambda: fed.get(value.party("ALICE").remote("fine")))
    note("later", lambda: fed.get(later))


EXPECTED = {
    "raised": fails(
        "FedRemoteError", party="ALICE", call=1, name="broken", actor=None, type_name="ValueError",
        detail="", level="type", cause="ValueError",
    ),
    "raised again": fails("FedRemoteError", same_as="raised"),
    "lowest, wherever it stands": fails("FedRemoteError", same_as="raised"),
    "by name": fails("FedRemoteError", same_as="raised"),
    "through three parties": fails("FedRemoteError", same_as="raised"),
    "lowest object, not lowest error": fails("FedRemoteError", same_as="raised"),
    "get of many": fails("FedRemoteError", party="BOB", call=2),
    "get of all": fails("FedRemoteError", same_as="raised"),
    "does not run": [],
    "a refusal counts as failed": fails("ValueRefusedError", party="ALICE", path="result"),
    "in a call too": fails("ValueRefusedError", party="ALICE", path="result"),
    "own error": fails("FedRemoteError", type_name="OwnError", cause="OwnError"),
    "stop": fails("FedRemoteError", type_name="StopIteration"),
    "exit": fails("FedRemoteError", type_name="SystemExit"),
    "base": fails("FedRemoteError", type_name="BaseException"),
    "a handle as a value": fails("HandleError", text="fed.get"),
    "iterated": fails("HandleError", text="fed.get"),
    "measured": fails("HandleError", text="fed.get"),
    "still working": "fine",
    "later": fails("FedRemoteError", party="BOB"),
}  # fmt: skip

#: The second error of `a refusal counts as failed`.
UNREAD = 1
