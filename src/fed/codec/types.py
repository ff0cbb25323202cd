"""The type table: which values may cross from one party to another, and as what they arrive.

`cross` gives the value as the other side has it after encoding and decoding, without the bytes:
checked against the table, exact types only, containers rebuilt. `UserTypes` says which of the
user's own classes belong to the table.
"""

from __future__ import annotations

import datetime
import decimal
import gc
import itertools
import os
import sys
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType, NoneType
from typing import TYPE_CHECKING, Any

from fed import errors
from fed.codec import userclass

if TYPE_CHECKING:
    from fed.codec import pickle_optin

#: Containers inside containers inside containers: how many levels a value may have. Deeper ones
#: are nearly always cycles, and every reader of a nested value is recursive.
DEPTH_LIMIT = 64

#: Exact types of values that hold nothing else and never change: they cross by reference.
SCALARS = frozenset((NoneType, bool, int, float, complex, str, bytes, decimal.Decimal,
                     datetime.date, datetime.timedelta))  # fmt: skip

#: The main script's module on the wire, however it is called in this process.
MAIN = "__main__"

Handler = Callable[[Any, "UserTypes", int], Any]


class UserTypes:
    """Which dataclasses, namedtuples, Enums and msgspec Structs may cross, and under what name.

    Args:
        modules: the setting `codec.modules`: names of modules; a package's name covers the
            modules in it. None: the main script, and loaded modules whose file lies in
            `main_dir` or below (an environment's `site-packages` there excepted).
        main_dir: the folder of the main script; None if there is none.
        main_module: the name under which this process runs the main script, if not `__main__`.
        classes: (module, qualname) -> class, looked in first and whatever `modules` says: what
            the driver hands to workers, which never imported the main script.
    """

    def __init__(
        self,
        modules: Sequence[str] | None,
        main_dir: str | None,
        *,
        main_module: str = MAIN,
        classes: Mapping[tuple[str, str], type] | None = None,
        pickled: pickle_optin.Accepted | None = None,
    ) -> None:
        self._modules = None if modules is None else frozenset(modules)
        self._folder = None if main_dir is None else resolved(main_dir)
        self._main_module = main_module
        self._given = dict(classes or {})
        self._given_names = {cls: name for name, cls in self._given.items()}
        self.pickled = pickled
        self._described: dict[type, userclass.UserClass] = {}
        self.handlers: dict[type, Handler] = _Handlers(self)

    def name_of(self, cls: type) -> tuple[str, str]:
        """The (module, qualname) under which `cls` crosses.

        Raises:
            ValueRefusedError: with an empty path, if its instances may not cross.
        """
        plan = self.describe(cls)
        return plan.module, plan.qualname

    def find(self, module: str, qualname: str) -> type:
        """The class of that name that may cross, among given classes and loaded modules.

        Imports nothing and runs nothing (no `__getattr__` of a module or a class).

        Raises:
            ValueRefusedError: with an empty path, if there is none.
        """
        given = self._given.get((module, qualname))
        if given is not None:
            return given
        local = self._main_module if module == MAIN else module
        found: object = sys.modules.get(local)
        if not isinstance(found, ModuleType):
            raise _refusal(f"{module}.{qualname}", f"module {module!r} is not loaded at this party")
        if not self._is_allowed(module, found):
            raise _refusal(f"{module}.{qualname}", _not_allowed(module))
        for part in qualname.split("."):
            space = vars(found) if found is not None else {}
            found = space.get(part)
            if not isinstance(found, type):
                found = None
        # A class that the module merely imported from elsewhere is not the module's.
        if (
            not isinstance(found, type)
            or found.__qualname__ != qualname
            or self._wire_module(found.__module__, sys.modules.get(found.__module__)) != module
        ):
            raise _refusal(
                f"{module}.{qualname}", f"module {module!r} has no class {qualname!r} at this party"
            )
        return found

    def describe(self, cls: type) -> userclass.UserClass:
        """How instances of `cls` are taken apart and rebuilt, under the name they cross with.

        Raises:
            ValueRefusedError: with an empty path, if they may not cross.
        """
        plan = self._described.get(cls)
        if plan is None:
            plan = self._described[cls] = self._plan(cls)
        return plan

    def _plan(self, cls: type) -> userclass.UserClass:
        label = type_name(cls)
        if userclass.kind_of(cls) is None:
            raise _refusal(label, _why_not(cls))
        name = self._given_names.get(cls)
        if name is not None:
            return userclass.describe(cls, module=name[0], qualname=name[1])
        qualname = cls.__qualname__
        if "<locals>" in qualname:
            raise _refusal(
                label, "its class is made inside a function, where the other side can't find it; "
                "define it at the top level of the script or module",
            )  # fmt: skip
        module = sys.modules.get(cls.__module__)
        name_on_wire = self._wire_module(cls.__module__, module)
        if module is None or not self._is_allowed(name_on_wire, module):
            raise _refusal(label, _not_allowed(name_on_wire))
        if self.find(name_on_wire, qualname) is not cls:
            raise _refusal(
                label, f"the name {name_on_wire}.{qualname} stands for another class by now "
                "(defined again, or its module loaded twice)",
            )  # fmt: skip
        return userclass.describe(cls, module=name_on_wire, qualname=qualname)

    def _wire_module(self, name: str, module: ModuleType | None) -> str:
        if name in (MAIN, self._main_module):
            return MAIN
        file, main = _file_of(module), _file_of(sys.modules.get(self._main_module))
        return MAIN if file is not None and file == main else name

    def _is_allowed(self, name: str, module: ModuleType) -> bool:
        if self._modules is not None:
            return is_named(name, self._modules)
        return name == MAIN or is_below(module, self._folder)


