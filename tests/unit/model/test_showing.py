"""Values in errors: short, and whatever their own code does."""

from __future__ import annotations

from fed.model import showing


class Sulky:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_a_value_is_shown_by_its_repr() -> None:
    assert showing.shown("x") == "'x'"
    assert showing.shown([1, None]) == "[1, None]"


def test_a_long_one_is_cut() -> None:
    text = showing.shown("x" * 10_000)
    assert len(text) == 203
    assert text.startswith("'xxx")
    assert text.endswith("x...")


def test_one_that_can_not_be_shown_is_named_by_its_type() -> None:
    assert showing.shown(Sulky()) == "<Sulky, whose __repr__ raised RuntimeError>"
    assert showing.shown([Sulky()]) == "<list, whose __repr__ raised RuntimeError>"
