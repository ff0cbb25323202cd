"""The live line on a real terminal: it is there, and it never mixes with what the script prints."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import time
from pathlib import Path

import pytest
from tests.e2e import command

#: Makes calls until the command has drawn its line a few times, and prints whole lines, parts of
#: lines and lines longer than the live one.
BUSY = """
    import sys, time
    import fed

    @fed.remote
    def same(value):
        return value

    fed.init()
    until = time.monotonic() + 1.6
    n = 0
    while time.monotonic() < until:
        n += 1
        for _ in range(20):
            same.party("A").remote(n)
        fed.progress(n, 5000)
        if n % 10 == 0:
            print(f"line {n} out")
            print(f"line {n} err", file=sys.stderr)
        time.sleep(0.005)
    print("HALF", end="", flush=True)
    until = time.monotonic() + 0.6
    while time.monotonic() < until:
        same.party("A").remote(n)
        time.sleep(0.01)
    print(" WHOLE")
"""


def on_terminal(folder: Path, *arguments: str, typed: bytes = b"", **more: str) -> tuple[int, str]:
    """Exit code and all bytes that the terminal got, as text."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(
            sys.executable,
            [sys.executable, "-m", "fed.cli", *arguments],
            command.environment(**{"TERM": "xterm", **more}),
        )
    told = b""
    until = time.monotonic() + command.LIMIT_S
    while time.monotonic() < until and select.select([fd], [], [], command.LIMIT_S)[0]:
        try:
            data = os.read(fd, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not data:
            break
        told += data
        if typed and told.endswith(b"name? "):
            time.sleep(0.7)  # two to three looks of the thread that draws
            os.write(fd, typed)
            typed = b""
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told.decode()


def played(told: str) -> list[str]:
    """The lines that a terminal shows in the end, for what is used here of its language."""
    lines, column = [""], 0
    for piece in re.findall(r"\x1b\[[0-9]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", told):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            lines.append("")
        elif piece == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif not piece.startswith("\x1b"):
            line = lines[-1].ljust(column)
            lines[-1] = line[:column] + piece + line[column + len(piece) :]
            column += len(piece)
    return lines


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return command.Folder(tmp_path).write(BUSY)


LINE = r"round \d+ of 5,000 \| [\d,]+ calls? \| [\d.,]+/s \| 1 party \| [\d.]+ MiB \| [\d.]+ s"


def test_the_line_is_drawn_and_leaves_no_trace(script: Path) -> None:
    code, told = on_terminal(script.parent, "run", "script.py")
    assert code == 0
    assert len(re.findall(LINE, told)) >= 3
    shown = [line.rstrip() for line in played(told)]
    before = shown[: shown.index("run report")]
    assert before[-1] == "HALF WHOLE"
    assert len(before) > 3
    assert all(re.fullmatch(r"line \d+ (out|err)", line) for line in before[:-1])


def test_a_line_begun_by_the_script_is_left_alone(script: Path) -> None:
    _, told = on_terminal(script.parent, "run", "script.py")
    assert "HALF WHOLE" in told


def test_colour_only_where_it_is_welcome(script: Path) -> None:
    assert "\x1b[2m" in on_terminal(script.parent, "run", "script.py")[1]
    plain = on_terminal(script.parent, "run", "script.py", NO_COLOR="1")[1]
    assert re.search(LINE, plain)
    assert not re.search(r"\x1b\[[0-9;]*m", plain)


def test_a_terminal_that_cannot_erase_gets_plain_text(script: Path) -> None:
    code, told = on_terminal(script.parent, "run", "script.py", TERM="dumb")
    assert code == 0
    assert "\x1b" not in told


def test_a_prompt_is_not_overwritten(tmp_path: Path) -> None:
    folder = command.Folder(tmp_path)
    folder.write(
        """
        import threading
        import fed
        fed.init()

        @fed.remote
        def same(value):
            return value

        for n in range(60_000):
            same.party("A").remote(n)
        print("got", input("name? "))
        """
    )
    code, told = on_terminal(tmp_path, "run", "script.py", typed=b"me\n")
    assert code == 0
    shown = [line.rstrip() for line in played(told)]
    assert "name? me" in shown
    assert "got me" in shown
