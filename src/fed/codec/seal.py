"""Snapshots: what a value becomes when it passes a call, so that later changes are not seen.

`take` makes the *sealed form* of a value at that instant; `opened` gives a reader its own value
out of it. Immutable scalars pass by reference. An array becomes a read-only view, whose own flag
can't be set back: of the array itself where its producer gave up the last reference to it, of a
copy otherwise. (Its `.base` still can be unlocked: who does that writes for all readers.) Lists,
dicts, tuples and sets are walked; anything else is pickled, once at the seal and once per reader,
so what could not be sent (a lock, an open file) is refused here too.

This is what happens inside one party; what crosses to another one is also held to the type
table (`types.cross`).
"""

from __future__ import annotations

import datetime
import decimal
import enum
import io
import pickle
import sys
import types
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from fed import errors
from fed.codec import types as table
from fed.model import objects, trees

if TYPE_CHECKING:
    import numpy

#: Exact types whose values never change and hold nothing else: passed by reference, and they cross
#: as they are, unasked. The scalar types of numpy join once numpy is loaded. Engines test
#: `type(value) in ATOMS` on their hot path.
ATOMS: Final[set[type]] = {
    type(None), bool, int, float, complex, str, bytes, decimal.Decimal,
}  # fmt: skip

#: Exact types that are no atoms only because a value may cross as something else: a UUID without
#: its `is_safe`, and those of numpy's integers that have another name on other machines.
_UNCHANGING: Final[set[type]] = {uuid.UUID}

#: Bits of `numpy.ndarray.flags.num`: reading them at once is several times cheaper than by name.
_CONTIGUOUS: Final = 0x1 | 0x2
_OWNS_DATA: Final = 0x4

#: Copies of classes and functions -> the original that each stands for. An engine that gives
#: parties copies of their own notes them here: pickles name the original, so that a value is the
#: same whoever made it.
originals: Final[weakref.WeakKeyDictionary[Any, Any]] = weakref.WeakKeyDictionary()

_getrefcount = sys.getrefcount

#: Who refers to an array weakly, a cache for example, may still write to it.
_getweakrefcount = weakref.getweakrefcount

#: Where a part is: a text, or (where what it is in is, its index or key there). Texts are made for
#: errors only.
_Path = str | tuple[Any, Any]


def _text(path: _Path) -> str:
    steps: list[str] = []
    while not isinstance(path, str):
        path, key = path
        steps.append(table.key_step(key))
    return path + "".join(reversed(steps))


class Tree:
    """The sealed form of a list, dict, tuple, set, frozenset or ordered dict.

    Attributes:
        value: the snapshot; only `opened` may hand out (copies of) it.
        flat: True if its elements are atoms and arrays alone, so that one shallow copy does.
        plain: True if every type in it is one that may cross as it is, nothing pickled.
        nbytes: bytes of the arrays and pickles in it; named as an array's, so that one look at a
            sealed form of any kind tells its size.
    """

    __slots__ = ("flat", "nbytes", "plain", "value")

    def __init__(self, value: Any, *, flat: bool, plain: bool, nbytes: int) -> None:
        self.value = value
        self.flat = flat
        self.plain = plain
        self.nbytes = nbytes


class Pickled:
    """The sealed form of any other value: a pickle with its large buffers beside it.

    Attributes:
        data: the pickle; nobody writes to its memory, nor to that of the buffers.
        buffers: what the pickle refers to.
        kind: the value's type.
        path: where it is in the whole value.
    """

    __slots__ = ("buffers", "data", "kind", "path")

    def __init__(
        self,
        data: bytes | memoryview,
        buffers: Sequence[bytes | memoryview],
        kind: type,
        path: _Path,
    ) -> None:
        self.data = data
        self.buffers = buffers
        self.kind = kind
        self.path = path

    @property
    def nbytes(self) -> int:
        """Bytes of the pickle and its buffers."""
        return len(self.data) + sum(map(len, self.buffers))

    def loaded(self) -> Any:
        """A fresh object; its arrays are read-only.

        Raises:
            ValueRefusedError: if its own code that rebuilds it raises.
        """
        try:
            return pickle.loads(self.data, buffers=self.buffers)
        except Exception as error:
            raise errors.ValueRefusedError(
                path=_text(self.path),
                type_name=table.type_name(self.kind),
                reason=f"its copy can't be rebuilt: {type(error).__name__} was raised",
            ) from error


