"""Thousands of parties: memory, processes, equal results, and errors that say where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fed

ROOT = Path(__file__).parents[3]
C09 = Path(__file__).with_name("c09.py")

#: What one actor holds in `c09.py`.
HELD_BYTES = 100_000


def start(count: int, seed: int, broken: int = -1, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(C09), str(count), str(seed), str(broken)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return json.loads(out)  # type: ignore[no-any-return]


def test_c09_two_thousand_parties_on_one_machine() -> None:
    running = [
        start(2000, 7, PYTHONHASHSEED="1"),
        start(2000, 7, PYTHONHASHSEED="2"),
        start(200, 7),
        start(2000, 8),
    ]
    long, again, short, other_seed = map(result, running)
    assert long["values"] == again["values"]
    assert len(long["values"]) == 5
    assert long["values"] != other_seed["values"]
    assert long["threads"] == short["threads"] == 1
    assert long["children"] == short["children"] == 0
    own_bytes = (2000 - 200) * HELD_BYTES
    assert long["peak_bytes"] - short["peak_bytes"] <= 3 * own_bytes


def test_c09_one_party_raises_in_round_three() -> None:
    found = result(start(2000, 7, 1234))
    error = found["error"]
    assert len(found["values"]) == 2
    assert error["party"] == "client-1234"
    assert error["actor"] == 0
    assert error["name"] == "Client.train"
    # 2,000 creations and a put; per round 2,000 calls, the mean and its get; then its place.
    assert error["call"] == 2001 + 2 * 2002 + 1235
    assert error["site"].startswith(f"{C09}:")
    for part in ("'client-1234'", "Client.train of actor 0", f"call {error['call']}", "c09.py:"):
        assert part in error["text"]
    assert error["cause"] == "RuntimeError('round 3')"


@fed.remote
class Phone:
    def __init__(self, place: int) -> None:
        self.place = place

    def train(self, w: float, round_number: int) -> float:
        if round_number == 3 and self.place == 54_321:
            raise ZeroDivisionError("the user's line")
        return w + self.place


def test_a_hundred_thousand_parties_and_one_that_fails(session: Callable[..., None]) -> None:
    count = 100_000
    session(parties={"server": 1, "phone": count})
    phones = [Phone.party(party).remote(n) for n, party in enumerate(fed.parties("phone-*"))]
    for round_number in (1, 2, 3):
        updates = [phone.train.remote(1.0, round_number) for phone in phones]
    assert fed.get(updates[count - 1]) == float(count)
    with pytest.raises(fed.FedRemoteError) as caught:
        fed.get(fed.reduce(lambda a, b: a + b, updates, party="server"))
    error = caught.value
    assert (error.party, error.actor, error.name) == ("phone-054321", 0, "Phone.train")
    assert error.call == count + 2 * count + 54_322
    assert error.type_name == "ZeroDivisionError"
    assert error.site is not None
    assert error.site.startswith(f"{__file__}:")
    line = Path(__file__).read_text().splitlines()[int(error.site.rpartition(":")[2]) - 1]
    assert "phone.train.remote" in line
    # The user's own line stands in the chained traceback, and none of the engine's around it.
    assert error.__cause__ is not None
    frames = traceback.extract_tb(error.__cause__.__traceback__)
    assert [frame.line for frame in frames] == ['raise ZeroDivisionError("the user\'s line")']
    assert "the user's line" in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("way", ["function", "method", "options", "constructor", "coroutine"])
def test_the_chained_traceback_is_the_users_alone(session: Callable[..., None], way: str) -> None:
    session()
    with pytest.raises(fed.FedRemoteError) as caught:
        fed.get(CALLS[way]())
    cause = caught.value.__cause__
    assert cause is not None
    frames = traceback.extract_tb(cause.__traceback__)
    assert [frame.line for frame in frames] == ["deeper()", 'raise ValueError("deep")']
    assert caught.value.site is not None
    line = Path(__file__).read_text().splitlines()[int(caught.value.site.rpartition(":")[2]) - 1]
    assert f'"{way}": lambda' in line, "the place of the call"


def deeper() -> None:
    raise ValueError("deep")


@fed.remote
def function() -> None:
    deeper()


@fed.remote
class Actor:
    def __init__(self, fails: bool = False) -> None:
        if fails:
            deeper()

    def method(self, x: Any) -> None:
        deeper()

    async def coroutine(self) -> None:
        deeper()


@fed.remote
class SyncActor:
    def method(self, x: Any) -> None:
        deeper()


CALLS: dict[str, Callable[[], Any]] = {
    "function": lambda: function.party("ALICE").remote(),
    "method": lambda: SyncActor.party("ALICE").remote().method.remote(1),
    "options": lambda: Actor.party("ALICE").remote().method.options(num_returns=1).remote([1]),
    "constructor": lambda: Actor.party("ALICE").remote(True).method.remote(1),
    "coroutine": lambda: Actor.party("ALICE").remote().coroutine.remote(),
}
