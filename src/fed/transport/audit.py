"""The record of what crossed: a file that only grows, one line before each value leaves or enters.

Lines are written by the thread that moves the value, into the system's cache: some microseconds,
no queue that a crash could lose. What can't be written does not cross. docs/security/audit.md says
what the file holds and what `rayfed audit verify` finds.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from fed import errors
from fed.transport import audit_lines, contents

_log = logging.getLogger(__name__)

#: How often lines are written through to the disk where nobody waits for it.
FLUSH_INTERVAL_S: Final = 1.0
#: A checkpoint is due after this many lines of a session, or this long after the one before.
CHECKPOINT_LINES: Final = 1_000
CHECKPOINT_S: Final = 60
#: How much of a file's end is read to find its last whole line.
_WINDOW: Final = 4 * audit_lines.MAX_LINE_BYTES

Write = Callable[[int, bytes], int]


class Digest:
    """SHA-256 of an encoded value, taken as its bytes pass.

    The bytes are those of the payload (docs/frames.md): the codec's head, zeros up to a multiple of
    64, the body. So both ends have the same digest.
    """

    __slots__ = ("_hash", "size_bytes")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def update(self, view: bytes | bytearray | memoryview, *, offset: int | None = None) -> None:
        """Take in the next bytes; other threads run meanwhile.

        Args:
            view: contiguous bytes.
            offset: where in the payload they begin, if not where the last ones ended: what passed
                before (a chunk that is sent again after a reconnect) is not taken twice.

        Raises:
            ValueError: bytes between are missing; the digest would be wrong.
        """
        data = memoryview(view).cast("B")
        if offset is not None:
            if offset > self.size_bytes:
                raise ValueError(f"bytes {self.size_bytes} to {offset} of the value are missing")
            data = data[self.size_bytes - offset :]
        self._hash.update(data)
        self.size_bytes += data.nbytes

    def hex(self) -> str:
        """The digest of what passed so far, 64 hexadecimal digits."""
        return self._hash.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """What is known of one value that is to cross.

    Attributes:
        peer: the other party, by its certificate.
        call: number of the call that consumes it.
        name: what is called, `get` for `fed.get`.
        made_by: number of the call that made it.
        index: which of that call's results.
        size_bytes: of the payload.
        value: what it is made of; None if it was never read.
    """

    peer: str
    call: int
    name: str
    made_by: int
    index: int
    size_bytes: int
    value: contents.Contents | None


class Passage:
    """One value on its way out; its `leaving` line is in the file. The first outcome stands.

    Attributes:
        digest: feed it the payload's bytes as they are sent.
    """

    __slots__ = ("_auditor", "_crossing", "_id", "_is_closed", "digest")

    def __init__(self, auditor: Auditor, crossing: Crossing, number: int) -> None:
        self.digest = Digest()
        self._auditor = auditor
        self._crossing = crossing
        self._id = number
        self._is_closed = False

    def delivered(self) -> None:
        """Record that the peer's store has it.

        Raises:
            TransportError: it can't be recorded.
            ValueError: the digest has not seen the whole value.
        """
        if self.digest.size_bytes != self._crossing.size_bytes:
            raise ValueError(
                f"the digest saw {self.digest.size_bytes} of {self._crossing.size_bytes} bytes"
            )
        self._close(audit_lines.DELIVERED, "")

    def refused(self, told: str) -> None:
        """Record that the peer will never take it, with the peer's reason.

        Raises:
            TransportError: it can't be recorded.
        """
        self._close(audit_lines.REFUSED, told)

    def lost(self, reason: str) -> None:
        """Record that the link ended before the peer said whether it has it.

        Raises:
            TransportError: it can't be recorded.
        """
        self._close(audit_lines.LOST, reason)

    def _close(self, outcome: str, rule: str) -> None:
        if self._is_closed:
            return
        crossing, is_whole = self._crossing, self.digest.size_bytes == self._crossing.size_bytes
        self._auditor._record(
            audit_lines.OUT, outcome, crossing, number=self._id,
            digest=self.digest.hex() if is_whole else "", rule=rule, is_gate=False,
        )  # fmt: skip
        self._is_closed = True


class Auditor:
    """Appends the lines of one session; from any thread, one line after the other.

    Args:
        file: the open file, from `File.open`.
        federation: as in the party's certificate.
        party: this party.
        job: name of the job.
        session: id of this party's session, as in the handshake.
        is_synced: a value waits until its line is on the disk.
        clock_ns: the wall clock.

    Raises:
        ConfigError: the session's first line can't be written.
    """

    def __init__(
        self,
        file: File,
        *,
        federation: str,
        party: str,
        job: str,
        session: str,
        is_synced: bool = False,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._file = file
        self._job = job
        self._is_synced = is_synced
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._values = 0
        self._totals = audit_lines.Totals()
        self._checkpoint_ns = clock_ns()
        self._checkpoint_lines = 0
        self._flusher: threading.Thread | None = None
        header = audit_lines.Session(
            version=audit_lines.VERSION,
            time=audit_lines.moment(self._checkpoint_ns),
            federation=federation,
            party=party,
            job=job,
            session=session,
        )
        try:
            file.begin(header)
            file.sync()
        except OSError as error:
            raise file.error(error) from error
        _log.info("audit session begins", extra=self._named(file.tail))

    @property
    def tail(self) -> str:
        """Hash of the last line: whoever keeps it elsewhere can prove that nothing was cut off."""
        with self._lock:
            return self._file.tail

    def start(self) -> None:
        """Write lines through to the disk every `FLUSH_INTERVAL_S`, until `close`."""
        if self._flusher is None and not self._is_synced:
            self._flusher = threading.Thread(
                target=self._flush_always, name="fed-audit", daemon=True
            )
            self._flusher.start()

    def leaving(self, crossing: Crossing) -> Passage:
        """Record that a value leaves; to be called before its first byte does.

        Raises:
            TransportError: it can't be recorded; it must not be sent.
        """
        number = self._next()
        self._record(audit_lines.OUT, audit_lines.LEAVING, crossing, number=number)
        return Passage(self, crossing, number)

    def entered(self, crossing: Crossing, *, digest: str) -> None:
        """Record that a value enters; to be called before it is handed to its consumer.

        Args:
            crossing: what it is, read.
            digest: of its payload, `Digest.hex()`.

        Raises:
            TransportError: it can't be recorded; it must not be handed over.
        """
        self._record(
            audit_lines.IN, audit_lines.DELIVERED, crossing, number=self._next(), digest=digest
        )

    def refused(self, way: str, crossing: Crossing, *, rule: str, digest: str = "") -> None:
        """Record that this side refused a value: `rule` says why.

        Args:
            way: `audit_lines.OUT` or `IN`.
            crossing: what is known of it.
            rule: `policy.Decision.told`, or another reason.
            digest: of its payload, if all of it came.

        Raises:
            TransportError: it can't be recorded.
        """
        self._record(
            way, audit_lines.REFUSED, crossing, number=self._next(), digest=digest, rule=rule
        )

    def flush(self) -> bool:
        """Write what was recorded through to the disk; False if that failed, now or before.

        A failure is remembered: nothing crosses any more, since the system may have dropped lines.
        """
        try:
            self._file.sync()
        except OSError as error:
            _log.error(
                "audit file can't be written to the disk; nothing crosses any more",
                extra={"audit": str(self._file.path), "reason": str(error)},
            )
            return False
        return True

    def close(self) -> None:
        """Write the session's last line and let the file go. Closing twice does nothing.

        Raises:
            ConfigError: the last line can't be written; the file is let go.
        """
        with self._lock:
            if self._ended.is_set():
                return
            self._ended.set()
            end = audit_lines.End(time=audit_lines.moment(self._clock_ns()), totals=self._totals)
            try:
                self._file.append(end)
                self._file.sync()
            except OSError as error:
                raise self._file.error(error) from error
            finally:
                self._file.close()
            tail = self._file.tail
        _log.info("audit session ended", extra=self._named(tail))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _next(self) -> int:
        with self._lock:
            self._values += 1
            return self._values

    def _record(
        self,
        way: str,
        outcome: str,
        crossing: Crossing,
        *,
        number: int,
        digest: str = "",
        rule: str = "",
        is_gate: bool = True,
    ) -> None:
        """Append a value's line; with `is_gate` the value waits for it."""
        value = crossing.value
        now_ns = self._clock_ns()
        record = audit_lines.Value(
            time=audit_lines.moment(now_ns),
            way=way,
            outcome=outcome,
            id=number,
            peer=crossing.peer,
            job=self._job,
            call=crossing.call,
            name=audit_lines.clean(crossing.name, contents.SHOWN_NAME),
            object=f"{crossing.made_by}.{crossing.index}",
            type=audit_lines.cleaned([value.type_name])[0] if value is not None else "",
            inside=audit_lines.cleaned(value.inside) if value is not None else (),
            arrays=audit_lines.cleaned(value.arrays) if value is not None else (),
            arrays_left_out=value.arrays_left_out if value is not None else 0,
            bytes=crossing.size_bytes,
            digest=digest,
            rule=audit_lines.clean(rule),
        )
        checkpoint: str | None = None
        try:
            with self._lock:
                checkpoint = self._checkpoint(now_ns)
                self._file.append(record)
                self._totals = added(self._totals, record)
                if self._is_synced and is_gate:
                    self._file.sync()
        except OSError as error:
            raise errors.TransportError(
                party=crossing.peer,
                reason=f"the value {record.object} for call {crossing.call} ({record.name}) can't "
                f"be recorded, so it may not cross: audit file {self._file.path}: "
                f"{error.strerror or error}. Make room for it there, then start the job again",
            ) from error
        if checkpoint is not None:
            _log.info("audit checkpoint", extra=self._named(checkpoint))

    def _checkpoint(self, now_ns: int) -> str | None:
        """Append a checkpoint if one is due; its hash."""
        is_late = now_ns - self._checkpoint_ns >= CHECKPOINT_S * 1_000_000_000
        lines = self._totals.lines
        if not is_late and lines - self._checkpoint_lines < CHECKPOINT_LINES:
            return None
        record = audit_lines.Checkpoint(time=audit_lines.moment(now_ns), totals=self._totals)
        self._file.append(record)
        self._totals = added(self._totals, record)
        self._checkpoint_ns, self._checkpoint_lines = now_ns, lines + 1
        return self._file.tail

    def _flush_always(self) -> None:
        while not self._ended.wait(FLUSH_INTERVAL_S) and self.flush():
            pass

    def _named(self, tail: str) -> dict[str, object]:
        return {"audit": str(self._file.path), "tail": tail}