#: The dtypes that cross as they are: bool, integers, floats, complex in native byte order, but not
#: long double, whose size differs between machines. Others take a longer way.
_plain: frozenset[Any] = frozenset()


#: `numpy.ndarray` once numpy is loaded; no value can be an array before.
_ndarray: Any = None

# How many references `sys.getrefcount` sees in `take` for a value that nobody but its caller's one
# local variable holds, and in `_sealed_items` for an element that only its container holds. They
# differ between versions of Python, so they are measured below on the very code that uses them.
_fresh_value = -1
_fresh_item = -1


def take(value: Any, *, root: str = "result") -> Any:
    """The sealed form of `value`: an atom, a read-only array, a `Tree` or a `Pickled`.

    To let an array be moved instead of copied, call it as `x = take(x)` with `x` a local variable.

    Raises:
        ValueRefusedError: if a part of it can't be copied; names its path from `root`.
    """
    references = _getrefcount(value)
    if type(value) is _ndarray and not value.dtype.hasobject:
        # As `_frozen`, written out: this is the hot path of bodies that return arrays.
        if (
            references != _fresh_value
            or value.base is not None
            or not value.flags.num & _OWNS_DATA
            or _getweakrefcount(value)
        ):
            value = value.copy("A")
        value.setflags(False)
        return value.view()
    kind = type(value)
    if kind in ATOMS:
        return value
    return _taken(value, kind, references == _fresh_value, root)


def _taken(value: Any, kind: type, is_fresh: bool, root: _Path) -> Any:
    if _numpy_is_loaded():
        if kind in ATOMS:
            return value
        if kind is _ndarray and not value.dtype.hasobject:
            return _frozen(value, False)
    if kind in _UNCHANGING:
        return value
    if kind in _SEALED:
        walk = _Walk(root)
        try:
            return walk.tree(value, is_fresh)
        except RecursionError:
            # Deeper than Python's stack, or it contains itself: pickle keeps track of that.
            return _pickled(value, root)
    return _pickled(value, root)


def snapshot(value: Any, *, root: _Path = "value") -> Any:
    """The sealed form of `value`, never moved: for a value that its owner goes on using."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if _numpy_is_loaded() and kind is _ndarray and _is_frozen(value):
        return value
    return _taken(value, kind, False, root)


def opened(form: Any) -> Any:
    """The reader's own value out of a sealed form: containers are fresh, arrays shared."""
    kind = type(form)
    if kind is Tree:
        if form.flat:
            value = form.value
            return value if type(value) is tuple else value.copy()
        return _opened(form.value)
    if kind is Pickled:
        return form.loaded()
    return form


def array_type() -> Any:
    """`numpy.ndarray` once numpy is loaded, None before: no value can be an array then."""
    return _ndarray


def is_plain(array: Any) -> bool:
    """True for a sealed array that looks the same after encoding and decoding."""
    return array.dtype in _plain and bool(array.flags.num & _CONTIGUOUS)


