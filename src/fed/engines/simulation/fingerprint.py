"""What the state that bodies share looks like at an instant, and what changed since.

A fingerprint keeps, for each object that can be reached and changed, the references that it holds
(a shallow copy), and a digest where it holds bytes. Nothing has changed if every object still holds
the same; where one holds another object, the two are compared by content. So the cost is linear in
what is looked at, a difference is found without hashing Python objects, and it has a name.
"""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import functools
import itertools
import operator
import random
import sys
import types
import uuid
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from fed.engines.simulation import usercode
from fed.model import objects, remote

#: Containers longer than this are seen by their length and by this many of their elements.
LONG: Final = 10_000

#: A fingerprint holds about this many references and no more, whatever a script keeps; an object
#: to look into counts as much as `_OBJECT` references. So it takes some 20 ms at most.
MOST: Final = 10 * LONG
_OBJECT: Final = 20

#: Arrays up to this size are seen whole; of larger ones the sum of their words, and a sample.
WHOLE_BYTES: Final = 1 << 16
_SAMPLED_WORDS: Final = 4_096

#: (names or None, what it holds, True to compare by value): the state of an object at an instant.
State = tuple[list[Any] | None, list[Any], bool]
Look = Callable[[Any], State | None]

_CONSTANTS: Final = (
    type(None), bool, int, float, complex, str, bytes, decimal.Decimal, uuid.UUID, range,
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, type(...),
    type(NotImplemented),
)  # fmt: skip

#: The objects of this package: the script makes and drops them, and bodies never see them.
_OURS: Final = (objects.FedObject, remote.ActorHandle, remote.ActorMethod, remote.MethodCall)

_ITERABLES: Final[tuple[Any, ...]] = (
    [], (), range(0), {}, {}.values(), {}.items(), set(), "", b"",
)  # fmt: skip

#: Iterators that tell how much is left in them.
_ITERATORS: Final = frozenset(type(iter(made)) for made in _ITERABLES)

_SAME: Final = operator.is_

_ABSENT: Final = type("_Absent", (), {})()


class Node:
    """An object and the state that it had."""

    __slots__ = ("held", "item", "key", "look", "names", "parent", "value")

    def __init__(self, item: Any, parent: Node | None, key: Any, look: Look, state: State) -> None:
        self.item = item
        self.parent = parent
        self.key = key
        self.look = look
        self.names, self.held, self.value = state

    def is_unchanged(self, state: State) -> bool:
        """True if the object holds the same in `state`; False may still be the same content."""
        names, held, _ = state
        if self.value:
            return bool(self.held == held)
        if len(held) != len(self.held) or not all(map(_SAME, held, self.held)):
            return False
        mine = self.names
        return mine is names or (
            mine is not None
            and names is not None
            and len(mine) == len(names)
            and all(map(_SAME, mine, names))
        )


