"""Same seed, same bits: whatever the hash seed, whatever the order of reading."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fed
from fed.model import engine as port
from fed.testing import engines

SCRIPTS = Path(__file__).parents[2] / "contract" / "scripts"


@pytest.mark.parametrize("name", ["crossing", "streams", "c08", "coroutines"])
def test_three_processes_with_other_hash_seeds_agree(name: str) -> None:
    script = SCRIPTS / f"{name}.py"
    module = engines.read(script)
    settings = {
        **getattr(module, "SETTINGS", {}),
        "mode": "simulation",
        "parties": module.PARTIES,
        "values_digest": True,
    }
    running = [
        engines.Process(script, settings, environ={"PYTHONHASHSEED": seed})
        for seed in ("0", "1", "4294967295")
    ]
    drivers = [process.driver() for process in running]
    assert not any(driver.problems for driver in drivers), drivers[0].problems
    assert drivers[0].values_digest
    assert len({driver.digest for driver in drivers}) == 1
    assert len({driver.values_digest for driver in drivers}) == 1
    assert len({engines.fingerprint([driver]) for driver in drivers}) == 1
    assert all(outcome.digest for outcome in drivers[0].outcomes if outcome.raised is None)


@fed.remote
def make(n: int) -> Any:
    names = [f"name {i}" for i in range(n)]
    return {"set": set(names), "floats": np.linspace(0, n, 5), "n": n, "nested": [frozenset(names)]}


def digests(order: list[int], *, one_by_one: bool) -> tuple[str, str]:
    fed.init(parties=["ALICE", "BOB"], values_digest=True)
    objs = [make.party("ALICE").remote(n) for n in range(10)]
    if one_by_one:
        for n in order:
            fed.get(objs[n])
    else:
        fed.get([{"x": objs[n]} for n in order])
    engine: Any = port.current()
    fed.shutdown()
    summary = engine.summary()
    assert summary.got_values == len(order)
    return summary.values_digest, summary.program_digest


def test_the_values_digest_does_not_see_the_order_of_reading() -> None:
    order = list(range(10))
    values, program = digests(order, one_by_one=True)
    random.Random(3).shuffle(order)
    assert digests(order, one_by_one=True)[0] == values
    assert digests(order, one_by_one=False)[0] == values
    assert digests(order[:9], one_by_one=True)[0] != values
    assert digests([*order, 3], one_by_one=True)[0] != values
    assert digests(list(range(10)), one_by_one=True) == (values, program)


def test_digests_see_values_and_calls(session: Callable[..., None]) -> None:
    def run(function: Callable[[], Any], **settings: Any) -> tuple[str, str]:
        fed.init(parties=["ALICE", "BOB"], values_digest=True, **settings)
        function()
        engine: Any = port.current()
        fed.shutdown()
        summary = engine.summary()
        return summary.program_digest, summary.values_digest

    base = run(lambda: fed.get(make.party("ALICE").remote(1)))
    assert run(lambda: fed.get(make.party("ALICE").remote(1))) == base
    # Literals, options and shapes of containers are not in the program's digest.
    other_literal = run(lambda: fed.get(make.party("ALICE").remote(2)))
    assert other_literal[0] == base[0]
    assert other_literal[1] != base[1]
    nested = run(lambda: fed.get([[make.party("ALICE").options(num_cpus=2).remote(n=1)]]))
    assert nested == base
    # Parties, receivers and counts are.
    assert run(lambda: fed.get(make.party("BOB").remote(1)))[0] != base[0]
    assert run(lambda: fed.get(make.party("ALICE").remote(1), parties=["BOB"]))[0] != base[0]
    assert run(lambda: make.party("ALICE").remote(1))[0] != base[0]
    session()


def test_a_failed_get_adds_no_values(session: Callable[..., None]) -> None:
    session(values_digest=True)
    good = make.party("ALICE").remote(1)
    refused = fed.put(object(), party="ALICE")
    with pytest.raises(fed.ValueRefusedError):
        fed.get([good, refused])
    engine: Any = port.current()
    assert engine.summary().got_values == 0
    assert engine.summary().values_digest == f"{0:064x}"
