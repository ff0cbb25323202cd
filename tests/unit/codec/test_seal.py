"""Snapshots: moved where nobody else can see it, copied otherwise, never written to again."""

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import enum
import io
import random
import sys
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from fed import errors
from fed.codec import seal, types, wire
from fed.model import objects
from fed.testing import engines


def sealed(make: Callable[[], Any]) -> Any:
    """What an engine does with a body's result."""
    value = make()
    value = seal.take(value)  # by this very statement, so that the array can be moved
    return value  # noqa: RET504


sealed(lambda: np.zeros(1))  # the first array is copied, for numpy has to be looked at


def owner_of(array: np.ndarray) -> Any:
    return array.base if array.base is not None else array


class Box:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


@dataclasses.dataclass
class Data:
    inside: Any


class Pair(NamedTuple):
    left: Any
    right: Any


class Color(enum.Enum):
    RED = 1


# Moves and copies.


def test_a_fresh_array_is_moved_and_locked() -> None:
    seen: list[Any] = []

    def make() -> np.ndarray:
        array = np.arange(10.0)
        seen.append((id(array), array.ctypes.data))
        return array

    form = sealed(make)
    assert (id(owner_of(form)), form.ctypes.data) == seen[0]
    assert not form.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        form.flags.writeable = True


CACHE: weakref.WeakValueDictionary[str, np.ndarray] = weakref.WeakValueDictionary()


def cached() -> np.ndarray:
    CACHE["array"] = array = np.arange(3.0)
    return array


@pytest.mark.parametrize("make", [cached, lambda: [cached()], lambda: {"k": cached()}])
def test_an_array_that_somebody_can_reach_weakly_is_copied(make: Callable[[], Any]) -> None:
    CACHE.clear()
    form = sealed(make)
    assert form is not None
    assert not CACHE, "it was moved, and the cache still reaches it"
    del form


KEPT = np.arange(10.0)
KEPT_LIST = [np.arange(3.0)]


def kept_in_a_list() -> Any:
    made = np.zeros(3)
    HOLDER.append(made)
    return made


def a_view_is_kept() -> Any:
    made = np.zeros(3)
    HOLDER.append(made[1:])
    return made


def a_buffer_is_kept() -> Any:
    made = np.zeros(3)
    HOLDER.append(memoryview(made))
    return made


HOLDER: list[Any] = []
SHARED = [
    lambda: KEPT,
    lambda: KEPT[2:],
    lambda: KEPT.reshape(2, 5),
    lambda: KEPT[:].view(),
    kept_in_a_list,
    a_view_is_kept,
    a_buffer_is_kept,
    lambda: np.frombuffer(bytearray(24)),
    lambda: np.broadcast_to(KEPT[:1], (4,)),
]


@pytest.mark.parametrize("make", SHARED)
def test_what_anybody_else_can_reach_is_copied(make: Callable[[], Any]) -> None:
    HOLDER.clear()
    before = make()
    form = sealed(make)
    assert not np.shares_memory(form, KEPT)
    assert all(not np.shares_memory(form, np.asarray(held)) for held in HOLDER)
    assert form.tolist() == before.tolist()
    assert not form.flags.writeable
    assert KEPT.flags.writeable


