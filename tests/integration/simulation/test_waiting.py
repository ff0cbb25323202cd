"""Limits of waits, and interrupts: what a script can rely on while coroutines are suspended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

import fed

Start = Callable[..., None]


@fed.remote
class Actor:
    def __init__(self) -> None:
        self.done = 0

    async def thread(self) -> str:
        await asyncio.to_thread(time.sleep, 0.3)
        return "slept"

    async def hours(self) -> int:
        await asyncio.sleep(3600)
        return 5

    async def never(self) -> None:
        await asyncio.Event().wait()

    def interrupted(self, x: Any) -> None:
        self.done += 1
        raise KeyboardInterrupt

    def count(self, x: Any) -> int:
        return self.done


@fed.remote
class SyncActor:
    def __init__(self) -> None:
        self.done = 0

    def interrupted(self, x: Any) -> None:
        self.done += 1
        raise KeyboardInterrupt

    def count(self, x: Any) -> int:
        return self.done


def test_bodies_may_wait_for_threads(session: Start) -> None:
    session()
    assert fed.get(Actor.party("ALICE").remote().thread.remote()) == "slept"


def test_a_limit_ends_a_wait_for_the_outside(session: Start) -> None:
    session()
    obj = Actor.party("ALICE").remote().thread.remote()
    with pytest.raises(fed.FedTimeoutError) as caught:
        fed.get(obj, timeout=0.01)
    assert caught.value.party == "ALICE"
    assert fed.get(obj) == "slept", "the object stays valid"


def test_a_limit_counts_in_virtual_time(session: Start) -> None:
    session()
    obj = Actor.party("ALICE").remote().hours.remote()
    with pytest.raises(TimeoutError):
        fed.get(obj, timeout=60)
    assert fed.get(obj, timeout=3600) == 5


def test_wait_passes_over_what_cannot_come(session: Start) -> None:
    session()
    actor = Actor.party("ALICE").remote()
    never, ready = actor.never.remote(), actor.count.remote(0)
    assert fed.wait([never, ready], party="BOB") == ([ready], [never])


@pytest.mark.parametrize("cls", [Actor, SyncActor])
@pytest.mark.parametrize("argument", [1, [1]], ids=["short", "long"])
def test_an_interrupt_reaches_the_script_and_spoils_nothing(
    session: Start, cls: Any, argument: Any
) -> None:
    session()
    actor = cls.party("ALICE").remote()
    with pytest.raises(KeyboardInterrupt):
        actor.interrupted.remote(argument)
    assert fed.get(actor.count.remote(argument)) == 1


def test_fail_fast_raises_at_the_call(session: Start) -> None:
    session(fail_fast=True)

    @fed.remote
    def broken() -> None:
        raise ValueError("x")

    with pytest.raises(fed.FedRemoteError, match="broken raised ValueError") as caught:
        broken.party("ALICE").remote()
    assert isinstance(caught.value.__cause__, ValueError)
    obj = Actor.party("ALICE").remote().hours.remote()
    assert fed.get(obj) == 5
