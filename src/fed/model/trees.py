"""Containers that fed objects may stand in, walked in one order everywhere.

Lists, tuples, dicts (values), ordered dicts, named tuples and dataclass instances, nested up to
`MAX_DEPTH`. Other objects are leaves.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from fed import errors
from fed.model import objects

#: Deeper than any value that people write, less than Python's recursion limit of 1,000 frames.
MAX_DEPTH: Final = 200


def _is_namedtuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def _is_dataclass(value: object) -> bool:
    return hasattr(type(value), "__dataclass_fields__") and not isinstance(value, type)


def children(value: Any) -> Iterator[Any] | None:
    """The direct children of a container in their order, None for a leaf."""
    kind = type(value)
    if kind is list or kind is tuple or _is_namedtuple(value):
        return iter(value)  # type: ignore[no-any-return]
    if kind is dict or kind is OrderedDict:
        return iter(value.values())  # type: ignore[no-any-return]
    if _is_dataclass(value):
        return (getattr(value, name) for name in field_names(value))
    return None


def field_names(value: Any) -> list[str]:
    """The names of the children of a named tuple or dataclass instance, in their order."""
    if isinstance(value, tuple):
        return list(type(value)._fields)  # type: ignore[attr-defined]
    return [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]


def objects_in(value: Any) -> list[objects.FedObject[Any]]:
    """The fed objects in a container (or the object itself), in the order of the walk.

    Raises:
        UsageError: if the container is nested deeper than `MAX_DEPTH` or contains itself, or has
            a fed object in a set, whose order differs between processes, or in a dict's key.
    """
    found: list[objects.FedObject[Any]] = []
    _collect(value, found, 0)
    return found


def _collect(value: Any, found: list[objects.FedObject[Any]], depth: int) -> None:
    if isinstance(value, objects.FedObject):
        found.append(value)
        return
    if depth > MAX_DEPTH:
        raise errors.UsageError(
            problem=f"an argument is nested deeper than {MAX_DEPTH} levels or contains itself",
            fix="Pass a flatter structure",
        )
    if isinstance(value, set | frozenset):
        if any(isinstance(item, objects.FedObject) for item in value):
            raise errors.UsageError(
                problem="a fed object stands in a set, whose order differs between parties",
                fix="Pass a list or a tuple",
            )
        return
    inner = children(value)
    if inner is not None:
        if isinstance(value, dict) and any(map(_holds_an_object, value)):
            raise errors.UsageError(
                problem="a fed object stands in the key of a dict, where its value can't take its "
                "place",
                fix="Use its id or its party as the key, or make it the value",
            )
        for item in inner:
            _collect(item, found, depth + 1)


def _holds_an_object(key: Any) -> bool:
    if isinstance(key, tuple | frozenset):
        return any(map(_holds_an_object, key))
    return isinstance(key, objects.FedObject)


def replaced(value: Any, replace: Callable[[objects.FedObject[Any]], Any]) -> Any:
    """`value` with each fed object replaced; containers without one are kept, not copied."""
    if isinstance(value, objects.FedObject):
        return replace(value)
    inner = children(value)
    if inner is None:
        return value
    old = list(inner)
    new = [replaced(item, replace) for item in old]
    if all(a is b for a, b in zip(old, new, strict=True)):
        return value
    return rebuilt(value, new)


def rebuilt(value: Any, new: list[Any]) -> Any:
    """A container like `value` with `new` for its children, in the order of `children`."""
    kind = type(value)
    if kind is list:
        return new
    if kind is tuple:
        return tuple(new)
    if kind is dict or kind is OrderedDict:
        return kind(zip(value, new, strict=True))
    if _is_namedtuple(value):
        return tuple.__new__(kind, new)
    copy = object.__new__(kind)
    names = field_names(value)
    for name, item in {
        **getattr(value, "__dict__", {}),
        **dict(zip(names, new, strict=True)),
    }.items():
        object.__setattr__(copy, name, item)
    return copy
