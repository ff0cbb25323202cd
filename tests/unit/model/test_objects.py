"""Fed objects are handles and nothing else."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251  (handles refuse it)
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pytest

import fed
from fed import errors
from fed.model import objects


def made() -> Any:
    obj: Any = objects.FedObject.__new__(objects.FedObject)
    obj.number, obj.party = 12, "ALICE"
    return obj


def test_who_and_which() -> None:
    obj = made()
    assert (obj.id, obj.get_fed_task_id()) == ("12#0", "12#0")
    assert (obj.party, obj.get_party()) == ("ALICE", "ALICE")
    assert repr(obj) == "<FedObject 12#0 of ALICE>"


@pytest.mark.parametrize(
    "use",
    [bool, iter, list, len, pickle.dumps, cloudpickle.dumps, copy.copy, copy.deepcopy],
    ids=lambda use: f"{use.__module__}.{use.__name__}",
)
def test_uses_as_a_value_are_refused_with_what_to_do(use: Any) -> None:
    with pytest.raises(errors.UsageError, match=r"12#0.*fed\.get"):
        use(made())
    with pytest.raises(errors.UsageError):
        use([made()]) if use in (pickle.dumps, cloudpickle.dumps, copy.deepcopy) else use(made())


def test_an_if_does_not_pass_silently() -> None:
    with pytest.raises(errors.UsageError, match="truth value"):
        print("yes" if made() else "no")


def test_objects_are_told_apart_by_identity() -> None:
    one, other = made(), made()
    assert one != other
    assert one == one
    assert len({one, other}) == 2


def test_withheld_is_one_object_everywhere() -> None:
    assert pickle.loads(pickle.dumps(fed.WITHHELD)) is fed.WITHHELD
    assert copy.deepcopy([fed.WITHHELD])[0] is fed.WITHHELD
    assert cloudpickle.loads(cloudpickle.dumps({"x": fed.WITHHELD}))["x"] is fed.WITHHELD
    assert repr(fed.WITHHELD) == "fed.WITHHELD"


@pytest.mark.parametrize(
    "use",
    [
        lambda o: o + 1,
        lambda o: 1 + o,
        lambda o: -o,
        lambda o: o < 3,
        lambda o: sum([o, o]),
        lambda o: np.ones(3) @ o,
        lambda o: np.mean([o, o]),
        float,
        int,
        bool,
        len,
        list,
        lambda o: f"{o:.2f}",
        lambda o: o[0],
        lambda o: 0 in o,
        lambda o: o(),
        lambda o: o == 1.5,
        lambda o: 1.5 in [o],
        lambda o: o != 1.5,
        lambda o: range(3)[o],
    ],
)
def test_a_handle_used_as_its_value_says_what_it_is(use: Callable[[Any], object]) -> None:
    with pytest.raises(errors.HandleError, match=r"FedObject 12#0 of ALICE.*fed.get"):
        use(made())


def test_an_attribute_of_the_value_is_not_the_handles() -> None:
    obj = made()
    assert not hasattr(obj, "shape")
    with pytest.raises(AttributeError, match="'FedObject' object has no attribute 'shape'"):
        obj.shape  # noqa: B018


def test_handles_can_be_compared_kept_and_shown() -> None:
    one, two = made(), made()
    assert one == one
    assert one != two
    assert one in [two, one]
    assert {one: 1, two: 2}[one] == 1
    assert f"{one}" == str(one) == repr(one) == "<FedObject 12#0 of ALICE>"
