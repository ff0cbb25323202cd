"""What is told of a value: its types with their paths, shapes, and nothing of its content."""

from __future__ import annotations

import dataclasses
import enum
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed.codec import types
from fed.transport import contents

TYPES = types.UserTypes([__name__], None)


@dataclasses.dataclass
class Model:
    weights: object
    steps: int


class Colour(enum.Enum):
    RED = 1


Pair = namedtuple("Pair", "left right")


def _of(value, **more):
    return contents.of(value, types=TYPES, **more)


def test_types_are_named_with_the_path_of_the_first_of_each() -> None:
    made = _of({"a": [1, 2.5, {"x"}], "b": Model(weights=np.zeros((3, 4), "f4"), steps=7)})
    assert made.type_name == "dict"
    assert dict(made.kinds) == {
        "dict": "",
        "str": ".keys(){element}",
        "list": '["a"]',
        f"{__name__}.Model": '["b"]',
        "int": '["a"][0]',
        "float": '["a"][1]',
        "set": '["a"][2]',
        "numpy.ndarray": '["b"].weights',
    }
    assert made.arrays == ("float32[3,4]",)
    assert made.is_whole


def test_inside_of_a_value_is_sorted_and_bounded() -> None:
    assert _of(7).inside == ()
    assert _of([1, "a", None]).inside == ("None", "int", "str")
    cut = _of([[n, [n]] for n in range(50)], parts=10)
    assert not cut.is_whole
    assert cut.inside[-1] == "..."


def test_names_and_enums_and_shapes() -> None:
    made = _of((Pair(left=Colour.RED, right=np.float64(1)), np.array(5), np.zeros((0, 2), ">i8")))
    assert {f"{__name__}.Pair", f"{__name__}.Colour", "numpy.float64"} < set(made.kinds)
    assert "int" not in made.kinds  # the value behind the name of a member
    assert made.arrays == ("int64[]", "int64[0,2]")


def test_arrays_are_counted_beyond_those_shown() -> None:
    made = _of([np.zeros(n) for n in range(20)])
    assert made.arrays[:2] == ("float64[0]", "float64[1]")
    assert (len(made.arrays), made.arrays_left_out) == (16, 4)


def test_frames_have_shapes() -> None:
    pandas = pytest.importorskip("pandas")
    made = _of({"t": pandas.DataFrame({"secret": [1, 2]})})
    assert made.arrays == ("pandas.DataFrame[2,1]",)
    assert "secret" not in repr(made)


def test_values_that_double_are_looked_at_once() -> None:
    value: object = "end"
    for _ in range(60):
        value = [value, value]
    assert dict(_of(value).kinds) == {"list": "", "str": "[0]" * 60}


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just(np.ones(2)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Model, weights=inner, steps=st.integers())
    ),
    max_leaves=20,
)


def _all_types(value) -> set[str]:
    inner: list = []
    if type(value) is dict:
        inner = [*value, *value.values()]
    elif type(value) in (list, tuple):
        inner = list(value)
    elif type(value) is Model:
        inner = [value.weights, value.steps]
    name = contents.name_of(type(value), value, TYPES)
    return {name}.union(*map(_all_types, inner))


@given(_values)
def test_every_type_inside_is_found(value) -> None:
    assert set(_of(value, parts=contents.RULE_PARTS).kinds) == _all_types(value)
