"""`check` names what a body changed, and says nothing of bodies that change nothing shared."""

from __future__ import annotations

import importlib
import logging
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fed import errors
from fed.engines.simulation import check, fingerprint, usercode
from fed.model import calls

SCRIPT = """
import abc, collections, dataclasses, enum, functools, itertools, logging, os, random, types
import numpy as np
import fed

counter = 0
seen = []
registry = {"a": {"rows": [1, 2]}}
names = {"ALICE"}
ordered = collections.OrderedDict(a=1, b=2)
queue = collections.deque([1])
weights = np.zeros(5)
view = weights[1:3]
large = np.zeros(100_000)
many = list(range(50_000))
generator = np.random.default_rng(0)
numbers = itertools.count()
rows = iter([1, 2, 3])
space = types.SimpleNamespace(best=0.0)
log = logging.getLogger("clinic")
loaded = None


class Config:
    def __init__(self):
        self.rate = 0.1
        self.layers = [4, 2]

    @functools.cached_property
    def total(self):
        return sum(self.layers)


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


config = Config()
slotted = Slotted()


class Colour(enum.Flag):
    RED = 1
    BLUE = 2
    GREEN = 4


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Square(Shape):
    def area(self):
        return 4.0


@dataclasses.dataclass
class Update:
    w: object
    n: int


class Base:
    total = 0


@fed.remote
class Trainer(Base):
    seen = []

    def __init__(self, shard=None):
        self.shard = shard
        self.rounds = 0

    def own(self):
        self.rounds += 1
        return self.rounds

    def class_list(self):
        type(self).seen.append(1)

    def class_number(self):
        Base.total += 1

    def class_added(self):
        type(self).best = 1.0

    def default(self, found=[]):
        found.append(1)

    @classmethod
    def by_class(cls):
        cls.seen = []


@functools.cache
def slow(n):
    return n if n < 2 else slow(n - 1) + slow(n - 2)


def counted():
    counted.calls = getattr(counted, "calls", 0) + 1


def module_number():
    global counter
    counter += 1


def module_list():
    seen.append(1)


def nested():
    registry["a"]["rows"][1] = 5


def added_key():
    registry["b"] = 1


def added_name():
    names.add("BOB")


def moved():
    ordered.move_to_end("a")


def queued():
    queue.append(2)


def new_global():
    global fresh
    fresh = [1]


def in_place():
    weights[2] = 1.0


def through_view():
    view[0] = 1.0


def in_large():
    large[77_777] = 1e-300


def shuffled_large():
    large[:] = large[::-1]


def appended_many():
    many.append(1)


def own_generator():
    return generator.normal()


def counting():
    return next(numbers)


def consumed():
    return next(rows)


def attribute():
    config.rate = 0.2


def deep_attribute():
    config.layers.append(1)


def slot():
    slotted.n += 1


def namespace():
    space.best = 1.0


def python_draw():
    return random.random()


def numpy_draw():
    return np.random.rand()


def variable():
    os.environ["CLINIC_MODE"] = "x"


def folder():
    os.chdir("/")


def fails():
    module_number()
    raise ValueError("no data")


def unlock(w):
    while w.base is not None:
        w = w.base
    w.flags.writeable = True
    w[0] = 99.0


def unlock_inside(value):
    unlock(value["model"][1])


def unlock_field(update):
    unlock(update.w)


async def awaits(w):
    import asyncio
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    module_number()


async def unlocks_later(w):
    import asyncio
    await asyncio.sleep(0)
    unlock(w)


def closure():
    calls = 0

    def body():
        nonlocal calls
        calls += 1
    return body


def local_class():
    class Local:
        made = 0

        def __init__(self):
            Local.made += 1
    return Local


# Innocent ones.


def reads():
    return counter + len(seen) + registry["a"]["rows"][0] + float(weights.sum()) + config.rate


def same_again():
    global counter, seen, weights
    counter = counter + 0
    seen = list(seen)
    weights = weights.copy()


def put_back():
    seen.append(1)
    seen.pop()
    registry["a"], registry["a"]["rows"] = registry.pop("a"), [1, 2]


def imports():
    global loaded
    import colorsys
    import clinic_helper
    import wave as loaded
    return colorsys, clinic_helper


def cached():
    return slow(15) + config.total


def logs():
    log.debug("round %d", 1)
    logging.getLogger("clinic.rounds").isEnabledFor(10)


def flags():
    return (Colour.RED | Colour.BLUE | Colour.GREEN), Colour(5)


def abstract():
    return isinstance(Square(), Shape), issubclass(int, Shape)


def subclassed():
    class Mine(Base):
        pass
    return Mine.total


def generators():
    rng = np.random.default_rng(1)
    return rng.normal(), random.Random(2).random(), fed.rng


def own_arguments(items, table, w):
    items.sort()
    table["new"] = [1]
    w = w + 1
    w[0] = 5
    return items, table, w


def views(w):
    return w[1:], w.T, w.reshape(1, -1), float(w @ w)


def warns():
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("old", DeprecationWarning)


def raises():
    raise KeyError("x")


async def sleeps(w):
    import asyncio
    await asyncio.sleep(0)
    return float(w.sum())
"""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "clinic.py").write_text(SCRIPT)
    (tmp_path / "clinic_helper.py").write_text("state = []\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CLINIC_MODE", "y")
    monkeypatch.chdir(tmp_path)
    states = random.getstate(), np.random.get_state()
    sys.modules.pop("colorsys", None)
    yield importlib.import_module("clinic")
    random.setstate(states[0])
    np.random.set_state(states[1])
    for name in ("clinic", "clinic_helper"):
        sys.modules.pop(name, None)


