"""Log records as lines: text for a person, JSON for a program; `extra` fields are kept in both."""

from __future__ import annotations

import datetime
import json
import logging
import sys
from typing import Any, Final

#: Attributes that every record has; whatever else stands in one came by `extra`.
_OWN: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})

#: Fields that say whose a line is come first, in this order.
_FIRST: Final = ("job", "party", "node")


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields given by `extra`: job, party and node first, then the others as they came."""
    given = {name: value for name, value in vars(record).items() if name not in _OWN}
    first: dict[str, Any] = {name: given.pop(name) for name in _FIRST if name in given}
    return {**first, **given}


def _time(record: logging.LogRecord) -> str:
    """UTC, since lines of parties in several places are read side by side."""
    at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03}Z"


class TextFormatter(logging.Formatter):
    """`2026-03-01T12:00:00.250Z WARNING party=ALICE slow link bytes=12`.

    Fields that say whose the line is stand before the message, the others after it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where the record has one."""
        given = fields(record)
        whose = [f"{name}={_shown(given.pop(name))}" for name in _FIRST if name in given]
        rest = [f"{name}={_shown(value)}" for name, value in given.items()]
        head = f"{_time(record)} {record.levelname:<7}"
        lines = [" ".join([head, *whose, record.getMessage(), *rest])]
        if record.exc_info:
            lines.append(self.formatException(record.exc_info))
        if record.stack_info:
            lines.append(self.formatStack(record.stack_info))
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the fields, and `traceback`.

    A field with the name of one of those is kept as `field_NAME`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line without a newline in it."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        for name, value in fields(record).items():
            line[f"field_{name}" if name in line else name] = value
        return json.dumps(line, default=str)


def json_line(message: str, **given: Any) -> str:
    """A line as `JsonFormatter` makes them, of what is said now and is no log record."""
    record = logging.LogRecord("fed", logging.INFO, "", 0, message, None, None)
    vars(record).update(given)
    return JsonFormatter().format(record)


def _shown(value: object) -> str:
    text = str(value)
    is_plain = text and text.isprintable() and not any(mark in text for mark in ' "=')
    return text if is_plain else json.dumps(text)


class StderrHandler(logging.Handler):
    """Writes to what `sys.stderr` is at that moment.

    Steps back where the script has set up logging for itself: when the root logger writes to the
    terminal too, each line would stand there twice.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's line, unless the root logger does."""
        if _root_writes():
            return
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001  (logging's own way: a bad record must not end the run)
            self.handleError(record)


def _root_writes() -> bool:
    streams = (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
    return any(getattr(found, "stream", None) in streams for found in logging.getLogger().handlers)


def handler(*, as_json: bool) -> logging.Handler:
    """A handler that writes lines to stderr."""
    made = StderrHandler()
    made.setFormatter(JsonFormatter() if as_json else TextFormatter())
    return made
