"""Arguments in normal form: the same call, however it is written, and Python's own errors."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from fed.model import signatures

#: Names that generated code might use itself, and ordinary ones.
NAMES = ["a", "b", "c", "len", "type", "tuple", "args", "kwargs", "name", "self", "_x", "bind"]


def binder(function: Any) -> signatures.Binder:
    return signatures.binder(signatures.parameters(function, bound=False), name="f.remote")


@strategies.composite
def functions(draw: Any) -> Any:
    names = draw(strategies.lists(strategies.sampled_from(NAMES), unique=True, max_size=6))
    kinds = sorted(draw(strategies.sampled_from([0, 1, 1, 1, 3])) for _ in names)
    star = draw(strategies.booleans())
    stars = draw(strategies.booleans())
    parts: list[str] = []
    has_default = False
    for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        if kind and place and kinds[place - 1] == 0:
            parts.append("/")
        if kind == 3 and (not place or kinds[place - 1] != 3):
            parts.append("*rest" if star else "*")
        if kind != 3:
            has_default = has_default or draw(strategies.booleans())
        with_default = has_default if kind != 3 else draw(strategies.booleans())
        parts.append(f"{name}=({name!r},)" if with_default else name)
    if kinds and kinds[-1] == 0:
        parts.append("/")
    if star and 3 not in kinds:
        parts.append("*rest")
    if stars:
        parts.append("**more")
    scope: dict[str, Any] = {}
    values = [*names, *(["rest"] if star else []), *(["sorted(more.items())"] if stars else [])]
    body = ", ".join(values)
    exec(f"def f({', '.join(parts)}): return [{body}]", {"sorted": sorted}, scope)
    return scope["f"]


arguments = strategies.tuples(
    strategies.lists(strategies.integers(0, 9), max_size=7),
    strategies.dictionaries(
        strategies.sampled_from([*NAMES, "extra"]), strategies.integers(10, 19), max_size=4
    ),
)


@pytest.mark.soak
@hypothesis.given(functions(), strategies.lists(arguments, min_size=3, max_size=8))
def test_it_binds_what_python_binds(function: Any, calls: Any) -> None:
    bind = binder(function)
    for args, kwargs in calls:
        try:
            expected = function(*args, **kwargs)
        except TypeError:
            with pytest.raises(TypeError):
                bind(*args, **kwargs)
            continue
        bound_args, bound_kwargs = bind(*args, **kwargs)
        assert function(*bound_args, **bound_kwargs) == expected
        # Normal: the same again, and nothing stands by name that could stand by position.
        assert bind(*bound_args, **bound_kwargs) == (bound_args, bound_kwargs)
        by_position = [
            p.name
            for p in inspect.signature(function).parameters.values()
            if p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        late = [name for name in by_position if name in bound_kwargs]
        left_out = len(bound_args)
        names = list(inspect.signature(function).parameters)
        assert all(names.index(name) > left_out for name in late)


def test_every_way_to_write_a_call_is_one() -> None:
    def f(a: Any, b: Any, c: Any = 3, *, d: Any = 4) -> None:
        """Nothing."""

    bind = binder(f)
    normal = ((1, 2, 5), {"d": 6})
    assert bind(1, 2, 5, d=6) == normal
    assert bind(1, b=2, c=5, d=6) == normal
    assert bind(d=6, c=5, b=2, a=1) == normal
    assert bind(1, 2) == ((1, 2), {})
    assert bind(1, 2, d=6) == ((1, 2), {"d": 6})


def test_an_argument_equal_to_its_default_is_kept() -> None:
    def f(a: Any = None, b: Any = 2) -> None:
        """Nothing."""

    assert binder(f)(None, b=2) == ((None, 2), {})
    assert binder(f)(b=2) == ((), {"b": 2})
    assert binder(f)() == ((), {})


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "f.remote() missing 1 required positional argument: 'a'"),
        ((1, 2, 3), {}, "f.remote() takes from 1 to 2 positional arguments but 3 were given"),
        ((1,), {"a": 2}, "f.remote() got multiple values for argument 'a'"),
        ((1,), {"x": 2}, "f.remote() got an unexpected keyword argument 'x'"),
    ],
)
def test_errors_are_pythons_with_our_name(args: Any, kwargs: Any, text: str) -> None:
    def f(a: Any, b: Any = 1) -> None:
        """Nothing."""

    with pytest.raises(TypeError) as caught:
        binder(f)(*args, **kwargs)
    assert str(caught.value) == text


def test_what_has_no_signature_takes_anything() -> None:
    assert signatures.parameters(dict.fromkeys, bound=False) is not None
    unknown = signatures.parameters(type, bound=False)
    assert signatures.binder(unknown, name="x")(1, 2, k=3) == ((1, 2), {"k": 3})


def test_a_wrapper_takes_what_itself_takes() -> None:
    def injecting(function: Any) -> Any:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return function("injected", *args, **kwargs)

        return inner

    def renaming(function: Any) -> Any:
        @functools.wraps(function)
        def inner(other: Any) -> Any:
            return function(other, 1)

        return inner

    def f(a: Any, b: Any) -> Any:
        return a, b

    injected = injecting(f)
    args, kwargs = binder(injected)(b=5)
    assert injected(*args, **kwargs) == ("injected", 5)
    assert binder(renaming(f))(other=5) == ((5,), {})
    with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
        binder(renaming(f))(a=5)


def test_a_bound_method_has_one_less() -> None:
    class A:
        def m(self, x: Any) -> None:
            """Nothing."""

        def s(*args: Any) -> None:
            """Nothing."""

    assert [p.name for p in signatures.parameters(A.m, bound=True) or []] == ["x"]
    assert [p.name for p in signatures.parameters(A.s, bound=True) or []] == ["args"]


def test_only_plain_required_parameters_are_simple() -> None:
    def simple(a: Any, b: Any) -> None:
        """Nothing."""

    def default(a: Any, b: Any = 1) -> None:
        """Nothing."""

    def only(a: Any, /) -> None:
        """Nothing."""

    def names(function: Any) -> Any:
        return signatures.simple_names(signatures.parameters(function, bound=False), at_most=2)

    assert names(simple) == ["a", "b"]
    assert names(default) is names(only) is None
    assert signatures.simple_names(None, at_most=2) is None
    assert signatures.simple_names(signatures.parameters(simple, bound=False), at_most=1) is None
