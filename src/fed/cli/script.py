"""The user's script, run as `python SCRIPT` would run it, in this process."""

from __future__ import annotations

import difflib
import importlib.machinery
import io
import os
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script that was found and read.

    Attributes:
        given: as the command line names it: its `sys.argv[0]`.
        path: absolute, links as they are: its `__file__`.
        source: its bytes.
    """

    given: str
    path: Path
    source: bytes


def read(given: str) -> Script:
    """The script at a path.

    Raises:
        BadParameter: of click, if there is none, or it can't be read.
    """
    path = Path(os.path.abspath(given))
    if os.path.isdir(path):  # unlike Path.is_dir, False where a folder may not be entered
        found = sorted(inner.name for inner in path.glob("*.py"))
        hint = f"; give a script in it, such as {os.path.join(given, found[0])}" if found else ""
        raise click.BadParameter(f"{given!r} is a folder{hint}")
    try:
        with io.open_code(str(path)) as file:
            source = file.read()
    except FileNotFoundError:
        raise click.BadParameter(f"there is no file {given!r}{_near(path)}") from None
    except OSError as error:
        raise click.BadParameter(f"{given!r} can't be read: {error.strerror or error}") from None
    return Script(given=given, path=path, source=source)


def _near(path: Path) -> str:
    """`; did you mean 'x.py'?`, from the scripts in the same folder."""
    try:
        known = [inner.name for inner in path.parent.glob("*.py")]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def execute(script: Script, arguments: Sequence[str]) -> None:
    """Run the script as `__main__`; it ends as it would by itself, with its own exceptions.

    `sys.argv`, `sys.path[0]` and `sys.modules["__main__"]` are the script's from now on and stay
    so: what it registered for the end of the process, and pickles by reference, need them.

    Raises:
        BaseException: what the script raises; its first frame is in this module.
    """
    module = types.ModuleType("__main__")
    module.__file__ = str(script.path)
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", str(script.path))
    module.__dict__.update(__cached__=None, __builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = module
    sys.argv[:] = [script.given, *arguments]
    # The interpreter put the folder of `rayfed` (or of `python -m`) there, unless it was told not
    # to put any (`python -P`).
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(script.path))
    code = compile(script.source, str(script.path), "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102  (that is the command's purpose)
