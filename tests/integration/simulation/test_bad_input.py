"""Bad input: a documented class, and a text that names the thing and says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fed
from fed import errors

ROOT = Path(__file__).parents[3]
Start = Callable[..., None]


@fed.remote
def value(x: Any = None) -> Any:
    return x


@fed.remote
class Actor:
    def one(self, x: Any = None) -> int:
        return 1


def refusal(kind: type[errors.FedError], *parts: str) -> Any:
    """A `pytest.raises` that also wants each part in the text."""

    class Check:
        def __enter__(self) -> Any:
            self.raises = pytest.raises(kind)
            self.info = self.raises.__enter__()
            return self.info

        def __exit__(self, *found: Any) -> Any:
            done = self.raises.__exit__(*found)
            assert type(self.info.value) is kind
            for part in parts:
                assert part in str(self.info.value), f"{part!r} is not in: {self.info.value}"
            return done

    return Check()


# Settings.


def test_an_unknown_keyword_names_the_nearest() -> None:
    with refusal(fed.ConfigError, "fed.init", "isolatoin", "did you mean 'isolation'"):
        fed.init(isolatoin="off")
    with refusal(fed.ConfigError, "'seeed'", "did you mean 'seed'", "docs/settings.md"):
        fed.init(seeed=1)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"mode": "simulaton"}, ["simulaton", "simulation"]),
        ({"isolation": "sealde"}, ["sealde", "sealed"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"seed": "x"}, ["seed", "'x'"]),
        ({"seed": True}, ["seed", "True"]),
        ({"parties": []}, ["parties"]),
        ({"parties": ["A", "a"]}, ["'a'"]),
        ({"parties": {"client": 0}}, ["client", "0"]),
        ({"parties": ["bad name"]}, ["bad name"]),
        ({"parties": 5.5}, ["parties", "float"]),
        ({"max_value_bytes": "many"}, ["max_value_bytes", "many"]),
        ({"log_level": "loud"}, ["log_level", "loud"]),
        ({"error_detail": "all"}, ["error_detail", "all"]),
    ],
)
def test_a_wrong_value_names_key_and_value(given: dict[str, Any], parts: list[str]) -> None:
    with refusal(fed.ConfigError, *parts):
        fed.init(**given)
    with refusal(fed.SessionError, "fed.init"):
        fed.put(1, party="A")


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "simulation", "listen": "127.0.0.1:1"},
        {"mode": "simulation", "address": "auto"},
        {"mode": "single-controller", "isolation": "off"},
        {"mode": "multi-controller", "parties": ["ALICE"]},
    ],
    ids=lambda given: "+".join(given),
)
def test_a_contradiction_with_the_mode(given: dict[str, Any]) -> None:
    with refusal(fed.ConfigError, given["mode"]) as caught:
        fed.init(**given)
    assert caught.value.fix


def run_script(folder: Path, text: str, **environ: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(text)
    return subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_unknown_key_in_federation_yaml(tmp_path: Path) -> None:
    (tmp_path / "federation.yaml").write_text("mode: simulation\n\nsead: 5\nparties: [A, B]\n")
    done = run_script(tmp_path, "import fed\nfed.init()\n")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("fed.errors.ConfigError: ")
    for part in ("federation.yaml:3", "sead", "'seed'"):
        assert part in last
    assert "Traceback" in done.stderr


def test_a_bad_variable_names_itself(tmp_path: Path) -> None:
    done = run_script(tmp_path, "import fed\nfed.init()\n", FED_SEED="many")
    assert "ConfigError: FED_SEED" in done.stderr
    assert "many" in done.stderr


# The session.


def test_before_and_after_the_session(tmp_path: Path) -> None:
    script = """
import fed
@fed.remote
def f(): return 1
@fed.remote
class A:
    def m(self): return 1
def say(function):
    try:
        function()
    except fed.SessionError as error:
        print(error)
