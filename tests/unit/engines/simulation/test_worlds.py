"""`process`: what one party's body changes, no other party sees, and values stay the script's."""

from __future__ import annotations

import enum
import importlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fed.codec import seal
from fed.engines.simulation import copies, usercode, worlds
from fed.model import calls

SCRIPT = """
from __future__ import annotations
import abc, collections, dataclasses, enum, functools, itertools, logging, random, threading, typing
import numpy as np
import fed
import ward
import ward as same_ward
from ward import admit as imported

counter = 0
seen = []
registry = {"a": {"rows": [1, 2]}}
weights = np.zeros(5)
large = np.zeros(200_000)
lock = threading.Lock()
numbers = itertools.count()
rng = np.random.default_rng(3)
log = logging.getLogger("hospital")


class Colour(enum.Enum):
    RED = 1


class Record:
    made = 0

    def __init__(self, n):
        type(self).made += 1
        Record.last = n
        self.n = n

    def __eq__(self, other):
        return type(other) is type(self) and other.n == self.n

    def __hash__(self):
        return hash(self.n)

    @property
    def double(self):
        return 2 * self.n + counter

    @classmethod
    def count(cls):
        return cls.made

    @staticmethod
    def where():
        return counter


class Special(Record):
    def __init__(self, n):
        super().__init__(n)
        self.kind = __class__.__name__

    @functools.cached_property
    def text(self):
        return f"{self.n}"


@dataclasses.dataclass
class Update:
    w: object
    n: int
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        seen.append(self.n)

    def total(self):
        return self.n + counter


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    name: str

    def shown(self):
        return self.name + str(counter)


class Point(typing.NamedTuple):
    x: int
    y: int

    def moved(self):
        return Point(self.x + counter, self.y)


class Shape(abc.ABC):
    known = []

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Shape.known.append(cls.__name__)

    @abc.abstractmethod
    def area(self): ...


class Square(Shape):
    __slots__ = ("side",)

    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


class Meta(type):
    def __call__(cls, *args):
        cls.calls = getattr(cls, "calls", 0) + 1
        return super().__call__(*args)


class WithMeta(metaclass=Meta):
    pass


class Stack(list):
    limit = [3]

    def push(self, item):
        self.append(item)
        return len(self)


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, item):
        self.item = item


class NoData(Exception):
    def __init__(self, n):
        super().__init__(n)
        self.n = n


stack = Stack([1])
record = Special(7)
handlers = {"bump": None}


@fed.remote
class Trainer:
    seen = []
    best = None

    def __init__(self, n):
        self.n = n
        self.record = Special(n)

    def note(self, item):
        self.seen.append(item)
        return list(self.seen)

    def set_best(self, value):
        type(self).best = value
        return type(self).best

    def get_best(self):
        return self.best

    def own(self):
        return self.record

    async def later(self):
        import asyncio
        await asyncio.sleep(0)
        return bump()


def bump():
    global counter
    counter += 1
    return counter


handlers["bump"] = bump


def remember(item):
    seen.append(item)
    return list(seen)


def nested(n):
    registry["a"]["rows"].append(n)
    return registry["a"]["rows"]


def in_place(n):
    weights[0] += n
    return float(weights[0])


def in_large():
    large[0] = 1.0


def by_table():
    return handlers["bump"]()


def through_module():
    ward.admitted += 1
    return ward.admitted, imported(), same_ward.beds()


def local_import():
    import ward as found
    from ward import admitted
    found.admitted += 1
    return found.admitted, found is ward


def by_name(name):
    return globals()[name]


def defined_late():
    return later_helper()


def default(n, found=[]):
    found.append(n)
    return found


def counted():
    counted.calls = getattr(counted, "calls", 0) + 1
    return counted.calls


@functools.cache
def cached(n):
    return bump()


def decorated(f):
    count = 0

    @functools.wraps(f)
    def wrapper(*args):
        nonlocal count
        count += 1
        return count, f(*args)
    return wrapper


@decorated
def wrapped():
    return bump()


def draw():
    return random.random(), float(np.random.rand()), next(numbers), float(rng.normal())


def make_record(n):
    return Special(n), Record.made, Record.last


def look(item):
    return type(item) is Special, isinstance(item, Record), item.double, item.text


def global_record():
    record.n += 1
    return record.n, type(record) is Special, stack.push(2), type(stack) is Stack


def make_all():
    return {
        "update": Update(np.ones(2), 3, [Key("a")]),
        "key": {Key("b"): Point(1, 2)},
        "colour": Colour.RED,
        "records": [Special(4), (Special(5),)],
        "class": Special,
        "function": bump,
        "shape": Square(3),
        "stack": Stack([1, 2]),
        "box": Box(1),
    }


def look_all(value):
    update, keys = value["update"], value["key"]
    (key, point), = keys.items()
    return (
        type(update) is Update, type(update.tags[0]) is Key, type(key) is Key,
        type(point) is Point, value["colour"] is Colour.RED,
        type(value["records"][1][0]) is Special,
        value["class"] is Special, value["function"] is bump, type(value["shape"]) is Square,
        type(value["stack"]) is Stack, type(value["box"]) is Box, update.total(), key.shown(),
        point.moved().x, isinstance(value["shape"], Shape),
    )


def shapes():
    class Circle(Shape):
        def area(self):
            return 3
    return list(Shape.known), Circle().area(), Square(2).area()


def meta():
    WithMeta()
    return WithMeta.calls, isinstance(WithMeta, Meta)


def fail(n):
    bump()
    raise NoData(n)


def closure():
    calls = []

    def body(n):
        calls.append(n)
        return list(calls)
    return body
"""

