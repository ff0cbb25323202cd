"""A simulated call beside a Ray actor call, same body, same array, in one process.

python -m bench.comparisons ray       in an environment with Ray; or, where Ray is installed:
python -m bench.with_ray

Both are timed by the clock on the wall, since Ray's work is done in other processes. Ray's calls
get the array itself rather than a reference to a put one, which is the quicker way at this size.
"""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import fed
from bench import timing

#: The bar of the project: a client's call is at least this many times cheaper than with Ray.
BAR = 200.0
PARTIES = 1_000
#: One call after the other: fewer suffice, and each is slow.
ONE_BY_ONE = 200
#: Our rounds in a turn, so that a turn lasts some tenths of a second, as one of Ray's does.
REPEATS = 50
ROUNDS = 7
GET_TIMEOUT_S = 120.0
#: Nothing is reported to anybody, all of Ray listens on the loopback address alone (what Ray does
#: by default on macOS and Windows), and the token that it asks for is this run's own: by itself it
#: would keep one in the home directory, where it changes what later runs of Ray do.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    # Only for quiet: Ray warns where this is unset, though there is no accelerator in any of this.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
#: For `ray.init`: two workers, as on the smallest machine that this runs on; room for what is in
#: flight; nothing on the terminal but the figures.
ARGUMENTS: dict[str, Any] = {
    "num_cpus": 2,
    "object_store_memory": 200 * 1024 * 1024,
    "include_dashboard": False,
    "log_to_driver": False,
    "logging_level": "ERROR",
}


class PlainClient:
    """What a script without parties would write."""

    def __init__(self, n: float) -> None:
        self.n = n

    def step(self, w: Any) -> Any:
        """One cheap step."""
        return w + self.n


class RayClient:
    """The same for Ray: `ray.remote` adds a parameter to the methods of the class it is given."""

    def __init__(self, n: float) -> None:
        self.n = n

    def step(self, w: Any) -> Any:
        """One cheap step."""
        return w + self.n


class RayHost:
    """Many clients in one Ray actor."""

    def __init__(self, parties: int) -> None:
        self.clients = [RayClient(1.0) for _ in range(parties)]

    def step(self, i: int, w: Any) -> Any:
        """The step of client `i`."""
        return self.clients[i].step(w)


Client = fed.remote(PlainClient)


@contextlib.contextmanager
def short_folder() -> Iterator[str]:
    """A folder that goes with the block, for Ray's files: its sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as path:
        yield path


@contextlib.contextmanager
def ray_running() -> Iterator[Any]:
    """Ray, started by this process and ended with the block.

    Yields:
        the module `ray`.
    """
    os.environ.update(SETTINGS)
    import ray

    with short_folder() as folder:
        ray.init(address="local", _temp_dir=folder, **ARGUMENTS)
        try:
            yield ray
        finally:
            ray.shutdown()


def best_of(variants: Mapping[str, Callable[[], Any]], *, rounds: int) -> dict[str, float]:
    """The least real seconds of each variant over `rounds` rounds, all variants in each round.

    As `timing.best_of`, by the clock on the wall.
    """
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(rounds):
        for name, work in variants.items():
            gc.collect()
            began = time.perf_counter()
            kept = work()
            spent = time.perf_counter() - began
            del kept
            best[name] = min(best[name], spent)
    return best


def compare(ray: Any, body: str, value: Any) -> None:
    """Report a client's call in three ways of using Ray, each beside the sealed call.

    Args:
        ray: the module, connected.
        body: what the value is, for the report.
        value: what every client's step gets.
    """
    fed.init(mode="simulation", parties={"server": 1, "client": PARTIES})
    actors = [Client.party(name).remote(1.0) for name in fed.parties("client-*")]
    sent = fed.put(value, party="server")

    single = ray.remote(num_cpus=0)(RayClient).remote(1.0)
    host = ray.remote(num_cpus=0)(RayHost).remote(PARTIES)
    # Both actors are up, and what either side makes once is made.
    ray.get([single.step.remote(value), host.step.remote(0, value)], timeout=GET_TIMEOUT_S)
    fed.get([actor.step.remote(sent) for actor in actors])

    def one_by_one() -> None:
        for _ in range(ONE_BY_ONE):
            ray.get(single.step.remote(value), timeout=GET_TIMEOUT_S)

    def pipelined() -> Any:
        return ray.get([single.step.remote(value) for _ in range(PARTIES)], timeout=GET_TIMEOUT_S)

    def hosted() -> Any:
        return ray.get([host.step.remote(i, value) for i in range(PARTIES)], timeout=GET_TIMEOUT_S)

    def sealed() -> None:
        for _ in range(REPEATS):
            _ = [actor.step.remote(sent) for actor in actors]

    def sealed_and_got() -> None:
        for _ in range(REPEATS):
            fed.get([actor.step.remote(sent) for actor in actors])

    best = best_of(
        {
            "one by one": one_by_one,
            "sealed": sealed,
            "pipelined": pipelined,
            "sealed, got": sealed_and_got,
            "hosted": hosted,
        },
        rounds=ROUNDS,
    )
    fed.shutdown()

    # When the sealed call returns, its body has run and the result is where the script's next call
    # finds it. What is got is encoded as well, for the run report: a script that gets each result
    # pays for that too, so the ratio with `fed.get` stands beside the other.
    sealed_us = best["sealed"] / (PARTIES * REPEATS) * 1e6
    got_us = best["sealed, got"] / (PARTIES * REPEATS) * 1e6
    for what, way, calls in (
        ("Ray actor call and get, one by one", "one by one", ONE_BY_ONE),
        ("Ray actor calls, pipelined", "pipelined", PARTIES),
        ("1,000 parties hosted in one Ray actor, a call each", "hosted", PARTIES),
    ):
        ray_us = best[way] / calls * 1e6
        timing.report(
            f"beside {what}: {body}",
            ray=ray.__version__,
            ray_us=ray_us,
            sealed_us=sealed_us,
            ratio=ray_us / sealed_us,
            # The bar is for a call and its get; the other ways show what is left of it at best.
            **({"bar": BAR} if way == "one by one" else {}),
            sealed_with_get_us=got_us,
            ratio_with_get=ray_us / got_us,
        )


def main() -> None:
    """Start Ray, compare, end Ray."""
    with ray_running() as ray:
        compare(ray, "a number", 1.0)
        compare(ray, "4 KB array", np.ones(1_000, np.float32))


if __name__ == "__main__":
    main()
