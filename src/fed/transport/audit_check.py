"""Reading an audit file back: whether its chain holds, and which values crossed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import msgspec

from fed.transport import audit, audit_lines

#: Problems that a verdict lists; the others are counted.
SHOWN_PROBLEMS: Final = 100
#: What a crash leaves behind is less than a line, or a few if several crashes follow one another.
_TORN_LIMIT: Final = 4 * audit_lines.MAX_LINE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Where the chain breaks.

    Attributes:
        line: number of the line, from 1.
        what: what is wrong with it.
    """

    line: int
    what: str


@dataclass(slots=True, kw_only=True)
class SessionFound:
    """One session in a file.

    Attributes:
        line: of its header.
        header: what that says.
        totals: what its lines add up to.
        is_ended: it ended in order.
        unconfirmed: values that left, and nothing says what became of them.
    """

    line: int
    header: audit_lines.Session
    totals: audit_lines.Totals = field(default_factory=audit_lines.Totals)
    is_ended: bool = False
    unconfirmed: int = 0


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What `verify` found.

    Attributes:
        lines: how many there are.
        tail: hash of the last line; keep it elsewhere to prove later that nothing was cut off.
        sessions: in order.
        problems: where the chain breaks; at most `SHOWN_PROBLEMS`.
        problems_left_out: how many more there are.
        torn: lines that a crash left unfinished and that are marked as such.
        is_tail_torn: the last line is unfinished: a crash, a write at this moment, or a cut.
        expected: the hashes that were to be there, with their lines; None where one is missing.
    """

    lines: int = 0
    tail: str = audit_lines.GENESIS
    sessions: list[SessionFound] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    problems_left_out: int = 0
    torn: list[int] = field(default_factory=list)
    is_tail_torn: bool = False
    expected: dict[str, int | None] = field(default_factory=dict)

    @property
    def is_intact(self) -> bool:
        """True if every line follows from the one before and all expected hashes are there."""
        return not self.problems and None not in self.expected.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One value as a file tells of it.

    Attributes:
        line: number of the line.
        session: which session it belongs to; None if no header is before it.
        value: the line; one without an outcome has `unconfirmed`.
    """

    line: int
    session: audit_lines.Session | None
    value: audit_lines.Value


def verify(stream: BinaryIO, *, expected: Collection[str] = ()) -> Verdict:
    """Whether each line of a file is unchanged and follows from the line before.

    A change, removal or insertion is named by its line. What was cut off at the end shows only by
    `expected`: hashes of lines (tails, checkpoints) that are known from elsewhere.

    Args:
        stream: the file, read once and line by line; memory does not grow with its length.
        expected: hashes in lower case.

    Whoever can write to the file can also compute all hashes anew from any line on: the chain
    proves nothing against them but by `expected`, or the peers' files.
    """
    check = _Check(expected)
    for number, raw, is_ended in _lines(stream):
        check.line(number, raw, is_ended)
    return check.end()


def values(stream: BinaryIO) -> Iterator[Shown | Problem]:
    """The values that a file tells of, in order, and lines that can't be read.

    A value that left is given with its outcome; one without is given at the session's end.
    """
    session: audit_lines.Session | None = None
    leaving: dict[int, Shown] = {}
    for number, raw, is_ended in _lines(stream):
        line = audit_lines.read(raw)
        record = line.record if line is not None else None
        if record is None:
            yield Problem(line=number, what=_UNREADABLE if is_ended else _UNFINISHED)
        elif isinstance(record, audit_lines.Session):
            yield from _unconfirmed(leaving)
            session = record
        elif isinstance(record, audit_lines.Value):
            shown = Shown(line=number, session=session, value=record)
            if record.outcome == audit_lines.LEAVING:
                leaving[record.id] = shown
            else:
                leaving.pop(record.id, None)
                yield shown
    yield from _unconfirmed(leaving)


_UNREADABLE: Final = "it is no audit line"
_UNFINISHED: Final = "it is unfinished"


def _unconfirmed(leaving: dict[int, Shown]) -> Iterator[Shown]:
    for shown in leaving.values():
        value = msgspec.structs.replace(shown.value, outcome=audit_lines.UNCONFIRMED)
        yield dataclasses.replace(shown, value=value)
    leaving.clear()


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes, bool]]:
    """Number, bytes without the line feed, and whether there was one; long lines are clipped."""
    number = 0
    while True:
        raw = stream.readline(audit_lines.MAX_LINE_BYTES + 1)
        if not raw:
            return
        number += 1
        is_ended = raw.endswith(b"\n")
        rest = raw
        while not is_ended and len(rest) > audit_lines.MAX_LINE_BYTES:
            rest = stream.readline(audit_lines.MAX_LINE_BYTES + 1)
            is_ended = rest.endswith(b"\n")
        yield number, raw.removesuffix(b"\n"), is_ended


