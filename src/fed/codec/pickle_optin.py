"""Values that cross as pickles: off, until both sides name the classes they accept.

**Danger.** A pickle says which of the accepted classes are made, with which arguments, and calls
their `__init__`, `__setstate__` and `__reduce__` targets. Who accepts a class from a peer lets
that peer run the class's code with arguments of its choosing, and use as much time and memory as
it likes. Name single classes of your own code whose construction is harmless; never a module
with classes that open files, start processes or load code. Arrays, tensors and frames inside a
pickled value leave through the type table, so their bytes are never part of a pickle.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import io
import pickle
import sys
import types as python_types
import uuid
from collections.abc import Iterable
from typing import Any

from fed.codec import types

#: Protocol 5 names classes in one way only and is the same in every supported Python.
_PROTOCOL = 5

#: Classes of the type table that have no opcode of their own: always accepted.
_ALWAYS: dict[tuple[str, str], type] = {
    (cls.__module__, cls.__qualname__): cls
    for cls in (
        *(complex, set, frozenset, bytearray, collections.OrderedDict),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
        *(decimal.Decimal, uuid.UUID, uuid.SafeUUID),
    )
}


class Accepted:
    """What this party accepts as pickles.

    Args:
        names: `module.Class` for one class, `module` for all classes that the module makes, and
            `module.function` for a function that a class's `__reduce__` names. Functions are
            never accepted by their module's name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def has(self, cls: type) -> bool:
        """True if instances of the class may be pickled."""
        return self._accepts(cls.__module__, cls.__qualname__, cls)

    def find(self, module: str, qualname: str) -> Any:
        """The accepted class or function of that name, among loaded modules; imports nothing.

        Raises:
            ValueError: if it isn't accepted, or isn't there.
        """
        always = _ALWAYS.get((module, qualname))
        if always is not None:
            return always
        found: Any = sys.modules.get(module)
        for part in qualname.split("."):
            found = vars(found).get(part) if _has_names(found) else None
        if isinstance(found, (staticmethod, classmethod)) or not self._accepts(
            module, qualname, found
        ):
            raise ValueError(f"{module}.{qualname} isn't accepted as a pickle at this party")
        return found

    def _accepts(self, module: str, qualname: str, found: object) -> bool:
        if not isinstance(found, (type, python_types.FunctionType)):
            return False
        if (found.__module__, found.__qualname__) != (module, qualname):
            return False
        named = f"{module}.{qualname}" in self._names
        return named or (isinstance(found, type) and module in self._names)


def _has_names(found: object) -> bool:
    return isinstance(found, (python_types.ModuleType, type))


def dumps(value: object, accepted: Accepted) -> tuple[bytes, list[Any]]:
    """The value as a pickle, and the arrays and the like that it refers to by number.

    Raises:
        ValueRefusedError: with an empty path, if it holds anything that isn't accepted, or that
            can't be pickled.
    """
    sink = io.BytesIO()
    pickler = _Pickler(sink, accepted)
    try:
        pickler.dump(value)
    except Exception as error:
        raise types.refusal(value, f"it can't be pickled: {error}") from error
    return sink.getvalue(), pickler.parts


def loads(data: bytes, parts: list[Any], accepted: Accepted) -> Any:
    """The value of a pickle whose every class is accepted.

    Raises:
        ValueError: if it names anything else, or can't be read.
    """
    source = io.BytesIO(data)
    try:
        value = _Unpickler(source, parts, accepted).load()
    except Exception as error:
        raise ValueError(f"a pickle can't be read: {error}") from error
    if source.read(1):
        raise ValueError("a pickle has more bytes than it uses")
    return value


def cross(value: Any, user: types.UserTypes, depth: int) -> Any:
    """The value as the other side gets it, through a pickle.

    Raises:
        ValueRefusedError: with an empty path, if it may not cross.
    """
    if depth + 1 >= types.DEPTH_LIMIT:  # the list of parts is a level of its own
        raise types.too_deep(value)
    accepted = required(user)
    data, parts = dumps(value, accepted)
    crossed = [user.handlers[type(part)](part, user, depth + 2) for part in parts]
    try:
        return loads(data, crossed, accepted)
    except ValueError as error:
        raise types.refusal(value, str(error)) from error


def required(user: types.UserTypes) -> Accepted:
    """What the party accepts.

    Raises:
        ValueError: if pickles are off.
    """
    if user.pickled is None:
        raise ValueError("pickles are off at this party")
    return user.pickled


class _Pickler(pickle.Pickler):
    def __init__(self, sink: io.BytesIO, accepted: Accepted) -> None:
        super().__init__(sink, _PROTOCOL)
        self.parts: list[Any] = []
        self._accepted = accepted

    def persistent_id(self, obj: Any) -> int | None:
        if types.library_handler(type(obj)) is None:
            return None
        self.parts.append(obj)
        return len(self.parts) - 1

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, python_types.FunctionType, python_types.BuiltinFunctionType)):
            self._accepted.find(obj.__module__, obj.__qualname__)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, parts: list[Any], accepted: Accepted) -> None:
        super().__init__(source)
        self._parts = parts
        self._accepted = accepted

    def persistent_load(self, pid: Any) -> Any:
        if type(pid) is not int or not 0 <= pid < len(self._parts):
            raise pickle.UnpicklingError("it refers to a part that isn't there")
        return self._parts[pid]

    def find_class(self, module: str, qualname: str) -> Any:
        return self._accepted.find(module, qualname)
