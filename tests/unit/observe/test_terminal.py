from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator

import pytest

from fed.observe import terminal


class Pipe:
    """What was written to a file descriptor."""

    def __init__(self) -> None:
        self.reads, self.writes = os.pipe()

    def told(self) -> str:
        os.set_blocking(self.reads, False)
        try:
            return os.read(self.reads, 65536).decode()
        except BlockingIOError:
            return ""


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    os.close(made.reads)
    os.close(made.writes)


@pytest.fixture
def screen(pipe: Pipe) -> terminal.Screen:
    return terminal.Screen(pipe.writes)


def test_a_line_takes_the_place_of_the_one_before(pipe: Pipe, screen: terminal.Screen) -> None:
    screen.draw("one")
    screen.draw("two")
    assert pipe.told() == "\r\x1b[Kone\r\x1b[Ktwo"
    screen.erase()
    screen.erase()
    assert pipe.told() == "\r\x1b[K"


def test_a_long_line_is_cut_below_the_width(pipe: Pipe, screen: terminal.Screen) -> None:
    screen.draw("x" * 200)
    assert pipe.told() == "\r\x1b[K" + "x" * 79


def test_colour_surrounds_the_line(pipe: Pipe) -> None:
    terminal.Screen(pipe.writes, coloured=True).draw("one")
    assert pipe.told() == "\r\x1b[K\x1b[2mone\x1b[0m"


def test_the_line_is_gone_before_the_script_writes(pipe: Pipe, screen: terminal.Screen) -> None:
    raw = io.FileIO(pipe.writes, "wb", closefd=False)
    screen.draw("live")
    screen.write(raw, b"text\n")
    screen.write(raw, b"more\n")
    assert pipe.told() == "\r\x1b[Klive\r\x1b[Ktext\nmore\n"


def test_nothing_is_drawn_over_a_line_begun(pipe: Pipe, screen: terminal.Screen) -> None:
    raw = io.FileIO(pipe.writes, "wb", closefd=False)
    screen.write(raw, b"begun")
    screen.draw("live")
    assert pipe.told() == "begun"
    screen.write(raw, b" whole\n")
    screen.draw("live")
    assert pipe.told() == " whole\n\r\x1b[Klive"


def test_nothing_is_drawn_while_paused(pipe: Pipe, screen: terminal.Screen) -> None:
    screen.draw("live")
    with screen.paused():
        screen.draw("no")
    assert pipe.told() == "\r\x1b[Klive\r\x1b[K"
    screen.draw("again")
    assert pipe.told() == "\r\x1b[Kagain"


def test_a_screen_without_a_terminal_only_watches(pipe: Pipe) -> None:
    screen = terminal.Screen(None)
    screen.draw("live")
    screen.write(io.FileIO(pipe.writes, "wb", closefd=False), b"half")
    assert (pipe.told(), screen.at_line_start) == ("half", False)


def test_streams_pass_the_screen_within_the_block(
    pipe: Pipe, screen: terminal.Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = io.TextIOWrapper(
        io.FileIO(pipe.writes, "wb", closefd=False), encoding="latin-1", write_through=True
    )
    monkeypatch.setattr(sys, "stdout", before)
    asks = __builtins__["input"] if isinstance(__builtins__, dict) else __builtins__.input
    with terminal.watching(screen, "stdout"):
        assert sys.stdout is not before
        assert sys.stdout.encoding == "latin-1"
        assert sys.stdout.fileno() == pipe.writes
        screen.draw("live")
        sys.stdout.write("text\n")
        assert input is not asks
    assert sys.stdout is before
    assert input is asks
    assert pipe.told() == "\r\x1b[Klive\r\x1b[Ktext\n"


def test_a_stream_that_the_script_put_there_is_left(
    pipe: Pipe, screen: terminal.Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "stdout", io.TextIOWrapper(io.FileIO(pipe.writes, "wb", closefd=False))
    )
    mine = io.StringIO()
    with terminal.watching(screen, "stdout"):
        sys.stdout = mine
    assert sys.stdout is mine


def test_a_stream_that_is_no_file_is_left(
    screen: terminal.Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = io.StringIO()
    monkeypatch.setattr(sys, "stdout", mine)
    with terminal.watching(screen, "stdout"):
        assert sys.stdout is mine


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "live", "coloured"),
    [
        (Tty(), {"TERM": "xterm"}, True, True),
        (Tty(), {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        (Tty(), {"TERM": "xterm", "NO_COLOR": ""}, True, True),
        (Tty(), {"TERM": "dumb"}, False, False),
        (Tty(), {}, False, False),
        (io.StringIO(), {"TERM": "xterm"}, False, False),
    ],
)
def test_where_lines_and_colour_are_welcome(
    stream: io.StringIO, environ: dict[str, str], live: bool, coloured: bool
) -> None:
    assert terminal.is_live(stream, environ) is live
    assert terminal.is_coloured(stream, environ) is coloured
