"""The engine contract, on the simulation engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from fed.testing import engines

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_in_this_process(script: Path) -> None:
    engines.check(engines.InProcess(), script)


@pytest.mark.parametrize("name", ["c08", "actors", "crossing"])
def test_in_a_process_of_its_own(name: str) -> None:
    script = Path(__file__).parent / "scripts" / f"{name}.py"
    engines.check(engines.Subprocess(), script)
