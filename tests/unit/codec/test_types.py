from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import math
import struct
import sys
import types as python_types
import uuid
import zoneinfo
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.unit.codec import values

from fed import errors
from fed.codec import types

HERE = [__name__]
USER = types.UserTypes(HERE, None)


def cross(value: object, **more: Any) -> Any:
    return types.cross(value, types=USER, **more)


def refused(value: object, **more: Any) -> errors.ValueRefusedError:
    with pytest.raises(errors.ValueRefusedError) as caught:
        cross(value, **more)
    return caught.value


class Color(enum.Enum):
    RED = "red"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: object
    right: object


@dataclasses.dataclass(frozen=True)
class Model:
    weights: object
    rounds: int = 0

    def __post_init__(self) -> None:
        if self.rounds > 100:
            raise RuntimeError("ran __post_init__")


@dataclasses.dataclass(slots=True)
class Slotted:
    x: object


class Record(msgspec.Struct, frozen=True):
    a: int
    b: object = None

    def __post_init__(self) -> None:
        if self.a > 100:
            raise RuntimeError("ran __post_init__")


def test_scalars_pass_by_reference() -> None:
    nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8DEADBEEF0001))[0]
    for value in (
        *(None, True, 10**100, nan, 1 - 2j, "\ud800", b"x", decimal.Decimal("sNaN7")),
        *(uuid.uuid4(), datetime.date(2020, 1, 2), datetime.timedelta(1, 2, 3)),
    ):
        assert cross(value) is value


def test_containers_are_fresh_and_keep_type_and_order() -> None:
    inner = [1, {2}]
    value = {"b": inner, "a": (inner, frozenset({3})), 7: collections.OrderedDict(z=1, a=inner)}
    made = cross(value)
    assert made == value
    assert list(made) == ["b", "a", 7]
    assert type(made[7]) is collections.OrderedDict
    assert made["b"] is not inner
    assert made["a"][0] is not made["b"]
    made["b"][1].add(9)
    assert inner == [1, {2}]


def test_flat_containers_are_fresh() -> None:
    for value in ([1, 2.0], {"a": 1}, {1, 2}, collections.OrderedDict(a=1)):
        made = cross(value)
        assert made == value
        assert type(made) is type(value)
        assert made is not value


@pytest.mark.parametrize(
    "value",
    [
        [{"a": 1}, {"b": None, "c": 2.5}, {}],
        [{1: 2}, {"x": 3}],
        [{Color.RED: 1}],
        [{"a": [1]}],
        [(1, "a"), ()],
        [(1, [2])],
        [{}, ()],
    ],
    ids=values.label,
)
def test_rows_are_fresh(value: list[Any]) -> None:
    made = cross(value)
    assert made == value
    assert list(map(type, made)) == list(map(type, value))
    assert made is not value
    for old, new in zip(value, made, strict=True):
        assert old is not new or type(old) is tuple
        if type(old) is dict and "a" in old and type(old["a"]) is list:
            assert old["a"] is not new["a"]


def test_rows_with_keys_that_may_not_cross_are_refused() -> None:
    assert refused([{"a": 1}, {Text("b"): 1}]).path == "result[1].keys(){element}"
    assert refused([{"a": 1}, {"b": object()}]).path == 'result[1]["b"]'
    assert refused([(1,), (object(),)]).path == "result[1][0]"


def test_an_ordered_dict_loses_its_attributes() -> None:
    value = collections.OrderedDict(a=1)
    value._metadata = "x"  # type: ignore[attr-defined]
    assert not hasattr(cross(value), "_metadata")


def test_user_classes_are_rebuilt_without_running_them() -> None:
    model = Model.__new__(Model)
    model.__dict__.update(weights=[1], rounds=1000, extra="dropped")
    made = cross(model)
    assert type(made) is Model
    assert made.__dict__ == {"weights": [1], "rounds": 1000}
    assert made.weights is not model.weights
    assert cross(Slotted([1])) == Slotted([1])
    assert cross(Pair([1], {2: 3})) == ([1], {2: 3})
    assert type(cross(Pair(1, 2))) is Pair
    assert cross(Color.RED) is Color.RED
    assert cross(Access.READ | Access.WRITE) is Access.READ | Access.WRITE


