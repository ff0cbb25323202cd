from __future__ import annotations

import abc
import dataclasses
import enum
from typing import Any, Generic, TypeVar

import msgspec
import pytest
from tests.unit.codec import values

from fed.codec import types, wire

USER = types.UserTypes([__name__], None)
RAN: list[object] = []
T = TypeVar("T")


def both(value: object) -> list[Any]:
    """The value as it crosses, and as it is decoded."""
    encoded = wire.encode(value, types=USER)
    body = b"".join(encoded.body())
    return [types.cross(value, types=USER), wire.decode(encoded.header, body, types=USER)]


STRUCTS: dict[str, dict[str, bool | str]] = {
    "Plain": {},
    "NoGc": {"gc": False},
    "WeakRef": {"weakref": True},
    "Dict": {"dict": True},
    "KwOnly": {"kw_only": True},
    "ArrayLike": {"array_like": True},
    "Tagged": {"tag": "x"},
    "Strict": {"forbid_unknown_fields": True},
    "Ordered": {"order": True},
    "Frozen": {"frozen": True},
    "Hashed": {"frozen": True, "cache_hash": True},
    "Renamed": {"rename": "camel"},
}

for _name, _options in STRUCTS.items():
    globals()[_name] = msgspec.defstruct(
        _name,
        [("a_b", object), ("c", object, 3)],
        namespace={"__post_init__": RAN.append},
        module=__name__,
        **_options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("name", STRUCTS)
def test_structs_of_every_kind_are_rebuilt_without_post_init(name: str) -> None:
    cls = globals()[name]
    value = cls(a_b=[1])
    RAN.clear()
    for made in both(value):
        assert type(made) is cls
        assert (made.a_b, made.c) == ([1], 3)
        assert made.a_b is not value.a_b
    assert RAN == []


@dataclasses.dataclass
class Generally(Generic[T]):
    v: T


@dataclasses.dataclass
class Abstractly(abc.ABC):
    v: int

    def __setattr__(self, name: str, value: object) -> None:
        RAN.append(name)
        super().__setattr__(name, value)


@dataclasses.dataclass(slots=True)
class Base:
    a: int


@dataclasses.dataclass
class Derived(Base):
    b: int
    __hidden: int = 4


@dataclasses.dataclass
class Unset:
    a: int
    b: int = dataclasses.field(init=False)


@pytest.mark.parametrize(
    "value", [Generally(3), Abstractly(3), Base(1), Derived(1, 2)], ids=values.label
)
def test_dataclasses_of_every_kind_are_rebuilt(value: object) -> None:
    RAN.clear()
    for made in both([value]):
        assert type(made[0]) is type(value)
        assert made[0] == value
    assert RAN == []


class Word(str, enum.Enum):  # noqa: UP042  (as users write it)
    A = "a"


class Bits(enum.IntFlag):
    A = 1
    B = 2


class Odd(enum.Enum):
    A = 1

    @classmethod
    def _missing_(cls, value: object) -> Odd:
        RAN.append(value)
        return cls.A


@pytest.mark.parametrize(
    "value", [Word.A, Bits.A, Bits.A | Bits.B, Bits(0), Bits(8), Odd.A], ids=values.label
)
def test_members_of_every_kind_stay_what_they_are(value: object) -> None:
    RAN.clear()
    for made in both([value]):
        assert made[0] is value
    assert RAN == []
