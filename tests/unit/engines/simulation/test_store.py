"""Spilled arrays: equal to what was written for as long as any view of them lives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fed.codec import arrays, seal
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


# Values that are pickled: parts of them go to disk, and what stays is what counts.

BIG = 500_000


class Model:
    """A value that only pickle can copy."""

    def __init__(self, *, text: str = "") -> None:
        self.weights = np.arange(BIG, dtype=np.uint8)
        self.bias = np.arange(10.0)
        self.text = text


def kept(folder: Path, *, budget_bytes: int) -> store.Store:
    return store.Store(budget_bytes=budget_bytes, folder=str(folder))


def test_pickled_values_go_to_disk_and_only_what_stays_counts(tmp_path: Path) -> None:
    memory = kept(tmp_path, budget_bytes=100_000)
    forms = [seal.snapshot(Model()), seal.snapshot([Model(text="x" * BIG), 1])]
    held = [memory.keep(form) for form in forms]
    assert memory.spilled_bytes >= 3 * BIG
    assert memory.spilled_bytes + memory.live_bytes == sum(form.nbytes for form in forms)
    assert memory.live_bytes < 2_000
    pickles = [held[0].form, held[1].form.value[0]]
    parts = [part for pickle in pickles for part in (pickle.data, *pickle.buffers)]
    assert memory.live_bytes == sum(len(part) for part in parts if isinstance(part, bytes))
    for one in held:
        opened = seal.opened(one.form)
        model = opened[0] if isinstance(opened, list) else opened
        assert np.array_equal(model.weights, np.arange(BIG, dtype=np.uint8))
        assert model.bias.tolist() == list(range(10))
        assert not model.weights.flags.writeable
        assert arrays.is_frozen(model.weights)
    del held, one, opened, model, pickles, parts
    assert memory.live_bytes == 0


def test_what_was_read_out_of_a_spilled_pickle_outlives_it(tmp_path: Path) -> None:
    memory = kept(tmp_path, budget_bytes=100_000)
    held = memory.keep(seal.snapshot(Model()))
    weights = seal.opened(held.form).weights
    del held
    others = [memory.keep(seal.snapshot(np.full(BIG, n, np.uint8))) for n in range(3)]
    assert np.array_equal(weights, np.arange(BIG, dtype=np.uint8))
    assert [other.form[0] for other in others] == [0, 1, 2]


def test_the_warning_names_a_size_that_is_held_or_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = kept(tmp_path, budget_bytes=100_000)
    first = memory.keep(seal.snapshot(Model()))
    (record,) = caplog.records
    assert "takes 488.6 KiB of the memory budget of 97.7 KiB" in record.getMessage()
    caplog.clear()
    memory = kept(tmp_path, budget_bytes=800_000)
    first = memory.keep(seal.snapshot(Model()))
    second = memory.keep(seal.snapshot(Model()))
    (record,) = caplog.records
    assert "hold 488.6 KiB of the memory budget of 781.2 KiB" in record.getMessage()
    del first, second
