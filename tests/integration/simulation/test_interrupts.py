"""Ctrl-C at any instruction of the engine: the session stays usable, and can be ended."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import fed
from fed.engines import simulation
from fed.engines.simulation import bodies
from fed.model import engine as port

Start = Callable[..., None]

FOLDER = str(Path(simulation.__file__).parent)


@fed.remote
def value(x: Any = None) -> Any:
    return x


@fed.remote
class Actor:
    def one(self, x: Any) -> Any:
        return x

    def fail(self, x: Any) -> Any:
        raise ValueError(x)

    async def nap(self, x: Any) -> Any:
        await asyncio.sleep(1)
        return x

    async def nap_and_fail(self, x: Any) -> Any:
        await asyncio.sleep(1)
        raise ValueError(x)


def get(obj: Any) -> Any:
    with contextlib.suppress(fed.FedError):
        return fed.get(obj)


#: Everything that runs a body.
WAYS: dict[str, Callable[[Any], Any]] = {
    "function": lambda actor: value.party("ALICE").remote(1),
    "constructor": lambda actor: Actor.party("ALICE").remote(),
    "short way": lambda actor: actor.one.remote(1),
    "long way": lambda actor: actor.one.remote([1]),
    "failing": lambda actor: actor.fail.remote(1),
    "failing, long way": lambda actor: actor.fail.remote([1]),
    "coroutine": lambda actor: get(actor.nap.remote(1)),
    "failing coroutine": lambda actor: get(actor.nap_and_fail.remote(1)),
    "consumer": lambda actor: get(value.party("BOB").remote([actor.nap.remote(1)])),
    "reduce": lambda actor: fed.reduce(max, [fed.put(1, "ALICE"), fed.put(2, "BOB")], "BOB"),
}


class Interrupt:
    """Raises `KeyboardInterrupt` before the given instruction of the engine's own code."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not (name.startswith(FOLDER) or name.startswith("<fed ")):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


@pytest.fixture
def tracing() -> Iterator[None]:
    before = sys.gettrace()
    yield
    sys.settrace(before)


def is_interrupted(way: Callable[[Any], Any], actor: Any, at: int) -> bool:
    """False if the way is shorter than that."""

    def run() -> Iterator[None]:
        # In a generator, which has a state of its own of the exceptions that are being handled:
        # other than signals, tracing can raise between the instructions that take one off it.
        way(actor)
        yield

    interrupt = Interrupt(at)
    sys.settrace(interrupt)
    try:
        next(run())
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return interrupt.left <= 0


@pytest.mark.usefixtures("tracing")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("name", list(WAYS))
def test_calls_can_be_made_after_an_interrupt_anywhere(session: Start, name: str) -> None:
    session()
    WAYS[name](Actor.party("ALICE").remote())
    at, step = 1, 7 if "coroutine" in name or name == "consumer" else 3
    while True:
        actor = Actor.party("ALICE").remote()
        if not is_interrupted(WAYS[name], actor, at):
            break
        assert fed.get(value.party("BOB").remote(at)) == at
        assert fed.get(actor.one.remote(at)) == at
        assert fed.current_party() is None
        assert sys.exception() is None
        at += step
    assert at > 20
    fed.shutdown()
    gc.collect()  # so that what the interrupts cut off tells of it here


class Stuck:
    """As if an interrupt had come where the engine notes that a body ended."""

    kind = "function"
    party = "ALICE"
    what = "a body that is over"


@pytest.mark.parametrize("running", [Stuck(), bodies.MOVING])
def test_what_is_noted_as_running_does_not_count_if_no_body_is_on_the_stack(
    session: Start, running: Any
) -> None:
    for verb in (
        lambda: fed.get(value.party("ALICE").remote(1)),
        lambda: fed.put(1, party="ALICE"),
        fed.shutdown,
    ):
        session()
        engine: Any = port.slot.engine
        engine.running = running
        verb()
        fed.shutdown()
        assert port.slot.engine is None


