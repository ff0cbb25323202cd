from __future__ import annotations

import hypothesis
from hypothesis import strategies as st

from fed.transport import ranges

NUMBERS = st.lists(st.integers(0, 60), max_size=80)


@hypothesis.given(NUMBERS)
def test_behaves_as_a_set_of_ints(numbers):
    plain: set[int] = set()
    kept = ranges.IdRanges()
    for number in numbers:
        assert kept.add(number) == (number not in plain)
        plain.add(number)
    assert {n for n in range(-1, 63) if n in kept} == plain
    assert {n for low, high in kept for n in range(low, high + 1)} == plain


@hypothesis.given(NUMBERS)
def test_ranges_are_ascending_and_never_touch(numbers):
    kept = ranges.IdRanges()
    for number in numbers:
        kept.add(number)
    found = list(kept)
    assert all(low <= high for low, high in found)
    assert all(found[i][1] + 1 < found[i + 1][0] for i in range(len(found) - 1))
    assert kept.ranges == len(found)
    assert bool(kept) == bool(numbers)


def test_a_million_ids_in_order_are_one_range():
    kept = ranges.IdRanges()
    for number in range(1, 1_000_001):
        kept.add(number)
    assert list(kept) == [(1, 1_000_000)]


def test_taking_out_gives_the_lowest_ranges_first():
    kept = ranges.IdRanges()
    for number in (9, 1, 2, 5):
        kept.add(number)
    assert kept.take(2) == [(1, 2), (5, 5)]
    assert list(kept) == [(9, 9)]
