"""Options of calls: known ones in bounds, others named with what is near."""

from __future__ import annotations

from typing import Any

import pytest

from fed import errors
from fed.model import options

GOOD: dict[str, list[dict[str, Any]]] = {
    "function": [
        {"num_returns": 1, "num_cpus": 0.5, "num_gpus": 0, "memory": 2**30},
        {"resources": {"a": 1, "b": 0.5}, "runtime_env": {"pip": []}, "max_retries": -1},
        {"retry_exceptions": [ValueError], "name": "x"},
        {"num_cpus": None, "resources": None},
    ],
    "class": [{"max_restarts": -1, "max_task_retries": 2, "max_concurrency": 4, "num_cpus": 1}],
    "method": [{"num_returns": 3, "max_task_retries": 0, "retry_exceptions": True, "name": "x"}],
}


@pytest.mark.parametrize(("kind", "given"), [(k, g) for k, gs in GOOD.items() for g in gs])
def test_what_fits_is_a_new_dict(kind: str, given: dict[str, Any]) -> None:
    checked = options.checked(kind, given, target="f")
    assert checked == given
    assert checked is not given


BAD: list[tuple[str, dict[str, Any], list[str]]] = [
    ("function", {"num_returns": 0}, ["'num_returns' of f is 0", "at least 1"]),
    ("function", {"num_returns": 1.0}, ["1.0", "integer"]),
    ("function", {"num_returns": True}, ["True"]),
    ("function", {"num_returns": "streaming"}, ["streaming", "refused", "list or tuple"]),
    ("method", {"num_returns": "dynamic"}, ["dynamic", "refused"]),
    ("class", {"num_returns": 2}, ["does not fit f, a class"]),
    ("function", {"num_cpus": -1}, ["num_cpus", "-1"]),
    ("function", {"num_cpus": True}, ["num_cpus", "True"]),
    ("function", {"num_cpus": float("nan")}, ["num_cpus", "nan"]),
    ("function", {"resources": {"a": -1}}, ["resources", "names to amounts"]),
    ("function", {"resources": ["a"]}, ["resources"]),
    ("function", {"retry_exceptions": ValueError}, ["retry_exceptions", "list of exception"]),
    ("function", {"max_restarts": 1}, ["max_restarts", "does not fit f, a function"]),
    ("method", {"num_cpus": 1}, ["num_cpus", "does not fit f, a method"]),
    ("function", {"num_cpu": 1}, ["unknown option 'num_cpu' of f", "did you mean 'num_cpus'"]),
    ("function", {"zzz": 1}, ["unknown option 'zzz'", "num_returns, num_cpus"]),
    ("function", {"scheduling_strategy": "SPREAD"}, ["scheduling_strategy", ".party(name)"]),
    ("class", {"lifetime": "detached"}, ["lifetime", "session"]),
    ("class", {"get_if_exists": True}, ["get_if_exists"]),
    ("function", {"name": ""}, ["name", "string"]),
]


@pytest.mark.parametrize(("kind", "given", "parts"), BAD, ids=lambda value: str(value)[:40])
def test_what_does_not_is_refused_by_name(kind: str, given: Any, parts: list[str]) -> None:
    with pytest.raises(errors.UsageError) as caught:
        options.checked(kind, given, target="f")
    for part in parts:
        assert part in str(caught.value)


class Sulky:
    """Compares and shows itself with an error, as an array of several elements compares."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("name", ["num_returns", "num_cpus", "resources", "name"])
def test_values_with_code_of_their_own_are_refused_like_others(name: str) -> None:
    with pytest.raises(errors.UsageError, match=f"option '{name}' of f is <Sulky"):
        options.checked("function", {name: Sulky()}, target="f")