CONTAINERS: dict[str, Callable[[], Any]] = {
    "kept list": lambda: KEPT_LIST,
    "kept in fresh list": lambda: [KEPT_LIST[0]],
    "kept in fresh dict": lambda: {"x": KEPT},
    "kept list in fresh dict": lambda: {"x": KEPT_LIST},
    "kept in a tuple": lambda: (1, (KEPT,)),
    "twice": lambda: [KEPT, KEPT],
    "view": lambda: [KEPT[1:]],
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_in_a_container_only_what_it_alone_holds_is_moved(name: str) -> None:
    form = sealed(CONTAINERS[name])
    KEPT[0] += 1
    KEPT_LIST[0][0] += 1
    try:
        opened = seal.opened(form)
        flat: list[Any] = []
        walk(opened, flat)
        assert flat
        for array in flat:
            assert not np.shares_memory(array, KEPT)
            assert not np.shares_memory(array, KEPT_LIST[0])
            assert array[0] in (0.0, 1.0)
            assert not array.flags.writeable
    finally:
        KEPT[0] -= 1
        KEPT_LIST[0][0] -= 1


def walk(value: Any, found: list[Any]) -> None:
    if isinstance(value, np.ndarray):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            walk(item, found)
    elif isinstance(value, list | tuple):
        for item in value:
            walk(item, found)


def test_fresh_arrays_of_a_fresh_container_are_moved() -> None:
    seen: list[int] = []

    def array() -> np.ndarray:
        made = np.zeros(3)
        seen.append(made.ctypes.data)
        return made

    form = sealed(lambda: [array(), {"x": array()}, (array(),)])
    opened = seal.opened(form)
    places = [opened[0].ctypes.data, opened[1]["x"].ctypes.data, opened[2][0].ctypes.data]
    assert places == seen


def test_the_same_fresh_array_twice_is_two() -> None:
    def make() -> Any:
        made = np.zeros(3)
        return [made, made]

    left, right = seal.opened(sealed(make))
    assert not np.shares_memory(left, right)


def test_a_snapshot_is_never_moved() -> None:
    array = np.zeros(3)
    form = seal.snapshot(array)
    array += 1
    assert form.tolist() == [0, 0, 0]
    assert array.flags.writeable
    again = seal.snapshot([array])
    array += 1
    assert seal.opened(again)[0].tolist() == [1, 1, 1]


def test_a_moved_array_dies_with_its_form() -> None:
    form = sealed(lambda: np.zeros(3))
    owner = weakref.ref(owner_of(form))
    assert owner() is not None
    del form
    assert owner() is None


# Readers.

VALUES: dict[str, Callable[[], Any]] = {
    "atoms": lambda: [1, "x", None, 2.5, b"y", 1j, True],
    "nested": lambda: {"a": [1, {"b": (2, [3])}], 5: ()},
    "sets": lambda: [{1, 2}, frozenset({"x"}), {(1, frozenset({2}))}],
    "ordered": lambda: OrderedDict([("z", [1]), ("a", {})]),
    "arrays": lambda: [np.arange(3), {"x": np.zeros((2, 2), order="F")}, np.float32(1)],
    "object": lambda: {"b": Data([1, np.zeros(2)])},
    "named": lambda: [Pair([1], Pair(2, 3))],
    "enum": lambda: {Color.RED: Color.RED, (Color.RED, 1): [2]},
    "object array": lambda: np.array([[1], "x", None], dtype=object)[1:],
    "bytearray": lambda: [bytearray(b"abc")],
    "empty": lambda: [[], {}, (), set(), np.zeros(0), ""],
}


@pytest.mark.parametrize("name", VALUES)
def test_each_reader_has_its_own_equal_value(name: str) -> None:
    form = sealed(VALUES[name])
    one, other = seal.opened(form), seal.opened(form)
    assert engines.same(one, VALUES[name]())
    spoil(one)
    assert engines.same(other, VALUES[name]())
    assert engines.same(seal.opened(form), VALUES[name]())


def spoil(value: Any, *, in_object: bool = False) -> None:
    """Change all that can be changed.

    Arrays can't, but for those in an object that a pickle brings back as the reader's own.
    """
    if isinstance(value, list | tuple | set):
        for item in value:
            spoil(item, in_object=in_object)
    elif isinstance(value, dict):
        for item in value.values():
            spoil(item, in_object=in_object)
        value["spoilt"] = 1
    elif isinstance(value, bytearray):
        value.append(0)
    elif isinstance(value, Data | Box):
        spoil(value.inside, in_object=True)
        value.inside = None
    elif isinstance(value, np.ndarray) and value.dtype != object:
        with contextlib.suppress(ValueError):
            value[...] = np.ones(1).astype(value.dtype)[0]
            assert in_object or not value.size
    if isinstance(value, list):
        value.append("spoilt")
    elif isinstance(value, set):
        value.add("spoilt")


class Identity:
    """Hashable by identity, and changeable."""

    x = 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: {Identity()},
        lambda: {Identity(): 1},
        lambda: [frozenset({(1, Identity())})],
        lambda: OrderedDict({(Identity(),): 1}),
    ],
)
def test_keys_and_members_that_can_change_are_not_shared(make: Callable[[], Any]) -> None:
    form = sealed(make)

    def found(value: Any) -> Any:
        while not isinstance(value, Identity):
            value = next(item for item in value if item != 1)
        return value

    one = found(seal.opened(form))
    one.x = 5
    assert found(seal.opened(form)).x == 0