class Looks:
    """How objects are looked at, by their type.

    Attributes:
        code: tells the user's modules, functions and classes from those of libraries.
    """

    def __init__(self, code: usercode.UserCode) -> None:
        self.code = code
        self._by_type: dict[type, Look | None] = {}
        #: Types that nobody looks into, for a fast test of whole containers.
        self.blind: set[type] = {*_CONSTANTS, type(_ABSENT)}

    def of(self, kind: type) -> Look | None:
        """How to look at objects of a type; None if they are known by identity alone."""
        if kind in self.blind:
            return None
        look = self._by_type.get(kind)
        if look is None:
            look = self._by_type[kind] = self._chosen(kind)
            if look is None:
                self.blind.add(kind)
        return look

    def _chosen(self, kind: type) -> Look | None:
        if issubclass(kind, (*_CONSTANTS, *_OURS)) and not issubclass(kind, enum.Enum):
            return None
        for base, look in self._TABLE:
            if issubclass(kind, base):
                return functools.partial(look, self)
        if kind in _ITERATORS:
            return _remaining
        package = kind.__module__.partition(".")[0]
        if package == "numpy" or issubclass(kind, _numpy_types()):
            return _numpy_look(kind)
        if package == "pandas":
            return _frame if hasattr(kind, "to_numpy") and hasattr(kind, "__len__") else None
        if hasattr(kind, "__dlpack__"):
            return _tensor
        if package in sys.stdlib_module_names and kind not in _PLAIN_OBJECTS:
            return None
        return self._instance_look(kind)

    def _instance_look(self, kind: type) -> Look:
        cached = {
            name
            for base in kind.__mro__
            for name, value in vars(base).items()
            if isinstance(value, functools.cached_property)
        }
        slots = [
            (name, value)
            for base in kind.__mro__
            for name, value in vars(base).items()
            if isinstance(value, types.MemberDescriptorType) and name != "__dict__"
        ]
        is_library = not self.code.covers(kind.__module__)

        def look(item: Any) -> State:
            names: list[Any] = []
            held: list[Any] = []
            for name, value in _attributes(item).items():
                if name in cached or (is_library and "cache" in name):
                    continue
                names.append(name)
                held.append(value)
            for name, slot in slots:
                try:
                    held.append(slot.__get__(item))
                except AttributeError:
                    continue
                names.append(name)
            return names, held, False

        return look

    # -- each gives the state of one object, None where it is known by identity ----------------

    def _module(self, item: types.ModuleType) -> State | None:
        if not self.code.covers(item.__name__):
            return None
        space = dict(vars(item))
        names = [name for name in space if not _is_dunder(name)]
        return names, [space[name] for name in names], False

    def _class(self, item: type) -> State | None:
        if not self.code.covers(item.__module__):
            return None
        is_enum = issubclass(item, enum.Enum)
        names: list[Any] = []
        held: list[Any] = []
        for name, value in list(vars(item).items()):
            if name == "_abc_impl" or (is_enum and name.startswith("_") and name.endswith("_")):
                continue
            if _is_dunder(name) and not isinstance(value, _ROUTINES):
                continue
            names.append(name)
            held.append(value)
        return names, held, False

    def _function(self, item: types.FunctionType) -> State | None:
        if not self.code.owns(item):
            wrapped = item.__dict__.get("__wrapped__")
            return None if wrapped is None else (None, [wrapped], False)
        names: list[Any] = []
        held: list[Any] = []
        parameters = item.__code__.co_varnames[: item.__code__.co_argcount]
        defaults = item.__defaults__ or ()
        for name, value in zip(
            parameters[len(parameters) - len(defaults) :], defaults, strict=True
        ):
            names.append(f"default of argument {name}")
            held.append(value)
        for name, value in (item.__kwdefaults__ or {}).items():
            names.append(f"default of argument {name}")
            held.append(value)
        for name, cell in zip(item.__code__.co_freevars, item.__closure__ or (), strict=True):
            names.append(f"closure variable {name}")
            held.append(_contents(cell))
        for name, value in item.__dict__.items():
            names.append(f"attribute {name}")
            held.append(value)
        return names, held, False

    def _remote(self, item: Any) -> State:
        space = {name: value for name, value in vars(item).items() if not _is_dunder(name)}
        return [*space, "__wrapped__"], [*space.values(), item.__wrapped__], False

    def _list(self, item: Any) -> State:
        size = len(item)
        if size <= LONG and (type(item) is list or type(item) is tuple):
            return None, list(item), False
        step = size // LONG + 1
        shown = item[::step] if step > 1 and isinstance(item, list | tuple) else item
        held = list(itertools.islice(_iterate(item, shown), LONG))
        return None, [*held, *_length(size), *_extra(item)], False

    def _dict(self, item: Any) -> State:
        # The base's own methods: a subclass may do anything. An OrderedDict has its own order.
        is_ordered = isinstance(item, collections.OrderedDict)
        base: Any = collections.OrderedDict if is_ordered else dict
        if len(item) <= LONG:
            return list(base.keys(item)), [*base.values(item), *_extra(item)], False
        names = list(itertools.islice(base.keys(item), LONG // 2))
        names += list(itertools.islice(base.__reversed__(item), LONG // 2))
        held = [dict.__getitem__(item, name) for name in names]
        return names, [*held, *_length(len(item))], False

    def _set(self, item: Any) -> State:
        return None, [*itertools.islice(item, LONG), *_length(len(item))], False

    def _method(self, item: types.MethodType) -> State:
        return None, [item.__self__, item.__func__], False

    def _wrapper(self, item: Any) -> State:
        return None, [item.__wrapped__], False

    def _cached(self, item: functools.cached_property[Any]) -> State:
        return None, [item.func], False

    def _property(self, item: property) -> State:
        return None, [item.fget, item.fset, item.fdel], False

    def _partial(self, item: functools.partial[Any]) -> State:
        return None, [item.func, item.args, item.keywords], False

    def _bytes(self, item: Any) -> State:
        return None, [digest(memoryview(item))], True

    def _random(self, item: random.Random) -> State:
        return None, [item.getstate()], True

    def _count(self, item: Any) -> State:
        return None, [repr(item)], True

    _TABLE: Final[tuple[tuple[Any, Callable[[Any, Any], State | None]], ...]] = (
        (types.ModuleType, _module),
        (type, _class),
        (types.FunctionType, _function),
        ((remote.RemoteFunction, remote.RemoteClass), _remote),
        (list, _list),
        (tuple, _list),
        (collections.deque, _list),
        (dict, _dict),
        (set, _set),
        (frozenset, _set),
        (types.MethodType, _method),
        ((staticmethod, classmethod, type(functools.cache(len))), _wrapper),
        (functools.cached_property, _cached),
        (property, _property),
        (functools.partial, _partial),
        ((bytearray, array.array, memoryview), _bytes),
        (random.SystemRandom, lambda looks, item: None),
        (random.Random, _random),
        (itertools.count, _count),
    )


#: Classes of the standard library whose instances are the script's own data.
_PLAIN_OBJECTS: Final = frozenset(
    {types.SimpleNamespace, collections.UserDict, collections.UserList, collections.ChainMap}
)

_ROUTINES: Final = (types.FunctionType, staticmethod, classmethod, property)


class Fingerprint:
    """The state of everything that can be reached from some roots.

    Args:
        looks: how to look.
        roots: modules, functions and classes.
        unseen: is told, in words, what is not looked at.
    """

    def __init__(
        self, looks: Looks, roots: list[Any], unseen: Callable[[str], None] | None = None
    ) -> None:
        self._looks = looks
        self._nodes: list[Node] = []
        self._states: dict[int, Node] = {}
        self._left = MOST
        waiting: collections.deque[tuple[Any, Node | None, Any]] = collections.deque(
            (root, None, None) for root in roots
        )
        while waiting:
            item, parent, key = waiting.popleft()
            if id(item) in self._states:
                continue
            look = looks.of(type(item))
            state = look(item) if look is not None else None
            if look is None or state is None:
                continue
            node = Node(item, parent, key, look, state)
            self._states[id(item)] = node
            self._nodes.append(node)
            held = node.held
            self._left -= len(held) + _OBJECT
            if unseen is not None and _size(item) > LONG:
                unseen(f"of {label(node)} only {LONG} of {_size(item)} elements are looked at")
            if self._left < 0:
                if unseen is not None:
                    unseen(f"there is more to look at than {MOST} references: up to {label(node)}")
                break
            if node.value or looks.blind.issuperset(map(type, held)):
                continue
            names = node.names
            for place, inner in enumerate(held):
                if type(inner) not in looks.blind:
                    named = names[place] if names is not None and place < len(names) else place
                    waiting.append((inner, node, named))

    def changes(self) -> Iterator[str]:
        """What is no longer as it was, in words; nothing if all is."""
        for node in self._nodes:
            state = node.look(node.item)
            if state is None or node.is_unchanged(state):
                continue
            yield from self._differences(node, state)

    def _differences(self, node: Node, state: State) -> Iterator[str]:
        names, held, _ = state
        if node.value:
            yield label(node)
            return
        if isinstance(node.item, set | frozenset):
            if set(map(id, held)) != set(map(id, node.held)):
                yield label(node)
            return
        if node.names is None or names is None:
            if len(held) != len(node.held):
                yield label(node)
                return
            for place, (old, new) in enumerate(zip(node.held, held, strict=True)):
                if not self._same(old, new, 0):
                    yield label(node, place) if _size(node.item) <= LONG else label(node)
                    return
            return
        before = dict(zip(node.names, node.held, strict=False))
        now = dict(zip(names, held, strict=False))
        found = False
        for name in [*before, *(name for name in now if name not in before)]:
            old, new = before.get(name, _ABSENT), now.get(name, _ABSENT)
            if not self._same(old, new, 0) and not self._is_import(node, old, new):
                found = True
                yield label(node, name)
        is_ordered = isinstance(node.item, dict)
        if is_ordered and not found and list(before) != list(now) and len(before) == len(now):
            yield f"{label(node)} (its order)"

    def _is_import(self, node: Node, old: Any, new: Any) -> bool:
        """True where a module's global was filled by an import: nobody sees a difference."""
        if not isinstance(node.item, types.ModuleType) or (old is not _ABSENT and old is not None):
            return False
        if isinstance(new, types.ModuleType):
            return True
        is_definition = isinstance(new, type | types.FunctionType | types.BuiltinFunctionType)
        return is_definition and not self._looks.code.covers(new.__module__)

    def _same(self, old: Any, new: Any, depth: int) -> bool:
        """True if two objects have the same content: `old` as it was, `new` as it is."""
        if old is new:
            return True
        if type(old) is not type(new) or depth > _DEEP:
            return False
        kind = type(old)
        if isinstance(old, _CONSTANTS) or _is_numpy_scalar(kind):
            return bool(old == new) or (old != old and new != new)  # NaN
        look = self._looks.of(kind)
        if look is None or isinstance(old, type | types.ModuleType | types.FunctionType):
            return False
        node = self._states.get(id(old))
        was = (node.names, node.held, node.value) if node is not None else look(old)
        now = look(new)
        if was is None or now is None:
            return False
        if now[2]:
            return bool(was[1] == now[1])
        if isinstance(old, set | frozenset):
            return bool(old == new)
        names = (was[0], now[0])
        if names[0] != names[1] or len(was[1]) != len(now[1]):
            return False
        return all(self._same(a, b, depth + 1) for a, b in zip(was[1], now[1], strict=True))


#: Values nested deeper than this that were made anew count as changed.
_DEEP: Final = 50


def label(node: Node, key: Any = _ABSENT) -> str:
    """A node, or what it holds under `key`, in words: `module global train.counter`."""
    item = node.item
    at = "" if key is _ABSENT else str(key)
    if isinstance(item, types.ModuleType):
        name = usercode.shown_name(item)
        return f"module global {name}.{at}" if at else f"module {name}"
    if isinstance(item, type):
        return f"class attribute {item.__qualname__}.{at}" if at else f"class {item.__qualname__}"
    if isinstance(item, types.FunctionType):
        return f"{at} of {item.__qualname__}" if at else item.__qualname__
    if isinstance(item, remote.RemoteFunction | remote.RemoteClass):
        name = item.__qualname__
        return f"class attribute {name}.{at}" if at else name
    outer = "" if node.parent is None else label(node.parent, node.key)
    if not at:
        return outer
    if isinstance(item, list | tuple | dict | collections.deque):
        return f"{outer}[{key!r:.40}]"
    if node.names is None:
        return outer
    return f"{outer}.{at}"


def digest(data: memoryview) -> tuple[int, ...]:
    """Size and digest of contiguous bytes: small ones whole, of large ones a sum and a sample.

    A change of a large one is missed only if it leaves the sum of its 64-bit words as it was and
    touches none of the sampled words, as when two words that are not sampled swap places.
    """
    data = data.cast("B") if data.nbytes else memoryview(b"")
    size = data.nbytes
    np = sys.modules.get("numpy")
    if size <= WHOLE_BYTES or np is None:
        return size, zlib.crc32(data)
    words = np.frombuffer(data, np.uint64, size // 8)
    step = len(words) // _SAMPLED_WORDS or 1
    return (
        size,
        int(words.sum(dtype=np.uint64)),
        zlib.crc32(words[::step].tobytes()),
        zlib.crc32(data[len(words) * 8 :]),
    )


def array_digest(item: Any) -> tuple[Any, ...]:
    """What `digest` says of the memory of an array, with its shape and type."""
    if item.flags.c_contiguous:
        data = item
    elif item.flags.f_contiguous:
        data = item.T
    else:
        data = item.copy()
    np = sys.modules["numpy"]
    raw = data.view(np.ndarray).reshape(-1).view(np.uint8)
    return item.shape, item.dtype, digest(memoryview(raw))


def owner_of(item: Any) -> Any:
    """The array whose memory `item` looks at: itself, or the one that it is a view of."""
    np = sys.modules["numpy"]
    while isinstance(item.base, np.ndarray):
        item = item.base
    return item


def _array(item: Any) -> State:
    owner = owner_of(item)
    if owner is not item:
        return None, [owner, *_extra(item)], False
    if item.dtype.hasobject:
        return None, [*item.ravel()[:LONG].tolist(), *_length(item.size)], False
    if not item.flags.writeable and item.base is not None:
        return None, [], False  # it looks at memory that it can't change
    return None, [array_digest(item)], True


def _generator(item: Any) -> State:
    return None, [plain_state(item.bit_generator.state)], True


def _bit_generator(item: Any) -> State:
    return None, [plain_state(item.state)], True


def _random_state(item: Any) -> State:
    return None, [plain_state(item.get_state(legacy=False))], True


def plain_state(state: Any) -> Any:
    """A bit generator's state without arrays, so that `==` compares it."""
    if isinstance(state, tuple):
        return tuple(map(plain_state, state))
    if isinstance(state, dict):
        return {name: plain_state(value) for name, value in state.items()}
    return state.tobytes() if hasattr(state, "tobytes") else state


def _numpy_types() -> Any:
    np = sys.modules.get("numpy")
    return () if np is None else np.ndarray


def _numpy_look(kind: type) -> Look | None:
    np = sys.modules["numpy"]
    if issubclass(kind, np.ndarray):
        return _array
    if "numpy.random" in sys.modules:
        if issubclass(kind, np.random.Generator):
            return _generator
        if issubclass(kind, np.random.RandomState):
            return _random_state
        if issubclass(kind, np.random.BitGenerator):
            return _bit_generator
    return None


def _is_numpy_scalar(kind: type) -> bool:
    np = sys.modules.get("numpy")
    return np is not None and issubclass(kind, np.generic)


def _frame(item: Any) -> State:
    """A pandas frame, series or index by its cells: its own blocks move when it is only read."""
    if not hasattr(item, "columns"):
        return None, [_cells(item)], True
    columns = [item.iloc[:, place] for place in range(item.shape[1])]
    return None, [tuple(map(str, item.columns)), *map(_cells, columns)], True


def _cells(column: Any) -> Any:
    cells = column.to_numpy()
    if cells.dtype.hasobject:
        text = "\0".join(map(repr, cells[:LONG].tolist()))
        return len(cells), zlib.crc32(text.encode(errors="surrogatepass"))
    return array_digest(cells)


def _tensor(item: Any) -> State | None:
    """A tensor of another library, through the memory that it lends."""
    import numpy as np

    lent = item.detach() if hasattr(item, "detach") else item
    try:
        return None, [array_digest(np.from_dlpack(lent))], True
    except (TypeError, ValueError, RuntimeError, BufferError):  # on a device, or of another kind
        return None


_CONTAINERS: Final = (list, tuple, dict, set, frozenset, collections.deque)


def _size(item: Any) -> int:
    return len(item) if isinstance(item, _CONTAINERS) else 0


def _length(size: int) -> tuple[str, ...]:
    """The length of a container that is not looked at whole; one object per length."""
    return (sys.intern(str(size)),) if size > LONG else ()


def _remaining(item: Any) -> State:
    return None, [operator.length_hint(item)], True


def _iterate(item: Any, shown: Any) -> Iterator[Any]:
    """The elements of a list, tuple or deque, by the base class's own iterator."""
    kind = type(shown)
    for base in (list, tuple, collections.deque):
        if issubclass(kind, base):
            return base.__iter__(shown)
    return iter(item)


def _extra(item: Any) -> tuple[Any, ...]:
    """The attributes of an instance of a container's subclass."""
    if type(item) in _CONTAINERS:
        return ()
    attributes = _attributes(item)
    return (attributes,) if attributes else ()


def _attributes(item: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(item, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _is_dunder(name: object) -> bool:
    return isinstance(name, str) and name.startswith("__") and name.endswith("__")
