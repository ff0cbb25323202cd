"""`error_detail: message`: the original text is let out, as the cause too."""

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]
SETTINGS = {"error_detail": "message"}


class OwnError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@fed.remote
def broken():
    raise ValueError("the original text")


@fed.remote
def textless():
    raise OwnError


def program(note):
    obj = broken.party("ALICE").remote()
    note("error", lambda: fed.get(obj))
    try:
        fed.get(obj)
    except fed.FedRemoteError as error:
        note("cause", [type(error.cause).__name__, str(error.cause), error.src_party])
    note("no text to be had", lambda: fed.get(textless.party("BOB").remote()))


EXPECTED = {
    "error": fails(
        "FedRemoteError", type_name="ValueError", detail="the original text", level="message",
        text="the original text",
    ),
    "cause": ["RemoteCause", "ValueError: the original text", "ALICE"],
    "no text to be had": fails("FedRemoteError", type_name="OwnError", party="BOB"),
}  # fmt: skip
