"""Random programs against the plain interpreter."""

from __future__ import annotations

import pytest
from tests.integration.simulation import random_programs

#: Programs per seed; `check` looks at all modules of the test process around every body.
PROGRAMS = {"sealed": 20, "process": 5, "check": 1}


@pytest.mark.soak(seeds=400)
@pytest.mark.parametrize("isolation", PROGRAMS)
def test_values_outcomes_and_numbers(seed: int, isolation: str) -> None:
    for part in range(PROGRAMS[isolation]):
        random_programs.Program(seed * 1000 + part, isolation=isolation).run()