@pytest.fixture
def checker(clinic: ModuleType, tmp_path: Path) -> check.Checker:
    return check.Checker(usercode.UserCode(None, tmp_path))


def call(name: str = "body", party: str = "BOB", number: int = 7) -> calls.Call:
    made = calls.Call("function", name, party, None, (), {}, 1, {}, None)
    made.number = number
    return made


def frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array.view()


CHANGES = [
    ("module_number", "module global clinic.counter"),
    ("module_list", "module global clinic.seen"),
    ("nested", "module global clinic.registry['a']['rows'][1]"),
    ("added_key", "module global clinic.registry['b']"),
    ("added_name", "module global clinic.names"),
    ("moved", "module global clinic.ordered (its order)"),
    ("queued", "module global clinic.queue"),
    ("new_global", "module global clinic.fresh"),
    ("in_place", "module global clinic.weights"),
    ("through_view", "module global clinic.weights"),
    ("in_large", "module global clinic.large"),
    ("appended_many", "module global clinic.many"),
    ("own_generator", "module global clinic.generator"),
    ("counting", "module global clinic.numbers"),
    ("consumed", "module global clinic.rows"),
    ("attribute", "module global clinic.config.rate"),
    ("deep_attribute", "module global clinic.config.layers"),
    ("slot", "module global clinic.slotted.n"),
    ("namespace", "module global clinic.space.best"),
    ("counted", "attribute calls of counted"),
    ("python_draw", "the global state of random"),
    ("numpy_draw", "the global state of numpy.random"),
    ("variable", "environment variable CLINIC_MODE"),
    ("folder", "the working directory"),
]


@pytest.mark.parametrize(("body", "changed"), CHANGES)
def test_a_change_of_shared_state_is_named(
    checker: check.Checker, clinic: ModuleType, body: str, changed: str
) -> None:
    with pytest.raises(errors.IsolationError) as caught:
        checker.invoke(call(body), getattr(clinic, body), [], {})
    assert caught.value.changed == changed
    assert caught.value.party == "BOB"
    assert caught.value.call == 7
    assert body in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("method", "changed"),
    [
        ("class_list", "class attribute Trainer.seen"),
        ("class_number", "class attribute Base.total"),
        ("class_added", "class attribute Trainer.best"),
        ("default", "default of argument found of Trainer.default"),
        ("by_class", "class attribute Trainer.seen"),
    ],
)
def test_a_change_of_a_class_is_named(
    checker: check.Checker, clinic: ModuleType, method: str, changed: str
) -> None:
    trainer = clinic.Trainer.__wrapped__()
    if method == "by_class":
        type(trainer).seen.append(1)  # so that the new empty list differs
    with pytest.raises(errors.IsolationError) as caught:
        checker.invoke(call(), getattr(trainer, method), [], {})
    assert caught.value.changed == changed


