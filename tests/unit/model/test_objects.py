"""Fed objects are handles and nothing else."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251  (handles refuse it)
from typing import Any

import cloudpickle
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
