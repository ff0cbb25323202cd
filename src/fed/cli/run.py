"""`rayfed run`: a script with its settings, progress while it runs, a report at its end."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fed import _version, errors, names
from fed.cli import exits, failures, report_file
from fed.cli import script as scripts
from fed.config import choices

if TYPE_CHECKING:
    from fed.observe import progress
    from fed.observe import report as reports


def _word(flag: str, words: Iterable[str], text: str) -> Callable[[Any], Any]:
    """An option for a setting of one word; the shell completes it, the setting checks it."""
    known = [str(word) for word in words]

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return click.option(flag, metavar=f"[{'|'.join(known)}]", shell_complete=complete, help=text)


@click.command(
    short_help="Run a federated script.",
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@_word("--mode", choices.Mode, "Who runs the script, and where the parties are.")
@click.option(
    "--parties",
    metavar="NAMES",
    help="The parties: `ALICE,BOB`, `server=1,client=1000`, or a number.",
)
@click.option("--seed", metavar="NUMBER", help="What fed.rng() is keyed by.")
@_word("--isolation", choices.Isolation, "How far simulated parties are kept apart.")
@click.option(
    "--fail-fast", is_flag=True, help="A failing body raises at .remote(), not at fed.get."
)
@_word("--error-detail", choices.ErrorDetail, "What is told of an error that a body raised.")
@click.option(
    "--set",
    "others",
    metavar="NAME=VALUE",
    multiple=True,
    help="Any other setting (docs/settings.md lists them); may be given many times.",
)
@click.option("--report", metavar="FILE.json", help="Write the run report there too.")
@click.option("--json", "as_json", is_flag=True, help="Print the run report on stdout's last line.")
@click.option("--log-json", is_flag=True, help="Write log lines as JSON objects.")
@click.argument("script", type=click.Path())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def run(
    script: str,
    arguments: tuple[str, ...],
    others: tuple[str, ...],
    report: str | None,
    *,
    as_json: bool,
    log_json: bool,
    fail_fast: bool,
    **given: str | None,
) -> None:
    """Run SCRIPT, with options that stand above what the script and federation.yaml say.

    What stands after SCRIPT belongs to the script. Parties are simulated in this process unless
    another mode is set. Progress and a report go to stderr; the exit code says how the run ended
    (docs/errors.md lists the codes).
    """
    options = _options(given, others, fail_fast=fail_fast)
    found = _parameter("script", scripts.read, script)
    file = _parameter("report", report_file.check, report) if report is not None else None
    sys.exit(
        _finished(
            _run(found, arguments, options, as_json=as_json, log_json=log_json),
            file=file,
            as_json=as_json,
            log_json=log_json,
        )
    )


def _parameter(name: str, check: Any, value: str) -> Any:
    """What `check` makes of a parameter's value; an error names the parameter."""
    context = click.get_current_context()
    try:
        return check(value)
    except click.BadParameter as error:
        error.ctx = context
        error.param = next(found for found in context.command.params if found.name == name)
        raise


def _options(
    given: dict[str, str | None], others: tuple[str, ...], *, fail_fast: bool
) -> dict[str, object]:
    """The settings that the command line gives, by name, each checked.

    Raises:
        UsageError: of click, if one is unknown, wrong or given twice.
    """
    from fed.config import layers, settings

    found: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if fail_fast:
        found["fail_fast"] = True
    for text in others:
        spelled, equals, value = text.partition("=")
        spelled = spelled.strip()
        by_key = settings.BY_KEY.get(spelled)
        name = by_key.name if by_key is not None else spelled.replace("-", "_")
        if name not in settings.FIELDS:
            known = [*settings.FIELDS, *settings.BY_KEY]
            raise click.UsageError(
                f"--set {text}: there is no setting {spelled!r}{names.did_you_mean(spelled, known)}"
            )
        if not equals or not value.strip():
            raise click.UsageError(f"--set {text}: no value; write --set {spelled}=VALUE")
        if name in found:
            raise click.UsageError(f"--set {text}: {name} is given twice; leave one out")
        found[name] = value
    for name, option in found.items():
        try:
            layers.from_run({name: option})
        except errors.ConfigError as error:
            flag = f"--{name.replace('_', '-')}" if name in {*given, "fail_fast"} else "--set"
            what = f"{flag} {name}" if flag == "--set" else flag
            fix = f". {error.fix}" if error.fix else ""
            raise click.UsageError(f"{what}: {error.problem}{fix}") from None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """How a run ended.

    Attributes:
        report: what it did.
        at_line_start: whether stdout's last line is complete.
    """

    report: reports.Report
    at_line_start: bool


