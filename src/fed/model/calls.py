"""One call as the script makes it, before an engine takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fed.model import ledger, objects, trees

if TYPE_CHECKING:
    from fed.model import remote

#: Stands where a value may be absent and None is a value.
NOTHING: Final = type("_Nothing", (), {"__slots__": (), "__repr__": lambda self: "NOTHING"})()


class Call:
    """A call of a function, a constructor or a method.

    Attributes:
        kind: `ledger.FUNCTION`, `CREATE` or `METHOD`.
        name: `__qualname__` of what is called.
        party: the party that executes; its name is not checked yet.
        target: the function or class; for a method its spec.
        args: positional arguments in normal form (`signatures.binder`).
        kwargs: the others.
        num_returns: how many values the call makes, at least 1.
        options: checked options.
        method: the handle's method, for a method call.
        number: the call's number; engines fill in this and what follows.
        ordinal: which of its party's actors of its class, from 0; None for functions.
        index: how many calls of the function, or of the actor's method, came before.
        site: `file:line` of the call in the script, where it had to be remembered.
    """

    __slots__ = (
        "args", "index", "kind", "kwargs", "method", "name", "num_returns", "number", "options",
        "ordinal", "party", "site", "target",
    )  # fmt: skip

    # Positional and without defaults: this is made at every call.
    def __init__(
        self,
        kind: str,
        name: str,
        party: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        num_returns: int,
        options: Mapping[str, Any],
        method: remote.ActorMethod | None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.party = party
        self.target = target
        self.args = args
        self.kwargs = kwargs
        self.num_returns = num_returns
        self.options = options
        self.method = method
        self.number = 0
        self.ordinal: int | None = None
        self.index = 0
        self.site: str | None = None

    @property
    def what(self) -> str:
        """The call in words, for errors."""
        actor = f" of actor {self.ordinal}" if self.ordinal is not None else ""
        return f"{self.name}{actor} of party {self.party!r} (call {self.number})"


#: Exact types that hold no fed object: not looked into.
_LEAVES: Final = frozenset((type(None), bool, int, float, str, bytes))


def inputs(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[tuple[ledger.Key, int]], list[objects.FedObject[Any]]]:
    """The fed objects among a call's arguments, and (argument, index) of each, in one order.

    Positions come first, then keywords sorted by name, so that the way of writing a call does
    not enter its record.

    Raises:
        UsageError: if what makes calls is among them, or a fed object where no value can take its
            place (see `trees.objects_in`).
    """
    keys: list[tuple[ledger.Key, int]] = []
    found: list[objects.FedObject[Any]] = []
    place = 0
    for value in args:
        if isinstance(value, objects.FedObject):
            keys.append((place, value.index))
            found.append(value)
        elif type(value) not in _LEAVES:
            for obj in trees.objects_in(value, is_argument=True):
                keys.append((place, obj.index))
                found.append(obj)
        place += 1  # noqa: SIM113  (enumerate costs more, and this is done at every call)
    for name in sorted(kwargs) if kwargs else ():
        for obj in trees.objects_in(kwargs[name], is_argument=True):
            keys.append((name, obj.index))
            found.append(obj)
    return keys, found