def is_named(module: str, names: Collection[str]) -> bool:
    """True if the module of that name, or a package that it is in, is among `names`."""
    parts = module.split(".")
    return any(".".join(parts[:n]) in names for n in range(1, len(parts) + 1))


def resolved(folder: str | os.PathLike[str]) -> str:
    """The folder as `is_below` takes it: without links, a separator at its end."""
    return os.path.join(os.path.realpath(folder), "")


def is_below(module: ModuleType | None, folder: str | None) -> bool:
    """True if the module's file lies in the resolved folder or below it, in no environment there.

    This is what makes a module the user's own.
    """
    file = _file_of(module)
    if file is None or folder is None or not file.startswith(folder):
        return False
    below = file[len(folder) :].split(os.sep)
    return "site-packages" not in below and "dist-packages" not in below


def cross(
    value: object,
    *,
    types: UserTypes,
    root: str = "result",
    party: str | None = None,
    call: int | None = None,
) -> object:
    """The value as another party has it after encoding and decoding.

    Scalars, frozen arrays and Enum members pass by reference; everything else is new. Shared
    references become separate copies, arrays are read-only for good, an OrderedDict loses its
    attributes, instances of user classes are rebuilt field by field.

    Args:
        value: anything.
        types: the user's classes that may cross.
        root: what the path in an error starts with.
        party: the owner, for the error.
        call: number of the call that made the value, for the error.

    Raises:
        ValueRefusedError: with the path of the first part that may not cross.
    """
    kind = type(value)
    if kind in SCALARS:
        return value
    try:
        return types.handlers[kind](value, types, 0)
    except errors.ValueRefusedError as error:
        raise located(error, value, types=types, root=root, party=party, call=call) from None


def located(
    error: errors.ValueRefusedError,
    value: object,
    *,
    types: UserTypes,
    root: str,
    party: str | None = None,
    call: int | None = None,
) -> errors.ValueRefusedError:
    """The refusal with its whole path; one for depth names the cycle if that is the cause."""
    if error.reason == _TOO_DEEP:
        error = _cycle(value, types) or error
    error.path = root + error.path
    error.party = party
    error.call = call
    return error


def type_name(cls: type) -> str:
    """The class's name with its module, for people; built-in types without."""
    module = cls.__module__
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"


def refusal(value: object, reason: str, *, limit: str | None = None) -> errors.ValueRefusedError:
    """A refusal of `value` itself; callers put its path in front while they unwind."""
    return errors.ValueRefusedError(
        path="", type_name=type_name(type(value)), reason=reason, limit=limit
    )


