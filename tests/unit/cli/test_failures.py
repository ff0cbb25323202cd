from __future__ import annotations

import traceback
from typing import Any

import pytest

from fed import errors
from fed.cli import failures


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def module(name: str, text: str) -> dict[str, Any]:
    """The functions of a module of that name."""
    scope: dict[str, Any] = {"__name__": name, "errors": errors}
    exec(compile(text, f"<{name}>", "exec"), scope)
    return scope


CALLS_BACK = """
def through(call, *more):
    return call(*more)
def refuses():
    raise errors.UsageError(problem="no")
def breaks():
    return 1 / 0
"""
COMMAND = module("fed.cli.script", CALLS_BACK)
LAUNCH = module("fed.session", CALLS_BACK)
PACKAGE = module("fed.model.verbs", CALLS_BACK)
ALIKE = module("federated", CALLS_BACK)
SCRIPT = module("__main__", "def main(call, *more):\n    return call(*more)\n")


def raised(*chain: Any) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        chain[0](*chain[1:])
    error = caught.value
    # What stands above the command's frames is pytest's and this file's.
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next
    failures.trim(error)
    return error


def test_the_commands_frames_are_left_out() -> None:
    error = raised(COMMAND["through"], LAUNCH["through"], SCRIPT["main"], lambda: 1 / 0)
    assert frames(error) == ["main", "<lambda>"]


def test_an_error_of_the_package_ends_at_the_users_line() -> None:
    error = raised(COMMAND["through"], SCRIPT["main"], PACKAGE["through"], PACKAGE["refuses"])
    assert frames(error) == ["main"]


def test_the_packages_frames_between_the_users_are_left_out() -> None:
    error = raised(SCRIPT["main"], PACKAGE["through"], SCRIPT["main"], lambda: {}["x"])
    assert frames(error) == ["main", "main", "<lambda>"]


def test_a_fault_of_the_package_shows_where_it_is() -> None:
    error = raised(COMMAND["through"], SCRIPT["main"], PACKAGE["through"], PACKAGE["breaks"])
    assert frames(error) == ["main", "through", "breaks"]


def test_a_module_of_a_like_name_is_the_users() -> None:
    error = raised(SCRIPT["main"], ALIKE["through"], ALIKE["refuses"])
    assert frames(error) == ["main", "through", "refuses"]


def test_chained_errors_and_groups_are_trimmed_too_and_cycles_end() -> None:
    cause = raised(SCRIPT["main"], lambda: 1 / 0)
    with pytest.raises(errors.UsageError) as caught:
        PACKAGE["through"](PACKAGE["refuses"])
    inner = caught.value
    inner.__context__, cause.__context__ = cause, inner
    group = ExceptionGroup("both", [inner])
    failures.trim(group)
    assert frames(inner) == ["test_chained_errors_and_groups_are_trimmed_too_and_cycles_end"]
    assert frames(cause) == ["main", "<lambda>"]


def test_an_interrupt_says_where_the_user_was(capsys: pytest.CaptureFixture[str]) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        PACKAGE["through"](SCRIPT["main"], PACKAGE["through"], stop)
    failures.show(caught.value)
    told = capsys.readouterr().err
    assert told.startswith("interrupted at ")
    assert told.endswith(", in stop\n")


@pytest.mark.parametrize(("code", "told"), [(None, ""), (3, ""), ("bye", "bye\n"), ([1], "[1]\n")])
def test_an_exit_says_what_it_was_given(
    code: Any, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    failures.show(SystemExit(code))
    assert capsys.readouterr().err == told


def test_a_hook_that_fails_hides_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("hook")

    monkeypatch.setattr("sys.excepthook", broken)
    failures.show(ValueError("mine"))
    assert "ValueError: mine" in capsys.readouterr().err
