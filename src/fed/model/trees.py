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


def objects_in(value: Any, *, is_argument: bool = False) -> list[objects.FedObject[Any]]:
    """The fed objects in a container (or the object itself), in the order of the walk.

    A container that stands in several places counts in each. Time grows with the containers and
    the fed objects, not with the ways that lead to them.

    Args:
        value: anything.
        is_argument: True to refuse what makes calls, such as the handle of an actor.

    Raises:
        UsageError: if there are fed objects and the container is nested deeper than `MAX_DEPTH` or
            contains itself; if one is in a set, whose order differs between processes, or in a
            dict's key.
    """
    if isinstance(value, objects.FedObject):
        return [value]
    items = _looked_into(value)
    if items is None:
        if is_argument and isinstance(value, objects.Caller):
            value.__reduce__()
        return []
    found: list[objects.FedObject[Any]] = []
    above: dict[int, Any] = {id(value): value}
    without: dict[int, Any] = {}  # keeps what it names: an id is not used again meanwhile
    is_endless = False
    stack = [(value, items, 0)]
    while stack:
        container, items, before = stack[-1]
        for item in items:
            if isinstance(item, objects.FedObject):
                found.append(item)
                continue
            key = id(item)
            if key in without:
                continue
            if key in above:
                is_endless = True
                continue
            inner = _looked_into(item)
            if inner is not None:
                above[key] = item
                stack.append((item, inner, len(found)))
                is_endless = is_endless or len(stack) > MAX_DEPTH + 1
                break
            if is_argument and isinstance(item, objects.Caller):
                item.__reduce__()
        else:
            stack.pop()
            del above[id(container)]
            if len(found) == before:
                without[id(container)] = container
    if found and is_endless:
        raise errors.UsageError(
            problem=f"a container of fed objects is nested deeper than {MAX_DEPTH} levels or "
            "contains itself",
            fix="Pass a flatter structure",
        )
    return found


def _looked_into(value: Any) -> Iterator[Any] | None:
    """As `children`, after the check that no fed object stands where no value can replace it."""
    if isinstance(value, set | frozenset):
        if any(isinstance(item, objects.FedObject) for item in value):
            raise errors.UsageError(
                problem="a fed object stands in a set, whose order differs between parties",
                fix="Pass a list or a tuple",
            )
        return None
    inner = children(value)
    if inner is not None and isinstance(value, dict) and any(map(_holds_an_object, value)):
        raise errors.UsageError(
            problem="a fed object stands in the key of a dict, where its value can't take its "
            "place",
            fix="Use its id or its party as the key, or make it the value",
        )
    return inner


def _holds_an_object(key: Any) -> bool:
    if isinstance(key, tuple | frozenset):
        return any(map(_holds_an_object, key))
    return isinstance(key, objects.FedObject)


def replaced(value: Any, replace: Callable[[objects.FedObject[Any]], Any]) -> Any:
    """`value` with each fed object replaced; containers without one are kept, not copied.

    `value` is one that `objects_in` took; `replace` is asked in its order.
    """
    return _replaced(value, replace, {})


def _replaced(
    value: Any, replace: Callable[[objects.FedObject[Any]], Any], kept: dict[int, Any]
) -> Any:
    if isinstance(value, objects.FedObject):
        return replace(value)
    if id(value) in kept:
        return value
    inner = children(value)
    if inner is None:
        return value
    kept[id(value)] = value  # should it contain itself, then it holds no fed object
    old = list(inner)
    new = [_replaced(item, replace, kept) for item in old]
    if all(a is b for a, b in zip(old, new, strict=True)):
        return value
    del kept[id(value)]
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


def attributes(value: Any) -> dict[str, Any]:
    """What hangs on a dataclass instance beside its fields: no children, but part of its value."""
    names = set(field_names(value))
    return {k: v for k, v in getattr(value, "__dict__", {}).items() if k not in names}
