"""One call as the script makes it, before an engine takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fed.model import ledger, objects, trees

if TYPE_CHECKING:
    from fed.model import remote

#: Stands where a value may be absent and None is a value.
NOTHING: Final = type("_Nothing", (), {"__slots__": (), "__repr__": lambda self: "NOTHING"})()


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """A call of a function, a constructor or a method.

    Attributes:
        kind: `ledger.FUNCTION`, `CREATE` or `METHOD`.
        name: `__qualname__` of what is called.
        party: the party that executes; its name is not checked yet.
        target: the function or class; for a method its spec.
        actor: the handle's method, for a method call.
        args: positional arguments in normal form (`signatures.binder`).
        kwargs: the others.
        num_returns: how many values the call makes, at least 1.
        options: checked options, `num_returns` not among them.
    """

    kind: str
    name: str
    party: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    num_returns: int
    options: Mapping[str, Any]
    actor: remote.ActorMethod | None = None


def inputs(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[tuple[ledger.Key, int]], list[objects.FedObject[Any]]]:
    """The fed objects among a call's arguments, and (argument, index) of each, in one order.

    Positions come first, then keywords sorted by name, so that the way of writing a call does
    not enter its record.
    """
    keys: list[tuple[ledger.Key, int]] = []
    found: list[objects.FedObject[Any]] = []
    for key, value in [*enumerate(args), *sorted(kwargs.items())]:
        for obj in trees.objects_in(value):
            keys.append((key, obj.index))
            found.append(obj)
    return keys, found
