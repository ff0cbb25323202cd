"""What a call of the simulation engine costs, beside the plain loop that does the same.

python -m bench.simulation            all of it
python -m bench.simulation calls      one part: calls, rounds, million, fold, import
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import fed
from bench import timing

#: The bars of the project, as ratios to the plain loop (issue "A federated job runs").
BARS = {"call": 20.0, "4 KB array": 2.5, "dict of ten 4 KB arrays": 2.0, "400 KB array": 1.1}


class PlainClient:
    """What a script without parties would write."""

    def __init__(self, n: float) -> None:
        self.n = n

    def step(self, w: Any) -> Any:
        """One cheap step."""
        return w + self.n

    def step_all(self, w: dict[str, Any]) -> dict[str, Any]:
        """The same on a dict of arrays."""
        return {name: array + self.n for name, array in w.items()}


Client = fed.remote(PlainClient)


def _session(parties: int, **settings: Any) -> list[Any]:
    """A new session and an actor at each party."""
    fed.shutdown()
    fed.init(mode="simulation", parties={"server": 1, "client": parties}, **settings)
    return [Client.party(name).remote(1.0) for name in fed.parties("client-*")]


def calls() -> None:
    """A trivial call: sealed, with numbers, digest and call site, against the method itself."""
    costs = {parties: _calls(parties) for parties in (1_000, 10_000, 100_000, 1_000_000)}
    timing.report(
        "cost per party-call at 1M against 1k",
        ratio=costs[1_000_000] / costs[1_000],
        bar=1.5,
    )


def _calls(parties: int) -> float:
    """Seconds that one call costs whose argument crosses."""
    plain = [PlainClient(1.0) for _ in range(parties)]
    actors = _session(parties)
    w = 1.0
    sent = fed.put(w, party="server")
    local = [actor.step.remote(w) for actor in actors]
    best = timing.best_of(
        {
            "plain": lambda: [client.step(w) for client in plain],
            "literal": lambda: [actor.step.remote(w) for actor in actors],
            "crossing": lambda: [actor.step.remote(sent) for actor in actors],
            "chained": lambda: [
                actor.step.remote(obj) for actor, obj in zip(actors, local, strict=True)
            ],
        },
        rounds=5,
    )
    ways = ("literal", "crossing", "chained")
    timing.report(
        "trivial call",
        parties=parties,
        plain_ns=best["plain"] / parties * 1e9,
        crossing_ns=best["crossing"] / parties * 1e9,
        **{f"{way}_ratio": best[way] / best["plain"] for way in ways},
        bar=BARS["call"],
    )
    fed.shutdown()
    return best["crossing"] / parties


def rounds() -> None:
    """A fan-out round on arrays, sealed, against the plain loop."""
    small = np.ones(1_000, np.float32)
    _round("4 KB array", 20_000, small, "step")
    layers = {f"layer{i}": small + i for i in range(10)}
    _round("dict of ten 4 KB arrays", 2_000, layers, "step_all")
    _round("400 KB array", 500, np.ones(100_000, np.float32), "step")


def _round(what: str, parties: int, value: Any, method: str) -> None:
    plain = [PlainClient(1.0) for _ in range(parties)]
    actors = _session(parties)
    sent = fed.put(value, party="server")
    remotes = [getattr(actor, method) for actor in actors]
    bound = [getattr(client, method) for client in plain]
    best = timing.best_of(
        {
            "plain": lambda: [call(value) for call in bound],
            "sealed": lambda: [call.remote(sent) for call in remotes],
        },
        rounds=12,
    )
    timing.report(
        f"round: {what}",
        parties=parties,
        plain_us=best["plain"] / parties * 1e6,
        sealed_us=best["sealed"] / parties * 1e6,
        ratio=best["sealed"] / best["plain"],
        bar=BARS[what],
    )
    fed.shutdown()


def million() -> None:
    """A million parties, three calls each, in a process of its own: seconds, bytes a party."""
    _in_process("_million")


def _million() -> None:
    base = _resident_bytes()
    began = time.perf_counter()
    parties = 1_000_000
    actors = _session(parties)
    w: Any = fed.put(1.0, party="server")
    results: list[Any] = []
    for _ in range(3):
        results.clear()
        results += [actor.step.remote(w) for actor in actors]
    spent = time.perf_counter() - began
    size = _resident_bytes() - base
    assert fed.get(results[-1]) == 2.0
    timing.report(
        "1M parties x 3 calls",
        seconds=spent,
        bar_seconds=10.0,
        bytes_per_party=size / parties,
        bar_bytes=500,
    )


def fold() -> None:
    """A fold of 1,000 updates of 400 KB: most values alive at a time, above the base."""
    for how in ("generator", "hand"):
        _in_process(f"_fold_{how}")


def _fold_generator() -> None:
    def work(actors: list[Any], w: Any) -> Any:
        return fed.reduce(_counted_add, (actor.step.remote(w) for actor in actors), party="server")

    _fold(work, "fed.reduce with a generator")


def _fold_hand() -> None:
    add = fed.remote(_counted_add).party("server")

    def work(actors: list[Any], w: Any) -> Any:
        total = actors[0].step.remote(w)
        for actor in actors[1:]:
            total = add.remote(total, actor.step.remote(w))
        return total

    _fold(work, "by hand")


class Alive:
    """How many results of a fold are alive at a time, counted by the memory behind them."""

    def __init__(self) -> None:
        self._alive: dict[int, weakref.ref[Any]] = {}
        self.most = 0

    def add(self, value: Any) -> None:
        """Count a sealed array, a view of the one that its body made, until that one dies."""
        memory = value.base
        key = id(memory)
        if key not in self._alive:
            self._alive[key] = weakref.ref(memory, lambda _: self._alive.pop(key))


ALIVE = Alive()


def _counted_add(a: Any, b: Any) -> Any:
    ALIVE.add(a)
    ALIVE.add(b)
    made = a + b
    # With this one, which nobody may refer to weakly yet: it would be copied when it is sealed.
    ALIVE.most = max(ALIVE.most, len(ALIVE._alive) + 1)
    return made


def _fold(work: Callable[[list[Any], Any], Any], how: str) -> None:
    fed.init(mode="simulation", parties={"server": 1, "client": 1_000})
    actors = [Client.party(name).remote(1.0) for name in fed.parties("client-*")]
    w = fed.put(np.zeros(100_000, np.float32), party="server")
    work(actors, w)  # what is made once (methods, imports) is not part of a fold
    ALIVE.most = 0
    tracemalloc.start()
    base, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    total = work(actors, w)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert float(fed.get(total)[0]) == 1_000.0
    timing.report(
        f"fold of 1000 x 400 KB {how}",
        values_alive=ALIVE.most,
        bar=3,
        peak_values_with_records=(peak - base) / 400_000,
    )


def imports() -> None:
    """Seconds that `import fed` takes, against numpy; interleaved, best of ten."""
    code = "import time; t = time.perf_counter(); import {0}; print(time.perf_counter() - t)"
    best = {"fed": float("inf"), "numpy": float("inf")}
    for _ in range(10):
        for module in best:
            command = [sys.executable, "-c", code.format(module)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            best[module] = min(best[module], float(done.stdout))
    use = "import fed; fed.remote; fed.init; fed.get; fed.WITHHELD; fed.FedError"
    loaded = subprocess.run(
        [sys.executable, "-c", f"{use}; import sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    heavy = {"numpy", "ray", "kubernetes", "pydantic", "cryptography"}
    timing.report(
        "import",
        fed_ms=best["fed"] * 1e3,
        numpy_ms=best["numpy"] * 1e3,
        ratio=best["fed"] / best["numpy"],
        bar=0.5,
        heavy_modules_loaded=sorted(heavy & set(loaded)),
    )


def _in_process(part: str) -> None:
    command = [sys.executable, "-m", "bench.simulation", part]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        figures = json.loads(line)
        timing.report(figures.pop("what"), **figures)


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


PARTS: dict[str, Callable[[], None]] = {
    "calls": calls,
    "rounds": rounds,
    "million": million,
    "fold": fold,
    "import": imports,
    "_million": _million,
    "_fold_generator": _fold_generator,
    "_fold_hand": _fold_hand,
}


def main() -> None:
    """Run the parts named on the command line, all of them by default."""
    for part in sys.argv[1:] or [name for name in PARTS if not name.startswith("_")]:
        PARTS[part]()


if __name__ == "__main__":
    main()
