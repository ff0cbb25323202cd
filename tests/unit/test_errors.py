"""Every error under `FedError`: its fields survive, its text is made from them."""

from __future__ import annotations

import copy
import dataclasses
import pickle  # noqa: TID251  (what errors must survive)
import typing
from typing import Any

import pytest

import fed
from fed import errors

CLASSES = errors.all_errors()
LEAVES = [cls for cls in CLASSES if dataclasses.is_dataclass(cls)]

#: Fields that need not stand in the text, with the reason.
SILENT = {
    # A branch of the tree, raised by its subclasses alone.
    errors.PartyError: {"party"},
    # `type_name` and the level say which text there is; both are looked at below.
    errors.FedRemoteError: {"detail", "level", "actor"},
    # The text is `problem` and `fix`; these say the same to programs.
    errors.UnknownPartyError: {"party"},
    errors.ReturnCountError: {"party", "call", "expected", "got"},
    errors.IsolationError: {"party", "call", "changed"},
}


def samples(cls: type) -> dict[str, Any]:
    """A value for each field, each different from all others."""
    hints = typing.get_type_hints(cls)
    made: dict[str, Any] = {}
    for place, field in enumerate(dataclasses.fields(cls)):
        kinds = [*typing.get_args(hints[field.name]), hints[field.name]]
        if hints[field.name] == list[str]:
            made[field.name] = [f"<one {place}>", f"<two {place}>"]
        elif str in kinds:
            made[field.name] = f"<{field.name} {place}>"
        elif int in kinds:
            made[field.name] = 70_001 + place
        else:
            assert float in kinds, f"{cls}: add a sample for {field.name}"
            made[field.name] = 12.25 + place
    return made


def make(cls: type) -> errors.FedError:
    return cls(**samples(cls)) if cls in LEAVES else cls("text")  # type: ignore[no-any-return]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("protocol", [2, 5])
def test_a_pickle_keeps_class_fields_and_text(cls: type, protocol: int) -> None:
    error = make(cls)
    error.__cause__ = ValueError("stays behind")
    back = pickle.loads(pickle.dumps(error, protocol))
    assert type(back) is cls
    assert vars(back) == vars(error)
    assert str(back) == str(error)
    assert back.__cause__ is None
    assert isinstance(back, errors.FedError)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_copy_is_equal_in_fields(cls: type) -> None:
    error = make(cls)
    assert vars(copy.copy(error)) == vars(copy.deepcopy(error)) == vars(error)


@pytest.mark.parametrize("cls", LEAVES, ids=lambda cls: cls.__name__)
def test_the_text_names_every_field(cls: type) -> None:
    error = make(cls)
    text = str(error).replace(",", "")
    for name, value in samples(cls).items():
        if name in SILENT.get(cls, set()):
            continue
        for part in value if isinstance(value, list) else [value]:
            assert str(part) in text, f"{name} is not in {text!r}"


@pytest.mark.parametrize("cls", LEAVES, ids=lambda cls: cls.__name__)
def test_errors_are_told_apart_by_identity(cls: type) -> None:
    one, other = make(cls), make(cls)
    assert one != other
    assert len({one, other}) == 2


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_is_public(cls: type) -> None:
    assert getattr(fed, cls.__name__) is cls


def test_they_are_what_python_calls_them_too() -> None:
    assert issubclass(errors.MissingPartyError, ValueError)
    assert issubclass(errors.FedTimeoutError, TimeoutError)
    assert issubclass(errors.NotRemotableError, TypeError)
    assert issubclass(errors.UnknownMethodError, AttributeError)
    assert not issubclass(errors.FedRemoteError, errors.UsageError)


def test_what_was_added_to_an_error_survives_too() -> None:
    error = make(errors.PartyLostError)
    error.add_note("seen at the gateway")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["seen at the gateway"]


def test_the_level_of_detail_governs_text_and_cause() -> None:
    fields: dict[str, Any] = {"party": "BOB", "call": 7, "name": "f", "type_name": "KeyError"}
    hidden = errors.FedRemoteError(**fields)
    assert hidden.cause is None
    assert "error_detail" in str(hidden)
    assert "'BOB'" in str(hidden)
    told = errors.FedRemoteError(**fields, detail="'k'", level="message")
    assert str(told.cause) == "KeyError: 'k'"
    assert str(told).endswith("'k'")
    whole = errors.FedRemoteError(**fields, detail="Traceback\n  line\n", level="traceback")
    assert "Traceback\n  line" in str(whole)
    actor = errors.FedRemoteError(**fields, actor=3, site="train.py:12")
    assert "of actor 3" in str(actor)
    assert "train.py:12" in str(actor)


def test_a_remote_cause_survives() -> None:
    cause = pickle.loads(pickle.dumps(errors.RemoteCause("KeyError", "k")))
    assert (cause.type_name, cause.text, str(cause)) == ("KeyError", "k", "KeyError: k")
