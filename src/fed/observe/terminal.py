"""One live line at the bottom of a terminal, out of the way of what the script prints there."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final, TextIO

_ERASE: Final = "\r\x1b[K"
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"


def is_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """True if a line can be redrawn on `stream`: a terminal that knows how to erase one."""
    return stream.isatty() and environ.get("TERM", "") not in {"", "dumb"}


def is_coloured(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """True if colour is welcome: a terminal, and no NO_COLOR (https://no-color.org)."""
    return is_live(stream, environ) and not environ.get("NO_COLOR")


class Screen:
    """The terminal: where its cursor stands, and the live line on it.

    The line is drawn only where a line begins, so an unfinished one of the script (a prompt, a
    progress bar of its own) is left alone, and it is erased before the script writes.
    """

    def __init__(self, fd: int | None, *, coloured: bool = False) -> None:
        """A screen.

        Args:
            fd: the terminal's file descriptor; None for a screen that only watches what is
                written.
            coloured: whether the line may be dimmed.
        """
        self.at_line_start = True
        self._fd = fd
        self._coloured = coloured
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._is_drawn = False
        self._paused = 0

    def draw(self, text: str) -> None:
        """Show `text` as the live line, in place of the one before."""
        with self._lock:
            if self._fd is None or self._paused or not self.at_line_start:
                return
            shown = text[: _width(self._fd) - 1]
            if self._coloured:
                shown = f"{_DIM}{shown}{_PLAIN}"
            self._put(f"{_ERASE}{shown}")
            self._is_drawn = True

    def erase(self) -> None:
        """Take the live line away."""
        with self._lock:
            if self._is_drawn:
                self._is_drawn = False
                self._put(_ERASE)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block nothing is drawn."""
        with self._lock:
            self.erase()
            self._paused += 1
        try:
            yield
        finally:
            with self._lock:
                self._paused -= 1

    def write(self, raw: io.RawIOBase, data: Any) -> int | None:
        """Write the script's bytes to `raw`, above the live line."""
        if os.getpid() != self._process:
            # A forked child: the lock may be held by a thread that it does not have.
            return raw.write(data)
        with self._lock:
            self.erase()
            written = raw.write(data)
            if written:
                self.at_line_start = bytes(memoryview(data)[written - 1 : written]) == b"\n"
            return written

    def _put(self, text: str) -> None:
        # A terminal that is gone ends the run by the script's own output, or not at all.
        with contextlib.suppress(OSError):
            os.write(self._fd or 0, text.encode("utf-8", "replace"))


class _Watched(io.RawIOBase):
    """A file descriptor whose writes go through a screen."""

    def __init__(self, fd: int, name: str, screen: Screen) -> None:
        self.name = name
        self._file = io.FileIO(fd, "wb", closefd=False)
        self._screen = screen

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def write(self, data: Any) -> int | None:
        return self._screen.write(self._file, data)


def _watched(stream: TextIO, screen: Screen) -> io.TextIOWrapper | None:
    """`stream` anew with its writes through `screen`; None if it is no file."""
    try:
        fd = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None
    if not isinstance(stream, io.TextIOWrapper):
        return None
    stream.flush()
    raw = _Watched(fd, stream.name, screen)
    return io.TextIOWrapper(
        # `python -u` has no buffer below the text layer.
        raw if stream.write_through else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


@contextlib.contextmanager
def watching(screen: Screen, *names: str) -> Iterator[None]:
    """Within the block, what is written to `sys.stdout` and `sys.stderr` passes the screen.

    Args:
        screen: the screen.
        names: which streams: `stdout`, `stderr`.
    """
    before: dict[str, TextIO] = {}
    watched: dict[str, TextIO] = {}
    for name in names:
        made = _watched(getattr(sys, name), screen)
        if made is not None:
            before[name], watched[name] = getattr(sys, name), made
            setattr(sys, name, made)
    ask = builtins.input

    @functools.wraps(ask)
    def asking(prompt: object = "", /) -> str:
        # The prompt is not written through sys.stdout, and pdb's comes this way too.
        with screen.paused():
            answer = ask(prompt)
            screen.at_line_start = True
            return answer

    builtins.input = asking
    try:
        yield
    finally:
        if builtins.input is asking:
            builtins.input = ask
        screen.erase()
        for name, stream in watched.items():
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
            if getattr(sys, name) is stream:
                setattr(sys, name, before[name])


def _width(fd: int) -> int:
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return 80
