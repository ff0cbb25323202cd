"""The collector's threshold while a simulation is open, and afterwards."""

import gc
from collections.abc import Iterator

import pytest

import fed


@pytest.fixture
def usual() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield (700, 10, 10)
    gc.set_threshold(*before)


def test_old_objects_are_looked_through_less_often_until_the_end(
    usual: tuple[int, int, int],
) -> None:
    fed.init()
    assert gc.get_threshold() == (700, 10, 1000)
    fed.shutdown()
    assert gc.get_threshold() == usual


@pytest.mark.usefixtures("usual")
def test_what_the_script_sets_is_left_alone() -> None:
    fed.init()
    gc.set_threshold(5, 6, 7)
    fed.shutdown()
    assert gc.get_threshold() == (5, 6, 7)


@pytest.mark.usefixtures("usual")
@pytest.mark.parametrize("own", [(0, 10, 10), (700, 10, 5000)])
def test_a_collector_that_is_off_or_rare_already_stays_as_it_is(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    fed.init()
    assert gc.get_threshold() == own
    fed.shutdown()
    assert gc.get_threshold() == own
