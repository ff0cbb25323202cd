"""The command `rayfed` as a user types it, in a folder and process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "src"

#: What a run may take on a busy machine before the test says that it hangs.
LIMIT_S = 60


def environment(**more: str) -> dict[str, str]:
    """The environment without what would set the package up, and with the source in front."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FED_", "PYTHON")) and name not in {"NO_COLOR", "TERM"}
    }
    return {**kept, "PYTHONPATH": str(SOURCE), **more}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A process that ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def report(self) -> dict[str, Any]:
        """The report of `--json`, from stdout's last line."""
        found: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return found

    @property
    def session(self) -> dict[str, Any]:
        """The only session in it."""
        (found,) = self.report["sessions"]
        return dict(found)


class Folder:
    """A folder with a script, and the command run in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: str, name: str = "script.py") -> Path:
        """Put a file there."""
        path = self.path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def rayfed(self, *arguments: str, **more: str) -> Ended:
        """Run `rayfed` with these arguments; keywords are environment variables."""
        return self.python("-m", "fed.cli", *arguments, **more)

    def run(self, text: str, *options: str, **more: str) -> Ended:
        """Run a script of this text by `rayfed run`."""
        self.write(text)
        return self.rayfed("run", *options, "script.py", **more)

    def python(self, *arguments: str, **more: str) -> Ended:
        """Run Python with these arguments."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Ended(code=done.returncode, stdout=done.stdout, stderr=done.stderr)
