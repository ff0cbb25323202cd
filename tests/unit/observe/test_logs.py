from __future__ import annotations

import io
import json
import logging
import sys
from typing import Any

import pytest

from fed.observe import logs


def record(message: str = "node ready", *arguments: Any, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("fed.x", logging.WARNING, "", 0, message, arguments, None)
    made.created, made.msecs = 0.25, 250.0
    vars(made).update(extra)
    return made


def test_a_line_has_time_level_whose_it_is_and_the_fields() -> None:
    line = logs.TextFormatter().format(record("took %d", 3, bytes=12, party="ALICE", job="j 1"))
    assert line == '1970-01-01T00:00:00.250Z WARNING job="j 1" party=ALICE took 3 bytes=12'


@pytest.mark.parametrize(
    ("value", "shown"),
    [("", '""'), ("a=b", '"a=b"'), ("a\nb", '"a\\nb"'), ('"', '"\\""'), (None, "None")],
)
def test_a_field_stays_one_word(value: object, shown: str) -> None:
    assert logs.TextFormatter().format(record(x=value)).endswith(f" x={shown}")


def test_a_json_line_has_the_same_as_fields() -> None:
    line = logs.JsonFormatter().format(record("took %d", 3, bytes=12, party="ALICE"))
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "warning",
        "logger": "fed.x",
        "message": "took 3",
        "party": "ALICE",
        "bytes": 12,
    }


def test_a_json_line_stays_one_line_and_loses_no_field() -> None:
    made = record("a\nb", level="mine", path=object())
    found = json.loads(logs.JsonFormatter().format(made))
    assert found["level"] == "warning"
    assert found["field_level"] == "mine"
    assert found["path"].startswith("<object")
    assert "\n" not in logs.JsonFormatter().format(made)


@pytest.mark.parametrize("formatter", [logs.TextFormatter(), logs.JsonFormatter()])
def test_a_traceback_is_kept(formatter: logging.Formatter) -> None:
    made = record()
    try:
        raise ValueError("boom")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: boom" in formatter.format(made)


def test_what_is_no_record_can_be_a_line_too() -> None:
    found = json.loads(logs.json_line("run report", report={"a": 1}))
    assert (found["message"], found["report"], found["level"]) == ("run report", {"a": 1}, "info")


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    found = logging.getLogger()
    monkeypatch.setattr(found, "handlers", [])
    return found


def test_lines_go_to_stderr_as_it_is_then(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = logs.handler(as_json=False)
    later = io.StringIO()
    monkeypatch.setattr(sys, "stderr", later)
    handler.handle(record())
    assert later.getvalue().endswith(" node ready\n")


@pytest.mark.parametrize(("stream", "lines"), [("stderr", 0), ("file", 1)])
def test_it_steps_back_where_the_root_logger_writes_there(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch, stream: str, lines: int
) -> None:
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    root.handlers.append(logging.StreamHandler(told if stream == "stderr" else io.StringIO()))
    logs.handler(as_json=False).handle(record())
    assert len(told.getvalue().splitlines()) == lines