def literal(value: Any, *, root: _Path, on_object: Callable[[objects.FedObject[Any]], Any]) -> Any:
    """The callee's own snapshot of an argument, fed objects in it replaced by `on_object`.

    Args:
        value: the argument as the script gave it.
        root: what the argument is called in errors.
        on_object: gives the value of a fed object, already the callee's own.

    Raises:
        ValueRefusedError: if a part of it can't be copied.
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    if isinstance(value, objects.FedObject):
        return on_object(value)
    try:
        return _Literal(on_object).copy(value, root)
    except RecursionError:
        # Deeper than Python's stack, so there are no fed objects in it (see `trees`).
        return opened(_pickled(value, root))


class _Literal:
    """Copies one argument. What stands in several places of it is copied once, as pickle does."""

    __slots__ = ("made", "on_object")

    def __init__(self, on_object: Callable[[objects.FedObject[Any]], Any]) -> None:
        self.on_object = on_object
        # id -> (the original, which keeps its id, and the copy)
        self.made: dict[int, tuple[Any, Any]] = {}

    def copy(self, value: Any, path: _Path) -> Any:
        kind = type(value)
        if kind in ATOMS:
            return value
        if isinstance(value, objects.FedObject):
            return self.on_object(value)
        if _numpy_is_loaded() and kind is _ndarray and not value.dtype.hasobject:
            return value if _is_frozen(value) else _frozen(value, False)
        known = self.made.get(id(value))
        if known is None:
            known = value, self._copied(value, kind, path)
            # A tuple in a cycle was copied on the way.
            known = self.made.setdefault(id(value), known)
        return known[1]

    def _copied(self, value: Any, kind: type, path: _Path) -> Any:
        if kind is list:
            items: list[Any] = []
            self.made[id(value)] = value, items
            for item in value:
                items.append(self.copy(item, (path, len(items))))
            return items
        if kind is tuple:
            return tuple([self.copy(item, (path, place)) for place, item in enumerate(value)])
        if kind is dict and all(type(key) in ATOMS or _is_settled(_NOTES, key) for key in value):
            pairs: dict[Any, Any] = {}
            self.made[id(value)] = value, pairs
            for key, item in value.items():
                pairs[key] = self.copy(item, (path, key))
            return pairs
        if not trees.objects_in(value):
            return opened(_taken(value, kind, False, path))
        steps = _steps(value, path)
        inner = [
            self.copy(item, step)
            for step, item in zip(steps, trees.children(value) or (), strict=False)
        ]
        if isinstance(value, dict):
            own = [opened(snapshot(key, root=step)) for key, step in zip(value, steps, strict=True)]
            return kind(zip(own, inner, strict=True))
        made = trees.rebuilt(value, inner)
        for name, item in trees.attributes(value).items():
            root = f"{_text(path)}.{name}"
            object.__setattr__(made, name, opened(snapshot(item, root=root)))
        return made


def _steps(value: Any, path: _Path) -> list[_Path]:
    """The paths of the children of a container, in the order of `trees.children`."""
    if isinstance(value, dict):
        return [(path, key) for key in value]
    return [f"{_text(path)}.{name}" for name in trees.field_names(value)]


def _is_frozen(array: Any) -> bool:
    from fed.codec import arrays

    return not array.flags.writeable and arrays.is_frozen(array)


def _frozen(array: numpy.ndarray[Any, Any], is_fresh: bool) -> numpy.ndarray[Any, Any]:
    """A read-only view of the array if nobody else can reach it, else of a copy.

    A view of a read-only owner can't be made writeable again. An array that has a base shares its
    memory with somebody, however fresh the view itself is.
    """
    if not (is_fresh and array.base is None and array.flags.num & _OWNS_DATA):
        array = array.copy("A")
    array.setflags(write=False)
    return array.view()


class _Walk:
    """Seals one container; see `Tree` for what it finds out on the way."""

    __slots__ = ("depth", "flat", "nbytes", "plain", "root")

    def __init__(self, root: _Path) -> None:
        self.root = root
        self.flat = True
        self.plain = True
        self.nbytes = 0
        self.depth = 0

    def tree(self, value: Any, is_fresh: bool) -> Tree:
        sealed = _SEALED[type(value)](self, value, is_fresh, self.root)
        return Tree(sealed, flat=self.flat, plain=self.plain, nbytes=self.nbytes)

    def leaf(self, value: Any, is_fresh: bool, path: _Path, key: Any) -> Any:
        """Seal an element that is no atom."""
        kind = type(value)
        if kind is _ndarray:
            dtype = value.dtype
            if dtype in _plain or not dtype.hasobject:
                flags = value.flags.num
                if not (
                    is_fresh
                    and flags & _OWNS_DATA
                    and value.base is None
                    and not _getweakrefcount(value)
                ):
                    value = value.copy("A")
                    flags = value.flags.num
                value.setflags(False)
                if not flags & _CONTIGUOUS or dtype not in _plain:
                    self.plain = False
                self.nbytes += value.nbytes
                return value.view()
        self.flat = False
        seal = _SEALED.get(kind)
        if seal is not None:
            self.depth += 1
            if self.depth >= table.DEPTH_LIMIT:
                self.plain = False  # it may not cross, and `types.cross` says why
            if self.depth > trees.MAX_DEPTH:
                raise RecursionError
            sealed = seal(self, value, is_fresh, (path, key))
            self.depth -= 1
            return sealed
        self.plain = False
        if kind in _UNCHANGING:
            return value
        pickled = _pickled(value, (path, key))
        self.nbytes += pickled.nbytes
        return pickled


def _sealed_list(walk: _Walk, value: list[Any], is_fresh: bool, path: _Path) -> list[Any]:
    return _sealed_items(walk, value, is_fresh, path)


def _sealed_tuple(walk: _Walk, value: tuple[Any, ...], is_fresh: bool, path: _Path) -> Any:
    return tuple(_sealed_items(walk, value, is_fresh, path))


def _sealed_items(walk: _Walk, value: Any, is_fresh: bool, path: _Path) -> list[Any]:
    out = []
    for item in value:
        if type(item) in ATOMS:
            out.append(item)
        else:
            movable = is_fresh and _getrefcount(item) == _fresh_item
            out.append(walk.leaf(item, movable, path, len(out)))
    return out


def _sealed_dict(walk: _Walk, value: dict[Any, Any], is_fresh: bool, path: _Path) -> Any:
    out = {}
    if not all(type(key) in ATOMS or _is_settled(walk, key) for key in value):
        return _sealed_whole(walk, value, path)
    # Not by items(): its iterator keeps a reference to each value, and nothing would look unshared.
    for key in value:
        item = value[key]
        if type(item) in ATOMS:
            out[key] = item
        else:
            movable = is_fresh and _getrefcount(item) == _fresh_item
            out[key] = walk.leaf(item, movable, path, key)
    return out


def _sealed_ordered(walk: _Walk, value: OrderedDict[Any, Any], is_fresh: bool, path: _Path) -> Any:
    if vars(value):
        # Attributes (torch hangs metadata there) stay inside a party, so pickle takes them along.
        return _sealed_whole(walk, value, path)
    sealed = _sealed_dict(walk, value, is_fresh, path)
    return OrderedDict(sealed) if type(sealed) is dict else sealed


def _sealed_set(walk: _Walk, value: Any, is_fresh: bool, path: _Path) -> Any:
    if all(type(item) in ATOMS or _is_settled(walk, item) for item in value):
        return type(value)(value)
    return _sealed_whole(walk, value, path)


def _sealed_whole(walk: _Walk, value: Any, path: _Path) -> Pickled:
    """A container that no walk can take apart: pickled, and so copied for each reader."""
    walk.flat = walk.plain = False
    pickled = _pickled(value, path)
    walk.nbytes += pickled.nbytes
    return pickled


def _is_settled(walk: _Walk, key: Any) -> bool:
    """True for a key or member of a set that can never change, so that all may share it."""
    kind = type(key)
    if kind in ATOMS:
        return True
    if kind is tuple or kind is frozenset:
        return all(_is_settled(walk, item) for item in key)
    walk.plain = False
    return kind in _SETTLED or kind in _UNCHANGING or isinstance(key, enum.Enum)


#: For `_is_settled` where nobody asks what the walk found out.
_NOTES: Final = _Walk("")

#: Beside atoms: exact types whose values never change.
_SETTLED: Final = frozenset(
    (datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone)
)


_SEALED: Final[dict[type, Callable[[_Walk, Any, bool, _Path], Any]]] = {
    list: _sealed_list,
    tuple: _sealed_tuple,
    dict: _sealed_dict,
    OrderedDict: _sealed_ordered,
    set: _sealed_set,
    frozenset: _sealed_set,
}


def _opened(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return [_opened(item) if type(item) not in ATOMS else item for item in value]
    if kind is tuple:
        return tuple([_opened(item) if type(item) not in ATOMS else item for item in value])
    if kind is dict or kind is OrderedDict:
        return kind(
            (key, _opened(item) if type(item) not in ATOMS else item) for key, item in value.items()
        )
    if kind is set:
        return value.copy()
    if kind is Pickled:
        return value.loaded()
    return value


def _pickled(value: Any, path: _Path) -> Pickled:
    found: list[bytes] = []

    def keep(buffer: pickle.PickleBuffer) -> None:
        found.append(bytes(buffer.raw()))

    try:
        # By reference where the class can be imported: many times cheaper than cloudpickle, which
        # is needed for lambdas, local classes and what a name no longer leads to.
        data = _dumps(value, keep)
    except errors.FedError:
        raise
    except Exception:  # noqa: BLE001  (a user's __reduce__ may raise anything)
        found.clear()
        data = _cloudpickled(value, path, keep)
    return Pickled(data, found, type(value), path)


class _Naming:
    """Of a pickler: names the original of a copy."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | types.FunctionType):
            original = originals.get(obj)
            if original is not None:
                return _itself, (original,)
        inherited = getattr(super(), "reducer_override", None)
        return NotImplemented if inherited is None else inherited(obj)


