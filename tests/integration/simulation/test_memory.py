"""Values live as long as somebody can read them: reference counting alone frees them."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fed
from fed.codec import seal
from fed.model import engine as port

#: Weak references to what bodies made, by name.
ALIVE: dict[str, Any] = {}


class Thing:
    """Something whose life can be watched."""

    def __init__(self, size: int = 0) -> None:
        self.data = bytearray(size)


def watched(name: str, thing: Any) -> Any:
    ALIVE[name] = weakref.ref(thing)
    return thing


def watch_value(obj: Any) -> None:
    """Watch the array of a result from now on, as `array`.

    Not in the body: an array that somebody refers to, if weakly, is copied when it is sealed.
    """
    form = obj._form
    form = getattr(form, "form", form)  # of a large one
    array = form.value[0] if isinstance(form, seal.Tree) else form
    ALIVE["array"] = weakref.ref(array.base)


def is_alive(name: str) -> bool:
    return ALIVE[name]() is not None


@fed.remote
def array(n: int = 50_000) -> Any:
    return np.zeros(n)


@fed.remote
def listed() -> Any:
    return [np.zeros(10), 1]


@fed.remote
def pair() -> Any:
    return np.zeros(10), 1


@fed.remote
def total(x: Any) -> Any:
    return float(np.sum(x))


@fed.remote
def length(x: Any) -> Any:
    return len(x)


@fed.remote
def broken(x: Any = None) -> Any:
    local = watched("local", Thing(1000))
    raise ValueError(len(local.data))


@fed.remote
def deeply_broken(x: Any = None) -> Any:
    def inner() -> None:
        local = watched("local", Thing(1000))
        try:
            raise KeyError(len(local.data))
        except KeyError as error:
            raise ValueError from error

    return inner()


@fed.remote
class Holder:
    def __init__(self, x: Any = None) -> None:
        self.thing = watched("actor", Thing())

    def keep(self, x: Any) -> Any:
        self.x = x
        return 0

    def array(self) -> Any:
        return np.zeros(50_000)

    def broken(self, x: Any) -> Any:
        local = watched("local", Thing(1000))
        raise ValueError(len(local.data))

    def general(self, *rest: Any) -> Any:
        return self.broken.__get__(self)(0) if rest else np.zeros(10)

    async def nap(self, x: Any) -> Any:
        made = np.zeros(10)
        await asyncio.sleep(1)
        return made

    async def nap_and_fail(self) -> Any:
        local = watched("local", Thing())
        await asyncio.sleep(1)
        raise ValueError(local.data)


@fed.remote
class SyncHolder:
    def __init__(self, x: Any = None) -> None:
        self.thing = watched("actor", Thing())

    def array(self) -> Any:
        return np.zeros(50_000)

    def broken(self, x: Any) -> Any:
        local = watched("local", Thing(1000))
        raise ValueError(len(local.data))


@fed.remote
class Stillborn:
    def __init__(self) -> None:
        self.thing = watched("actor", Thing())
        raise OSError("no")

    def go(self) -> None:
        """Never runs."""


pytestmark = pytest.mark.usefixtures("no_collector")
Start = Callable[..., None]


def test_a_dropped_object_frees_its_value(session: Start) -> None:
    session()
    # The first array that an engine meets is copied: it has to look at numpy first.
    fed.get(array.party("ALICE").remote())
    for make in (
        lambda: array.party("ALICE").remote(),
        lambda: listed.party("ALICE").remote(),
        lambda: SyncHolder.party("ALICE").remote().array.remote(),
        lambda: Holder.party("ALICE").remote().array.remote(),
        lambda: Holder.party("ALICE").remote().general.remote(),
    ):
        obj = make()
        watch_value(obj)
        consumer = length.party("BOB").remote(obj)
        value = fed.get(obj)
        del obj
        assert is_alive("array"), "the script holds the value"
        del value
        assert not is_alive("array")
        assert fed.get(consumer) > 0


def test_of_several_values_each_is_freed_alone(session: Start) -> None:
    session()
    left, right = pair.party("ALICE").options(num_returns=2).remote()
    watch_value(left)
    del left
    assert not is_alive("array")
    assert fed.get(right) == 1


@pytest.mark.parametrize("cls", [Holder, SyncHolder])
def test_a_dropped_handle_frees_its_actor(session: Start, cls: Any) -> None:
    session()
    actor = cls.party("ALICE").remote()
    method = actor.array
    obj = method.remote()
    assert is_alive("actor")
    del actor
    assert is_alive("actor"), "its method is held"
    del method
    assert not is_alive("actor")
    assert fed.get(obj).size == 50_000


def test_a_killed_actor_is_freed(session: Start) -> None:
    session()
    actor = Holder.party("ALICE").remote()
    actor.keep.remote(1)
    fed.kill(actor)
    assert not is_alive("actor")


def test_arguments_are_freed_with_the_call(session: Start) -> None:
    session()
    obj = array.party("ALICE").remote()
    watch_value(obj)
    total.party("ALICE").remote(obj)
    total.party("BOB").remote([obj])
    del obj
    assert not is_alive("array")


def test_what_an_actor_keeps_is_freed_with_it(session: Start) -> None:
    session()
    actor = Holder.party("BOB").remote()
    obj = array.party("ALICE").remote()
    watch_value(obj)
    actor.keep.remote(obj)
    del obj
    assert is_alive("array")
    del actor
    assert not is_alive("array")


def failing(name: str) -> Any:
    if name == "function":
        return broken.party("ALICE").remote()
    if name == "chained":
        return deeply_broken.party("ALICE").remote(1)
    if name == "short way":
        return SyncHolder.party("ALICE").remote().broken.remote(1)
    if name == "method":
        return Holder.party("ALICE").remote().broken.remote([1])
    if name == "options":
        return Holder.party("ALICE").remote().broken.options(num_returns=2).remote(1)
    if name == "coroutine":
        actor = Holder.party("ALICE").remote()
        obj = actor.nap_and_fail.remote()
        ready, _ = fed.wait([obj], party="ALICE")
        return ready[0]
    consumer = total.party("CAROL").remote([broken.party("ALICE").remote()])
    return total.party("BOB").remote(consumer)


WAYS = ["function", "chained", "short way", "method", "options", "coroutine", "consumers"]


@pytest.mark.parametrize("way", WAYS)
def test_a_failing_call_frees_all_with_its_object(session: Start, way: str) -> None:
    session()
    obj = failing(way)
    assert obj is not None
    del obj
    assert not is_alive("local")


SHORT_WAY = pytest.param(
    "short way",
    marks=pytest.mark.xfail(
        reason="the short way calls the body from an ordinary frame: a frame of its own costs "
        "0.1 us a call"
    ),
)


@pytest.mark.parametrize("way", [SHORT_WAY if way == "short way" else way for way in WAYS])
def test_a_function_that_ends_frees_its_failed_objects(session: Start, way: str) -> None:
    session()

    def script() -> None:
        obj = failing(way)
        assert obj is not None

    script()
    assert not is_alive("local")


@pytest.mark.parametrize("way", ["function", "short way", "method", "consumers"])
def test_a_read_error_frees_all_with_its_object(session: Start, way: str) -> None:
    session()

    def script() -> None:
        obj = failing(way)
        try:
            fed.get(obj)
        except fed.FedRemoteError:
            del obj

    script()
    assert not is_alive("local")


def test_a_loop_over_failures_does_not_pile_up(session: Start) -> None:
    session()
    kept: list[Any] = []
    for _ in range(30):
        obj = broken.party("ALICE").remote()
        kept.append(ALIVE["local"])
        with pytest.raises(fed.FedRemoteError):
            fed.get(obj)
        del obj
    # The last error may still be held by the loop's own variables.
    assert sum(ref() is not None for ref in kept) <= 1


def test_a_failed_constructor_frees_the_instance_with_the_handle(session: Start) -> None:
    session()
    actor = Stillborn.party("ALICE").remote()
    obj = actor.go.remote()
    with pytest.raises(fed.FedRemoteError, match="OSError"):
        fed.get(obj)
    del actor, obj
    # The engine still knows why later calls fail, but not by the instance.
    assert not is_alive("actor")


def test_coroutines_are_freed_when_they_ended(session: Start) -> None:
    session()
    actor = Holder.party("ALICE").remote()
    obj = actor.nap.remote(1)
    consumer = total.party("BOB").remote(obj)
    assert fed.get(consumer) == 0.0
    watch_value(obj)
    del obj
    assert not is_alive("array")
    del actor
    assert not is_alive("actor")


def test_random_generators_are_not_kept(session: Start) -> None:
    session()

    def draw() -> float:
        return float(fed.rng().random())

    remote = fed.remote(draw)
    fed.get(remote.party("ALICE").remote())
    tracemalloc.start()
    try:
        base, _ = tracemalloc.get_traced_memory()
        for _ in range(300):
            remote.party("ALICE").remote()
        now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A generator takes more than 500 bytes, a record some 10.
    assert now - base < 300 * 100


def add(a: Any, b: Any) -> Any:
    return a + b


@fed.remote
def added(a: Any, b: Any) -> Any:
    return a + b


@fed.remote
def update(n: int) -> Any:
    return np.full(50_000, float(n))


@fed.remote
class Client:
    def update(self, n: int) -> Any:
        return np.full(50_000, float(n))


VALUE_BYTES = 400_000


def peak_of(fold: Callable[[], Any]) -> float:
    """The peak above the base, in values."""
    tracemalloc.start()
    try:
        base, _ = tracemalloc.get_traced_memory()
        result = fold()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    got = fed.get(result)
    assert got[0] == sum(range(1000))
    assert got.size == 50_000
    return (peak - base) / VALUE_BYTES


#: Three values; the half is for records and small objects.
MOST_VALUES = 3.5


def test_a_fold_by_reduce_holds_three_values(session: Start) -> None:
    session(parties=1000)
    parties = fed.parties()
    objs = (update.party(party).remote(n) for n, party in enumerate(parties))
    assert peak_of(lambda: fed.reduce(add, objs, party=parties[0])) <= MOST_VALUES


def test_a_fold_by_hand_holds_three_values(session: Start) -> None:
    session(parties=1000)
    parties = fed.parties()

    def by_hand() -> Any:
        total = update.party(parties[0]).remote(0)
        for n in range(1, 1000):
            total = added.party(parties[0]).remote(total, update.party(parties[n]).remote(n))
        return total

    assert peak_of(by_hand) <= MOST_VALUES


def test_a_fold_of_actors_holds_three_values(session: Start) -> None:
    session(parties=1000)
    parties = fed.parties()
    clients = [Client.party(party).remote() for party in parties]
    fed.get(clients[0].update.remote(0))
    objs = (client.update.remote(n) for n, client in enumerate(clients))
    assert peak_of(lambda: fed.reduce(add, objs, party=parties[0])) <= MOST_VALUES


def test_results_above_the_budget_go_to_disk_and_back(
    session: Start, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    session(memory_budget_bytes=1_000_000, spill_dir=str(tmp_path), log_level="warning")
    with caplog.at_level(logging.WARNING, logger="fed"):
        objs = [update.party("ALICE").remote(n) for n in range(10)]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "test_memory.py:" in warnings[0].getMessage(), "it names the call site"
    values = fed.get(objs)
    assert [value[0] for value in values] == list(range(10))
    assert not any(value.flags.writeable for value in values)
    with pytest.raises(ValueError, match="WRITEABLE"):
        values[9].flags.writeable = True
    assert fed.get([total.party("BOB").remote(obj) for obj in objs]) == [
        50_000.0 * n for n in range(10)
    ]
    engine: Any = port.current()
    spilled = engine.summary().spilled_bytes
    assert spilled == 8 * VALUE_BYTES
    assert list(tmp_path.iterdir()) == [], "the file has no name"
    del objs, values
    assert fed.get(update.party("ALICE").remote(3))[0] == 3
    assert engine.summary().spilled_bytes == spilled


def test_the_disk_quota_is_an_outcome_that_names_the_site(session: Start, tmp_path: Any) -> None:
    session(memory_budget_bytes=500_000, spill_dir=str(tmp_path), spill_quota_bytes=VALUE_BYTES * 2)
    objs = [update.party("ALICE").remote(n) for n in range(4)]
    assert [fed.get(obj)[0] for obj in objs[:3]] == [0, 1, 2]
    with pytest.raises(fed.SpillError, match=r"test_memory\.py:") as caught:
        fed.get(objs[3])
    assert caught.value.size_bytes == VALUE_BYTES
