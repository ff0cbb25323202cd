"""Received values that nobody reads yet, on disk: in files without a name, gone with the process.

Who is allowed to be there, and how much, is the mailbox's business.
"""

from __future__ import annotations

import logging
import mmap
import os
import queue
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from fed.transport import inbox

log = logging.getLogger(__name__)

#: Larger values have a file of their own, mapped into memory; smaller ones share a file and are
#: read back, so that the number of mappings stays far below the kernel's limit of 65,530.
_OWN_FILE_BYTES: Final = 1 << 20
_SHARED_FILE_BYTES: Final = 64 << 20


class _Shared:
    """A file of small values: it goes when the last of them has been read back."""

    def __init__(self, folder: Path | None) -> None:
        self.file: BinaryIO = _nameless(folder)
        self.end = 0
        self.values = 0


class Spill:
    """Bytes written away and read back once. Any thread may call any method.

    Args:
        folder: where; None for the system's folder for temporary files.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._shared: _Shared | None = None
        # Values may die in any thread at any moment, also inside `write`: they only add to this.
        self._gone: deque[_Shared] = deque()

    def write(self, data: memoryview) -> Token:
        """Where the bytes are now.

        Raises:
            OSError: the disk is full or broken; nothing is kept.
        """
        if data.nbytes > _OWN_FILE_BYTES:
            with _nameless(self._folder) as file:
                _write(file, data, 0)
                mapped = mmap.mmap(file.fileno(), data.nbytes, access=mmap.ACCESS_READ)
            return Token(mapped=mapped)
        with self._lock:
            self._sweep()
            shared = self._shared
            if shared is None or shared.end + data.nbytes > _SHARED_FILE_BYTES:
                shared = self._shared = _Shared(self._folder)
            _write(shared.file, data, shared.end)
            token = Token(spill=self, shared=shared, start=shared.end, size=data.nbytes)
            shared.end += data.nbytes
            shared.values += 1
        return token

    def forget(self, shared: _Shared) -> None:
        """One value of that file is not needed any more."""
        self._gone.append(shared)
        if self._lock.acquire(blocking=False):
            try:
                self._sweep()
            finally:
                self._lock.release()

    def _sweep(self) -> None:
        """Close files that have no values left. Lock held."""
        while self._gone:
            shared = self._gone.popleft()
            shared.values -= 1
            if not shared.values:
                if shared is self._shared:
                    self._shared = None
                shared.file.close()


class Token:
    """One value on disk. Its room is free once it was read, or dropped, and no view of it lives."""

    __slots__ = ("_mapped", "_shared", "_size", "_spill", "_start")

    def __init__(
        self,
        *,
        mapped: mmap.mmap | None = None,
        spill: Spill | None = None,
        shared: _Shared | None = None,
        start: int = 0,
        size: int = 0,
    ) -> None:
        self._mapped = mapped
        self._spill = spill
        self._shared = shared
        self._start = start
        self._size = size

    def read(self) -> memoryview:
        """The value's bytes, read-only; to be called once.

        Raises:
            OSError: the disk does not give them back.
        """
        if self._mapped is not None:
            return memoryview(self._mapped)
        shared = self._shared
        if shared is None:
            raise OSError(None, "the value was read before")
        data = os.pread(shared.file.fileno(), self._size, self._start)
        self.drop()
        if len(data) != self._size:
            raise OSError(None, f"{len(data)} of {self._size} bytes are left on disk")
        return memoryview(data)

    def drop(self) -> None:
        """It is not needed any more."""
        shared, self._shared = self._shared, None
        if shared is not None and self._spill is not None:
            self._spill.forget(shared)

    def __del__(self) -> None:
        self.drop()


class Writer:
    """The thread that writes values away, started by the first of them.

    Args:
        spill: where they go.
        take: gives a value's bytes; None if they are not wanted on disk any more.
        done: told where they are now; None if they could not be written.
        name: of the thread.
    """

    def __init__(
        self,
        spill: Spill,
        *,
        take: Callable[[inbox.Parcel], memoryview | None],
        done: Callable[[inbox.Parcel, Token | None], None],
        name: str,
    ) -> None:
        self._spill = spill
        self._take = take
        self._done = done
        self._waiting: queue.SimpleQueue[inbox.Parcel | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._is_started = False

    def add(self, parcel: inbox.Parcel) -> None:
        """Have a value written. One thread at a time."""
        self._waiting.put(parcel)
        if not self._is_started:
            self._is_started = True
            self._thread.start()

    def close(self) -> None:
        """Write nothing more."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (parcel := self._waiting.get()) is not None:
            try:
                self._write(parcel)
            except Exception:
                log.exception("a value could not be written to disk")

    def _write(self, parcel: inbox.Parcel) -> None:
        data = self._take(parcel)
        token = None
        if data is not None:
            try:
                token = self._spill.write(data)
            except OSError as error:
                log.warning(
                    "a value of %d bytes can't be written to disk: %s", parcel.size,
                    error.strerror or error,
                )  # fmt: skip
        self._done(parcel, token)


def _nameless(folder: Path | None) -> BinaryIO:
    file: BinaryIO = tempfile.TemporaryFile(  # noqa: SIM115  (closed with its last value)
        dir=folder, prefix="fed-spill-", buffering=0
    )
    return file


def _write(file: BinaryIO, data: memoryview, start: int) -> None:
    done = 0
    while done < data.nbytes:
        done += os.pwrite(file.fileno(), data[done:], start + done)