class _Check:
    """Goes through the lines, and goes on after a break at the hash that the line claims."""

    def __init__(self, expected: Collection[str]) -> None:
        self._found = Verdict(expected=dict.fromkeys(expected))
        self._tail: str | None = audit_lines.GENESIS  # None: not known, after a break
        self._torn = bytearray()  # what stands since the last whole line
        self._torn_line = 0
        self._session: SessionFound | None = None
        self._leaving: set[int] = set()

    def line(self, number: int, raw: bytes, is_ended: bool) -> None:
        found = self._found
        found.lines = number
        line = audit_lines.read(raw)
        if line is None:
            self._strange(number, raw, is_ended)
            return
        self._settle_torn(number, line)
        if not line.is_intact:
            self._problem(number, "it was changed: its hash is not that of its bytes")
        elif self._tail is not None and line.prev != self._tail:
            before = f"line {number - 1}" if number > 1 else "the start of a file"
            self._problem(
                number,
                f"it does not follow from {before}: lines were removed, added, moved or changed",
            )
        self._tail = found.tail = line.hash
        if line.hash in found.expected and line.is_intact:
            found.expected[line.hash] = number
        if line.is_intact:
            self._meaning(number, line.record)

    def end(self) -> Verdict:
        if self._torn and not self._found.is_tail_torn:
            self._problem(self._torn_line, _UNREADABLE)
        self._leave()
        return self._found

    def _strange(self, number: int, raw: bytes, is_ended: bool) -> None:
        """Keep a line that may be one that a crash left unfinished."""
        is_start = raw.startswith(audit_lines.START) or audit_lines.START.startswith(raw)
        if not raw or not is_start or len(self._torn) + len(raw) > _TORN_LIMIT:
            if self._torn:
                self._problem(self._torn_line, _UNREADABLE)
                self._torn.clear()
            self._problem(number, _UNREADABLE)
            self._tail = None
            return
        if not is_ended:
            self._found.is_tail_torn = True
            return
        if not self._torn:
            self._torn_line = number
        self._torn += raw + b"\n"

    def _settle_torn(self, number: int, line: audit_lines.Line) -> None:
        """Hold what stands before a line against the mark that follows it."""
        mark = line.record
        if isinstance(mark, audit_lines.Torn) and line.is_intact:
            torn = bytes(self._torn.removesuffix(b"\n"))
            if mark.bytes == len(torn) and mark.digest == hashlib.sha256(torn).hexdigest():
                self._found.torn.extend(range(self._torn_line, number))
                self._torn.clear()
                return
            self._problem(number, "the unfinished line that it marks is not the one before it")
        elif self._torn:
            self._problem(self._torn_line, _UNREADABLE)
        if self._torn:
            self._torn.clear()
            self._tail = None

    def _meaning(self, number: int, record: audit_lines.Record | None) -> None:
        """Check what a forger who computes hashes anew may get wrong."""
        session = self._session
        if record is None:
            self._problem(number, "it has a kind or a field that this version does not know")
        elif isinstance(record, audit_lines.Session):
            if record.version != audit_lines.VERSION:
                self._problem(number, f"its version {record.version} is not known here")
            self._leave()
            self._session = SessionFound(line=number, header=record)
            self._found.sessions.append(self._session)
        elif isinstance(record, audit_lines.Torn):
            pass
        elif session is None or session.is_ended:
            self._problem(number, "no session is open here")
        elif isinstance(record, audit_lines.Value):
            self._value(number, record)
            session.totals = audit.added(session.totals, record)
        else:
            if record.totals != session.totals and not self._found.problems:
                self._problem(number, "its totals are not those of the lines before it")
            if isinstance(record, audit_lines.End):
                session.is_ended = True
            else:
                session.totals = audit.added(session.totals, record)

    def _value(self, number: int, record: audit_lines.Value) -> None:
        if record.outcome == audit_lines.LEAVING:
            self._leaving.add(record.id)
        elif record.id in self._leaving:
            self._leaving.remove(record.id)
        elif (
            record.way == audit_lines.OUT
            and record.outcome != audit_lines.REFUSED
            and not self._found.problems
        ):
            self._problem(number, f"no line before it says that value {record.id} left")

    def _leave(self) -> None:
        if self._session is not None:
            self._session.unconfirmed = len(self._leaving)
        self._leaving.clear()

    def _problem(self, line: int, what: str) -> None:
        if len(self._found.problems) < SHOWN_PROBLEMS:
            self._found.problems.append(Problem(line=line, what=what))
        else:
            self._found.problems_left_out += 1