def too_deep(value: object, limit: int = DEPTH_LIMIT) -> errors.ValueRefusedError:
    """The refusal of a container that lies under too many others."""
    return refusal(value, _TOO_DEEP, limit=f"{limit} levels")


def key_step(key: object) -> str:
    """The part of a path that leads to a dict's value: `["model"]`."""
    if type(key) is str:
        shown = key if len(key) <= _SHOWN else key[:_SHOWN] + "..."
        return '["' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"]'
    if type(key) in SCALARS:
        return f"[{repr(key)[:_SHOWN]}]"
    return f"[{type_name(type(key))} key]"


#: Characters of a key that an error shows: keys can be data.
_SHOWN = 40

#: The part of a path that leads to an element of a set.
IN_SET = "{element}"

_TOO_DEEP = "it is nested too deep"


def _refusal(type_name: str, reason: str) -> errors.ValueRefusedError:
    return errors.ValueRefusedError(path="", type_name=type_name, reason=reason)


def _file_of(module: ModuleType | None) -> str | None:
    file = vars(module).get("__file__") if module is not None else None  # runs no __getattr__
    return os.path.realpath(file) if isinstance(file, str) else None


def _not_allowed(module: str) -> str:
    return (
        f"its module {module!r} may not cross; name it in the setting codec.modules at every "
        "party, or send plain containers and arrays"
    )


def _why_not(cls: type) -> str:
    """The reason for a class that nothing in the table takes."""
    for base in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset,
                 OrderedDict, datetime.datetime, datetime.date, decimal.Decimal):  # fmt: skip
        if cls is not base and issubclass(cls, base):
            return f"subclasses of {base.__name__} don't cross; convert it to {base.__name__}"
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(cls, numpy.ndarray):
        if cls.__name__ == "MaskedArray":
            return (
                "masked arrays don't cross; send value.filled(...) or (value.data, value.mask): "
                "numpy.array(value) would lose the mask"
            )
        return "subclasses of numpy's array don't cross; convert it with numpy.array(value)"
    if cls is bytearray or cls is memoryview:
        return "it can be changed from elsewhere; convert it to bytes"
    return (
        "only the types of the type table cross: plain values and containers, arrays, frames, "
        "dataclasses, namedtuples, Enums and msgspec Structs"
    )


class _Handlers(dict[type, Handler]):
    """Exact type -> how such a value crosses; classes are looked up when first met."""

    def __init__(self, types: UserTypes) -> None:
        super().__init__(_BUILT_IN)
        self._types = types

    def __missing__(self, cls: type) -> Handler:
        handler = library_handler(cls) or self._user_handler(cls)
        self[cls] = handler
        return handler

    def _user_handler(self, cls: type) -> Handler:
        pickled = self._types.pickled
        try:
            return _USER_HANDLERS[self._types.describe(cls).kind]
        except errors.ValueRefusedError:
            if pickled is None or not pickled.has(cls):
                raise
        from fed.codec import pickle_optin

        return pickle_optin.cross


def library_handler(cls: type) -> Handler | None:
    """The handler for a class of a library that the program has loaded; never loads one."""
    package = cls.__module__.partition(".")[0]
    if package not in sys.modules:
        return None
    if package == "numpy":
        from fed.codec import arrays

        return arrays.handler(cls)
    if package in ("pandas", "pyarrow"):
        from fed.codec import frames

        return frames.handler(cls)
    if package == "torch":
        from fed.codec import tensors

        return tensors.handler(cls)
    return None


def _cross_scalar(value: Any, types: UserTypes, depth: int) -> Any:
    return value


def _cross_time(value: datetime.datetime | datetime.time, types: UserTypes, depth: int) -> Any:
    zone = value.tzinfo
    if zone is None or zone is datetime.UTC:
        return value
    if type(zone) is not datetime.timezone:
        raise foreign_zone(value)
    return value.replace(tzinfo=_cross_zone(zone, types, depth))


