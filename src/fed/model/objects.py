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

    if not TYPE_CHECKING:
        # Only at run time: a type checker takes a fed object for its value. No __getattr__: with
        # one, Python reads every attribute the slow way, and calls read several.

        def __eq__(self, other: object) -> bool:
            """True for the very same object. Comparing the handle with a value is refused."""
            if not isinstance(other, FedObject):
                self._refuse("comparison")
            return self is other

        def __format__(self, spec: str) -> str:
            if spec:
                self._refuse("format")
            return str(self)

        __hash__ = object.__hash__

        #: Keeps numpy from making an array of handles out of an expression.
        __array_ufunc__ = None

        def _refuse(self, use: str) -> NoReturn:
            raise errors.HandleError(
                problem=f"{self!r} is a handle, not its value: it has no {use}",
                fix="Pass it to a call, or read its value with fed.get",
            )


def _refusing(use: str) -> Any:
    def refuse(self: Any, *_operands: Any) -> None:
        self._refuse(use)

    return refuse


_ARITHMETIC: Final = (
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor",
    "lshift", "rshift",
)  # fmt: skip

for _name, _use in {
    "bool": "truth value",
    "iter": "elements",
    "len": "length",
    "getitem": "elements",
    "contains": "elements",
    "call": "way to be called",
    "await": "way to be awaited",
    "float": "number",
    "int": "number",
    "complex": "number",
    "index": "number",
    "lt": "order",
    "le": "order",
    "gt": "order",
    "ge": "order",
    **dict.fromkeys(("neg", "pos", "abs", "invert", "round"), "arithmetic"),
    **{f"{side}{name}": "arithmetic" for name in _ARITHMETIC for side in ("", "r")},
}.items():
    setattr(FedObject, f"__{_name}__", _refusing(_use))


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


class Caller:
    """What makes calls (remote functions, handles of actors, their methods): never a value."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise errors.UsageError(
            problem=f"{self!r} can't be sent to a call or stored",
            fix="Calls are made by the script alone; pass fed objects, values and plain functions",
        )
