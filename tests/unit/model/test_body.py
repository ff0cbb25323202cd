"""The random streams of bodies."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest

import fed
from fed import errors
from fed.model import body

KEY = {"seed": 7, "party": "ALICE", "name": "A.m", "ordinal": 2, "index": 5}


def test_the_key_is_the_documented_one() -> None:
    digest = hashlib.sha256(b"7\0ALICE\0A.m\x002\x005").digest()
    key = int.from_bytes(digest[:16], "little")
    expected = np.random.Generator(np.random.Philox(key=key))
    assert body.generator(**KEY).random(5).tolist() == expected.random(5).tolist()  # type: ignore[arg-type]


def test_streams_never_change_between_versions() -> None:
    assert body.generator(**KEY).integers(2**32, size=3).tolist() == GOLDEN  # type: ignore[arg-type]


GOLDEN = [2747270207, 935776372, 2439079991]


@pytest.mark.parametrize(
    "change", [{"seed": 8}, {"party": "BOB"}, {"name": "A.n"}, {"ordinal": 3}, {"index": 6}]
)
def test_each_part_of_the_key_gives_another_stream(change: dict[str, int]) -> None:
    one = body.generator(**KEY).random(3).tolist()  # type: ignore[arg-type]
    other = body.generator(**{**KEY, **change}).random(3).tolist()  # type: ignore[arg-type]
    assert one != other


def test_parts_do_not_run_together() -> None:
    keys = [
        {"seed": 1, "party": "A", "name": "f", "ordinal": 1, "index": 12},
        {"seed": 1, "party": "A", "name": "f", "ordinal": 11, "index": 2},
        {"seed": 11, "party": "A", "name": "f", "ordinal": 1, "index": 2},
    ]
    drawn = [body.generator(**key).random() for key in keys]  # type: ignore[arg-type]
    assert all(a != b for a, b in itertools.combinations(drawn, 2))


def test_outside_a_body_there_is_none() -> None:
    with pytest.raises(errors.UsageError, match=r"numpy\.random\.default_rng"):
        fed.rng()