def _cross_zone(value: datetime.timezone, types: UserTypes, depth: int) -> datetime.timezone:
    return value if value is datetime.UTC else datetime.timezone(*zone_arguments(value))


def foreign_zone(value: datetime.datetime | datetime.time) -> errors.ValueRefusedError:
    """The refusal of a time whose zone is more than a fixed offset."""
    return refusal(
        value,
        f"its time zone is a {type_name(type(value.tzinfo))}, whose rules the other side may "
        "not have; convert it with .astimezone(datetime.timezone.utc)",
    )


def zone_arguments(zone: datetime.timezone) -> tuple[Any, ...]:
    """The offset of a fixed time zone, and its name if one was given."""
    arguments: tuple[Any, ...] = zone.__getinitargs__()  # type: ignore[attr-defined]
    return (arguments[0], str(arguments[1])) if len(arguments) > 1 else arguments


def _cross_uuid(value: uuid.UUID, types: UserTypes, depth: int) -> uuid.UUID:
    return value if value.is_safe is uuid.SafeUUID.unknown else uuid.UUID(int=value.int)


def _cross_list(value: list[Any], types: UserTypes, depth: int) -> list[Any]:
    if depth >= DEPTH_LIMIT:
        raise too_deep(value)
    kinds = set(map(type, value))
    if kinds <= SCALARS:
        return value.copy()
    if len(kinds) == 1 and depth + 1 < DEPTH_LIMIT:
        rows = _flat_rows(value)
        if rows is not None:
            return rows
    return _cross_items(value, types, depth)


def _flat_rows(value: list[Any]) -> list[Any] | None:
    """The copy of a list of flat dicts, or of flat tuples, made at C speed; else None."""
    kind = type(value[0])
    if kind is tuple:
        flat = SCALARS.issuperset(map(type, itertools.chain.from_iterable(value)))
        return value.copy() if flat else None
    if kind is dict:
        # A dict all of whose keys are exact str objects shows the collector its values alone.
        items = gc.get_referents(*value)
        if len(items) == sum(map(len, value)) and SCALARS.issuperset(map(type, items)):
            return list(map(dict.copy, value))
    return None


def _cross_items(value: Sequence[Any], types: UserTypes, depth: int) -> list[Any]:
    handlers = types.handlers
    depth += 1
    made: list[Any] = []
    try:
        for item in value:
            kind = type(item)
            made.append(item if kind in SCALARS else handlers[kind](item, types, depth))
    except errors.ValueRefusedError as error:
        error.path = f"[{len(made)}]{error.path}"
        raise
    return made


def _cross_tuple(value: tuple[Any, ...], types: UserTypes, depth: int) -> tuple[Any, ...]:
    if depth >= DEPTH_LIMIT:
        raise too_deep(value)
    if SCALARS.issuperset(map(type, value)):
        return value
    return tuple(_cross_items(value, types, depth))


def _cross_dict(value: dict[Any, Any], types: UserTypes, depth: int) -> dict[Any, Any]:
    if depth >= DEPTH_LIMIT:
        raise too_deep(value)
    if SCALARS.issuperset(map(type, value)):
        if SCALARS.issuperset(map(type, value.values())):
            return value.copy()
        handlers = types.handlers
        depth += 1
        made = {}
        key = None
        try:
            for key, item in value.items():
                kind = type(item)
                made[key] = item if kind in SCALARS else handlers[kind](item, types, depth)
        except errors.ValueRefusedError as error:
            error.path = key_step(key) + error.path
            raise
        return made
    return _rebuilt_pairs(value, types, depth, dict)


def _rebuilt_pairs(
    value: dict[Any, Any], types: UserTypes, depth: int, make: Callable[[Any], dict[Any, Any]]
) -> dict[Any, Any]:
    keys = _cross_elements(value, types, depth, ".keys(){element}")
    handlers = types.handlers
    items = []
    for key, item in value.items():
        try:
            items.append(handlers[type(item)](item, types, depth + 1))
        except errors.ValueRefusedError as error:
            error.path = key_step(key) + error.path
            raise
    return make(zip(keys, items, strict=True))


