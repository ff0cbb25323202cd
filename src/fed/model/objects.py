"""Fed objects: the handles of values that live at one party."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

from fed import errors, names

T_co = TypeVar("T_co", covariant=True)

if TYPE_CHECKING:
    # To a type checker a fed object may stand wherever its value may: a call's signature names
    # the values that the body gets, and the script passes fed objects in their place.
    _Anything = Any
else:

    class _Anything:
        __slots__ = ()


class FedObject(_Anything, Generic[T_co]):  # type: ignore[misc]
    """The handle of one value that a call makes at its party, now or later.

    Made by `.remote(...)`, `fed.put` and `fed.reduce` only. It is passed to other calls, also
    inside lists, tuples, dicts, named tuples and dataclasses, and read by `fed.get`.

    Attributes:
        party: the party that owns the value.
        number: number of the call that makes it, from 1.
        index: which of that call's values it is, from 0.
    """

    __slots__ = ("number", "party")

    party: names.PartyId
    number: int
    index: int = 0

    @property
    def id(self) -> str:
        """`number#index`: equal at all parties and in all modes."""
        return f"{self.number}#{self.index}"

    def get_party(self) -> str:
        """RayFed's name for `party`."""
        return self.party

    def get_fed_task_id(self) -> str:
        """RayFed's name for `id`."""
        return self.id

    def __repr__(self) -> str:
        return f"<FedObject {self.id} of {self.party}>"

    def __reduce__(self) -> NoReturn:
        raise errors.UsageError(
            problem=f"{self!r} can't be pickled or stored: it is a handle of this session only",
            fix="Pass it as an argument of a call, or get its value with fed.get",
        )

    def _as_value(self, use: str) -> NoReturn:
        raise errors.UsageError(
            problem=f"{self!r} is a handle, not its value: it has no {use}",
            fix="Pass it to a call, or read its value with fed.get",
        )

    def __bool__(self) -> bool:
        self._as_value("truth value")

    def __iter__(self) -> NoReturn:
        self._as_value("elements")

    def __len__(self) -> NoReturn:
        self._as_value("length")


class _Withheld:
    """The type of `fed.WITHHELD`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "fed.WITHHELD"

    def __reduce__(self) -> str:
        return "WITHHELD"


#: What `fed.get(x, parties=[...])` gives at a party that is not among the receivers. Scripts must
#: not branch on it to make calls: the parties' programs would differ.
WITHHELD: Final = _Withheld()
