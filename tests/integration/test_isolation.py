"""Whole scripts under each isolation level: honest ones alike, others harmless or named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
LEVELS = ("off", "sealed", "check", "process")

DISHONEST = """
import json, random, sys
import numpy as np
import fed
import shared

counter = 0


@fed.remote
class Party:
    seen = 0

    def class_attribute(self):
        type(self).seen += 1
        return self.seen

    def module_global(self):
        global counter
        counter += 1
        return counter

    def other_module(self):
        shared.total.append(1)
        return len(shared.total)

    def default(self, found=[]):
        found.append(1)
        return len(found)

    def unlocked(self, w):
        base = w
        while base.base is not None:
            base = base.base
        base.flags.writeable = True
        base[0] += 1.0
        return float(w[0])

    def python_random(self):
        return random.random()

    def numpy_random(self):
        return float(np.random.rand())

    async def suspended(self):
        import asyncio
        await asyncio.sleep(1)
        return self.module_global()


def make():
    count = 0

    @fed.remote
    def closure():
        nonlocal count
        count += 1
        return count
    return closure


closure = make()


def folded(left, right):
    shared.total.append(left)
    return len(shared.total)


fed.init(parties=["ALICE", "BOB"])
a, b = Party.party("ALICE").remote(), Party.party("BOB").remote()
w = fed.put(np.zeros(3), party="ALICE")
calls = {
    name: [getattr(actor, name).remote(*([w] if name == "unlocked" else [])) for actor in (a, b)]
    for name in ("class_attribute", "module_global", "other_module", "default", "unlocked",
                 "python_random", "numpy_random", "suspended")
}
calls["closure"] = [closure.party(name).remote() for name in ("ALICE", "BOB")]
values = [fed.put(0, party=name) for name in ("ALICE", "BOB")]
calls["folded"] = [fed.reduce(folded, values, party=name) for name in ("ALICE", "BOB")]


def outcome(obj):
    try:
        return fed.get(obj)
    except fed.FedError as error:
        return f"{type(error).__name__}: {getattr(error, 'changed', error)}"


print(json.dumps({name: [outcome(obj) for obj in objs] for name, objs in calls.items()}))
"""

HONEST = '''
import dataclasses, enum, functools, json, typing
import numpy as np
import fed
from shared import scaled

RATE = 0.5
STEPS = {"local": 2}


class Side(enum.Enum):
    LEFT = 1
    RIGHT = 2


class Range(typing.NamedTuple):
    low: float
    high: float


@dataclasses.dataclass
class Update:
    w: np.ndarray
    n: int
    side: Side
    span: Range
    notes: dict = dataclasses.field(default_factory=dict)

    @property
    def weighted(self):
        return self.w * self.n


class Model:
    """Inside a party only: no type of the table."""

    def __init__(self, w):
        self.w = w

    def step(self, rate):
        return Model(self.w - rate)


@functools.cache
def data(seed):
    return np.random.default_rng(seed).normal(size=20)


class Base:
    def __init__(self, seed):
        self.seed = seed

    def prepare(self):
        return data(self.seed).sum()


@fed.remote
class Client(Base):
    def __init__(self, seed):
        super().__init__(seed)
        self.model = None

    def keep(self, w):
        self.model = Model(w)
        return self.model

    def train(self, model, w):
        assert type(model) is Model and isinstance(self, Base)
        for _ in range(STEPS["local"]):
            model = model.step(RATE)
        side = Side.LEFT if self.prepare() > 0 else Side.RIGHT
        noise = fed.rng().normal()
        return Update(scaled(w + model.w + noise), self.seed, side, Range(0.0, noise), {1: {2, 3}})

    async def later(self, update):
        import asyncio
        await asyncio.sleep(10 - self.seed)
        assert type(update) is Update and update.side in Side
        return update.weighted.sum()

    def fails(self):
        raise ValueError(self.seed)


@fed.remote
def merged(*updates):
    assert {type(u) for u in updates} == {Update}
    return sum(u.weighted for u in updates), [u.side is Side.LEFT for u in updates]


fed.init(parties=4, seed=3)
clients = [Client.party(name).remote(i) for i, name in enumerate(fed.parties())]
w = np.zeros(3)
for _ in range(2):
    models = [c.keep.remote(w) for c in clients]
    updates = [c.train.remote(m, w) for c, m in zip(clients, models)]
    total = merged.party("party-2").remote(*updates)
    w = fed.get(total)[0]
last = fed.get(updates[1])
later = fed.get([c.later.remote(u) for c, u in zip(clients, reversed(updates))])
best = fed.get(fed.reduce(lambda a, b: a if a.n > b.n else b, updates, party="party-0"))
try:
    fed.get(clients[3].fails.remote())
except fed.FedRemoteError as error:
    cause = (type(error.__cause__).__name__, error.type_name)
assert type(last) is Update and type(last.span) is Range and type(best) is Update
print(json.dumps([w.tolist(), fed.get(total)[1], last.w.tolist(), last.side.name, last.span,
                  later, best.n, cause]))
'''

SHARED = """
total = []