def test_a_struct_is_rebuilt_without_its_post_init() -> None:
    record = Record(1, [2])
    msgspec.structs.force_setattr(record, "a", 1000)
    made = cross(record)
    assert type(made) is Record
    assert (made.a, made.b) == (1000, [2])
    assert made.b is not record.b


@pytest.mark.parametrize(
    ("value", "path", "type_name"),
    [
        (lambda: 0, "result", "function"),
        ({"model": [1, 2, 3, bytearray(1)]}, 'result["model"][3]', "bytearray"),
        ((1, Pair(1, object())), "result[1].right", "object"),
        (Model(weights={"a": range(3)}), 'result.weights["a"]', "range"),
        ([Slotted({1: slice(0)})], "result[0].x[1]", "slice"),
        ({(1, frozenset({range(2)})): 1}, "result.keys(){element}[1]{element}", "range"),
        ({frozenset({range(2)})}, "result{element}{element}", "range"),
        (collections.OrderedDict(a=iter(())), 'result["a"]', "tuple_iterator"),
        ({'a"b': iter(())}, 'result["a\\"b"]', "tuple_iterator"),
    ],
)
def test_a_refusal_names_path_and_type(value: object, path: str, type_name: str) -> None:
    error = refused(value)
    assert (error.path, error.type_name) == (path, type_name)


def test_a_refusal_carries_owner_and_root() -> None:
    error = refused([object()], root="argument 'w'", party="ALICE", call=7)
    assert (error.path, error.party, error.call) == ("argument 'w'[0]", "ALICE", 7)


class Text(str):
    __slots__ = ()


class Table(dict[str, int]):
    pass


@pytest.mark.parametrize("value", [Text("a"), Table(), collections.Counter(), enum.IntEnum,
                                   collections.defaultdict(list), IndexError("x")])  # fmt: skip
def test_subclasses_and_classes_are_refused(value: object) -> None:
    assert refused([value]).path == "result[0]"
    assert refused({1: value}).path == "result[1]"


def test_subclasses_are_refused_as_keys() -> None:
    assert refused({Text("a"): 1}).type_name.endswith("Text")


def test_cycles_are_named() -> None:
    value: dict[str, Any] = {"a": [1, []]}
    value["a"][1].append(value["a"])
    error = refused(value)
    assert error.path == 'result["a"][1][0]'
    assert "contains itself" in error.reason
    assert "'[\"a\"]'" in error.reason
    slotted = Slotted(None)
    slotted.x = [slotted]
    assert refused(slotted).path == "result.x[0]"


def test_depth_is_bounded() -> None:
    value: object = 1
    for _ in range(types.DEPTH_LIMIT):
        value = [value]
    assert cross(value) == value
    error = refused([value])
    assert error.limit == f"{types.DEPTH_LIMIT} levels"
    assert error.path == "result" + "[0]" * types.DEPTH_LIMIT


def test_time_zones() -> None:
    named = datetime.timezone(datetime.timedelta(hours=1), "CET")
    value = datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=named)
    made = cross(value)
    assert (made, made.fold, made.tzname()) == (value, 1, "CET")
    assert cross(datetime.time(1, tzinfo=datetime.UTC)).tzinfo is datetime.UTC
    assert cross(named).tzname(None) == "CET"
    zone = zoneinfo.ZoneInfo("UTC")
    assert "astimezone" in refused([datetime.datetime(2024, 1, 1, tzinfo=zone)]).reason


def test_uuid_loses_its_safety_flag() -> None:
    value = uuid.UUID(int=5, is_safe=uuid.SafeUUID.safe)
    made = cross(value)
    assert made == value
    assert made.is_safe is uuid.SafeUUID.unknown


def test_a_field_that_was_never_set_is_refused() -> None:
    assert "'x'" in refused(Slotted.__new__(Slotted)).reason
    assert "'weights'" in refused(Model.__new__(Model)).reason