def test_what_a_function_made_elsewhere_holds_is_seen(
    checker: check.Checker, clinic: ModuleType
) -> None:
    with pytest.raises(errors.IsolationError) as caught:
        checker.invoke(call(), clinic.closure(), [], {})
    assert caught.value.changed == "closure variable calls of closure.<locals>.body"
    with pytest.raises(errors.IsolationError) as caught:
        checker.invoke(call(), clinic.local_class(), [], {})
    assert caught.value.changed == "class attribute local_class.<locals>.Local.made"


@pytest.mark.parametrize("size", [4, 500_000])
def test_a_write_into_an_argument_is_named_by_its_path(
    checker: check.Checker, clinic: ModuleType, size: int
) -> None:
    def changed(body: str, value: object) -> str:
        with pytest.raises(errors.IsolationError) as caught:
            checker.invoke(call(), getattr(clinic, body), [value], {})
        return caught.value.changed

    assert changed("unlock", frozen(np.zeros(size))) == "argument 0"
    inside = {"model": [np.ones(2), frozen(np.zeros(size))]}
    assert changed("unlock_inside", inside) == "argument 0['model'][1]"
    assert changed("unlock_field", clinic.Update(frozen(np.zeros(size)), 1)) == "argument 0.0"


def test_the_error_of_a_body_that_also_changed_something_is_the_cause(
    checker: check.Checker, clinic: ModuleType
) -> None:
    with pytest.raises(errors.IsolationError) as caught:
        checker.invoke(call(), clinic.fails, [], {})
    assert isinstance(caught.value.__cause__, ValueError)


def test_several_changes_are_all_named(checker: check.Checker, clinic: ModuleType) -> None:
    def body() -> None:
        clinic.module_number()
        clinic.Base.total += 1
        random.random()

    with pytest.raises(errors.IsolationError) as caught:
        checker.invoke(call(), body, [], {})
    assert set(caught.value.changed.split(", ")) == {
        "module global clinic.counter",
        "class attribute Base.total",
        "the global state of random",
    }


@pytest.mark.parametrize(
    ("body", "changed"),
    [("awaits", "module global clinic.counter"), ("unlocks_later", "argument 0")],
)
def test_each_step_of_a_coroutine_is_checked(
    checker: check.Checker, clinic: ModuleType, body: str, changed: str
) -> None:
    w = frozen(np.zeros(3))
    coroutine = checker.invoke(call(), getattr(clinic, body), [w], {})
    with pytest.raises(errors.IsolationError) as caught:
        drive(checker, coroutine)
    assert caught.value.changed == changed
    assert caught.value.__cause__ is None


def drive(checker: check.Checker, coroutine: object) -> object:
    try:
        while True:
            checker.step(call(), coroutine.send, None)
    except StopIteration as stop:
        return stop.value


INNOCENT = [
    "reads", "same_again", "put_back", "imports", "cached", "logs", "flags", "abstract",
    "subclassed", "generators", "warns",
]  # fmt: skip


@pytest.mark.parametrize("body", INNOCENT)
def test_innocent_bodies_raise_no_alarm(
    checker: check.Checker, clinic: ModuleType, body: str
) -> None:
    function = getattr(clinic, body)
    expected = function.__code__.co_name
    for _ in range(2):
        checker.invoke(call(expected), function, [], {})