class _NamingPickler(_Naming, pickle.Pickler):
    pass


def _itself(value: Any) -> Any:
    return value


def _dumps(value: Any, keep: Callable[[pickle.PickleBuffer], None]) -> bytes:
    if not originals:
        return pickle.dumps(value, protocol=5, buffer_callback=keep)
    file = io.BytesIO()
    _NamingPickler(file, protocol=5, buffer_callback=keep).dump(value)
    return file.getvalue()


def _cloud_dumps(value: Any, keep: Callable[[pickle.PickleBuffer], None] | None = None) -> bytes:
    import cloudpickle

    if not originals:
        data: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=keep)
        return data
    file = io.BytesIO()
    pickler = type("_NamingCloudPickler", (_Naming, cloudpickle.Pickler), {})
    pickler(file, protocol=5, buffer_callback=keep).dump(value)
    return file.getvalue()


def _cloudpickled(value: Any, path: _Path, keep: Callable[[pickle.PickleBuffer], None]) -> bytes:
    try:
        data = _cloud_dumps(value, keep)
    except errors.FedError:
        raise
    except Exception as error:
        path, culprit = _culprit(value, path, _cloud_dumps, 0)
        kind = type(culprit)
        raise errors.ValueRefusedError(
            path=_text(path),
            type_name=f"{kind.__module__}.{kind.__qualname__}",
            reason=f"it can't be copied, so no call can take or return it ({error})",
        ) from error
    return data