LIBRARY = """
admitted = 0
_beds = [1]

def admit():
    global admitted
    admitted += 10
    return admitted

def beds():
    _beds.append(2)
    return len(_beds)
"""


@pytest.fixture
def hospital(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "hospital.py").write_text(SCRIPT)
    (tmp_path / "ward.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("hospital")
    for name in ("hospital", "ward"):
        sys.modules.pop(name, None)


@pytest.fixture
def process(hospital: ModuleType, tmp_path: Path) -> Parties:
    return Parties(hospital, tmp_path)


class Parties:
    """Calls bodies as the engine does: arguments and results are sealed."""

    def __init__(self, module: ModuleType, folder: Path, seed: int = 0) -> None:
        self.module = module
        self.worlds = worlds.Worlds(usercode.UserCode(None, folder), seed=seed)

    def call(self, party: str, target: Any, *args: Any) -> Any:
        if isinstance(target, str):
            target = getattr(self.module, target)
        function = self.worlds.local(party, target)
        return self.run(party, function, *args)

    def run(self, party: str, function: Any, *args: Any) -> Any:
        call = calls.Call("function", "body", party, None, (), {}, 1, {}, None)
        values = [seal.opened(seal.snapshot(value)) for value in args]
        made = self.worlds.invoke(call, function, values, {})
        return seal.opened(seal.snapshot(made))

    def actor(self, party: str, *args: Any) -> Any:
        call = calls.Call("create", "Trainer", party, None, (), {}, 1, {}, None)
        cls = self.worlds.local(party, self.module.Trainer.__wrapped__)
        return self.worlds.invoke(call, cls, list(args), {})


@pytest.mark.parametrize(
    ("body", "args", "first", "second"),
    [
        ("bump", (), 1, 2),
        ("remember", (5,), [7, 5], [7, 5, 5]),
        ("nested", (9,), [1, 2, 9], [1, 2, 9, 9]),
        ("in_place", (2,), 2.0, 4.0),
        ("by_table", (), 1, 2),
        ("through_module", (), (1, 11, 2), (12, 22, 3)),
        ("local_import", (), (1, True), (2, True)),
        ("default", (4,), [4], [4, 4]),
        ("counted", (), 1, 2),
        ("cached", (3,), 1, 1),
        ("wrapped", (), (1, 1), (2, 2)),
        ("global_record", (), (8, True, 2, True), (9, True, 3, True)),
        ("meta", (), (1, True), (2, True)),
    ],
)
def test_each_party_has_its_own(
    process: Parties,
    hospital: ModuleType,
    body: str,
    args: tuple[Any, ...],
    first: Any,
    second: Any,
) -> None:
    hospital.seen[:] = [7]
    before = hospital.counter, dict(vars(hospital.Record)), hospital.ward.admitted
    for party in ("ALICE", "BOB"):
        assert process.call(party, body, *args) == first
        assert process.call(party, body, *args) == second
    assert (hospital.counter, dict(vars(hospital.Record)), hospital.ward.admitted) == before
    assert hospital.seen == [7]
    assert hospital.weights[0] == 0.0
    assert hospital.registry == {"a": {"rows": [1, 2]}}
    assert not hasattr(hospital.WithMeta, "calls")


def test_actors_of_a_party_share_their_class_and_no_other_partys(process: Parties) -> None:
    a, b, c = process.actor("ALICE", 1), process.actor("ALICE", 2), process.actor("BOB", 3)
    assert process.run("ALICE", a.note, "x") == ["x"]
    assert process.run("ALICE", b.note, "y") == ["x", "y"]
    assert process.run("BOB", c.note, "z") == ["z"]
    process.run("ALICE", a.set_best, 0.5)
    assert process.run("ALICE", b.get_best) == 0.5
    assert process.run("BOB", c.get_best) is None
    assert process.module.Trainer.__wrapped__.seen == []


def test_inheritance_super_and_descriptors_are_the_partys_own(process: Parties) -> None:
    hospital = process.module
    made_before, own_before = hospital.Record.made, hospital.Special.made
    item, made, last = process.call("ALICE", "make_record", 3)
    assert (made, last) == (made_before, 3)
    assert process.call("ALICE", hospital.Special.count) == own_before + 1
    assert type(item) is hospital.Special
    assert item.kind == "Special"
    assert hospital.Record.made == made_before
    process.call("BOB", "bump")
    assert process.call("BOB", "look", item) == (True, True, 7, "3")
    assert process.call("ALICE", "look", item) == (True, True, 6, "3")
    assert process.call("BOB", hospital.Special.count) == own_before
    assert process.call("BOB", hospital.Special.where) == 1
    assert process.call("ALICE", hospital.Special.where) == 0


def test_values_that_leave_are_of_the_scripts_classes(process: Parties) -> None:
    hospital = process.module
    process.call("ALICE", "bump")
    value = process.call("ALICE", "make_all")
    assert type(value["update"]) is hospital.Update
    assert type(value["update"].tags[0]) is hospital.Key
    ((key, point),) = value["key"].items()
    assert (type(key), type(point)) == (hospital.Key, hospital.Point)
    assert value["colour"] is hospital.Colour.RED
    assert type(value["records"][1][0]) is hospital.Special
    assert value["class"] is hospital.Special
    assert value["function"] is hospital.bump
    assert type(value["shape"]) is hospital.Square
    assert type(value["stack"]) is hospital.Stack
    assert type(value["box"]) is hospital.Box
    assert hospital.seen == []


def test_values_that_arrive_are_of_the_partys_own_classes(process: Parties) -> None:
    process.call("BOB", "bump")
    value = process.call("ALICE", "make_all")
    looked = process.call("BOB", "look_all", value)
    assert looked[:11] == (True,) * 11
    assert looked[11:] == (4, "b1", 2, True)
    assert value["update"].total() == 3  # the sender's copy was not touched
    assert process.call("ALICE", "look_all", value)[11:] == (3, "b0", 1, True)


def test_shared_keys_of_a_sealed_value_stay_as_they_are(process: Parties) -> None:
    form = seal.snapshot({process.module.Key("a"): 1})
    value = seal.opened(form)
    world = process.worlds._world("ALICE")
    received = world.received(value)
    (own,) = received
    assert type(own) is not process.module.Key
    assert own.shown() == "a0"
    (still,) = seal.opened(form)
    assert type(still) is process.module.Key


def test_an_error_has_the_class_that_the_script_knows(process: Parties) -> None:
    with pytest.raises(process.module.NoData) as caught:
        process.call("ALICE", "fail", 4)
    assert caught.value.n == 4
    assert process.call("ALICE", "bump") == 2


def test_hooks_of_subclassing_run_once_per_class(process: Parties) -> None:
    assert process.call("ALICE", "shapes") == (["Square", "Circle"], 3, 4)
    assert process.call("BOB", "shapes") == (["Square", "Circle"], 3, 4)
    assert process.module.Shape.known == ["Square"]
    own = process.worlds.local("ALICE", process.module.Shape)
    with pytest.raises(TypeError, match="abstract"):
        own()


def test_a_body_made_inside_a_function_has_its_partys_closure(process: Parties) -> None:
    body = process.module.closure()
    assert process.call("ALICE", body, 1) == [1]
    assert process.call("ALICE", body, 2) == [1, 2]
    assert process.call("BOB", body, 3) == [3]
    assert body(4) == [4]


def test_names_that_are_looked_up_while_running_are_there(process: Parties) -> None:
    assert process.call("ALICE", "by_name", "registry") == {"a": {"rows": [1, 2]}}
    assert process.call("ALICE", "by_name", "counter") == 0


def test_a_function_defined_after_its_caller_was_first_called_is_found(process: Parties) -> None:
    with pytest.raises(NameError):
        process.call("ALICE", "defined_late")
    exec("def later_helper():\n    return bump()", vars(process.module))
    assert process.call("ALICE", "defined_late") == 1
    assert process.module.counter == 0


def test_large_arrays_are_shared_and_can_not_be_written(process: Parties) -> None:
    with pytest.raises(ValueError, match="read-only"):
        process.call("ALICE", "in_large")
    own = process.worlds._world("ALICE").copy(process.module.large)
    assert own is process.worlds._world("BOB").copy(process.module.large)
    assert own.nbytes >= copies.SHARED_ARRAY_BYTES
    process.module.large[0] = 3.0
    assert own[0] == 0.0


def test_what_can_not_be_copied_is_shared_and_said_once(
    process: Parties, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", logger="fed"):
        for party in ("ALICE", "BOB"):
            own = process.worlds._world(party)
            assert own.copy(process.module.lock) is process.module.lock
            assert own.copy(process.module.log) is process.module.log
    (record,) = caplog.records
    assert "_thread.lock" in record.getMessage()


def test_libraries_and_constants_are_shared(process: Parties) -> None:
    world = process.worlds._world("ALICE")
    for shared in (np, np.sum, len, dict, enum.Enum, process.module.Colour, random.random):
        assert world.copy(shared) is shared


def test_a_party_costs_what_its_code_names(process: Parties) -> None:
    function = process.worlds.local("ALICE", process.module.nested)
    assert "registry" in function.__globals__
    assert "weights" not in function.__globals__
    assert function.__code__ is process.module.nested.__code__


def test_each_party_draws_its_own_numbers_and_the_script_keeps_its_own(
    process: Parties, hospital: ModuleType, tmp_path: Path
) -> None:
    random.seed(1)
    np.random.seed(1)
    expected = [(random.random(), np.random.randn()) for _ in range(3)]
    random.seed(1)
    np.random.seed(1)
    found, drawn = [], []
    for _ in range(3):
        found.append((random.random(), np.random.randn()))
        drawn += [process.call(party, "draw") for party in ("ALICE", "BOB")]
    assert found == expected
    assert len({values[0] for values in drawn}) == 6
    assert len({values[1] for values in drawn}) == 6
    assert [values[2] for values in drawn] == [0, 0, 1, 1, 2, 2]

    again = Parties(hospital, tmp_path)
    other_order = [again.call("BOB", "draw") for _ in range(3)]
    assert other_order == drawn[1::2]
    other_seed = Parties(hospital, tmp_path, seed=1)
    assert other_seed.call("BOB", "draw")[:2] != drawn[1][:2]


def test_random_states_are_kept_only_for_parties_that_draw(process: Parties) -> None:
    for party in ("ALICE", "BOB"):
        process.call(party, "bump")
    assert not process.worlds._random._states
    assert not process.worlds._numpy._generators
    process.call("BOB", "draw")
    assert list(process.worlds._random._states) == ["BOB"]
    assert list(process.worlds._numpy._generators) == ["BOB"]


def test_the_steps_of_a_coroutine_run_in_their_partys_world(process: Parties) -> None:
    trainer = process.actor("ALICE", 1)
    call = calls.Call("method", "later", "ALICE", None, (), {}, 1, {}, None)
    coroutine = process.worlds.invoke(call, trainer.later, [], {})
    process.worlds.step(call, coroutine.send, None)
    with pytest.raises(StopIteration) as caught:
        process.worlds.step(call, coroutine.send, None)
    assert caught.value.value == 1
    assert process.module.counter == 0


def test_a_world_that_is_dropped_is_freed(process: Parties) -> None:
    import gc

    process.actor("ALICE", 1)
    assert len(seal.originals)
    del process.worlds
    gc.collect()
    assert not seal.originals