def _run(
    script: scripts.Script,
    arguments: tuple[str, ...],
    options: dict[str, object],
    *,
    as_json: bool,
    log_json: bool,
) -> _Outcome:
    from fed import session
    from fed.observe import logs, memory, terminal
    from fed.observe import report as reports

    is_live = not log_json and terminal.is_live(sys.stderr, os.environ)
    screen = terminal.Screen(
        sys.stderr.fileno() if is_live else None,
        coloured=terminal.is_coloured(sys.stderr, os.environ),
    )
    watched = [name for name, is_wanted in [
        ("stdout", as_json or (is_live and sys.stdout.isatty())), ("stderr", is_live)
    ] if is_wanted]  # fmt: skip
    error: BaseException | None = None
    summaries: list[reports.Summary] = []
    started = datetime.datetime.now(datetime.UTC)
    began = time.monotonic()
    with _logging_to(logs.handler(as_json=log_json)):
        try:
            with (
                terminal.watching(screen, *watched),
                _progress(screen if is_live else None),
                session.launch(script.path, options, defaults={"values_digest": True}) as summaries,
            ):
                scripts.execute(script, arguments)
        except BaseException as raised:  # noqa: BLE001  (this is the outermost block of the run)
            error = raised
        wall_s = time.monotonic() - began
        if error is not None:
            failures.show(error)
    code, ended = _ending(error, summaries)
    is_failure = error is not None and not isinstance(error, SystemExit | KeyboardInterrupt)
    return _Outcome(
        report=reports.Report(
            version=_version.__version__,
            script=str(script.path),
            started_at=started.isoformat(timespec="milliseconds"),
            wall_s=wall_s,
            peak_memory_bytes=memory.peak_bytes(),
            exit_code=code,
            ended=ended,
            error_type=type(error).__qualname__ if is_failure else None,
            error=str(error) if is_failure else None,
            sessions=tuple(summaries),
        ),
        at_line_start=screen.at_line_start,
    )


def _ending(error: BaseException | None, summaries: list[reports.Summary]) -> tuple[int, str]:
    """The exit code, and why in words."""
    code = exits.DONE if error is None else exits.of_error(error)
    unread = sum(summary.unread_count for summary in summaries)
    if code == exits.DONE and unread:
        return exits.UNREAD_ERRORS, "calls failed and nobody read their errors"
    if isinstance(error, KeyboardInterrupt):
        return code, "interrupted"
    if isinstance(error, SystemExit):
        return code, "the script's own" if code else ""
    return code, type(error).__qualname__ if error is not None else ""


def _finished(outcome: _Outcome, *, file: Path | None, as_json: bool, log_json: bool) -> int:
    """Hand out the report; the exit code."""
    from fed.observe import logs

    report = outcome.report
    try:
        sys.stdout.flush()
    except OSError as error:
        click.echo(f"Error: stdout can't be written: {error.strerror or error}", err=True)
        # Python tries again when it ends; nobody is to be told twice.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if report.exit_code == exits.DONE:
            report = dataclasses.replace(
                report, exit_code=exits.FAILED, ended="stdout could not be written"
            )
    if file is not None:
        try:
            report_file.write(file, report.as_json())
        except OSError as error:
            click.echo(f"Error: the report was not written to {file}: {error}", err=True)
            if report.exit_code == exits.DONE:
                report = dataclasses.replace(
                    report, exit_code=exits.REPORT_LOST, ended="the report was not written"
                )
    at_line_start = outcome.at_line_start
    if log_json:
        click.echo(logs.json_line("run report", report=report.as_json()), err=True)
    else:
        if not at_line_start and sys.stdout.isatty():
            click.echo()
            at_line_start = True
        click.echo(report.text(), err=True)
    if as_json:
        click.echo(("" if at_line_start else "\n") + json.dumps(report.as_json()))
    return report.exit_code


@contextlib.contextmanager
def _logging_to(handler: logging.Handler) -> Iterator[None]:
    """Within the block, the package's log lines go to `handler`; other loggers are left alone."""
    logger = logging.getLogger("fed")
    level = logger.level
    logger.addHandler(handler)
    if level == logging.NOTSET:
        logger.setLevel(logging.INFO)  # until a session says what its setting log_level says
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextlib.contextmanager
def _progress(live: progress.Line | None) -> Iterator[None]:
    from fed.observe import progress

    watcher = progress.Watcher(_sample, live)
    watcher.start()
    try:
        yield
    finally:
        watcher.stop()


def _sample() -> progress.Sample | None:
    """The counters of the session in use; looks at plain attributes only, in another thread."""
    from fed.model import engine as port
    from fed.observe import progress

    engine = port.slot.engine
    if engine is None:
        return None
    done, total = getattr(engine, "progressed", None) or (None, None)
    return progress.Sample(
        calls=engine.ledger.number,
        parties=getattr(engine, "parties_seen", None),
        done=done,
        total=total,
    )
