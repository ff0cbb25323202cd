"""A simulated round beside a round of Flower's simulation: same clients, same model, one process.

python -m bench.comparisons flower    in an environment with Flower; or, where it is installed:
python -m bench.with_flower

A trivial `train`, so that what is compared is what a client costs beside its training. Flower's
rounds are made of messages on its grid, without a strategy, which is its quickest way.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

import fed
from bench import timing, with_ray

#: The bar of the project: a client's part in a round is at least this many times cheaper.
BAR = 500.0
CLIENTS = 500
#: The first round starts Ray's workers; it is reported apart.
ROUNDS = 5
#: Our rounds in a turn, so that a turn lasts some tenths of a second too.
REPEATS = 50
ROUND_TIMEOUT_S = 300.0
START_TIMEOUT_S = 120.0
#: Nothing is reported to anybody.
SETTINGS = with_ray.SETTINGS | {"FLWR_TELEMETRY_ENABLED": "0"}

Client = fed.remote(with_ray.PlainClient)


def mean(updates: Sequence[Any]) -> Any:
    """The mean of the updates."""
    total = np.zeros_like(updates[0])
    for update in updates:
        total += update
    return total / len(updates)


class FederatedRounds:
    """Our session, with an actor at each client."""

    def __init__(self) -> None:
        fed.init(mode="simulation", parties={"server": 1, "client": CLIENTS})
        self._actors = [Client.party(name).remote(1.0) for name in fed.parties("client-*")]
        self._mean = fed.remote(mean).party("server")

    def updates(self, w: Any) -> list[Any]:
        """The clients' updates of `w`, as fed objects: the bodies have run."""
        sent = fed.put(w, party="server")
        return [actor.step.remote(sent) for actor in self._actors]

    def mean(self, updates: list[Any]) -> Any:
        """The new model, made at the server, got."""
        return fed.get(self._mean.remote(updates))


class FlowerRounds:
    """Flower's grid, whose nodes are all there."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(nodes := list(grid.get_node_ids())) < CLIENTS:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(nodes)} of {CLIENTS} nodes after {START_TIMEOUT_S:g} s")
            time.sleep(0.05)
        self._nodes = nodes

    def updates(self, w: Any) -> list[Any]:
        """The clients' replies to `w`, all of them good."""
        from flwr import app

        content = app.RecordDict({"model": app.ArrayRecord([w])})
        messages = [
            app.Message(content=content, dst_node_id=node, message_type=app.MessageType.TRAIN)
            for node in self._nodes
        ]
        replies = list(self._grid.send_and_receive(messages, timeout=ROUND_TIMEOUT_S))
        failed = sum(reply.has_error() for reply in replies)
        if failed or len(replies) < CLIENTS:
            raise RuntimeError(f"{len(replies)} of {CLIENTS} clients replied, {failed} with errors")
        return replies

    def mean(self, updates: list[Any]) -> Any:
        """The new model."""
        return mean([reply.content["model"].to_numpy_ndarrays()[0] for reply in updates])


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of an engine: the model, seconds a client for its part, and for the whole round."""

    model: Any
    clients_s: float
    round_s: float


def turn(rounds: FederatedRounds | FlowerRounds, w: Any, *, repeats: int) -> Turn:
    """The same round, `repeats` times, on average."""
    clients = whole = 0.0
    model = None
    for _ in range(repeats):
        began = time.perf_counter()
        updates = rounds.updates(w)
        clients += time.perf_counter() - began
        model = rounds.mean(updates)
        whole += time.perf_counter() - began
    each = repeats * CLIENTS
    return Turn(model=model, clients_s=clients / each, round_s=whole / each)


def compare(flower: FlowerRounds, ours: FederatedRounds) -> None:
    """Report a client's part in a round, turns of both engines after one another."""
    w = np.ones(1_000, np.float32)
    with_flower: list[Turn] = []
    with_ours: list[Turn] = []
    for _ in range(ROUNDS):
        with_flower.append(turn(flower, w, repeats=1))
        with_ours.append(turn(ours, w, repeats=REPEATS))
        if not np.array_equal(with_flower[-1].model, with_ours[-1].model):
            raise RuntimeError("the two engines computed different models")
        w = with_ours[-1].model
    versions = {"flower": metadata.version("flwr"), "ray": metadata.version("ray")}
    timing.report(
        f"beside Flower's simulation, start and first round, {CLIENTS} clients",
        **versions,
        flower_s=with_flower[0].round_s * CLIENTS,
    )
    for what, of, bar in (
        ("a client's call and its result", lambda turn: turn.clients_s, {"bar": BAR}),
        (
            "a client's part in a round, the mean at the server included",
            lambda turn: turn.round_s,
            {},
        ),
    ):
        best_flower = min(map(of, with_flower[1:]))
        best_ours = min(map(of, with_ours[1:]))
        timing.report(
            f"beside Flower's simulation, {CLIENTS} clients, 4 KB model: {what}",
            **versions,
            flower_ms=best_flower * 1e3,
            ours_us=best_ours * 1e6,
            ratio=best_flower / best_ours,
            second_round_flower_ms=of(with_flower[1]) * 1e3,
            second_round_ours_us=of(with_ours[1]) * 1e6,
            second_round_ratio=of(with_flower[1]) / of(with_ours[1]),
            **bar,
        )


def simulate(folder: str) -> None:
    """Run Flower's simulation, whose server part runs the comparison.

    Args:
        folder: where Flower and Ray put their files; its path is short.
    """
    os.environ.update(SETTINGS)
    os.environ["FLWR_HOME"] = folder
    from flwr import app, clientapp, serverapp, simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    client_app = clientapp.ClientApp()
    server_app = serverapp.ServerApp()

    @client_app.train()
    def train(message: Any, context: Any) -> Any:
        (w,) = message.content["model"].to_numpy_ndarrays()
        content = app.RecordDict({"model": app.ArrayRecord([w + 1.0])})
        return app.Message(content=content, reply_to=message)

    @server_app.main()
    def main(grid: Any, context: Any) -> None:
        # Flower gives its server part a thread of its own: our session is that thread's.
        try:
            compare(FlowerRounds(grid), FederatedRounds())
        finally:
            fed.shutdown()

    # The entry that stays in this process; `flwr run` would start others.
    simulation.run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=CLIENTS,
        backend_config={
            "init_args": with_ray.ARGUMENTS | {"address": "local", "_temp_dir": folder},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )


def main() -> None:
    """Run the simulation in a folder of its own."""
    with with_ray.short_folder() as folder:
        simulate(folder)


if __name__ == "__main__":
    main()