def test_a_body_may_do_what_it_likes_with_what_is_its_own(
    checker: check.Checker, clinic: ModuleType
) -> None:
    w = frozen(np.zeros(3))
    items, table, made = checker.invoke(
        call(), clinic.own_arguments, [[3, 1, 2], {"a": 1}], {"w": w}
    )
    assert (items, table, made[0]) == ([1, 2, 3], {"a": 1, "new": [1]}, 5.0)
    assert checker.invoke(call(), clinic.views, [w], {})[3] == 0.0
    trainer = checker.invoke(call(), clinic.Trainer.__wrapped__, [[1]], {})
    assert checker.invoke(call(), trainer.own, [], {}) == 1
    with pytest.raises(KeyError):
        checker.invoke(call(), clinic.raises, [], {})
    coroutine = checker.invoke(call(), clinic.sleeps, [w], {})
    assert drive(checker, coroutine) == 0.0


def test_what_the_script_changes_between_calls_is_its_own(
    checker: check.Checker, clinic: ModuleType
) -> None:
    for number in range(3):
        clinic.counter = number
        clinic.seen.append(number)
        random.random()
        assert checker.invoke(call(), clinic.reads, [], {}) > 0


def test_what_is_not_looked_at_whole_is_said_once(
    checker: check.Checker, clinic: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="fed"):
        checker.invoke(call(), clinic.reads, [], {})
        checker.invoke(call(), clinic.reads, [], {})
    (record,) = caplog.records
    assert "of module global clinic.many only 10000 of 50000 elements" in record.getMessage()


def test_the_cost_does_not_grow_with_what_a_script_keeps(
    clinic: ModuleType, tmp_path: Path
) -> None:
    clinic.objects = [[n] for n in range(20 * fingerprint.MOST)]
    looks = fingerprint.Looks(usercode.UserCode(None, tmp_path))
    state = fingerprint.Fingerprint(looks, [clinic])
    assert sum(len(node.held) for node in state._nodes) < 2 * fingerprint.MOST


def test_a_swap_of_two_parts_of_a_large_array_is_seen() -> None:
    array = np.arange(100_000.0)
    before = fingerprint.array_digest(array)
    array[:] = array[::-1].copy()
    assert fingerprint.array_digest(array) != before


def test_pandas_frames_are_seen_by_their_cells(clinic: ModuleType, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    clinic.frame = pd.DataFrame({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0], "c": ["x", "y", None]})
    looks = fingerprint.Looks(usercode.UserCode(None, tmp_path))
    before = fingerprint.Fingerprint(looks, [clinic])
    clinic.frame.describe(include="all")
    clinic.frame["a"].sum()
    clinic.frame.to_numpy()
    assert list(before.changes()) == []
    clinic.frame.loc[1, "b"] = 7.0
    assert list(before.changes()) == ["module global clinic.frame"]


def test_tensors_are_seen_through_the_memory_that_they_lend(
    clinic: ModuleType, tmp_path: Path
) -> None:
    class Tensor:
        def __init__(self) -> None:
            self.memory = np.zeros(4)

        def __dlpack__(self, **options: object) -> object:
            return self.memory.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.memory.__dlpack_device__()

    clinic.tensor = Tensor()
    looks = fingerprint.Looks(usercode.UserCode(None, tmp_path))
    before = fingerprint.Fingerprint(looks, [clinic])
    assert list(before.changes()) == []
    clinic.tensor.memory[1] = 3.0
    assert list(before.changes()) == ["module global clinic.tensor"]


def test_libraries_are_not_the_users_code(tmp_path: Path) -> None:
    code = usercode.UserCode(None, tmp_path)
    assert code.covers("__main__")
    assert not code.covers("numpy")
    assert not code.covers("fed.errors")
    inside = tmp_path / "venv" / "lib" / "site-packages" / "tool.py"
    module = ModuleType("tool")
    module.__file__ = os.fspath(inside)
    sys.modules["tool"] = module
    try:
        assert not code.covers("tool")
        assert usercode.UserCode(["tool"], None).covers("tool")
        module.__file__ = os.fspath(tmp_path / "part" / "tool.py")
        assert usercode.UserCode(None, tmp_path).covers("tool")
    finally:
        del sys.modules["tool"]
