"""A user's class as data: how its instances are taken apart and put together again.

Instances are rebuilt by setting fields. `__init__`, `__new__`, `__post_init__`, `__setattr__` and
properties of the class never run, so that a received value executes nothing.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types as python_types
from collections.abc import Callable, Sequence
from typing import Any, Literal

Kind = Literal["dataclass", "namedtuple", "enum", "struct"]

#: `Py_TPFLAGS_HEAPTYPE`: set for classes made by a `class` statement, not for built-in ones.
_HEAP_TYPE = 1 << 9

_set_class: Callable[[object, type], None] = object.__dict__["__class__"].__set__


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UserClass:
    """How one class crosses.

    Attributes:
        cls: the class in this process.
        kind: what it is.
        module: the name of its module on the wire (the main script: `__main__`).
        qualname: its qualified name.
        fields: names of its fields in order; empty for an Enum.
        take: the values of an instance's fields in that order, without running the class's code;
            raises `AttributeError` with the field's name if one was never set. For an Enum:
            `[member name]`, or `[value]` for a combination of flags.
        make: an instance from such a list; raises `ValueError` if there is none.
    """

    cls: type
    kind: Kind
    module: str
    qualname: str
    fields: tuple[str, ...]
    take: Callable[[Any], list[Any]]
    make: Callable[[Sequence[Any]], Any]


def kind_of(cls: type) -> Kind | None:
    """What `cls` is as far as the codec is concerned; None if it can't be taken apart."""
    if issubclass(cls, enum.Enum):
        return "enum"
    if issubclass(cls, tuple):
        fields = getattr(cls, "_fields", None)
        plain = type(fields) is tuple and all(type(name) is str for name in fields)
        return "namedtuple" if plain and cls is not tuple else None
    msgspec = sys.modules.get("msgspec")
    if msgspec is not None and issubclass(cls, msgspec.Struct):
        return "struct"
    if dataclasses.is_dataclass(cls) and _is_pure_python(cls):
        return "dataclass"
    return None


def describe(cls: type, *, module: str, qualname: str) -> UserClass:
    """The plan by which instances of `cls` cross under the given name.

    Raises:
        TypeError: if `kind_of(cls)` is None.
    """
    kind = kind_of(cls)
    if kind is None:
        raise TypeError(f"{cls.__qualname__} is no dataclass, namedtuple, Enum or msgspec Struct")
    fields, take, make = _PLANS[kind](cls)
    return UserClass(
        cls=cls, kind=kind, module=module, qualname=qualname, fields=fields, take=take, make=make
    )


def _is_pure_python(cls: type) -> bool:
    base: type | None = cls
    while base is not None and base is not object:
        if not base.__flags__ & _HEAP_TYPE:
            return False
        base = base.__base__
    return True


_Plan = tuple[tuple[str, ...], Callable[[Any], list[Any]], Callable[[Sequence[Any]], Any]]


def _dataclass_plan(cls: type) -> _Plan:
    fields = tuple(field.name for field in dataclasses.fields(cls))
    slots = {
        name: attribute
        for base in reversed(cls.__mro__)
        for name, attribute in vars(base).items()
        if isinstance(attribute, python_types.MemberDescriptorType)
    }
    new = object.__new__
    if not slots:
        wanted = len(fields)

        def take(value: Any) -> list[Any]:
            stored = value.__dict__
            try:
                return [stored[name] for name in fields]
            except KeyError as missing:
                raise AttributeError(missing.args[0]) from None

        def make(values: Sequence[Any]) -> Any:
            if len(values) != wanted:
                raise ValueError(f"{len(values)} values for {wanted} fields")
            made: Any = new(cls)
            made.__dict__.update(zip(fields, values, strict=True))
            return made

        return fields, take, make

    def take_slots(value: Any) -> list[Any]:
        found = []
        for name in fields:
            slot = slots.get(name)
            try:
                found.append(slot.__get__(value) if slot is not None else value.__dict__[name])
            except (AttributeError, KeyError):
                raise AttributeError(name) from None
        return found

    def make_slots(values: Sequence[Any]) -> Any:
        made: Any = new(cls)
        for name, value in zip(fields, values, strict=True):
            slot = slots.get(name)
            if slot is not None:
                slot.__set__(made, value)
            else:
                made.__dict__[name] = value
        return made

    return fields, take_slots, make_slots


def _namedtuple_plan(cls: type) -> _Plan:
    fields: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    new: Callable[[type, Sequence[Any]], Any] = tuple.__new__

    def take(value: Any) -> list[Any]:
        return list(tuple.__iter__(value))

    def make(values: Sequence[Any]) -> Any:
        if len(values) != len(fields):
            raise ValueError(f"{len(values)} values for {len(fields)} fields")
        return new(cls, values)

    return fields, take, make


def _enum_plan(cls: type) -> _Plan:
    by_name: dict[str, enum.Enum] = dict(cls.__members__)  # type: ignore[attr-defined]
    is_flag = issubclass(cls, enum.Flag)

    def take(value: Any) -> list[Any]:
        name = value._name_
        if by_name.get(name) is value:
            return [name]
        return [int(value._value_)]

    def make(values: Sequence[Any]) -> Any:
        (key,) = values
        if type(key) is str and key in by_name:
            return by_name[key]
        if is_flag and type(key) is int:
            known = cls._value2member_map_.get(key)  # type: ignore[attr-defined]
            # The library's own way to make a combination; a user's `_missing_` does not run.
            return known if known is not None else enum.Flag._missing_.__func__(cls, key)  # type: ignore[attr-defined]
        raise ValueError(f"no member {key!r}")

    return (), take, make


def _struct_plan(cls: type) -> _Plan:
    import msgspec

    fields: tuple[str, ...] = cls.__struct_fields__  # type: ignore[attr-defined]
    build: type = cls
    if getattr(cls, "__post_init__", None) is not None:
        # msgspec makes instances in C and calls `__post_init__` if there is one. A twin of the
        # same layout whose `__post_init__` does nothing is made instead, then given the class.
        build = msgspec.defstruct(
            cls.__name__,
            [],
            bases=(cls,),
            namespace={"__post_init__": lambda self: None},
            frozen=cls.__struct_config__.frozen,  # type: ignore[attr-defined]
        )

    def take(value: Any) -> list[Any]:
        try:
            return [getattr(value, name) for name in fields]
        except AttributeError as error:
            raise AttributeError(error.name) from None

    def make(values: Sequence[Any]) -> Any:
        made = build(**dict(zip(fields, values, strict=True)))
        if build is not cls:
            _set_class(made, cls)
        return made

    return fields, take, make


_PLANS: dict[Kind, Callable[[type], _Plan]] = {
    "dataclass": _dataclass_plan,
    "namedtuple": _namedtuple_plan,
    "enum": _enum_plan,
    "struct": _struct_plan,
}
