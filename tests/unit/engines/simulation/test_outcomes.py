"""What failing calls leave behind, and what reading their errors does to them."""

import gc
import traceback
import weakref
from collections.abc import Iterator

import pytest

import fed


class Box:
    pass


class Actor:
    def fail(self, _box: object) -> None:
        raise ValueError("no")

    def fail_often(self, _box: object, times: int = 1) -> None:
        raise ValueError(f"no {times}")

    def leave(self) -> None:
        raise SystemExit(3)

    def numbers(self) -> float:
        return float(fed.rng().random())


@pytest.fixture
def session() -> Iterator[None]:
    fed.init(parties=["ALICE", "BOB"])
    yield
    fed.shutdown()


def leave(_a: object, _b: object) -> None:
    raise SystemExit(3)


def draw(a: float, b: float) -> float:
    return a + b + fed.rng().random()


@pytest.mark.usefixtures("session")
def test_each_reading_raises_an_error_of_its_own() -> None:
    failed = fed.remote(Actor).party("ALICE").remote().fail.remote(1)
    with pytest.raises(fed.FedRemoteError) as first:
        fed.get(failed)
    first.value.add_note("seen by the first reader")
    try:
        raise KeyError("something else is being handled")
    except KeyError:
        with pytest.raises(fed.FedRemoteError) as second:
            fed.get(failed)
    assert second.value is not first.value
    assert vars(second.value) == {k: v for k, v in vars(first.value).items() if k != "__notes__"}
    assert second.value.__cause__ is first.value.__cause__
    assert isinstance(second.value.__cause__, ValueError)
    with pytest.raises(fed.FedRemoteError) as third:
        fed.get(failed)
    assert third.value.__context__ is third.value.__cause__ or third.value.__context__ is None
    assert len(traceback.extract_tb(third.value.__traceback__)) == len(
        traceback.extract_tb(first.value.__traceback__)
    )


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("method", ["fail", "fail_often"])
def test_a_failed_call_keeps_its_body_frame_and_no_argument_of_the_engine(method: str) -> None:
    actor = fed.remote(Actor).party("ALICE").remote()
    box = Box()
    gc.disable()
    try:
        failed = getattr(actor, method).remote(fed.put(box, party="ALICE"))
        with pytest.raises(fed.FedRemoteError) as caught:
            fed.get(failed)
        cause = caught.value.__cause__
        assert cause is not None
        assert cause.__traceback__ is not None
        frame = cause.__traceback__.tb_frame
        assert frame.f_code.co_name == method
        kept = frame.f_back.f_locals if frame.f_back is not None else {}
        assert not any(isinstance(value, Actor | Box) for value in kept.values())
    finally:
        gc.enable()


@pytest.mark.usefixtures("session")
def test_a_failed_constructor_leaves_nothing_of_the_script_alive() -> None:
    class Failing:
        def __init__(self) -> None:
            raise ValueError("no")

    def script() -> weakref.ref[Box]:
        box = Box()
        fed.remote(Failing).party("ALICE").remote()
        return weakref.ref(box)

    gc.disable()
    try:
        assert script()() is None
    finally:
        gc.enable()


@pytest.mark.usefixtures("session")
def test_a_body_that_exits_is_an_outcome_in_every_kind_of_call() -> None:
    one, two = fed.put(1, party="ALICE"), fed.put(2, party="BOB")
    for outcome in (
        fed.remote(Actor).party("ALICE").remote().leave.remote(),
        fed.remote(leave).party("ALICE").remote(one, two),
        fed.reduce(leave, [one, two], party="ALICE"),
    ):
        with pytest.raises(fed.FedRemoteError) as caught:
            fed.get(outcome)
        assert caught.value.type_name == "SystemExit"


@pytest.mark.usefixtures("session")
def test_an_op_has_no_random_stream() -> None:
    objs = [fed.put(float(n), party="BOB") for n in range(3)]
    with pytest.raises(fed.FedRemoteError) as caught:
        fed.get(fed.reduce(draw, objs, party="ALICE"))
    assert isinstance(caught.value.__cause__, fed.UsageError)
    assert "draw, the op of a fed.reduce" in str(caught.value.__cause__)


@pytest.mark.usefixtures("session")
def test_an_interrupted_body_leaves_the_session_usable() -> None:
    class Interrupted:
        def stop(self) -> None:
            raise KeyboardInterrupt

        def stop_often(self, times: int = 1) -> None:
            raise KeyboardInterrupt

    actor = fed.remote(Interrupted).party("ALICE").remote()
    for method in (actor.stop, actor.stop_often):
        with pytest.raises(KeyboardInterrupt):
            method.remote()
    assert fed.get(fed.put(5, party="ALICE")) == 5