say(lambda: f.party("A").remote())
say(lambda: A.party("A").remote())
say(lambda: fed.put(1, party="A"))
say(lambda: fed.parties())
print(fed.get(5))
fed.shutdown()
fed.init()
obj, actor = f.party("A").remote(), A.party("A").remote()
fed.shutdown()
fed.shutdown()
say(lambda: fed.get(obj))
say(lambda: actor.m.remote())
say(lambda: fed.kill(actor))
say(lambda: f.party("A").remote())
"""
    done = run_script(tmp_path, script)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    before = "there is no session yet. Call fed.init() before making calls"
    assert lines[:5] == [before] * 4 + ["5"]
    assert all("ended" in line and "fed.init" in line for line in lines[5:])
    assert len(lines) == 9


def test_objects_of_an_earlier_session(session: Start) -> None:
    session()
    obj, actor = value.party("ALICE").remote(1), Actor.party("ALICE").remote()
    method = actor.one
    fed.shutdown()
    session()
    for use in (
        lambda: fed.get(obj),
        lambda: fed.get([1, {"x": obj}]),
        lambda: value.party("BOB").remote(obj),
        lambda: value.party("BOB").remote([obj]),
        lambda: Actor.party("BOB").remote().one.remote(obj),
        lambda: Actor.party("BOB").remote().one.remote((obj,)),
        lambda: fed.wait([obj], party="BOB"),
        lambda: fed.reduce(max, [obj], party="BOB"),
    ):
        with refusal(fed.SessionError, "<FedObject 1#0 of ALICE>", "another session"):
            use()
    for use in (lambda: actor.one.remote(), lambda: method.remote(), lambda: fed.kill(actor)):
        with refusal(fed.SessionError, "session"):
            use()
    assert (
        fed.get(value.party("BOB").remote(fed.get(Actor.party("BOB").remote().one.remote()))) == 1
    )


def test_init_twice(session: Start) -> None:
    session()
    with refusal(fed.SessionError, "already", "fed.shutdown()"):
        fed.init()


def test_a_failed_init_leaves_no_session(session: Start) -> None:
    with pytest.raises(fed.ConfigError):
        fed.init(seed=-1)
    session()
    assert fed.get(value.party("ALICE").remote(1)) == 1


def test_strict_wants_receivers(session: Start) -> None:
    session(strict=True)
    obj = value.party("ALICE").remote(1)
    with refusal(fed.UsageError, "strict", "parties=[...]"):
        fed.get(obj)
    assert fed.get(obj, parties=["BOB"]) == 1
    assert fed.get(5) == 5


# Parties.


def test_a_wrong_party_names_the_nearest(session: Start) -> None:
    session(parties={"server": 1, "client": 1000})
    for use in (
        lambda: value.party("servr").remote(),
        lambda: Actor.party("servr").remote(),
        lambda: fed.put(1, party="servr"),
        lambda: fed.reduce(max, [], party="servr", initial=1),
    ):
        with refusal(fed.UnknownPartyError, "'servr'", "'server'") as caught:
            use()
        assert caught.value.party == "servr"
    with refusal(fed.UnknownPartyError, "client-1000", "'client-"):
        value.party("client-1000").remote()
    with refusal(fed.UnknownPartyError, "'Server'", "case", "'server'"):
        value.party("Server").remote()


def test_without_party(session: Start) -> None:
    session()
    for use, name in ((value.remote, "value"), (Actor.remote, "Actor")):
        with refusal(fed.MissingPartyError, f"{name}.party('NAME').remote(...)"):
            use()
        with pytest.raises(ValueError, match="party"):
            use()


def test_undeclared_parties(session: Start) -> None:
    fed.init(mode="simulation")
    assert fed.get(value.party("anybody").remote(1)) == 1
    with refusal(fed.UsageError, "fed.parties", "fed.init(parties=...)"):
        fed.parties()
    with refusal(fed.UnknownPartyError, "'Anybody'", "'anybody'"):
        value.party("Anybody").remote(1)


# Calls.


def test_num_returns_that_does_not_match(session: Start) -> None:
    session()
    parts = value.party("ALICE").options(num_returns=3).remote((1, 2))
    with refusal(
        fed.ReturnCountError, "value", "'ALICE'", "2 values", "num_returns is 3"
    ) as caught:
        fed.get(parts[2])
    assert (caught.value.party, caught.value.expected, caught.value.call) == ("ALICE", 3, 1)


def test_a_generator_method_is_refused_at_the_call(session: Start) -> None:
    @fed.remote
    class Streamer:
        def stream(self) -> Any:
            yield 1

    session()
    actor = Streamer.party("ALICE").remote()
    with refusal(fed.UsageError, "stream is a generator", "num_returns=N"):
        actor.stream.remote()


def test_options(session: Start) -> None:
    session()
    for use, parts in (
        (lambda: value.options(num_cpus=-1), ["num_cpus", "-1", ">= 0"]),
        (lambda: value.options(num_retruns=2), ["num_retruns", "did you mean 'num_returns'"]),
        (lambda: Actor.options(num_returns=2), ["num_returns", "Actor", "class"]),
        (lambda: value.options(max_restarts=1), ["max_restarts", "function"]),
        (lambda: fed.remote(num_returns=0)(value.__wrapped__), ["num_returns", "at least 1"]),
        (lambda: fed.remote(value.__wrapped__, num_cpus=1), ["fed.remote"]),
    ):
        with refusal(fed.UsageError, *parts):
            use()  # type: ignore[no-untyped-call]


def test_signatures_are_pythons_own(session: Start) -> None:
    session()
    with pytest.raises(TypeError, match=r"value\(\).*takes from 0 to 1.*3 were given|value"):
        value.party("ALICE").remote(1, 2, 3)
    actor = Actor.party("ALICE").remote()
    with pytest.raises(TypeError, match=r"one.*unexpected keyword argument 'y'"):
        actor.one.remote(y=1)
    with refusal(fed.UnknownMethodError, "'two'", "Actor"):
        actor.two.remote()
    with pytest.raises(AttributeError):
        actor.two.remote()


def test_timeouts_that_are_none(session: Start) -> None:
    session()
    obj = value.party("ALICE").remote(1)
    for bad in (-1, "5", float("nan"), True):
        with refusal(fed.UsageError, "timeout", repr(bad)):
            fed.get(obj, timeout=bad)  # type: ignore[arg-type]
    assert fed.get(obj, timeout=0) == 1


# Values.


def test_a_value_over_the_limit(session: Start) -> None:
    session(max_value_bytes=1000)
    import numpy as np

    for big in (b"x" * 2000, "x" * 2000, list(range(1000)), np.zeros(1000), {"k": [b"y" * 2000]}):
        obj = fed.put(big, party="ALICE")
        with pytest.raises(fed.ValueRefusedError) as caught:
            fed.get(obj)
        assert "max_value_bytes" in str(caught.value)
        assert caught.value.party == "ALICE"
        consumer = value.party("BOB").remote(obj)
        with pytest.raises(fed.ValueRefusedError):
            fed.get(consumer)
        actor = Actor.party("BOB").remote()
        with pytest.raises(fed.ValueRefusedError):
            fed.get(actor.one.remote(obj))
        inside = value.party("ALICE").remote([obj])
        assert fed.get(Actor.party("ALICE").remote().one.remote(inside)) == 1
    assert fed.get(fed.put(b"x" * 900, party="ALICE")) == b"x" * 900


def test_deadlock_names_the_calls(session: Start) -> None:
    import asyncio

    @fed.remote
    class Gate:
        def __init__(self) -> None:
            self.event: asyncio.Event | None = None

        async def wait(self) -> None:
            self.event = asyncio.Event()
            await self.event.wait()

    session()
    obj = Gate.party("ALICE").remote().wait.remote()
    consumer = value.party("BOB").remote(obj)
    with refusal(fed.DeadlockError, "wait of actor 0 of party 'ALICE' (call 2)", "value of party"):
        fed.get(consumer)
    with refusal(fed.DeadlockError, "test_bad_input.py:"):
        fed.wait([obj], party="BOB")


def test_unread_errors_end_a_plain_script_with_a_message(tmp_path: Path) -> None:
    script = """
import fed
fed.init(parties=["ALICE"])
@fed.remote
def broken(): raise ValueError("hidden")
broken.party("ALICE").remote()
"""
    done = run_script(tmp_path, script)
    assert "1 error(s) that nobody read" in done.stderr
    assert "party 'ALICE': broken raised ValueError (call 1" in done.stderr
    assert "hidden" not in done.stderr


def test_a_session_of_another_thread_does_not_disturb_the_exit(tmp_path: Path) -> None:
    script = """
import threading, fed
def work():
    fed.init(parties=["ALICE"])
    print(fed.get(fed.put(5, party="ALICE")))
t = threading.Thread(target=work)
t.start(); t.join()
"""
    done = run_script(tmp_path, script)
    assert done.stdout == "5\n"
    assert done.returncode == 0
    assert "Traceback" not in done.stderr, done.stderr
