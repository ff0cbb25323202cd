"""Containers of fed objects: one walk for finding, replacing and rebuilding."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import pytest

from fed import errors
from fed.model import objects, trees


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Box:
    inside: Any
    unset: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.inside, str):
            raise RuntimeError("ran __post_init__")


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    inside: Any


def obj(number: int) -> objects.FedObject[Any]:
    made: Any = objects.FedObject.__new__(objects.FedObject)
    made.number, made.party = number, "ALICE"
    return made  # type: ignore[no-any-return]


A, B, C = obj(1), obj(2), obj(3)


def test_the_order_of_the_walk() -> None:
    value = {
        "z": [C, (A,)],
        "a": Pair(B, OrderedDict(k=A)),
        "d": Box([C]),
        "s": Slotted(B),
        "plain": [1, "x", {"y": None}],
    }
    assert trees.objects_in(value) == [C, A, B, A, C, B]
    assert trees.objects_in(A) == [A]
    assert trees.objects_in("x") == trees.objects_in({1, 2}) == trees.objects_in(Box) == []


def test_what_is_no_container_is_not_looked_into() -> None:
    class Mine(list):  # type: ignore[type-arg]
        pass

    hidden = defaultdict(list, k=[A])
    assert trees.objects_in([hidden, Mine([A]), iter([A])]) == []


def test_replacing_asks_in_the_order_of_the_walk_and_copies_only_what_changes() -> None:
    same = [1, {"k": 2}]
    value = {"a": [A, same], "b": Pair(B, 1), "c": Box(C), "d": same, "e": Slotted((A,))}
    seen: list[Any] = []

    def replace(found: Any) -> Any:
        seen.append(found)
        return f"value {found.number}"

    made = trees.replaced(value, replace)
    assert seen == trees.objects_in(value) == [A, B, C, A]
    assert made["c"].inside == "value 3"
    assert {key: item for key, item in made.items() if key != "c"} == {
        "a": ["value 1", same],
        "b": Pair("value 2", 1),
        "d": same,
        "e": Slotted(("value 1",)),
    }
    assert type(made["b"]) is Pair
    assert type(made["e"]) is Slotted
    assert made["d"] is same
    assert value["a"][0] is A  # type: ignore[index]
    assert trees.replaced(same, replace) is same


def test_rebuilding_runs_no_code_of_the_class() -> None:
    value = Box(A)
    value.extra = 5  # type: ignore[attr-defined]
    made = trees.replaced(value, lambda _: "never")
    assert made.inside == "never"
    assert made.extra == 5
    assert not hasattr(made, "unset")


@pytest.mark.parametrize(
    "value",
    [{A}, frozenset({A}), [{"x": {A, 1}}], {A: 1}, {"k": {(1, (A,)): 2}}, OrderedDict({A: 1})],
    ids=["set", "frozenset", "set inside", "key", "in a key", "ordered key"],
)
def test_where_no_value_can_take_its_place_an_object_is_refused(value: Any) -> None:
    with pytest.raises(errors.UsageError, match="a fed object stands in"):
        trees.objects_in(value)


def test_depth_and_cycles() -> None:
    deep: Any = A
    for _ in range(trees.MAX_DEPTH):
        deep = [deep]
    assert trees.objects_in(deep) == [A]
    with pytest.raises(errors.UsageError, match=f"{trees.MAX_DEPTH} levels"):
        trees.objects_in([[deep]])
    cycle: list[Any] = [A]
    cycle.append({"back": cycle})
    with pytest.raises(errors.UsageError, match="contains itself"):
        trees.objects_in(cycle)


def test_what_holds_no_object_may_contain_itself_and_be_as_deep_as_it_likes() -> None:
    cycle: list[Any] = [1]
    cycle.append({"back": cycle})
    deep: Any = 1
    for _ in range(5 * trees.MAX_DEPTH):
        deep = [deep]
    assert trees.objects_in(cycle) == trees.objects_in(deep) == []
    assert trees.replaced(cycle, lambda _: "never") is cycle


def test_containers_that_stand_in_many_places_are_walked_once() -> None:
    graph: Any = [1]
    for _ in range(60):  # 2**60 ways lead to the innermost
        graph = [graph, {"again": graph}]
    assert trees.objects_in([A, graph, [A]]) == [A, A]
    made = trees.replaced([A, graph], lambda _: "value")
    assert made[0] == "value"
    assert made[1] is graph
    shared = [A]
    assert trees.objects_in([shared, shared]) == [A, A], "an object counts wherever it stands"
    assert trees.replaced([shared, shared], lambda _: 5) == [[5], [5]]
