"""What is sent: the payloads, made alike in every process, and the proof that they arrived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

#: Most bytes of a payload that are random; larger ones repeat them.
_RANDOM_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """One row of the bench.

    Attributes:
        title: for the table.
        make: the value.
        count: how often it is sent per round.
        window: how many are on their way at most.
        is_chained: the next is sent by whoever learns first that one is there; else by the thread
            that waits for that.
        beside_copy: measured beside the C copy too: nearly all of it is bytes.
    """

    title: str
    make: Callable[[], Any]
    count: int
    window: int = 1
    is_chained: bool = False
    beside_copy: bool = False


def _floats(*shape: int) -> np.ndarray[Any, Any]:
    """Normal float32 numbers of that shape, touched memory of their own."""
    size = int(np.prod(shape))
    some = np.random.default_rng(size).standard_normal(
        min(size, _RANDOM_BYTES // 4), dtype=np.float32
    )
    return np.resize(some, shape)


def _dict_of_50(each: int) -> dict[str, Any]:
    return {f"w{n}": _floats(each) for n in range(50)}


def _small_dicts() -> list[dict[str, Any]]:
    return [
        {"id": n, "name": f"user{n}", "score": n * 0.5, "ok": n % 2 == 0} for n in range(10_000)
    ]


def _state_dict() -> dict[str, Any]:
    """The weights of a small transformer: 73 float32 arrays, 97 MB."""
    found = {"emb": _floats(8000, 384)}
    for n in range(12):
        found[f"l{n}.qkv"] = _floats(384, 1152)
        found[f"l{n}.o"] = _floats(384, 384)
        found[f"l{n}.up"] = _floats(384, 1536)
        found[f"l{n}.down"] = _floats(1536, 384)
        found[f"l{n}.ln"] = _floats(384)
        found[f"l{n}.b"] = _floats(1536)
    return found


SCALAR: Final = 3.25
GIGABYTE: Final = Payload(title="1 GB array", make=lambda: _floats(250_000_000), count=1)
PAYLOADS: Final = {
    "scalar": Payload(title="scalar, one at a time", make=lambda: SCALAR, count=300),
    "scalar-chained": Payload(
        title="scalar, no thread woken", make=lambda: SCALAR, count=300, is_chained=True
    ),
    "kilobyte": Payload(
        title="1 KB, 64 on their way", make=lambda: bytes(range(256)) * 4, count=3000, window=64
    ),
    "kilobyte-1000": Payload(
        title="1 KB, 1000 on their way", make=lambda: bytes(range(256)) * 4, count=6000, window=1000
    ),
    "dicts": Payload(title="10k small dicts", make=_small_dicts, count=10),
    "arrays-10": Payload(
        title="50 arrays, 10 MB", make=lambda: _dict_of_50(50_000), count=10, beside_copy=True
    ),
    "arrays-100": Payload(
        title="50 arrays, 100 MB", make=lambda: _dict_of_50(500_000), count=2, beside_copy=True
    ),
    "state-dict": Payload(title="state dict, 97 MB", make=_state_dict, count=2, beside_copy=True),
    "gigabyte": GIGABYTE,
}


def use(value: Any) -> float:
    """What a receiver does with a value: it reads the end of it."""
    while isinstance(value, dict):
        value = next(reversed(value.values()))
    if isinstance(value, np.ndarray):
        return float(value.reshape(-1)[-1])
    return float(len(value)) if isinstance(value, (list, bytes)) else float(value)
