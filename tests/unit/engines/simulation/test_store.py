"""Spilled arrays: equal to what was written for as long as any view of them lives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fed.engines.simulation import store


def spill(folder: Path, *, quota_bytes: int | None = None) -> store.Spill:
    return store.Spill(folder=str(folder), quota_bytes=quota_bytes)


def test_a_region_is_used_again_only_when_no_view_of_it_lives(tmp_path: Path) -> None:
    disk = spill(tmp_path, quota_bytes=4096)
    first = disk.written(np.full(100, 1.0))
    row = first.reshape(10, 10)[3]
    del first
    others = [disk.written(np.full(100, float(n))) for n in range(2, 5)]
    assert row.tolist() == [1.0] * 10
    assert [other[0] for other in others] == [2, 3, 4]
    with pytest.raises(OSError, match="quota"):
        disk.written(np.zeros(100))
    del row, others
    again = disk.written(np.full(400, 7.0))
    assert again.sum() == 2800


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.arange(12, dtype=">i4").reshape(3, 4)),
        np.arange(24.0).reshape(4, 6)[::2, 1::2],
        np.array(7.5),
        np.array([("a", 1)], dtype=[("s", "S3"), ("n", "<i8")]),
    ],
    ids=["C", "F", "strided", "0-d", "structured"],
)
def test_an_array_comes_back_the_same_and_locked(tmp_path: Path, array: np.ndarray) -> None:
    back = spill(tmp_path).written(array)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes("A") == array.tobytes("A") or not array.flags.forc
    assert np.array_equal(back, array)
    assert back.flags.f_contiguous == (array.flags.f_contiguous)
    assert not back.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        back.flags.writeable = True
    assert list(tmp_path.iterdir()) == []
