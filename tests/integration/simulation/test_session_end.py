"""Begin and end of a session: other contexts, limits, what is left, who may end it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import fed
from fed.engines.simulation import coroutines
from fed.model import engine as port

Start = Callable[..., None]


@fed.remote
class Actor:
    def __init__(self) -> None:
        self.log: list[str] = []

    def look(self) -> Any:
        return [fed.current_party(), fed.rng().random()]

    async def async_look(self) -> Any:
        await asyncio.sleep(1)
        return [fed.current_party(), fed.rng().random()]

    async def at_once(self) -> int:
        return 1

    async def nap(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def for_ever(self) -> None:
        while True:  # noqa: ASYNC110  (a heartbeat)
            await asyncio.sleep(1)

    async def thread(self, seconds: float) -> float:
        await asyncio.to_thread(time.sleep, seconds)
        return seconds

    async def never(self) -> None:
        await asyncio.Event().wait()

    async def cleans_up(self, done: list[str]) -> None:
        async def part() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                LOG.append("part")

        try:
            await asyncio.gather(part(), part())
        finally:
            LOG.append("whole")


LOG: list[str] = []


@fed.remote
def draw() -> float:
    return float(fed.rng().random())


def unread() -> list[str]:
    """The texts of the errors that nobody read, after the end of the session."""
    engine: Any = port.slot.engine
    fed.shutdown()
    return list(engine.summary().unread.values())


def test_a_session_made_in_another_context(session: Start) -> None:
    session()
    expected = [fed.get(Actor.party("ALICE").remote().look.remote())]
    expected.append(fed.get(Actor.party("ALICE").remote().async_look.remote()))
    fed.shutdown()
    contextvars.Context().run(session)
    found = [fed.get(Actor.party("ALICE").remote().look.remote())]
    late = contextvars.Context().run(lambda: Actor.party("ALICE").remote().async_look.remote())
    found.append(fed.get(late))
    assert found == expected
    assert found[0][0] == "ALICE"
    assert fed.current_party() is None
    contextvars.Context().run(fed.shutdown)


def test_a_session_inside_a_running_loop(session: Start) -> None:
    """As in a notebook, where each cell is a task."""

    async def cell(function: Callable[[], Any]) -> Any:
        await asyncio.sleep(0)
        return function()

    async def notebook() -> Any:
        await asyncio.create_task(cell(session))
        actor = await asyncio.create_task(cell(lambda: Actor.party("ALICE").remote()))
        obj = await asyncio.create_task(cell(actor.async_look.remote))
        return await asyncio.create_task(cell(lambda: fed.get(obj)))

    assert asyncio.run(notebook())[0] == "ALICE"


def test_another_thread_is_in_no_body(session: Start) -> None:
    session()
    found = []

    def body() -> None:
        thread = threading.Thread(target=lambda: found.append(fed.current_party()))
        thread.start()
        thread.join()
        found.append(fed.current_party())

    fed.get(fed.remote(body).party("ALICE").remote())
    assert found == [None, "ALICE"]


def test_one_generator_per_body_however_its_coroutine_is_made(session: Start) -> None:
    session()

    def drawing() -> Any:
        first = fed.rng()

        async def rest() -> bool:
            same = fed.rng() is first
            await asyncio.sleep(1)
            return same and fed.rng() is first

        return rest()

    async def model() -> None: ...

    drawing.__wrapped__ = model  # type: ignore[attr-defined]  # as functools.wraps does
    assert fed.get(fed.remote(drawing).party("ALICE").remote()) is True


def test_the_end_waits_for_what_is_under_way(session: Start) -> None:
    session()
    actor = Actor.party("ALICE").remote()
    actor.nap.remote(3600)  # virtual time has no limit
    actor.thread.remote(0.05)
    assert unread() == []


@pytest.mark.parametrize(("name", "argument"), [("thread", 1.0), ("for_ever", None)])
def test_the_end_has_a_limit_in_real_time(session: Start, name: str, argument: Any) -> None:
    session(shutdown_timeout_s=0.05)
    method = getattr(Actor.party("ALICE").remote(), name)
    method.remote(*() if argument is None else (argument,))
    (text,) = unread()
    assert f"Actor.{name} of actor 0 of party 'ALICE' (call 2), called at" in text
    assert "shutdown_timeout_s" in text
    assert port.slot.engine is None


def test_what_nothing_can_release_is_a_deadlock(session: Start) -> None:
    session()
    Actor.party("ALICE").remote().never.remote()
    (text,) = unread()
    assert "wait for something that no other call can bring about" in text
    assert "Actor.never" in text


@pytest.mark.filterwarnings("error")
def test_dropped_coroutines_clean_up(session: Start, caplog: pytest.LogCaptureFixture) -> None:
    session()
    LOG.clear()
    Actor.party("ALICE").remote().cleans_up.remote([])
    fed.shutdown()
    gc.collect()
    assert LOG == ["part", "part", "whole"]
    assert "destroyed" not in caplog.text


@fed.remote(num_returns=2)
async def wrong_count() -> int:
    await asyncio.sleep(1)
    return 1


def test_an_error_at_the_end_frees_the_slot(session: Start) -> None:
    session(fail_fast=True)
    wrong_count.party("ALICE").remote()
    with pytest.raises(fed.ReturnCountError):
        fed.shutdown()
    assert port.slot.engine is None
    fed.shutdown()
    session()
    assert fed.get(fed.put(1, party="ALICE")) == 1


def test_who_may_not_end_it_leaves_it_as_it_is(session: Start) -> None:
    session()
    found: list[Any] = []

    def end() -> None:
        try:
            fed.shutdown()
        except fed.UsageError as error:
            found.append(error)

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    fed.get(fed.remote(end).party("ALICE").remote())
    assert [type(error) for error in found] == [fed.UsageError] * 2
    assert fed.get(fed.put(1, party="ALICE")) == 1


def test_a_long_wait_for_the_outside_is_said_with_its_calls(
    session: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(coroutines, "_SAY_EVERY_S", 0.05)
    session()
    with caplog.at_level(logging.WARNING, logger="fed.engines.simulation.coroutines"):
        fed.get(Actor.party("ALICE").remote().thread.remote(0.3))
    waits = [record.args for record in caplog.records if record.name == coroutines.__name__]
    assert len(waits) >= 2
    times = [args[0] for args in waits if isinstance(args, tuple)]
    assert times == sorted(times), "each line says how long it has been in all"
    assert times[-1] > 0.09  # type: ignore[operator]
    assert "Actor.thread of actor 0 of party 'ALICE' (call 2)" in caplog.text


def test_ended_coroutines_leave_nothing(session: Start) -> None:
    session()
    engine: Any = port.slot.engine
    actor = Actor.party("ALICE").remote()
    for _ in range(50):
        fed.get(actor.at_once.remote())
        fed.get(actor.nap.remote(1))
    assert engine._waiting._tasks == {}
    assert engine._waiting.calls == {}


def test_streams_beside_a_suspended_coroutine_are_not_kept(session: Start) -> None:
    import numpy as np

    def generators() -> int:
        gc.collect()
        # By type, not isinstance: that asks objects of other libraries for their __class__.
        return sum(type(item) is np.random.Generator for item in gc.get_objects())

    session()
    before = generators()
    Actor.party("ALICE").remote().nap.remote(1)
    for _ in range(20):
        draw.party("ALICE").remote()
    assert generators() - before <= 2
