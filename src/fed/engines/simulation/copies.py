"""A party's own copy of the user's code: functions, classes and module globals, made when needed.

Copied functions share their code with the original and have the party's own globals, defaults and
closure. Copied classes have the party's own methods and attributes, and inherit from copies.
Whatever a copied function names is copied with it, and nothing else, so that a party costs what its
code uses. Libraries are shared.
"""

from __future__ import annotations

import abc
import builtins
import collections
import contextlib
import datetime
import decimal
import dis
import enum
import functools
import logging
import sys
import types
import typing
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

from fed.codec import seal
from fed.engines.simulation import usercode
from fed.model import objects, remote

log = logging.getLogger(__name__)

#: Arrays of modules from this size on are not copied per party but shared, read-only: a thousand
#: parties with a data set each would need a thousand times its memory.
SHARED_ARRAY_BYTES: Final = 1 << 20

#: Functions that look names up while they run: a function that names one needs all globals.
_BY_NAME: Final = frozenset(("eval", "exec", "globals", "vars", "locals", "dir"))

_GLOBAL_OPS: Final = frozenset(
    (
        "LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL",
        "LOAD_FROM_DICT_OR_GLOBALS",
    )
)  # fmt: skip

_MODULE_FACTS: Final = (
    "__name__", "__file__", "__package__", "__path__", "__doc__", "__spec__", "__loader__",
)  # fmt: skip

#: Exact types and kinds that are shared as they are: they never change, or they are the library's.
_SHARED: Final[tuple[type, ...]] = (
    type(None), bool, int, float, complex, str, bytes, range, type(...), type(NotImplemented),
    decimal.Decimal, uuid.UUID, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo,
    types.BuiltinFunctionType, types.CodeType, types.MemberDescriptorType, enum.Enum,
    types.GetSetDescriptorType, logging.Logger, objects.FedObject, remote.ActorHandle,
    remote.ActorMethod, remote.MethodCall,
)  # fmt: skip

_METACLASSES: Final[tuple[Any, ...]] = (type, abc.ABCMeta, type(typing.Protocol))

#: Attributes of a class that belong to the class object itself.
_OWN_TO_CLASS: Final = frozenset(
    ("__dict__", "__weakref__", "__slots__", "__module__", "__qualname__", "__doc__", "_abc_impl",
     "__orig_bases__")
)  # fmt: skip

_ROUTINES: Final = (types.FunctionType, staticmethod, classmethod, property)

_set_class: Callable[[object, type], None] = object.__dict__["__class__"].__set__

_MISSING: Final = object()


class Source:
    """What all parties' copies are made from.

    Attributes:
        code: tells the user's code from libraries.
        builtins: the built-in names of copied functions; `import` gives the party's own module.
    """

    def __init__(self, code: usercode.UserCode, running: Callable[[], World | None]) -> None:
        self.code = code
        self.builtins = dict(vars(builtins))
        self.builtins["__import__"] = self._import
        self._running = running
        self._names: dict[types.CodeType, tuple[str, ...] | None] = {}
        self._kept: dict[int, Any] = {}
        self._arrays: dict[int, Any] = {}
        self._told: set[str] = set()

    def keep(self, item: Any) -> None:
        """Keep an original alive, so that its id stays its own."""
        self._kept[id(item)] = item

    def names(self, code: types.CodeType) -> tuple[str, ...] | None:
        """The globals that code names, functions in it included; None if it may need any."""
        if code in self._names:
            return self._names[code]
        found = dict.fromkeys(_named(code))
        made = None if not _BY_NAME.isdisjoint(found) else tuple(found)
        self._names[code] = made
        return made

    def array(self, array: Any) -> Any:
        """The read-only array that stands for a large one at all parties."""
        shared = self._arrays.get(id(array))
        if shared is None:
            self.keep(array)
            shared = self._arrays[id(array)] = seal.snapshot(array)
        return shared

    def note_shared(self, item: Any, why: object) -> None:
        """Log once per type that an object can't be copied."""
        kind = type(item) if not isinstance(item, type) else item
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name not in self._told:
            self._told.add(name)
            log.debug("isolation process: parties share one %s (%s)", name, why)

    def _import(self, name: str, *args: Any, **kwargs: Any) -> Any:
        module = builtins.__import__(name, *args, **kwargs)
        world = self._running()
        return module if world is None else world.copy(module)


