"""The file of `rayfed run --report`: looked at before the run, written whole at its end."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click


def check(given: str) -> Path:
    """The absolute path of a report that can be written there. Nothing is written yet.

    Raises:
        BadParameter: of click, if it can't be.
    """
    path = Path(os.path.abspath(given))
    if not os.access(path.parent, os.X_OK) and os.path.isdir(path.parent):
        raise click.BadParameter(f"the folder of {given!r} may not be entered by this user")
    if path.is_dir():
        raise click.BadParameter(f"{given!r} is a folder; give a file, such as {given}/run.json")
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r}; make it first")
    may_write = os.access(path, os.W_OK) if path.exists() else True
    if not may_write or (_is_replaced(path) and not os.access(path.parent, os.W_OK | os.X_OK)):
        raise click.BadParameter(f"{given!r} may not be written by this user")
    return path


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Write the report: a reader finds the old file or the new one, never half of it.

    Raises:
        OSError: if it can't be written.
    """
    text = json.dumps(report, indent=2) + "\n"
    if not _is_replaced(path):
        path.write_text(text, encoding="utf-8")
        return
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def _is_replaced(path: Path) -> bool:
    """False for pipes, devices and links, which stay what they are."""
    return not path.is_symlink() and (path.is_file() or not path.exists())