# --- which user classes cross, and under what name -------------------------------------------


def make_module(name: str, file: str | None, monkeypatch: pytest.MonkeyPatch) -> type:
    module = python_types.ModuleType(name)
    if file is not None:
        module.__file__ = file
    source = "import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int = 1\n"
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, file or "<none>", "exec"), module.__dict__)
    return module.__dict__["C"]


def test_default_modules_are_the_main_script_and_its_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = types.UserTypes(None, "/nowhere/app")
    near = make_module("near", "/nowhere/app/pkg/near.py", monkeypatch)
    far = make_module("far", "/nowhere/application/far.py", monkeypatch)
    env = make_module("env", "/nowhere/app/venv/lib/site-packages/env.py", monkeypatch)
    main = make_module("__main__", "/nowhere/app/main.py", monkeypatch)
    assert user.name_of(near) == ("near", "C")
    assert user.name_of(main) == ("__main__", "C")
    assert user.find("near", "C") is near
    for cls in (far, env):
        with pytest.raises(errors.ValueRefusedError, match=r"codec\.modules"):
            user.name_of(cls)
        with pytest.raises(errors.ValueRefusedError, match=r"codec\.modules"):
            user.find(cls.__module__, "C")


def test_the_main_script_under_another_module_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = make_module("job", "/nowhere/app/job.py", monkeypatch)
    user = types.UserTypes(None, "/nowhere/app", main_module="job")
    assert user.name_of(cls) == ("__main__", "C")
    assert user.find("__main__", "C") is cls


def test_named_modules_replace_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = make_module("lib.sub", None, monkeypatch)
    main = make_module("__main__", None, monkeypatch)
    user = types.UserTypes(["lib"], None)
    assert user.name_of(cls) == ("lib.sub", "C")
    with pytest.raises(errors.ValueRefusedError):
        user.name_of(main)
    assert types.UserTypes(["lib.sub"], None).name_of(cls) == ("lib.sub", "C")
    with pytest.raises(errors.ValueRefusedError):
        types.UserTypes(["li"], None).name_of(cls)


def test_find_never_imports_and_never_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    module = python_types.ModuleType("trap")
    asked: list[str] = []
    module.__getattr__ = asked.append  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "trap", module)
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    user = types.UserTypes(["trap", "antigravity"], None)
    for name in ("trap", "antigravity"):
        with pytest.raises(errors.ValueRefusedError):
            user.find(name, "C")
    with pytest.raises(errors.ValueRefusedError):
        types.UserTypes(None, "/nowhere").find("trap", "C")
    assert asked == []
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "name",
    [
        *("pytest.MonkeyPatch", "HERE", "Any", "NamedTuple", "Model.weights", "", ".", "Model."),
        *("__builtins__.open", "make_module"),
    ],
)
def test_find_gives_only_classes_that_the_module_itself_makes(name: str) -> None:
    with pytest.raises(errors.ValueRefusedError):
        USER.find(__name__, name)


def test_classes_made_in_functions_are_refused() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    assert "function" in refused([Local(1)]).reason


def test_a_class_defined_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old = make_module("again", None, monkeypatch)
    make_module("again", None, monkeypatch)
    with pytest.raises(errors.ValueRefusedError, match="another class"):
        types.UserTypes(["again"], None).name_of(old)


def test_given_classes_take_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = make_module("__main__", None, monkeypatch)
    monkeypatch.delitem(sys.modules, "__main__")
    user = types.UserTypes([], None, classes={("__main__", "C"): cls})
    assert user.find("__main__", "C") is cls
    assert types.cross(cls(5), types=user).x == 5  # type: ignore[attr-defined]


def test_dataclasses_over_built_in_types_are_refused() -> None:
    assert refused(Odd()).type_name.endswith("Odd")


@dataclasses.dataclass
class Odd(Exception):
    x: int = 1


def test_nan_keys_stay_apart() -> None:
    made = cross({math.nan: [1], float("nan"): [2]})
    assert list(made.values()) == [[1], [2]]