def scaled(w):
    return w * 0.5
"""


def run(folder: Path, script: str, level: str, **environment: str) -> Any:
    (folder / "script.py").write_text(script)
    (folder / "shared.py").write_text(SHARED)
    done = subprocess.run(
        [sys.executable, "-W", "error", "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "FED_ISOLATION": level, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_party_of_its_own_sees_no_other_partys_changes(tmp_path: Path) -> None:
    outcomes = run(tmp_path, DISHONEST, "process")
    random, numpy_random = outcomes.pop("python_random"), outcomes.pop("numpy_random")
    unlocked = outcomes.pop("unlocked")
    assert unlocked[0] == 1.0
    assert outcomes == {
        "class_attribute": [1, 1],
        "module_global": [1, 1],
        "other_module": [1, 1],
        "default": [1, 1],
        "suspended": [2, 2],
        "closure": [1, 1],
        "folded": [2, 2],
    }
    again = run(tmp_path, DISHONEST, "process", PYTHONHASHSEED="7")
    assert (again["python_random"], again["numpy_random"]) == (random, numpy_random)
    assert random[0] != random[1]
    assert numpy_random[0] != numpy_random[1]


def test_each_change_of_shared_state_is_the_outcome_of_the_call_that_made_it(
    tmp_path: Path,
) -> None:
    assert run(tmp_path, DISHONEST, "check") == {
        name: [f"IsolationError: {changed}"] * 2
        for name, changed in {
            "class_attribute": "class attribute Party.seen",
            "module_global": "module global script.counter",
            "other_module": "module global shared.total",
            "default": "default of argument found of Party.default",
            "unlocked": "argument 0",
            "python_random": "the global state of random",
            "numpy_random": "the global state of numpy.random",
            "suspended": "module global script.counter",
            "closure": "closure variable count of make.<locals>.closure",
            "folded": "module global shared.total",
        }.items()
    }


def test_without_a_level_parties_meet(tmp_path: Path) -> None:
    outcomes = run(tmp_path, DISHONEST, "sealed")
    assert outcomes["class_attribute"] == [1, 2]
    assert outcomes["module_global"] == [1, 2]


def test_honest_scripts_have_the_same_values_at_every_level(tmp_path: Path) -> None:
    values = {level: run(tmp_path, HONEST, level) for level in LEVELS}
    assert values["sealed"][-1] == ["ValueError", "ValueError"]
    for level in LEVELS:
        assert values[level] == values["sealed"], level


@pytest.mark.parametrize(
    "arguments",
    [
        ("digits_fedavg.py", "--parties", "12", "--rounds", "2"),
        ("two_hospitals_vertical.py", "--rounds", "5"),
        ("statistics.py", "--parties", "30"),
    ],
)
def test_the_examples_print_the_same_at_every_level(arguments: tuple[str, ...]) -> None:
    examples = SOURCE.parent / "examples"
    printed = set()
    for level in ("sealed", "check", "process"):
        done = subprocess.run(
            [sys.executable, str(examples / arguments[0]), *arguments[1:]],
            env={**os.environ, "PYTHONPATH": str(SOURCE), "FED_ISOLATION": level},
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1
