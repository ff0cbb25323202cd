"""What the isolation levels `check` and `process` cost, per call and per party.

python -m bench.isolation             prints one JSON line per measurement
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import Any

import numpy as np

import fed
from bench import timing

CALLS = 500

counter = 0
config = {"rate": 0.1, "layers": [64, 10]}
table = np.zeros((64, 10))


def helper(w: Any) -> Any:
    """Another function of the script."""
    return w * config["rate"] + table[0, 0]


class Base:
    """A class of the script that is no actor."""

    steps = 0

    def step(self, w: Any) -> Any:
        """One cheap step."""
        self.steps += 1
        return helper(w)


@fed.remote
class Client(Base):
    """Ten methods, one of them called."""

    def __init__(self, n: float) -> None:
        self.n = n

    def train(self, w: Any) -> Any:
        """One cheap step."""
        return self.step(w) + self.n

    def one(self) -> None:
        """Not called."""

    def two(self) -> None:
        """Not called."""

    def three(self) -> None:
        """Not called."""

    def four(self) -> None:
        """Not called."""

    def five(self) -> None:
        """Not called."""


def _start(level: str, parties: int) -> list[str]:
    fed.shutdown()
    fed.init(mode="simulation", parties={"client": parties}, isolation=level)
    return fed.parties("client-*")


def calls() -> None:
    """A call with an array of 5 kB, at each level."""
    w = np.zeros((64, 10))
    for level in ("sealed", "check", "process"):
        best = float("inf")
        for _ in range(5):
            names = _start(level, 10)
            clients = [Client.party(name).remote(1.0) for name in names]
            began = time.perf_counter()
            for _ in range(CALLS // len(clients)):
                for client in clients:
                    client.train.remote(w)
            best = min(best, time.perf_counter() - began)
        timing.report(f"call with a 5 kB array, {level}", us=best / CALLS * 1e6)


def check_by_size() -> None:
    """A checked call of a script that keeps much in its globals."""
    script = globals()
    for name, kept in (
        ("100,000 objects in a list", [[n] for n in range(100_000)]),
        ("a list of 1,000,000 numbers", list(range(1_000_000))),
        ("an array of 100 MB", np.zeros(100_000_000 // 8)),
    ):
        script["kept"] = kept
        (name_of_party, *_) = _start("check", 2)
        client = Client.party(name_of_party).remote(1.0)
        began = time.perf_counter()
        for _ in range(20):
            client.train.remote(1.0)
        timing.report(f"checked call beside {name}", us=(time.perf_counter() - began) / 20 * 1e6)
        del script["kept"]


def parties(count: int = 10_000) -> None:
    """A party of its own: class of ten methods, two functions, a table of 5 kB."""
    names = _start("process", count)
    gc.collect()
    began = time.perf_counter()
    clients = [Client.party(name).remote(1.0) for name in names]
    timing.report(
        f"first call of {count} parties, each", us=(time.perf_counter() - began) / count * 1e6
    )
    del clients
    names = _start("process", count)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    clients = [Client.party(name).remote(1.0) for name in names[:1000]]
    size = (tracemalloc.get_traced_memory()[0] - before) / len(clients)
    tracemalloc.stop()
    timing.report("memory of a party", kb=size / 1000)
    fed.shutdown()


if __name__ == "__main__":
    # The script's state is looked for in the main module: bodies run as those of `__main__`.
    calls()
    check_by_size()
    parties()