def test_cycles_and_sharing_inside_a_party_are_what_pickle_makes_of_them() -> None:
    def cycle() -> Any:
        value: list[Any] = [1]
        value.append(value)
        return value

    opened = seal.opened(sealed(cycle))
    assert opened[1] is opened

    def deep() -> Any:
        value: Any = 7
        for _ in range(150):
            value = [value]
        return value

    assert engines.same(seal.opened(sealed(deep)), deep())


# Refusals.

REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "lock": (threading.Lock, "result", "_thread.lock"),
    "in a list": (lambda: [1, [threading.Lock()]], "result[1][0]", "_thread.lock"),
    "in a dict": (lambda: {"a": {5: threading.Lock()}}, 'result["a"][5]', "_thread.lock"),
    "in an object": (lambda: [Data([threading.Lock()])], "result[0].inside[0]", "_thread.lock"),
    "generator": (lambda: {"g": (i for i in ())}, 'result["g"]', "builtins.generator"),
    "frame": (lambda: [sys._getframe()], "result[0]", "builtins.frame"),
    "quotes": (lambda: {'a"b': threading.Lock()}, 'result["a\\"b"]', "_thread.lock"),
    "text file": (lambda: [io.TextIOWrapper(io.BytesIO())], "result[0]", "_io.TextIOWrapper"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_copied_is_refused_with_its_path(name: str) -> None:
    make, path, type_name = REFUSED[name]
    with pytest.raises(errors.ValueRefusedError) as caught:
        sealed(make)
    assert (caught.value.path, caught.value.type_name) == (path, type_name)


class Rebuilds:
    def __reduce__(self) -> Any:
        return _fail, ("no",)


def _fail(text: str) -> Any:
    raise KeyError(text)


def test_a_value_whose_rebuilding_fails_is_refused_at_the_reader() -> None:
    form = sealed(lambda: {"a": [Rebuilds()]})
    with pytest.raises(errors.ValueRefusedError, match="KeyError") as caught:
        seal.opened(form)
    assert caught.value.path == 'result["a"][0]'
    assert caught.value.type_name.endswith("Rebuilds")


class RaisesAtPickling:
    def __reduce__(self) -> Any:
        raise RuntimeError("mine")


def test_an_error_of_the_users_own_is_the_reason() -> None:
    with pytest.raises(errors.ValueRefusedError, match="mine"):
        sealed(lambda: [RaisesAtPickling()])


def test_a_handle_is_no_value() -> None:
    obj = objects.FedObject.__new__(objects.FedObject)
    obj.number, obj.party = 3, "ALICE"  # type: ignore[assignment]
    with pytest.raises(errors.UsageError, match="3#0"):
        sealed(lambda: {"x": Box(obj)})


# Arguments.


def read(obj: Any) -> Any:
    raise AssertionError("no fed object here")


@pytest.mark.parametrize("name", VALUES)
def test_a_literal_is_the_callees_own(name: str) -> None:
    given = VALUES[name]()
    own = seal.literal(given, root="argument 0", on_object=read)
    assert engines.same(own, given)
    spoil(own)
    assert engines.same(given, VALUES[name]())
    assert not isinstance(given, np.ndarray) or given.flags.writeable


def test_fed_objects_in_a_literal_are_replaced_and_its_paths_tell_the_way() -> None:
    obj = objects.FedObject.__new__(objects.FedObject)
    given = {"a": [Data(obj), Pair(obj, 1)], "b": OrderedDict(k=obj)}
    own = seal.literal(given, root="argument w", on_object=lambda _: [7])
    assert own == {"a": [Data([7]), Pair([7], 1)], "b": OrderedDict(k=[7])}
    assert given["a"][0].inside is obj  # type: ignore[index]
    assert own["a"][0].inside is not own["b"]["k"]
    given = {"a": [Pair(obj, Data([threading.Lock()]))]}
    with pytest.raises(errors.ValueRefusedError) as caught:
        seal.literal(given, root="argument w", on_object=lambda _: 7)
    assert caught.value.path == 'argument w["a"][0].right.inside[0]'


class Key:
    """Hashable by identity, and changeable."""

    def __init__(self) -> None:
        self.hits = 0


@pytest.mark.parametrize(
    "wrap",
    [
        lambda key, obj: {key: 1},
        lambda key, obj: {key: obj},
        lambda key, obj: OrderedDict({key: obj}),
        lambda key, obj: {(1, key): [obj]},
        lambda key, obj: {frozenset([key]): obj},
    ],
    ids=["plain", "object", "ordered", "in a tuple", "in a frozenset"],
)
def test_keys_that_can_change_are_the_callees_own(wrap: Callable[[Any, Any], Any]) -> None:
    def flat(key: Any) -> Key:
        return next(part for part in key if part != 1) if not isinstance(key, Key) else key

    key = Key()
    obj = objects.FedObject.__new__(objects.FedObject)
    (own,) = seal.literal(wrap(key, obj), root="argument 0", on_object=lambda _: 7)
    assert isinstance(flat(own), Key)
    assert flat(own) is not key


def test_attributes_beside_the_fields_are_the_callees_own() -> None:
    obj: Any = objects.FedObject.__new__(objects.FedObject)
    obj.number, obj.party = 1, "ALICE"
    given = Data(obj)
    given.extra = []  # type: ignore[attr-defined]
    own = seal.literal(given, root="argument 0", on_object=lambda _: 7)
    own.extra.append(1)
    assert own.inside == 7
    assert given.extra == []  # type: ignore[attr-defined]
    given.extra = [threading.Lock()]  # type: ignore[attr-defined]
    with pytest.raises(errors.ValueRefusedError) as caught:
        seal.literal(given, root="argument 0", on_object=lambda _: 7)
    assert caught.value.path == "argument 0.extra[0]"
    given.extra = [obj]  # type: ignore[attr-defined]
    with pytest.raises(errors.UsageError, match="FedObject"):
        seal.literal(given, root="argument 0", on_object=lambda _: 7)


def test_sharing_and_cycles_in_a_literal_are_kept() -> None:
    graph: Any = [1]
    for _ in range(60):  # 2**60 ways lead to the innermost
        graph = [graph, {"again": graph}, (graph,)]
    own = seal.literal(graph, root="argument 0", on_object=read)
    assert own is not graph
    assert own[0] is own[1]["again"] is own[2][0]
    cycle: list[Any] = [1]
    cycle.append({"back": cycle})
    own = seal.literal(cycle, root="argument 0", on_object=read)
    assert own[1]["back"] is own is not cycle
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    own = seal.literal(deep, root="argument 0", on_object=read)
    assert own == deep
    assert own[0][0] is not deep[0][0]


def test_a_frozen_array_passes_without_a_copy() -> None:
    frozen = np.frombuffer(b"12345678", "u1")
    assert seal.literal(frozen, root="argument 0", on_object=read) is frozen
    locked = np.zeros(3)
    locked.flags.writeable = False
    own = seal.literal(locked, root="argument 0", on_object=read)
    assert not np.shares_memory(own, locked), "its owner can unlock it"


# Against a plain copy.

atoms = strategies.one_of(
    strategies.none(),
    strategies.booleans(),
    strategies.integers(),
    strategies.floats(),
    strategies.text(max_size=4),
    strategies.binary(max_size=4),
)
keys = strategies.one_of(strategies.text(max_size=3), strategies.integers(), strategies.none())
dtypes = strategies.sampled_from(["f8", ">i4", "?", "c8", "S3", "U2", "M8[s]", "i4,f8"])


@strategies.composite
def arrays(draw: Any) -> np.ndarray:
    shape = draw(strategies.lists(strategies.integers(0, 3), max_size=3))
    seed = draw(strategies.integers(0, 1000))
    dtype = np.dtype(draw(dtypes))
    made = np.zeros(shape, dtype)
    raw = random.Random(seed).randbytes(made.nbytes)
    if dtype.kind in "fci" and made.nbytes:
        made = np.frombuffer(raw, dtype).reshape(shape).copy()
    if draw(strategies.booleans()) and made.ndim:
        made = np.asfortranarray(made)
    # Inside an object a pickle brings a strided array back in the machine's own byte order.
    if draw(strategies.booleans()) and made.ndim and dtype.isnative:
        made = made[::-1]
    return made


values = strategies.recursive(
    atoms | arrays(),
    lambda inner: strategies.one_of(
        strategies.lists(inner, max_size=3),
        strategies.tuples(inner, inner),
        strategies.dictionaries(keys, inner, max_size=3),
        strategies.dictionaries(keys, inner, max_size=3).map(OrderedDict),
        inner.map(Data),
        strategies.sets(strategies.integers(), max_size=3),
    ),
    max_leaves=12,
)


def rebuilt(value: Any) -> Any:
    """A copy that shares nothing with `value`."""
    if isinstance(value, np.ndarray):
        return value.copy("A")
    if isinstance(value, OrderedDict):
        return OrderedDict((key, rebuilt(item)) for key, item in value.items())
    if isinstance(value, dict):
        return {key: rebuilt(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(rebuilt, value))
    if isinstance(value, Data):
        return Data(rebuilt(value.inside))
    return set(value) if isinstance(value, set) else value


@pytest.mark.soak
@hypothesis.given(values)
def test_any_value_is_a_snapshot(value: Any) -> None:
    before = rebuilt(value)
    forms = [seal.snapshot(value), sealed(lambda: rebuilt(value))]
    literal = seal.literal(value, root="argument 0", on_object=read)
    for one in (*map(seal.opened, forms), literal):
        assert engines.same(one, before)
        spoil(one)
    assert engines.same(rebuilt(value), before)
    for form in forms:
        assert engines.same(seal.opened(form), before)


# Atoms cross as they are, without a look at the type table.

ATOMS: dict[type, list[Any]] = {
    type(None): [None],
    bool: [True],
    int: [0, -(10**3000)],
    float: [float("nan"), -0.0],
    complex: [complex("nan+infj")],
    str: ["", "\ud800"],
    bytes: [b""],
    decimal.Decimal: [decimal.Decimal("-0"), decimal.Decimal("sNaN5")],
    np.str_: [np.str_(""), np.str_("a\0"), np.str_("\ud800")],
    np.bytes_: [np.bytes_(b""), np.bytes_(b"a\0")],
    np.datetime64: [np.datetime64("NaT", "s"), np.datetime64(5, "25s")],
    np.timedelta64: [np.timedelta64("NaT", "s"), np.timedelta64(5, "ms")],
}


def test_every_atom_crosses_as_it_is() -> None:
    user_types = types.UserTypes(None, None)
    for kind in seal.ATOMS:
        for value in ATOMS.get(kind) or [kind(0), kind(1)]:
            assert types.cross(value, types=user_types) is value
            encoded = wire.encode(value, types=user_types)
            arrived = wire.decode(encoded.header, list(encoded.buffers), types=user_types)
            assert type(arrived) is kind
            assert engines.same(arrived, value)


@pytest.mark.parametrize(
    "value",
    [uuid.UUID(int=5, is_safe=uuid.SafeUUID.safe), np.longlong(5), np.ulonglong(5)],
    ids=["UUID", "longlong", "ulonglong"],
)
def test_what_arrives_as_something_else_is_no_atom(value: Any) -> None:
    crossed = types.cross(value, types=types.UserTypes(None, None))
    is_itself = type(crossed) is type(value) and not isinstance(value, uuid.UUID)
    assert is_itself or type(value) not in seal.ATOMS
    assert seal.opened(seal.snapshot(value)) is value
    (opened,) = seal.opened(seal.snapshot([value]))
    assert opened is value
    ((key, opened),) = seal.opened(seal.snapshot({value: value})).items()
    assert key is opened is value
    assert seal.literal([value], root="argument 0", on_object=read) == [value]
    assert is_itself or not seal.snapshot([value]).plain
    assert is_itself or not seal.snapshot({value: 1}).plain
