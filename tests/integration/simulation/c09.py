"""FIELD_CASES C09: N parties, one actor each that holds 100 kB, 5 rounds and an aggregate.

Prints one JSON line. Arguments: the number of parties, the seed, and the place of a party that
raises in round 3 (-1: none).
"""

from __future__ import annotations

import json
import resource
import sys
import threading
from pathlib import Path

import numpy as np

import fed

HELD = 100_000 // 8


@fed.remote
class Client:
    def __init__(self, place: int) -> None:
        self.held = fed.rng().random(HELD)
        self.place = place

    def train(self, w: float, round_number: int, broken: int) -> float:
        if round_number == 3 and self.place == broken:
            raise RuntimeError(f"round {round_number}")
        self.held *= 0.5
        self.held += w
        return float(self.held[self.place % HELD] + fed.rng().random())


@fed.remote
def mean(*updates: float) -> float:
    return float(np.mean(updates))


def children() -> int:
    tasks = Path("/proc/self/task").iterdir()
    return sum(len((task / "children").read_text().split()) for task in tasks)


def main(count: int, seed: int, broken: int) -> None:
    fed.init(parties={"server": 1, "client": count}, seed=seed, values_digest=True)
    parties = fed.parties("client-*")
    clients = [Client.party(party).remote(n) for n, party in enumerate(parties)]
    w = fed.put(1.0, party="server")
    values, error = [], None
    for round_number in range(1, 6):
        w = mean.party("server").remote(
            *[client.train.remote(w, round_number, broken) for client in clients]
        )
        try:
            values.append(fed.get(w).hex())
        except fed.FedRemoteError as caught:
            error = {"party": caught.party, "actor": caught.actor, "call": caught.call,
                     "name": caught.name, "site": caught.site, "text": str(caught),
                     "cause": repr(caught.__cause__)}  # fmt: skip
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"values": values, "error": error, "peak_bytes": peak,
                      "threads": threading.active_count(), "children": children()}))  # fmt: skip
    fed.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
