"""`rayfed audit`: whether an audit file was changed, and what it says crossed."""

from __future__ import annotations

import datetime
import fnmatch
import json
import re
import sys
from typing import TYPE_CHECKING, BinaryIO, Final

import click

if TYPE_CHECKING:
    from fed.transport import audit_check

_HASH: Final = re.compile(r"[0-9a-f]{64}")

#: Characters of a value's row.
_ROW_LIMIT: Final = 1_500

_file = click.argument("file", type=click.File("rb", lazy=False))


@click.group(short_help="Check and show the record of what crossed.")
def audit() -> None:
    """Check and show the files that the setting `audit` has written."""


def _hash(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    lowered = tuple(text.strip().casefold() for text in given)
    for text in lowered:
        if not _HASH.fullmatch(text):
            raise click.BadParameter(f"{text!r} is not 64 hexadecimal digits")
    return lowered


@audit.command(short_help="Check that no line was changed or removed.")
@_file
@click.option(
    "--expect-tail",
    "expected",
    metavar="HASH",
    multiple=True,
    callback=_hash,
    help="The hash of a line that is known to have been there, from the log or a peer; without it "
    "a file whose end was cut off looks whole. May be given many times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(file: BinaryIO, expected: tuple[str, ...], as_json: bool) -> None:
    """Check that every line of FILE is unchanged and follows from the line before.

    Exits with 0 if so, and with 1 if a line was changed, removed, added or moved (the numbers of
    such lines are told), or an expected tail is not there.
    """
    from fed.transport import audit_check

    verdict = audit_check.verify(file, expected=expected)
    if as_json:
        click.echo(json.dumps(_plain(verdict)))
    else:
        _tell(verdict, file.name)
    sys.exit(0 if verdict.is_intact else 1)


def _time(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    """A time as lines have it, so that texts compare as times do."""
    if given is None:
        return None
    try:
        at = datetime.datetime.fromisoformat(given)
    except ValueError as error:
        raise click.BadParameter(f"{given!r} is not a time such as 2026-03-01T12:00") from error
    if at.tzinfo is None:
        at = at.replace(tzinfo=datetime.UTC)
    return f"{at.astimezone(datetime.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


@audit.command(short_help="Print the values that crossed.")
@_file
@click.option("--peer", metavar="PARTY", help="Only values to or from this party.")
@click.option("--way", type=click.Choice(["out", "in"]), help="Only values that left or entered.")
@click.option(
    "--outcome",
    type=click.Choice(["delivered", "refused", "lost", "unconfirmed"]),
    help="Only values with this outcome; unconfirmed: it left, and nothing says what became of it.",
)
@click.option("--call", type=click.IntRange(1), metavar="NUMBER", help="Only this call's values.")
@click.option("--name", metavar="PATTERN", help="Only for calls of this name, such as `Trainer.*`.")
@click.option("--type", "kind", metavar="PATTERN", help="Only values with such a type in them.")
@click.option("--session", metavar="ID", help="Only of this session.")
@click.option("--since", metavar="TIME", callback=_time, help="Not earlier; UTC if not said.")
@click.option("--until", metavar="TIME", callback=_time, help="Earlier than that.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def show(file: BinaryIO, as_json: bool, **wanted: str | int | None) -> None:
    """Print the values that FILE tells of, each with its outcome, oldest first.

    Hashes are not checked: that is `rayfed audit verify`. Lines that can't be read are named on
    stderr, and the exit code is then 1.
    """
    from fed.transport import audit_check

    code = 0
    for item in audit_check.values(file):
        if isinstance(item, audit_check.Problem):
            click.echo(f"{file.name}:{item.line}: {item.what}", err=True)
            code = 1
        elif _is_wanted(item, wanted):
            click.echo(json.dumps(_shown(item)) if as_json else _row(item))
    sys.exit(code)


def _plain(verdict: audit_check.Verdict) -> dict[str, object]:
    return {
        "intact": verdict.is_intact,
        "lines": verdict.lines,
        "tail": verdict.tail,
        "problems": [{"line": found.line, "what": found.what} for found in verdict.problems],
        "problems_left_out": verdict.problems_left_out,
        "expected": verdict.expected,
        "unfinished_lines": verdict.torn,
        "unfinished_tail": verdict.is_tail_torn,
        "sessions": [
            {
                "line": found.line,
                "started_at": found.header.time,
                "federation": found.header.federation,
                "party": found.header.party,
                "job": found.header.job,
                "session": found.header.session,
                "ended": found.is_ended,
                "out_values": found.totals.out_values,
                "out_bytes": found.totals.out_bytes,
                "in_values": found.totals.in_values,
                "in_bytes": found.totals.in_bytes,
                "unconfirmed": found.unconfirmed,
            }
            for found in verdict.sessions
        ],
    }


def _tell(verdict: audit_check.Verdict, name: str) -> None:
    from fed.transport import audit_lines

    for found in verdict.problems:
        click.echo(f"{name}:{found.line}: {found.what}")
    if verdict.problems_left_out:
        click.echo(f"{name}: and {verdict.problems_left_out} more")
    for text, line in verdict.expected.items():
        if line is None:
            click.echo(f"{name}: the expected tail {text} is not there: lines were cut or changed")
        else:
            after = verdict.lines - line
            click.echo(f"{name}:{line}: the expected tail is here; {after} lines follow")
    for line in verdict.torn:
        click.echo(f"{name}:{line}: note: unfinished, and marked so: the process crashed here")
    if verdict.is_tail_torn:
        click.echo(f"{name}:{verdict.lines}: note: unfinished: a crash, or it is being written")
    for session in verdict.sessions:
        totals, header = session.totals, session.header
        end = "" if session.is_ended else "; it has no end: it runs, crashed, or was cut off"
        left = f"; {session.unconfirmed} of them unconfirmed" if session.unconfirmed else ""
        whose = audit_lines.clean(f"session {header.session} of {header.party}, job {header.job}")
        click.echo(
            f"{name}:{session.line}: {audit_lines.clean(header.time)} {whose}: "
            f"{totals.out_values} values out ({totals.out_bytes} bytes){left}, "
            f"{totals.in_values} in ({totals.in_bytes} bytes){end}"
        )
    said = "every line follows from the one before" if verdict.is_intact else "NOT INTACT"
    click.echo(f"{name}: {said}; {verdict.lines} lines, tail {verdict.tail}")


def _is_wanted(item: audit_check.Shown, wanted: dict[str, str | int | None]) -> bool:
    value = item.value
    session = item.session.session if item.session is not None else None
    same = {
        "peer": value.peer,
        "way": value.way,
        "outcome": value.outcome,
        "call": value.call,
        "session": session,
    }
    if any(wanted[key] not in (None, found) for key, found in same.items()):
        return False
    name, kind = wanted["name"], wanted["kind"]
    if name is not None and not fnmatch.fnmatchcase(value.name, str(name)):
        return False
    types = (value.type, *value.inside)
    if kind is not None and not any(fnmatch.fnmatchcase(found, str(kind)) for found in types):
        return False
    since, until = wanted["since"], wanted["until"]
    return (since is None or value.time >= str(since)) and (
        until is None or value.time < str(until)
    )


def _shown(item: audit_check.Shown) -> dict[str, object]:
    """All that the line says, empty fields too, and where it stands."""
    value = item.value
    told = {name: getattr(value, name) for name in value.__struct_fields__}
    session = item.session.session if item.session is not None else None
    return {"line": item.line, "session": session, **told}


def _row(item: audit_check.Shown) -> str:
    from fed.transport import audit_lines

    value = item.value
    arrow = "->" if value.way == "out" else "<-"
    inside = f" of {', '.join(value.inside)}" if value.inside else ""
    more = f", {value.arrays_left_out} more" if value.arrays_left_out else ""
    arrays = f" {' '.join(value.arrays)}{more}" if value.arrays else ""
    rule = f": {value.rule}" if value.rule else ""
    digest = f" sha256:{value.digest[:16]}" if value.digest else ""
    return audit_lines.clean(  # the file may be somebody else's, and say anything
        f"{value.time} {arrow} {value.peer} call {value.call} {value.name} object {value.object}: "
        f"{value.type or 'not read'}{inside}{arrays}, {value.bytes} bytes{digest} "
        f"{value.outcome}{rule}",
        _ROW_LIMIT,
    )
