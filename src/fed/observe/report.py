"""What one session and one whole run did: plain data, as text and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fed.observe import quantities

#: Name and version of the JSON form. The number rises when a field changes its meaning or goes;
#: new fields may come without.
SCHEMA: Final = "rayfed.run-report/1"

#: Errors nobody read that the text shows; the JSON form has the first thousand.
_SHOWN_ERRORS: Final = 5

#: Characters of one error's text in the text form, and of any in the JSON form: a message can
#: hold a whole array.
_SHOWN_CHARACTERS: Final = 400
_KEPT_CHARACTERS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What one session did, taken when it ended.

    Attributes:
        mode: the mode it ran in.
        parties: how many parties made or received a call.
        calls: numbers taken, the verbs included.
        crossed_values: values that crossed between parties, each once per receiving party.
        crossed_bytes: their encoded sizes.
        got_values: values that `fed.get` gave the script.
        spilled_bytes: bytes of results that were written to disk.
        program_digest: hexadecimal digest of all call records.
        values_digest: hexadecimal digest of the values that `fed.get` gave, None if not asked for.
        unread: errors that nobody read, by the id of the fed object, the first thousand as text.
        unread_count: how many there are in all.
    """

    mode: str
    parties: int
    calls: int
    crossed_values: int
    crossed_bytes: int
    got_values: int
    spilled_bytes: int
    program_digest: str
    values_digest: str | None
    unread: Mapping[str, str]
    unread_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one run of a script did.

    Attributes:
        version: of the package.
        script: its path.
        started_at: when, ISO 8601 in UTC.
        wall_s: how long it took, in seconds.
        peak_memory_bytes: the most memory that the process had resident.
        exit_code: of the command.
        ended: why it ended, in words; empty if it came to its end without an error.
        error_type: the class of the exception by which it ended, None if there was none.
        error: that exception's text.
        sessions: the script's sessions, in order.
    """

    version: str
    script: str
    started_at: str
    wall_s: float
    peak_memory_bytes: int
    exit_code: int
    ended: str
    error_type: str | None
    error: str | None
    sessions: tuple[Summary, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`; the fields stand in docs/cli.md."""
        found = {"schema": SCHEMA, **dataclasses.asdict(self)}
        found["wall_s"] = round(self.wall_s, 6)
        if self.error is not None:
            found["error"] = clipped(self.error, _KEPT_CHARACTERS)
        for session in found["sessions"]:
            session["unread"] = {
                key: clipped(text, _KEPT_CHARACTERS) for key, text in session["unread"].items()
            }
        return found

    def text(self) -> str:
        """Lines for a person, without a newline at the end."""
        rows = [("script", self.script)]
        if not self.sessions:
            rows.append(("session", "none: the script did not come past fed.init"))
        for place, session in enumerate(self.sessions, 1):
            if len(self.sessions) > 1:
                rows.append((f"session {place}", f"of {len(self.sessions)}"))
            rows += _rows(session, self.wall_s if len(self.sessions) == 1 else None)
        rows.append(("peak memory", quantities.size(self.peak_memory_bytes)))
        rows.append(("wall time", quantities.duration(self.wall_s)))
        if self.ended:
            rows.append(("exit code", f"{self.exit_code}: {self.ended}"))
        return "\n".join(["run report", *(f"  {key:<15} {value}".rstrip() for key, value in rows)])


def clipped(text: str, most: int) -> str:
    """The text, or as much of it as `most` characters and a note of how much is missing."""
    if len(text) <= most:
        return text
    return f"{text[:most]}... ({len(text) - most:,} characters more)"


def _rows(session: Summary, wall_s: float | None) -> Iterator[tuple[str, str]]:
    speed = f" ({quantities.rate(session.calls / wall_s)} a second)" if wall_s else ""
    crossed = quantities.count(session.crossed_values, "value")
    yield "mode", session.mode
    yield "parties", f"{session.parties:,}"
    yield "calls", f"{session.calls:,}{speed}"
    yield "passed on", f"{crossed}, {quantities.size(session.crossed_bytes)} between parties"
    yield "got", quantities.count(session.got_values, "value")
    if session.spilled_bytes:
        yield "spilled", f"{quantities.size(session.spilled_bytes)} to disk"
    yield "program digest", session.program_digest
    if session.values_digest is not None:
        yield "values digest", session.values_digest
    if session.unread_count:
        yield "unread errors", f"{session.unread_count:,}"
        for object_id, text in list(session.unread.items())[:_SHOWN_ERRORS]:
            lines = clipped(text, _SHOWN_CHARACTERS).splitlines() or [""]
            yield "", f"{object_id}: {lines[0]}"
            yield from (("", f"  {line}") for line in lines[1:])
        more = session.unread_count - min(len(session.unread), _SHOWN_ERRORS)
        if more:
            yield "", f"and {more:,} more"
