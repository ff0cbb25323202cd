"""The other commands, and what starting the command costs."""

from __future__ import annotations

import importlib
import json
import platform
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.e2e import command

from fed import _version

ROOT = Path(__file__).resolve().parents[2]

#: What neither help nor version may load.
HEAVY = ["ray", "kubernetes", "numpy", "pydantic", "cryptography", "yaml", "msgspec", "cloudpickle"]


@pytest.fixture
def folder(tmp_path: Path) -> command.Folder:
    return command.Folder(tmp_path)


def test_the_installed_command_is_this_one() -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["rayfed"]
    module, _, name = found.partition(":")
    assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["run", "--help"], ["version"], ["version", "--json"], ["completion", "bash"]],
    ids=" ".join,
)
def test_the_light_commands_load_nothing_heavy(
    folder: command.Folder, arguments: list[str]
) -> None:
    folder.write(
        f"""
        import sys
        sys.argv = ["rayfed", *{arguments!r}]
        from fed.cli import main
        try:
            main.main()
        except SystemExit as ended:
            print("ENDED", ended.code)
        print("LOADED", sorted(set({HEAVY!r}) & set(sys.modules)))
        """
    )
    ended = folder.python("script.py")
    assert ended.stdout.splitlines()[-2:] == ["ENDED 0", "LOADED []"], ended.stderr


def test_running_a_script_loads_no_heavier_library_than_it_needs(folder: command.Folder) -> None:
    ended = folder.run(
        """
        import sys
        import fed
        fed.init()
        fed.get(fed.put({"a": [1.5]}, party="A"))
        print(sorted({"ray", "kubernetes", "numpy", "pydantic", "cryptography"} & set(sys.modules)))
        """
    )
    assert ended.stdout == "[]\n"


def test_version(folder: command.Folder) -> None:
    assert folder.rayfed("version").stdout.startswith(f"rayfed {_version.__version__} (")
    assert folder.rayfed("--version").stdout == f"rayfed {_version.__version__}\n"
    facts = json.loads(folder.rayfed("version", "--json").stdout)
    assert facts["rayfed"] == _version.__version__
    assert facts["python"] == platform.python_version()


def test_help_names_every_command(folder: command.Folder) -> None:
    for arguments in (["--help"], ["-h"], []):
        ended = folder.rayfed(*arguments)
        told = ended.stdout + ended.stderr
        assert all(f"\n  {name} " in told for name in ("run", "version", "completion"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(folder: command.Folder, shell: str) -> None:
    ended = folder.rayfed("completion", shell)
    assert ended.code == 0
    assert f"{shell}_complete" in ended.stdout
    if shutil.which(shell) is not None:
        read = subprocess.run(
            [shell, "-n"], input=ended.stdout, capture_output=True, text=True, timeout=30
        )
        assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rayfed ver", {"version"}),
        ("rayfed run --mode si", {"simulation", "single-controller"}),
        ("rayfed run --isolation ", {"sealed", "process", "check", "off"}),
        ("rayfed run --rep", {"--report"}),
    ],
)
def test_the_shell_gets_its_completions(
    folder: command.Folder, words: str, expected: set[str]
) -> None:
    ended = folder.rayfed(
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split(" ")) - 1),
        _RAYFED_COMPLETE="bash_complete",
    )
    assert {line.partition(",")[2] for line in ended.stdout.splitlines()} == expected