def added(
    totals: audit_lines.Totals, record: audit_lines.Value | audit_lines.Checkpoint
) -> audit_lines.Totals:
    """The totals after one more line."""
    out_values, out_bytes = totals.out_values, totals.out_bytes
    in_values, in_bytes = totals.in_values, totals.in_bytes
    if isinstance(record, audit_lines.Value):
        if record.outcome == audit_lines.LEAVING:
            out_values, out_bytes = out_values + 1, out_bytes + record.bytes
        elif record.way == audit_lines.IN and record.outcome == audit_lines.DELIVERED:
            in_values, in_bytes = in_values + 1, in_bytes + record.bytes
    return audit_lines.Totals(
        lines=totals.lines + 1,
        out_values=out_values,
        out_bytes=out_bytes,
        in_values=in_values,
        in_bytes=in_bytes,
    )


class File:
    """An audit file that this process alone writes to: whole lines, each chained to the last.

    Not for several threads at once, but for `sync`.
    """

    def __init__(self, path: Path, descriptor: int, *, write: Write = os.write) -> None:
        self.path = path
        self.tail = audit_lines.GENESIS
        self._descriptor = descriptor
        self._write = write
        self._size = os.fstat(descriptor).st_size
        self._torn: _Torn | None = None
        self._lacks_end = False
        self._is_dirty = False
        self._broken: OSError | None = None
        self._sync_lock = threading.Lock()

    @classmethod
    def open(cls, path: Path, *, write: Write = os.write) -> Self:
        """Open or create a file (0600), for this process alone, and find its last line.

        Args:
            path: the file; its folder has to be there.
            write: the system's call, for tests.

        Raises:
            ConfigError: it can't be opened, another process writes to it, others may change it, or
                it does not end as an audit file does.
        """
        is_new = not path.exists()
        try:
            descriptor = os.open(
                path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600
            )
        except OSError as error:
            raise _config(path, f"it can't be opened: {error.strerror or error}") from error
        try:
            _claim(path, descriptor)
            if is_new:
                _sync_folder(path.parent)
            file = cls(path, descriptor, write=write)
            file._find_tail()
        except BaseException:
            os.close(descriptor)
            raise
        return file

    def begin(self, header: audit_lines.Session) -> None:
        """Append a session's first line; what a crash left unfinished before it is marked.

        Raises:
            OSError: nothing was appended.
        """
        data = b""
        tail = self.tail
        if self._torn is not None:
            mark = audit_lines.Torn(
                time=header.time, bytes=self._torn.bytes, digest=self._torn.digest
            )
            line, tail = audit_lines.seal(mark, prev=tail)
            data += line
        line, tail = audit_lines.seal(header, prev=tail)
        self._put((b"\n" if self._lacks_end else b"") + data + line)
        if self._torn is not None:
            _log.warning(
                "audit file had an unfinished line; it is kept and marked",
                extra={"audit": str(self.path), "bytes": self._torn.bytes},
            )
        self.tail, self._torn, self._lacks_end = tail, None, False

    def append(self, record: audit_lines.Record) -> None:
        """Append one line.

        Raises:
            OSError: nothing was appended; after some failures nothing can be any more.
        """
        line, tail = audit_lines.seal(record, prev=self.tail)
        self._put(line)
        self.tail = tail

    def sync(self) -> None:
        """Have the disk hold all that was appended.

        Raises:
            OSError: it may not. After a failed attempt a second one says nothing (the system drops
                what it could not write), so from then on nothing can be appended.
        """
        with self._sync_lock:
            if self._broken is not None:
                raise self._broken
            if not self._is_dirty:
                return
            self._is_dirty = False  # a line that comes meanwhile sets it again
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                self._broken = error
                raise

    def close(self) -> None:
        """Let the file go."""
        with self._sync_lock:
            self._broken = self._broken or OSError(errno.EBADF, "it was closed")
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def error(self, error: OSError) -> errors.ConfigError:
        """The failure as one of the setting."""
        return _config(
            self.path,
            f"it can't be written: {error.strerror or error}",
            fix="Make room there, or give another file",
        )

    def _put(self, data: bytes) -> None:
        if self._broken is not None:
            raise self._broken
        state = os.fstat(self._descriptor)
        if state.st_size != self._size or state.st_nlink == 0:
            what = "deleted" if state.st_nlink == 0 else "changed by somebody else"
            self._broken = OSError(errno.EIO, f"it was {what} while in use")
            raise self._broken
        written = 0
        try:
            while written < len(data):
                written += self._write(self._descriptor, data[written:])
        except OSError as error:
            self._take_back(error)
            raise
        self._size += len(data)
        self._is_dirty = True

    def _take_back(self, cause: OSError) -> None:
        """Leave the file as it was before a line that did not fit."""
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError:
            self._broken = cause  # as after a crash: the next session marks the unfinished line

    def _find_tail(self) -> None:
        if not self._size:
            return
        start = max(0, self._size - _WINDOW)
        data = os.pread(self._descriptor, self._size - start, start)
        try:
            found = find_tail(data, is_all=start == 0)
        except ValueError as error:
            raise _config(
                self.path,
                str(error),
                fix=f"Look at it with rayfed audit verify {self.path}, and give another file",
            ) from error
        self.tail, self._torn = found.hash, found.torn
        self._lacks_end = not data.endswith(b"\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Torn:
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Where a file goes on.

    Attributes:
        hash: of its last whole line.
        torn: what stands after that line, if anything does.
    """

    hash: str
    torn: _Torn | None


def find_tail(data: bytes, *, is_all: bool) -> Tail:
    """Where a file goes on that ends in `data`.

    Args:
        data: not empty.
        is_all: it is the whole file.

    Raises:
        ValueError: it is no audit file, or its last line was changed; the text says which.
    """
    end = len(data)
    while end > 0:
        start = data.rfind(b"\n", 0, end) + 1
        if start == 0 and not is_all:
            break
        raw = data[start:end]
        line = audit_lines.read(raw)
        if line is not None:
            if not line.is_intact:
                raise ValueError("its last line was changed or is damaged")
            rest = data[end:].removeprefix(b"\n").removesuffix(b"\n")
            if not rest:
                return Tail(hash=line.hash, torn=None)
            return Tail(hash=line.hash, torn=_torn(rest))
        if raw and not (raw.startswith(audit_lines.START) or audit_lines.START.startswith(raw)):
            break
        end = start - 1
    header, first = audit_lines.HEADER_START, data.partition(b"\n")[0]
    if end <= 0 and is_all and first and (first.startswith(header) or header.startswith(first)):
        return Tail(hash=audit_lines.GENESIS, torn=_torn(data.removesuffix(b"\n")))
    raise ValueError("it does not end as an audit file does")


def _torn(rest: bytes) -> _Torn:
    return _Torn(bytes=len(rest), digest=hashlib.sha256(rest).hexdigest())


def _claim(path: Path, descriptor: int) -> None:
    """Take a file for this process alone.

    Raises:
        ConfigError: it is no plain file, others may change it, or another process has it.
    """
    import fcntl

    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        raise _config(path, "it is no plain file")
    if state.st_mode & 0o022:
        mode = f"{stat.S_IMODE(state.st_mode):04o}"
        raise _config(path, f"others may change it (mode {mode})", fix=f"chmod 600 {path}")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise _config(path, f"it can't be locked: {error.strerror or error}") from error
        fix = "Give each process a file of its own"
        raise _config(path, "another process writes to it", fix=fix) from error


def _config(path: Path, problem: str, *, fix: str = "") -> errors.ConfigError:
    return errors.ConfigError(problem=f"audit file {path}: {problem}", fix=fix, key="audit")


def _sync_folder(folder: Path) -> None:
    """Have the disk hold the name of a new file."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return  # it can be written to but not read: the system writes the name in its own time
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
