from __future__ import annotations

import dataclasses
import json
from typing import Any

from fed.observe import report

SESSION = report.Summary(
    mode="simulation",
    parties=1001,
    calls=12345,
    crossed_values=10,
    crossed_bytes=2048,
    got_values=1,
    spilled_bytes=0,
    program_digest="ab" * 32,
    values_digest="cd" * 32,
    unread={},
    unread_count=0,
)


def made(**changed: Any) -> report.Report:
    whole: dict[str, Any] = {
        "version": "1.0",
        "script": "/x/script.py",
        "started_at": "2026-01-01T00:00:00.000+00:00",
        "wall_s": 2.0,
        "peak_memory_bytes": 2**20,
        "exit_code": 0,
        "ended": "",
        "error_type": None,
        "error": None,
        "sessions": (SESSION,),
    }
    return report.Report(**{**whole, **changed})


def test_the_text() -> None:
    assert made().text().splitlines() == [
        "run report",
        "  script          /x/script.py",
        "  mode            simulation",
        "  parties         1,001",
        "  calls           12,345 (6,172 a second)",
        "  passed on       10 values, 2.0 KiB between parties",
        "  got             1 value",
        f"  program digest  {'ab' * 32}",
        f"  values digest   {'cd' * 32}",
        "  peak memory     1.0 MiB",
        "  wall time       2.00 s",
    ]


def test_the_json_form_is_plain_and_named() -> None:
    found = json.loads(json.dumps(made().as_json()))
    assert found["schema"] == "rayfed.run-report/1"
    assert found["sessions"] == [dataclasses.asdict(SESSION)]
    assert found["wall_s"] == 2.0


def test_unread_errors_are_shown_up_to_five_and_the_rest_counted() -> None:
    unread = {f"{n}#0": f"error {n}\nsecond line" for n in range(1, 8)}
    session = dataclasses.replace(SESSION, unread=unread, unread_count=1500)
    text = made(sessions=(session,), exit_code=3, ended="unread").text()
    assert "  unread errors   1,500\n" in text
    assert "  1#0: error 1\n" in text
    assert "    second line\n" in text
    assert "5#0: error 5" in text
    assert "6#0" not in text
    assert "and 1,495 more" in text
    assert text.endswith("exit code       3: unread")


def test_long_texts_are_clipped_in_both_forms() -> None:
    session = dataclasses.replace(SESSION, unread={"1#0": "x" * 50_000}, unread_count=1)
    whole = made(sessions=(session,), error="y" * 50_000, error_type="E")
    assert len(whole.text()) < 2_000
    found = whole.as_json()
    assert found["error"] == "y" * 10_000 + "... (40,000 characters more)"
    assert len(found["sessions"][0]["unread"]["1#0"]) < 11_000
    assert session.unread["1#0"] == "x" * 50_000


def test_a_run_without_a_session_says_so() -> None:
    assert "none: the script did not come past fed.init" in made(sessions=()).text()


def test_several_sessions_are_told_apart() -> None:
    text = made(sessions=(SESSION, SESSION)).text()
    assert "  session 1       of 2\n" in text
    assert "  session 2       of 2\n" in text
    assert "a second" not in text
