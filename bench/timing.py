"""Variants of the same work, timed in turns."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


def best_of(variants: Mapping[str, Callable[[], Any]], *, rounds: int = 5) -> dict[str, float]:
    """The least CPU seconds of each variant over `rounds` rounds, all variants in each round.

    Interleaved, so that a slow spell of the machine hits all of them; the least, because noise
    only ever adds. Garbage of one variant is collected before the next is timed.
    """
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(rounds):
        for name, work in variants.items():
            gc.collect()
            began = time.process_time()
            kept = work()
            spent = time.process_time() - began
            del kept
            best[name] = min(best[name], spent)
    return best


def report(what: str, **figures: Any) -> None:
    """Print one measurement as a JSON line."""
    line = {"what": what} | {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in figures.items()
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