def _cross_ordered(value: OrderedDict[Any, Any], types: UserTypes, depth: int) -> Any:
    if depth >= DEPTH_LIMIT:
        raise too_deep(value)
    return _rebuilt_pairs(value, types, depth, OrderedDict)


def _cross_elements(value: Any, types: UserTypes, depth: int, step: str) -> list[Any]:
    handlers = types.handlers
    depth += 1
    try:
        return [handlers[type(item)](item, types, depth) for item in value]
    except errors.ValueRefusedError as error:
        error.path = step + error.path
        raise


def _cross_set(value: Any, types: UserTypes, depth: int) -> Any:
    if depth >= DEPTH_LIMIT:
        raise too_deep(value)
    if SCALARS.issuperset(map(type, value)):
        return value.copy()
    return type(value)(_cross_elements(value, types, depth, IN_SET))


def _cross_instance(value: Any, types: UserTypes, depth: int) -> Any:
    if depth >= DEPTH_LIMIT:
        raise too_deep(value)
    plan = types.describe(type(value))
    values = taken(plan, value)
    handlers = types.handlers
    depth += 1
    made: list[Any] = []
    try:
        for item in values:
            kind = type(item)
            made.append(item if kind in SCALARS else handlers[kind](item, types, depth))
    except errors.ValueRefusedError as error:
        error.path = f".{plan.fields[len(made)]}{error.path}"
        raise
    return plan.make(made)


def taken(plan: userclass.UserClass, value: object) -> list[Any]:
    """The values of an instance's fields.

    Raises:
        ValueRefusedError: with an empty path, if a field was never set.
    """
    try:
        return plan.take(value)
    except AttributeError as error:
        raise refusal(value, f"its field {error.args[0]!r} was never set") from None


def _cross_member(value: Any, types: UserTypes, depth: int) -> Any:
    if depth >= DEPTH_LIMIT:  # it is written as an instance with one part, its name
        raise too_deep(value)
    return value


_BUILT_IN: dict[type, Handler] = {
    **dict.fromkeys(SCALARS, _cross_scalar),
    datetime.datetime: _cross_time,
    datetime.time: _cross_time,
    datetime.timezone: _cross_zone,
    uuid.UUID: _cross_uuid,
    list: _cross_list,
    tuple: _cross_tuple,
    dict: _cross_dict,
    OrderedDict: _cross_ordered,
    set: _cross_set,
    frozenset: _cross_set,
}

_USER_HANDLERS: dict[userclass.Kind, Handler] = {
    "dataclass": _cross_instance,
    "namedtuple": _cross_instance,
    "struct": _cross_instance,
    "enum": _cross_member,
}


def _cycle(value: object, types: UserTypes) -> errors.ValueRefusedError | None:
    """The refusal that names the first reference back to a container around it, if there is one."""
    above: dict[int, str] = {}
    done: set[int] = set()
    kept: list[object] = []  # fields are taken as new lists: keep them, so that ids stay unique

    def look(item: object, path: str) -> errors.ValueRefusedError | None:
        around = above.get(id(item))
        if around is not None:
            found = refusal(item, f"it contains itself: it is {around}")
            found.path = path
            return found
        if id(item) in done:
            return None
        above[id(item)] = f"the value at {path!r}" if path else "the whole value"
        for step, part in _parts(item, types):
            kept.append(part)
            found_below = look(part, path + step)
            if found_below is not None:
                return found_below
        del above[id(item)]
        done.add(id(item))
        return None

    try:
        return look(value, "")
    except RecursionError:  # deeper than the interpreter goes: no need to know more
        return None


def _parts(item: Any, types: UserTypes) -> list[tuple[str, Any]]:
    cls = type(item)
    if cls is dict or cls is OrderedDict:
        return [(key_step(key), part) for key, part in item.items()]
    if cls in (list, tuple):
        return [(f"[{n}]", part) for n, part in enumerate(item)]
    if types.handlers.get(cls) is _cross_instance:
        plan = types.describe(cls)
        return [(f".{name}", part) for name, part in zip(plan.fields, plan.take(item), strict=True)]
    return []