def test_a_verb_as_a_body_is_refused(session: Start) -> None:
    session()
    obj = fed.put(1, party="ALICE")
    with pytest.raises(fed.FedRemoteError, match="raised UsageError"):
        fed.get(fed.remote(lambda: fed.get(obj)).party("ALICE").remote())
    plain = fed.remote(fed.shutdown).party("ALICE").remote()
    with pytest.raises(fed.FedRemoteError, match="raised UsageError"):
        fed.get(plain)


@fed.remote
class Interrupted:
    async def later(self) -> None:
        await asyncio.sleep(1)
        raise KeyboardInterrupt

    async def at_once(self) -> None:
        raise KeyboardInterrupt

    async def by_a_task(self) -> None:
        async def task() -> None:
            await asyncio.sleep(1)
            raise KeyboardInterrupt

        await asyncio.create_task(task())


@pytest.mark.parametrize("name", ["later", "by_a_task"])
def test_an_interrupted_coroutine_raises_once_and_has_an_outcome(session: Start, name: str) -> None:
    session()
    obj = getattr(Interrupted.party("ALICE").remote(), name).remote()
    consumer = None
    with pytest.raises(KeyboardInterrupt):
        consumer = value.party("BOB").remote(obj)
    assert consumer is None
    for _ in range(2):
        with pytest.raises(fed.FedRemoteError, match="raised KeyboardInterrupt") as caught:
            fed.get(obj)
        assert caught.value.party == "ALICE"
    assert fed.get(value.party("BOB").remote(2)) == 2


def test_an_interrupt_in_the_first_step_reaches_the_caller(session: Start) -> None:
    session()
    actor = Interrupted.party("ALICE").remote()
    with pytest.raises(KeyboardInterrupt):
        actor.at_once.remote()
    assert fed.get(value.party("BOB").remote(2)) == 2


def test_a_task_that_exits_is_an_outcome(session: Start) -> None:
    session()

    @fed.remote
    async def exits() -> None:
        async def task() -> None:
            await asyncio.sleep(1)
            sys.exit(3)

        await asyncio.create_task(task())

    with pytest.raises(fed.FedRemoteError, match="raised SystemExit"):
        fed.get(exits.party("ALICE").remote())


@pytest.mark.parametrize("returns", [1, 2])
def test_fail_fast_raises_once_and_leaves_an_outcome(session: Start, returns: int) -> None:
    session(fail_fast=True)

    @fed.remote
    async def broken() -> None:
        await asyncio.sleep(1)
        raise ValueError("x")

    made: Any = broken.party("ALICE").options(num_returns=returns).remote()
    obj = made[-1] if returns > 1 else made
    for _ in range(2):
        with pytest.raises(fed.FedRemoteError, match="broken raised ValueError"):
            fed.get(obj)
    assert fed.get(value.party("BOB").remote(2)) == 2
    fed.shutdown()


def test_fail_fast_raises_at_the_call_if_the_first_step_fails(session: Start) -> None:
    session(fail_fast=True)

    @fed.remote
    async def broken() -> None:
        raise ValueError("x")

    with pytest.raises(fed.FedRemoteError, match="broken raised ValueError"):
        broken.party("ALICE").remote()
    fed.shutdown()


def test_a_deferred_call_under_fail_fast(session: Start) -> None:
    session(fail_fast=True)

    @fed.remote
    class Gate:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def wait(self) -> None:
            await self.event.wait()

        async def open(self) -> None:
            self.event.set()

    @fed.remote
    def broken(_x: Any) -> None:
        raise ValueError("x")

    gate = Gate.party("ALICE").remote()
    consumer = broken.party("BOB").remote(gate.wait.remote())
    gate.open.remote()
    for _ in range(2):
        with pytest.raises(fed.FedRemoteError, match="broken raised ValueError"):
            fed.get(consumer)
