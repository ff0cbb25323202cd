"""Prints pip constraints that pin every dependency to the oldest version that pyproject names.

`make test-floors` runs the tests with them, so that a floor is a version that was tried.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

#: What users install; the tools of `dev` and `docs` are ours to raise.
USER_EXTRAS = ("arrow", "examples", "zstd")

_FLOOR = re.compile(r"(?P<name>[A-Za-z0-9._-]+)>=(?P<version>[0-9.]+)")


def floors(pyproject: str) -> list[str]:
    """One `name==version` for each dependency of a user's install, in the file's order."""
    project = tomllib.loads(pyproject)["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(dep for name in USER_EXTRAS for dep in extras[name])]
    pins = []
    for dependency in wanted:
        match = _FLOOR.match(dependency)
        if match is None:
            raise ValueError(f"{dependency!r} in pyproject.toml has no floor: write name>=version")
        pins.append(f"{match['name']}=={match['version']}")
    return pins


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    print("\n".join(floors((root / "pyproject.toml").read_text(encoding="utf-8"))))
