"""Random programs against the plain interpreter."""

from __future__ import annotations

import pytest
from tests.integration.simulation import random_programs


@pytest.mark.soak(seeds=400)
@pytest.mark.parametrize("isolation", ["sealed", "check", "process"])
def test_values_outcomes_and_numbers(seed: int, isolation: str) -> None:
    for part in range(20):
        random_programs.Program(seed * 1000 + part, isolation=isolation).run()
