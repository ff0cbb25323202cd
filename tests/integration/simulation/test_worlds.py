"""Isolation by process: a party's own classes are the classes of all it finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import dataclasses, json, typing
from collections import namedtuple
import fed

@dataclasses.dataclass
class Plain:
    x: int = 1

@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: int = 1

Point = namedtuple("Point", "x")

class Typed(typing.NamedTuple):
    x: int

DEFAULTS = {"Plain": Plain(), "Slotted": [Slotted()][0], "Point": Point(1), "Typed": Typed(1)}

@fed.remote
def found():
    classes = {"Plain": Plain, "Slotted": Slotted, "Point": Point, "Typed": Typed}
    return {name: isinstance(DEFAULTS[name], cls) for name, cls in classes.items()}

fed.init(parties=["A"])
print(json.dumps(fed.get(found.party("A").remote())))
"""


@pytest.mark.parametrize(
    "level",
    [
        "sealed",
        "check",
        pytest.param(
            "process",
            marks=pytest.mark.xfail(
                reason="named tuples and slotted dataclasses in module globals keep the original",
                strict=True,
            ),
        ),
    ],
)
def test_module_globals_are_instances_of_the_partys_classes(tmp_path: Path, level: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    source = Path(__file__).parents[3] / "src"
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(source), "FED_ISOLATION": level},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "false" not in done.stdout, done.stdout