def _named(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBAL_OPS:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _named(constant)


class _Module(types.ModuleType):
    """A party's own module; its `__dict__` is the globals of the functions copied into it."""

    __slots__ = ("_fed_fill",)

    _fed_fill: Callable[[str], bool]

    def __getattr__(self, name: str) -> Any:
        fill = types.ModuleType.__getattribute__(self, "_fed_fill")
        if not fill(name):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return vars(self)[name]


class World:
    """The copies of one party."""

    __slots__ = ("_copies", "_missing", "_modules", "_source", "_todo")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._copies: dict[int, Any] = {}
        self._modules: dict[int, _Module] = {}
        self._missing: dict[tuple[int, str], tuple[dict[str, Any], _Module]] = {}
        self._todo: list[Callable[[], None]] = []

    @property
    def is_incomplete(self) -> bool:
        """True while copied code names globals that no module has yet."""
        return bool(self._missing)

    def complete(self) -> None:
        """Copy globals that were defined since code that names them was copied."""
        for (_, name), (space, module) in list(self._missing.items()):
            if name in space:
                self._fill(space, module, name)
        self._finish()

    def copy(self, item: Any) -> Any:
        """The party's own copy of a function, class, module or value; shared things as they are."""
        made = self._copy(item)
        self._finish()
        return made

    def _finish(self) -> None:
        while self._todo:
            self._todo.pop()()

    def _copy(self, item: Any) -> Any:
        kind = type(item)
        if kind in seal.ATOMS:
            return item
        made = self._copies.get(id(item), _MISSING)
        if made is not _MISSING:
            return made
        way = _WAYS.get(kind) or _way(kind)
        return way(self, item)

    def _remember(self, item: Any, made: Any) -> Any:
        self._source.keep(item)
        self._copies[id(item)] = made
        return made

    # -- modules and their globals ---------------------------------------------------------------

    def _module(self, item: types.ModuleType) -> types.ModuleType:
        if not self._source.code.covers(item.__name__):
            return item
        return self._space(vars(item))

    def _space(self, space: dict[str, Any]) -> _Module:
        module = self._modules.get(id(space))
        if module is None:
            module = self._modules[id(space)] = _Module(space.get("__name__", "?"))
            self._source.keep(space)
            own = vars(module)
            own.update((name, space[name]) for name in _MODULE_FACTS if name in space)
            own["__builtins__"] = self._source.builtins
            made = module

            def fill(name: str) -> bool:
                found = name in space
                if found:
                    self._fill(space, made, name)
                    self._finish()
                return found

            module._fed_fill = fill
        return module

    def _fill(self, space: dict[str, Any], module: _Module, name: str) -> None:
        own = vars(module)
        self._missing.pop((id(space), name), None)
        if name in own:
            return
        if name in space:
            own[name] = self._copy(space[name])
        elif name not in self._source.builtins:
            self._missing[id(space), name] = (space, module)

    # -- functions and what wraps them -----------------------------------------------------------

    def _function(self, item: types.FunctionType) -> types.FunctionType:
        source = self._source
        is_own = source.code.owns(item)
        if not is_own and not self._wraps(item):
            return item
        space = item.__globals__
        module = self._space(space) if is_own else None
        closure = item.__closure__
        cells = None if closure is None else tuple(self._cell(cell) for cell in closure)
        made = types.FunctionType(
            item.__code__, space if module is None else vars(module), item.__name__, None, cells
        )
        self._remember(item, made)
        seal.originals[made] = item
        made.__qualname__ = item.__qualname__
        made.__module__ = item.__module__
        made.__doc__ = item.__doc__
        if item.__annotations__:
            made.__annotations__ = item.__annotations__

        def rest() -> None:
            if item.__defaults__:
                made.__defaults__ = tuple(map(self._copy, item.__defaults__))
            if item.__kwdefaults__:
                made.__kwdefaults__ = {k: self._copy(v) for k, v in item.__kwdefaults__.items()}
            if item.__dict__:
                made.__dict__.update({k: self._copy(v) for k, v in item.__dict__.items()})
            if module is not None:
                names = source.names(item.__code__)
                for name in list(space) if names is None else names:
                    self._fill(space, module, name)

        self._todo.append(rest)
        return made

    def _wraps(self, item: types.FunctionType) -> bool:
        """True for a library's function made around the user's, as decorators make them."""
        held = [_contents(cell) for cell in item.__closure__ or ()]
        held.append(item.__dict__.get("__wrapped__"))
        return any(
            isinstance(inner, types.FunctionType | type)
            and inner is not item
            and self._source.code.owns(inner)
            for inner in held
        )

    def _cell(self, cell: types.CellType) -> types.CellType:
        made: types.CellType | None = self._copies.get(id(cell))
        if made is not None:
            return made
        made = types.CellType()
        self._remember(cell, made)

        def rest() -> None:
            value = _contents(cell)
            if value is not _MISSING:
                made.cell_contents = self._copy(value)

        self._todo.append(rest)
        return made

    def _method(self, item: types.MethodType) -> Any:
        return types.MethodType(self._copy(item.__func__), self._copy(item.__self__))

    def _static(self, item: Any) -> Any:
        return self._remember(item, type(item)(self._copy(item.__func__)))

    def _property(self, item: property) -> Any:
        get, put, delete = map(self._copy, (item.fget, item.fset, item.fdel))
        return self._remember(item, property(get, put, delete, item.__doc__))

    def _cached_property(self, item: functools.cached_property[Any]) -> Any:
        made = type(item)(self._copy(item.func))
        made.attrname = item.attrname
        return self._remember(item, made)

    def _cache(self, item: Any) -> Any:
        own = self._copy(item.__wrapped__)
        if own is item.__wrapped__:
            return item
        return self._remember(item, functools.lru_cache(**item.cache_parameters())(own))

    def _remote(self, item: Any) -> Any:
        made = item.options()
        own = self._copy(item.__wrapped__)
        made._target = own
        made.__dict__ = {**vars(item), "__wrapped__": own}
        return self._remember(item, made)

    # -- classes ---------------------------------------------------------------------------------

    def _class(self, item: type) -> type:
        if not self._source.code.covers(item.__module__):
            return item
        meta = type(item)
        if issubclass(item, enum.Enum):
            return item  # constants: parties compare them by identity
        if meta not in _METACLASSES:
            own_meta = self._copy(meta)
            if own_meta is meta or not all(
                base in _METACLASSES or self._source.code.covers(base.__module__)
                for base in type.mro(meta)
                if base is not object
            ):
                self._source.note_shared(item, f"its metaclass {meta.__qualname__} is a library's")
                return item
            meta = own_meta
        bases = tuple(self._copy(base) for base in item.__bases__)
        try:
            made = _skeleton(item, meta, bases)
        except TypeError as error:
            self._source.note_shared(item, error)
            return item
        self._remember(item, made)
        seal.originals[made] = item

        def rest() -> None:
            for name, value in list(vars(item).items()):
                if name in _OWN_TO_CLASS or isinstance(value, types.MemberDescriptorType):
                    continue
                is_dunder = name.startswith("__") and name.endswith("__")
                if not is_dunder or isinstance(value, _ROUTINES):
                    value = self._copy(value)
                type.__setattr__(made, name, value)

        self._todo.append(rest)
        return made

    # -- values ----------------------------------------------------------------------------------

    def _list(self, item: list[Any]) -> Any:
        made: list[Any] = self._remember(item, [])
        made.extend(map(self._copy, item))
        return made

    def _tuple(self, item: tuple[Any, ...]) -> Any:
        made = tuple(map(self._copy, item))
        if all(a is b for a, b in zip(item, made, strict=True)):
            return item
        return self._remember(item, made)

    def _dict(self, item: dict[Any, Any]) -> Any:
        made: dict[Any, Any] = self._remember(item, {})
        for key, value in list(item.items()):
            made[self._copy(key)] = self._copy(value)
        return made

    def _set(self, item: Any) -> Any:
        return self._remember(item, type(item)(map(self._copy, item)))

    def _array(self, item: Any) -> Any:
        if item.dtype.hasobject:
            made = item.copy()
            flat = made.reshape(-1) if made.flags.c_contiguous else made.T.reshape(-1)
            for place, value in enumerate(flat.tolist()):
                flat[place] = self._copy(value)
            return self._remember(item, made)
        if item.nbytes >= SHARED_ARRAY_BYTES:
            return self._source.array(item)
        made = item.copy("K")
        made.flags.writeable = item.flags.writeable
        return self._remember(item, made)

    def _shared(self, item: Any) -> Any:
        return item

    def _object(self, item: Any) -> Any:
        """Any other object, as `copy.deepcopy` copies it, its class copied too."""
        if _is_library_value(item, self._source.code):
            own_way = getattr(type(item), "__deepcopy__", None)
            if own_way is not None:
                try:
                    return self._remember(item, own_way(item, {}))
                except Exception as error:  # noqa: BLE001  (a library's code may raise anything)
                    self._source.note_shared(item, error)
                    return item
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # iterators still can be copied, with a warning
                reduced = item.__reduce_ex__(4)
            if isinstance(reduced, str):
                return item
            return self._rebuilt(item, *reduced)
        except Exception as error:  # noqa: BLE001  (what can't be copied is shared)
            self._source.note_shared(item, error)
            self._copies.pop(id(item), None)
            return item

    def _rebuilt(
        self,
        item: Any,
        function: Any,
        args: tuple[Any, ...],
        state: Any = None,
        listed: Any = None,
        mapped: Any = None,
        setter: Any = None,
    ) -> Any:
        made = self._copy(function)(*map(self._copy, args))
        self._remember(item, made)
        if state is not None:
            state = self._copy(state)
            if setter is not None:
                setter(made, state)
            elif hasattr(made, "__setstate__"):
                made.__setstate__(state)
            else:
                attributes, slots = state if _is_slotted(state) else (state, None)
                if attributes:
                    made.__dict__.update(attributes)
                for name, value in (slots or {}).items():
                    object.__setattr__(made, name, value)
        for value in listed or ():
            made.append(self._copy(value))
        for key, value in mapped or ():
            made[self._copy(key)] = self._copy(value)
        return made

    # -- arguments -------------------------------------------------------------------------------

    def received(self, value: Any) -> Any:
        """A body's argument with instances of the user's classes made those of the party's own.

        The argument is the body's own already: containers and instances are changed in place
        where that is possible; arrays are left alone.
        """
        made = self._received(value, set())
        self._finish()
        return made

    def _received(self, value: Any, seen: set[int]) -> Any:
        kind = type(value)
        if kind in seal.ATOMS or id(value) in seen:
            return value
        if kind is list or kind is dict or kind is set or kind is tuple or kind is frozenset:
            held = value.values() if kind is dict else value
            keys_are_plain = kind is not dict or seal.ATOMS.issuperset(map(type, value))
            if keys_are_plain and seal.ATOMS.issuperset(map(type, held)):
                return value
            seen.add(id(value))
            return self._received_container(kind, value, seen)
        if kind is types.FunctionType or issubclass(kind, type):
            # One that a name leads to came by reference, and stands for the party's own.
            return value if "<" in value.__qualname__ else self._copy(value)
        if issubclass(kind, enum.Enum) or not self._source.code.covers(kind.__module__):
            if isinstance(value, dict | list | collections.deque):
                seen.add(id(value))
                self._receive_items(value, seen)
            return value
        own = self._copy(kind)
        seen.add(id(value))
        if own is kind:
            self._receive_attributes(value, seen)
            return value
        if issubclass(kind, tuple):
            return tuple.__new__(own, [self._received(item, seen) for item in value])
        self._receive_attributes(value, seen)
        if isinstance(value, dict | list):
            self._receive_items(value, seen)
        try:
            _set_class(value, own)
        except TypeError:  # classes with slots whose bases are copies too
            return self._moved(value, own)
        return value

    def _moved(self, value: Any, own: type) -> Any:
        """A new instance of the party's own class with the attributes of `value`."""
        try:
            made: Any = object.__new__(own)
        except TypeError as error:
            self._source.note_shared(value, error)
            return value
        if hasattr(value, "__dict__"):
            made.__dict__.update(value.__dict__)
        for base, own_base in zip(type(value).__mro__, own.__mro__, strict=True):
            for name, slot in _slots(base):
                with contextlib.suppress(AttributeError):  # never set
                    vars(own_base)[name].__set__(made, slot.__get__(value))
        return made

    def _received_container(self, kind: type, value: Any, seen: set[int]) -> Any:
        if kind is list:
            self._receive_items(value, seen)
            return value
        if kind is dict:
            # Sealing shares keys between readers, so they are copied.
            items = [(self._key(key), self._received(held, seen)) for key, held in value.items()]
            value.clear()
            value.update(items)
            return value
        if kind is tuple:
            return tuple([self._received(item, seen) for item in value])
        return kind(map(self._key, value))

    def _key(self, key: Any) -> Any:
        if type(key) in seal.ATOMS:
            return key
        if type(key) is tuple or type(key) is frozenset:
            return type(key)(map(self._key, key))
        return self._received(seal.opened(seal.snapshot(key)), set())

    def _receive_items(self, value: Any, seen: set[int]) -> None:
        for place, item in value.items() if isinstance(value, dict) else enumerate(value):
            if type(item) not in seal.ATOMS:
                value[place] = self._received(item, seen)

    def _receive_attributes(self, value: Any, seen: set[int]) -> None:
        held = getattr(value, "__dict__", None)
        if type(held) is dict:
            self._receive_items(held, seen)
        for base in type(value).__mro__:
            for _, slot in _slots(base):
                try:
                    item = slot.__get__(value)
                except AttributeError:  # never set
                    continue
                made = self._received(item, seen)
                if made is not item:
                    slot.__set__(value, made)

    @staticmethod
    def give_class(error: BaseException) -> None:
        """Give an exception that leaves a body the class that the script knows."""
        original = seal.originals.get(type(error))
        if original is not None:
            with contextlib.suppress(TypeError):  # of another layout: it stays the party's own
                error.__class__ = original


def _skeleton(item: type, meta: type, bases: tuple[type, ...]) -> type:
    """A class like `item` without its attributes; no `__init_subclass__` of a copy runs."""
    space: dict[str, Any] = {
        "__module__": item.__module__,
        "__qualname__": item.__qualname__,
        "__doc__": item.__doc__,
    }
    if "__orig_bases__" in vars(item):
        space["__orig_bases__"] = vars(item)["__orig_bases__"]
    if "__slots__" in vars(item):
        space["__slots__"] = tuple(
            name
            for name, value in vars(item).items()
            if isinstance(value, types.MemberDescriptorType)
            or (name in ("__dict__", "__weakref__"))
        )
    hooks = [
        (base, vars(base)["__init_subclass__"])
        for base in dict.fromkeys(above for base in bases for above in base.__mro__)
        if base in seal.originals and "__init_subclass__" in vars(base)
    ]
    for base, _ in hooks:
        type.__delattr__(base, "__init_subclass__")
    try:
        if issubclass(meta, abc.ABCMeta):
            return abc.ABCMeta.__new__(meta, item.__name__, bases, space)
        made: Any = type.__new__(meta, item.__name__, bases, space)
        return made  # type: ignore[no-any-return]
    finally:
        for base, hook in hooks:
            type.__setattr__(base, "__init_subclass__", hook)


def _slots(cls: type) -> list[tuple[str, Any]]:
    """The slots that a class of the user's defines itself."""
    if "__slots__" not in vars(cls):
        return []
    return [
        (name, value)
        for name, value in vars(cls).items()
        if isinstance(value, types.MemberDescriptorType)
    ]


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _is_slotted(state: Any) -> bool:
    return isinstance(state, tuple) and len(state) == 2


def _is_library_value(item: Any, code: usercode.UserCode) -> bool:
    return not code.covers(type(item).__module__)


_Way = Callable[[World, Any], Any]

_WAYS: Final[dict[type, _Way]] = {
    types.ModuleType: World._module,
    types.FunctionType: World._function,
    types.MethodType: World._method,
    types.CellType: World._cell,
    staticmethod: World._static,
    classmethod: World._static,
    property: World._property,
    functools.cached_property: World._cached_property,
    type(functools.cache(len)): World._cache,
    remote.RemoteFunction: World._remote,
    remote.RemoteClass: World._remote,
    list: World._list,
    tuple: World._tuple,
    dict: World._dict,
    set: World._set,
    frozenset: World._set,
}


def _way(kind: type) -> _Way:
    """How objects of a type that was not met before are copied."""
    np = sys.modules.get("numpy")
    if issubclass(kind, _SHARED) or kind.__module__ == "typing":
        way: _Way = World._shared
    elif issubclass(kind, type):
        way = World._class
    elif issubclass(kind, types.ModuleType):
        way = World._module
    elif np is not None and issubclass(kind, np.ndarray):
        way = World._array
    else:
        way = World._object
    if issubclass(kind, type) or kind.__flags__ & _HEAP_TYPE == 0:
        _WAYS[kind] = way
    return way


#: `Py_TPFLAGS_HEAPTYPE`: set for classes of a `class` statement, which may go again.
_HEAP_TYPE: Final = 1 << 9
