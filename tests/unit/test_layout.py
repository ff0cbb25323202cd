"""The package's shape: what each folder says of itself, and what importing it costs."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "fed"

FOLDERS = sorted({file.parent for file in PACKAGE.rglob("*.py") if "__pycache__" not in file.parts})

#: What a script that only says `import fed` must not pay for.
HEAVY = {"numpy", "ray", "kubernetes", "pydantic", "cryptography", "click", "yaml"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(SOURCE)))
def test_a_folder_says_what_may_live_in_it(folder: Path) -> None:
    init = folder / "__init__.py"
    assert init.is_file(), f"{folder} holds modules but no __init__.py"
    docstring = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8")))
    assert docstring, f"{init}: no docstring"


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        "import fed\n"
        "print(json.dumps([fed.__file__, sorted(set(sys.modules) - before)]))\n"
    )
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    file, loaded = json.loads(result.stdout)
    assert Path(file).parent == PACKAGE
    assert "fed" in loaded
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_change_fragments_keep_their_convention() -> None:
    name = re.compile(r"[0-9]+\.(feature|change|fix|removal|docs)(\.[a-z0-9-]+)?\.md")
    fragments = [file for file in (ROOT / "changes").iterdir() if file.name != "README.md"]
    assert [file.name for file in fragments if not name.fullmatch(file.name)] == []
    assert [file.name for file in fragments if not file.read_text(encoding="utf-8").strip()] == []
