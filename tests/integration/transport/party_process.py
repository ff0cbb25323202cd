"""BOB in a process of his own, for what can only be done to a process. See `ends.Process`.

Prints his address, then "up", then answers: the value of ALICE's call N comes back as the value of
his call N. What he is told on stdin, word by word: `hold SECONDS` holds the interpreter's lock,
`stop` stops taking values, `peak` prints the process' peak memory in bytes, `end` shuts down.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from pathlib import Path

from tests.integration.transport import ends

from fed.observe import memory
from fed.transport import events


def main() -> None:
    folder, told = Path(sys.argv[1]), json.loads(sys.argv[2])
    echoes = told.pop("echo", True)
    gone = threading.Event()

    def heard(party, event):
        if isinstance(event, events.Failed):
            print("failed", type(event.error).__name__, event.error, flush=True)
            gone.set()

    end = ends.make_end(folder, "BOB", {"ALICE": None}, heard=heard, **told)
    end.listen()
    print(end.address, flush=True)
    end.start(20)
    print("up", flush=True)

    def answer(request):
        values = request.taken()
        number = request.number
        end.send(values[0], to="ALICE", number=number, call=number)
        expect(number + 1)

    def expect(number):
        end.expect([("ALICE", number, 0)], number=number, done=answer)

    if echoes:
        expect(1)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "hold":
            # PyDLL keeps the lock during the call, as a body in C may.
            ctypes.PyDLL(None).usleep(int(float(rest[0]) * 1e6))
            print("held", flush=True)
        elif word == "peak":
            print(memory.peak_bytes(), flush=True)
        elif word == "take":
            for number in range(int(rest[0]), int(rest[1])):
                end.receive("ALICE", number, number=number, timeout_s=60)
            print("taken", flush=True)
        elif word == "end":
            end.shutdown(20)
            print("ended", flush=True)
            return


if __name__ == "__main__":
    main()
