"""docs/cli.md says what the command has, and no more."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import click
import pytest

from fed.cli import main, run
from fed.observe import report

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text()


def _rows(after: str) -> set[str]:
    """The first cells of the first table after a text."""
    table = re.search(r"\n((?:\|.*\n)+)", PAGE[PAGE.index(after) :])
    assert table is not None
    return set(re.findall(r"^\| `(.+?)` \|", table[1], re.MULTILINE))


def test_every_command_has_a_heading() -> None:
    headings = set(re.findall(r"^## `rayfed (\w+)`$", PAGE, re.MULTILINE))
    assert headings == set(main.cli.commands)


def test_every_option_of_run_is_there() -> None:
    options = {
        name for param in run.run.params if isinstance(param, click.Option) for name in param.opts
    }
    assert _rows("## `rayfed run`") == options


@pytest.mark.parametrize(
    ("after", "cls", "more"),
    [("### The report", report.Report, {"schema"}), ("Each session:", report.Summary, set())],
)
def test_every_field_of_the_report_is_there(after: str, cls: type, more: set[str]) -> None:
    assert _rows(after) == {field.name for field in dataclasses.fields(cls)} | more


def test_the_schema_is_the_codes() -> None:
    assert f"`{report.SCHEMA}`" in PAGE