def _culprit(value: Any, path: _Path, dump: Callable[[Any], Any], depth: int) -> tuple[_Path, Any]:
    """The innermost part that can't be pickled, and where it is; for the error alone."""
    parts: list[tuple[_Path, Any]] = []
    if isinstance(value, dict):
        parts = [((path, key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [((path, place), item) for place, item in enumerate(value)]
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        parts = [(f"{_text(path)}.{name}", item) for name, item in vars(value).items()]
    for inner_path, item in parts if depth < 20 else ():
        try:
            dump(item)
        except Exception:  # noqa: BLE001  (whatever it raises, the culprit is in there)
            return _culprit(item, inner_path, dump, depth + 1)
    return path, value


def _numpy_is_loaded() -> bool:
    """True once numpy is there; the first time, its types are taken in."""
    global _ndarray, _plain  # noqa: PLW0603  (set once, when numpy is first seen)
    if _ndarray is not None:
        return True
    np = sys.modules.get("numpy")
    if np is None or not hasattr(np, "ndarray"):
        return False
    for code in "?bBhHiIlLqQefdFDMmSU":
        dtype = np.dtype(code)
        arrives = np.dtype(dtype.str).type  # `long` or `long long`, whichever is numpy's int64 here
        (ATOMS if arrives is dtype.type else _UNCHANGING).add(dtype.type)
    _plain = frozenset(np.dtype(code) for code in "?bBhHiIlLqQefdFD")
    _ndarray = np.ndarray
    _calibrate(np)
    return True


def _calibrate(np: Any) -> None:
    """Find the reference counts of fresh values on the very code that will see them.

    The count is right if a fresh array is moved and a kept one is copied. Where none is (a Python
    that borrows references), nothing is ever moved, which costs a copy and is right.
    """
    global _fresh_value, _fresh_item  # noqa: PLW0603  (constants of this interpreter)
    kept = np.zeros(1)

    def moves(make: Callable[[list[int]], Any], owner: Callable[[Any], Any]) -> bool:
        before: list[int] = []
        made = make(before)
        made = take(made)
        return id(owner(made).base) == before[0]

    def fresh(before: list[int]) -> Any:
        array = np.zeros(1)
        before.append(id(array))
        return array

    def held(before: list[int]) -> Any:
        before.append(id(kept))
        return kept

    def fresh_in_list(before: list[int]) -> Any:
        return [fresh(before)]

    def held_in_list(before: list[int]) -> Any:
        before.append(id(kept))
        return [kept]

    def itself(made: Any) -> Any:
        return made

    def first(made: Any) -> Any:
        return made.value[0]

    candidates = range(1, 12)
    for _fresh_value in candidates:
        if moves(fresh, itself) and not moves(held, itself):
            break
    else:
        _fresh_value = -1
    for _fresh_item in candidates:
        if moves(fresh_in_list, first) and not moves(held_in_list, first):
            break
    else:
        _fresh_item = -1
