"""ALICE in a process of her own, whose memory, threads and descriptors can be counted.

Prints her address; answers BOB's honest transfer by herself. Told `want CALL` she waits for CAROL's
value of that call; told `state` she prints what she costs. Her log goes to stderr.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from pathlib import Path

from tests.integration.attacks import scenes

from fed import errors
from fed.observe import memory
from fed.testing import certificates
from fed.transport import endpoint, identity


def main() -> None:
    folder, told = Path(sys.argv[1]), json.loads(sys.argv[2])
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    peers = told.pop("peers")
    files = identity.Files(
        certificate=folder / "own.pem",
        key=folder / "own.key",
        peers=dict.fromkeys(["BOB", *peers]),
        authority=folder / "ca.pem",
    )
    end = endpoint.Endpoint(
        "ALICE", certificates.FEDERATION, scenes.JOB, peers=dict.fromkeys(["BOB", *peers]),
        listen="127.0.0.1:0",
        identity=identity.Identity(files, federation=certificates.FEDERATION, party="ALICE"),
        settings=endpoint.Settings(**told),
    )  # fmt: skip
    end.listen()
    try:
        end.start(0.0)
    except errors.PartyError:
        print(end.address, flush=True)

    def answer(request):
        n = request.number
        end.send(scenes.answer_to(request.taken()[0]), to="BOB", number=n, call=n)
        end.expect([("BOB", n + 1, 0)], number=n + 1, done=answer)

    end.expect([("BOB", 1, 0)], number=1, done=answer)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "want":
            end.expect([("CAROL", int(rest[0]), 0)], number=1_000_000 + int(rest[0]))
            print("{}", flush=True)
        elif word == "state":
            state = {
                "peak": memory.peak_bytes(),
                "resident": memory.resident_bytes(),
                "threads": threading.active_count(),
                "descriptors": len(os.listdir("/dev/fd")),
                "strangers": end._listener.strangers,
            }
            print(json.dumps(state), flush=True)


if __name__ == "__main__":
    main()
