"""Remote functions and classes before any session: copies, names, refusals."""

from __future__ import annotations

import functools
import inspect
import pickle  # noqa: TID251  (what may not be sent)
from functools import partial, wraps
from typing import Any

import pytest

import fed
from fed import errors
from fed.model import remote


@fed.remote
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@fed.remote(num_cpus=2)
class Trainer:
    """Trains."""

    limit = 5

    def __init__(self, x: int) -> None:
        self.x = x

    def train(self, w: float) -> float:
        """Train once."""
        return w

    async def later(self) -> None:
        """Later."""

    def stream(self) -> Any:
        """Not to be called."""
        yield 1

    @staticmethod
    def static(a: int) -> int:
        return a

    @classmethod
    def made(cls, a: int) -> int:
        return a

    @property
    def size(self) -> int:
        return 1

    @functools.cached_property
    def cached(self) -> int:
        return 1

    def __call__(self) -> None:
        """A dunder method is not offered."""


def test_it_looks_like_what_it_stands_for() -> None:
    assert add.__name__ == "add"
    assert add.__doc__ == "Add."
    assert add.__module__ == __name__
    assert add.__wrapped__(1) == 3
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert Trainer.__wrapped__(5).x == 5
    assert repr(add) == "<remote function add>"
    assert repr(Trainer.party("BOB")) == "<remote class Trainer at BOB>"


def test_party_and_options_make_new_ones() -> None:
    at_bob = add.party("BOB")
    at_carol = at_bob.party("CAROL")
    assert repr(add) == "<remote function add>"
    assert (repr(at_bob), repr(at_carol)) == (
        "<remote function add at BOB>",
        "<remote function add at CAROL>",
    )
    more = at_bob.options(num_returns=2).options(num_cpus=1)
    assert more._options == {"num_returns": 2, "num_cpus": 1}
    assert at_bob._options == {}
    assert Trainer.options(num_gpus=1)._options == {"num_cpus": 2, "num_gpus": 1}
    assert Trainer._options == {"num_cpus": 2}


def test_a_plain_class_may_inherit() -> None:
    class Derived(Trainer):  # type: ignore[misc]
        def more(self) -> int:
            return int(self.x)

    assert Derived(7).more() == 7
    assert issubclass(Derived, Trainer.__wrapped__)


def test_the_methods_that_an_actor_offers() -> None:
    specs = remote.method_specs(Trainer.__wrapped__)
    assert sorted(specs) == ["later", "made", "static", "stream", "train"]
    assert specs["train"].qualname == "Trainer.train"
    assert [p.name for p in specs["train"].parameters or []] == ["w"]
    assert [p.name for p in specs["static"].parameters or []] == ["a"]
    assert [p.name for p in specs["made"].parameters or []] == ["a"]
    assert [name for name, spec in specs.items() if spec.is_async] == ["later"]
    assert [name for name, spec in specs.items() if spec.is_generator] == ["stream"]


def test_methods_made_in_other_ways_are_offered_too() -> None:
    class Base(list):  # type: ignore[type-arg]
        def pair(self, a: int, b: int) -> tuple[int, int]:
            return a, b

        with_one = functools.partialmethod(pair, 1)

        @functools.singledispatchmethod
        def kind(self, x: Any) -> str:
            return "any"

    specs = remote.method_specs(Base)
    assert {"append", "pair", "with_one", "kind"} <= set(specs)
    assert [p.name for p in specs["with_one"].parameters or []] == ["b"]


def test_a_metaclass_does_not_decide_what_an_actor_offers() -> None:
    class Meta(type):
        def __dir__(cls) -> list[str]:
            return ["ghost", "x"]

    class Actor(metaclass=Meta):
        def x(self) -> None:
            """Nothing."""

        def y(self) -> None:
            """Nothing."""

    assert list(remote.method_specs(Actor)) == ["x", "y"]


def test_a_wrapped_generator_is_found_out() -> None:
    def wrapper(function: Any) -> Any:
        @wraps(function)
        def inner(*args: Any) -> Any:
            return function(*args)

        return inner

    @wrapper
    def numbers() -> Any:
        yield 1

    with pytest.raises(errors.UsageError, match="generator"):
        fed.remote(numbers)


@pytest.mark.parametrize("target", [5, "f", None, partial(max, 1), add, Trainer, [max]])
def test_only_functions_and_classes(target: Any) -> None:
    with pytest.raises(errors.NotRemotableError, match="function or a class") as caught:
        fed.remote(target)
    assert isinstance(caught.value, TypeError)


def test_lambdas_and_built_in_functions_may_be_remote() -> None:
    assert "lambda" in repr(fed.remote(lambda x: x))
    assert repr(fed.remote(len)) == "<remote function len>"
    assert repr(fed.remote(dict)) == "<remote class dict>"


@pytest.mark.parametrize("thing", [add, Trainer, add.party("BOB")], ids=repr)
def test_it_can_be_neither_called_nor_sent(thing: Any) -> None:
    with pytest.raises(errors.UsageError, match=r"\.party\('NAME'\)\.remote"):
        thing(1)
    with pytest.raises(errors.UsageError, match="can't be sent"):
        pickle.dumps(thing)


class Sulky:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_errors_do_not_depend_on_the_users_repr() -> None:
    with pytest.raises(errors.NotRemotableError, match="Sulky"):
        fed.remote(Sulky())
    with pytest.raises(errors.UsageError, match="Sulky"):
        fed.kill(Sulky())  # type: ignore[arg-type]
    with pytest.raises(errors.UsageError, match="Sulky"):
        fed.reduce(Sulky(), [], "BOB")  # type: ignore[arg-type]
    with pytest.raises(errors.UsageError, match="Sulky"):
        add.party(Sulky())  # type: ignore[arg-type]
    with pytest.raises(errors.UsageError, match="Sulky"):
        fed.wait([], num_returns=Sulky(), party="BOB")  # type: ignore[arg-type]


@pytest.mark.parametrize("party", [5, None, ["BOB"]])
def test_a_party_is_a_text(party: Any) -> None:
    with pytest.raises(errors.UsageError, match="named by a string"):
        add.party(party)


def test_without_party_no_session_is_needed_for_the_error() -> None:
    with pytest.raises(errors.MissingPartyError):
        add.remote(1)
    with pytest.raises(errors.SessionError, match=r"fed\.init"):
        add.party("BOB").remote(1)
