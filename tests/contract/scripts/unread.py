"""Errors that nobody read are told at the end, each failure once."""

import fed

PARTIES = ["ALICE", "BOB"]


@fed.remote
def broken(x=None):
    raise ValueError("x")


@fed.remote
def value(x):
    return x


def program(note):
    unread = broken.party("ALICE").remote()
    value.party("BOB").remote(unread)
    read = broken.party("BOB").remote()
    consumer = value.party("ALICE").remote(read)
    try:
        fed.get(consumer)
    except fed.FedRemoteError as error:
        note("read through its consumer", error.party)
    broken.party("BOB").options(num_returns=2).remote()
    fed.put({"x": lambda: 1}, party="ALICE")


EXPECTED = {"read through its consumer": "BOB"}
#: `unread`, and the call with two returns; not what may not cross, for nobody asked for it.
UNREAD = 2
