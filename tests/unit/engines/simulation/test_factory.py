"""What the engine computes where the settings leave it open."""

from __future__ import annotations

import shutil
from pathlib import Path

from fed.engines.simulation import factory


def test_the_spill_quota_is_a_share_of_the_free_space(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    quota = factory.spill_quota_bytes(tmp_path)
    assert quota is not None
    # Others write to the same disk meanwhile.
    assert 0.7 * free < quota < 0.9 * free


def test_a_folder_that_is_not_there_is_left_to_the_first_value_that_spills(tmp_path: Path) -> None:
    assert factory.spill_quota_bytes(tmp_path / "missing") is None
