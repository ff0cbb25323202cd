"""The options of calls: `num_returns` for every mode, the rest for Ray, validated everywhere.

The options of Ray are checked in every mode, so that a script that runs in simulation runs on a
cluster too; they have effect on Ray only. This is the one exception to "nothing is accepted and
ignored", and it is documented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fed import errors, names
from fed.model import showing


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: object, *, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _amounts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and _is_number(amount) and amount >= 0
        for name, amount in value.items()
    )


def _exceptions(value: object) -> bool:
    if isinstance(value, bool):
        return True
    return isinstance(value, list | tuple) and all(
        isinstance(item, type) and issubclass(item, BaseException) for item in value
    )


@dataclass(frozen=True, slots=True)
class _Option:
    """One option: whom it fits, what it takes (in words and as a check)."""

    functions: bool
    classes: bool
    methods: bool
    takes: str
    check: Callable[[Any], bool]


_OPTIONS: Final[dict[str, _Option]] = {
    "num_returns": _Option(
        True, False, True, "an integer of at least 1", lambda v: _count(v, least=1)
    ),
    "num_cpus": _Option(
        True, True, False, "a number >= 0", lambda v: v is None or (_is_number(v) and v >= 0)
    ),
    "num_gpus": _Option(
        True, True, False, "a number >= 0", lambda v: v is None or (_is_number(v) and v >= 0)
    ),
    "memory": _Option(
        True, True, False, "bytes >= 0", lambda v: v is None or (_is_number(v) and v >= 0)
    ),
    "resources": _Option(
        True, True, False, "a mapping of names to amounts >= 0", lambda v: v is None or _amounts(v)
    ),
    "runtime_env": _Option(
        True, True, False, "a mapping", lambda v: v is None or isinstance(v, Mapping)
    ),
    "max_retries": _Option(
        True, False, False, "an integer of at least -1", lambda v: _count(v, least=-1)
    ),
    "retry_exceptions": _Option(
        True, False, True, "True, False or a list of exception classes", _exceptions
    ),
    "max_restarts": _Option(
        False, True, False, "an integer of at least -1", lambda v: _count(v, least=-1)
    ),
    "max_task_retries": _Option(
        False, True, True, "an integer of at least -1", lambda v: _count(v, least=-1)
    ),
    "max_concurrency": _Option(
        False, True, False, "an integer of at least 1", lambda v: _count(v, least=1)
    ),
    "name": _Option(True, True, True, "a string", lambda v: isinstance(v, str) and bool(v)),
}

#: Options of Ray that can't be given, with the reason.
_REFUSED: Final = {
    "scheduling_strategy": "the party decides where a call runs: say it with .party(name)",
    "placement_group": "the party decides where a call runs: say it with .party(name)",
    "lifetime": "an actor lives as long as the session that made it",
    "namespace": "the session chooses the namespace",
    "get_if_exists": "an actor belongs to the session that made it",
    "_metadata": "it is an internal option of Ray",
}


def checked(kind: str, given: Mapping[str, Any], *, target: str) -> dict[str, Any]:
    """`given` as a new dict, every option known and in bounds.

    Args:
        kind: `function`, `class` or `method`.
        given: option names and values.
        target: what the options are for, for the error.

    Raises:
        UsageError: if an option is unknown, does not fit the kind or has a wrong value.
    """
    for name, value in given.items():
        if name == "num_returns" and isinstance(value, str) and value in ("streaming", "dynamic"):
            raise errors.UsageError(
                problem=f"num_returns={value!r} of {target} is refused: every party must know how "
                "many values a call makes when it makes the call",
                fix="Return a list or tuple and give its length as num_returns",
            )
        if name in _REFUSED:
            raise errors.UsageError(
                problem=f"option {name!r} of {target} is refused: {_REFUSED[name]}"
            )
        option = _OPTIONS.get(name)
        fits = [key for key, known in _OPTIONS.items() if _fits(known, kind)]
        if option is None:
            raise errors.UsageError(
                problem=f"unknown option {name!r} of {target}{names.did_you_mean(name, fits)}",
                fix=f"Options of a {kind}: {', '.join(fits)}",
            )
        if not _fits(option, kind):
            raise errors.UsageError(
                problem=f"option {name!r} does not fit {target}, a {kind}",
                fix=f"Options of a {kind}: {', '.join(fits)}",
            )
        if not option.check(value):
            raise errors.UsageError(
                problem=f"option {name!r} of {target} is {showing.shown(value)}",
                fix=f"Give {option.takes}",
            )
    return dict(given)


def _fits(option: _Option, kind: str) -> bool:
    return {"function": option.functions, "class": option.classes, "method": option.methods}[kind]
