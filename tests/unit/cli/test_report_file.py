from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import click
import pytest

from fed.cli import report_file


def test_a_path_is_absolute_and_nothing_is_written_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert report_file.check("run.json") == tmp_path / "run.json"
    assert list(tmp_path.iterdir()) == []


def test_a_report_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("x" * 10_000)
    report_file.write(report_file.check(str(path)), {"a": 1})
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    report_file.write(report_file.check(str(link)), {"a": 1})
    assert link.is_symlink()
    assert json.loads(target.read_text()) == {"a": 1}


def test_a_pipe_gets_the_report(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()), daemon=True)
    reader.start()
    report_file.write(report_file.check(str(pipe)), {"a": 1})
    reader.join(30)
    assert json.loads(found[0]) == {"a": 1}


def test_a_report_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")
    (tmp_path / f".run.json.{os.getpid()}.new").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        report_file.write(path, {"a": 1})
    assert path.read_text() == "old"


def test_a_folder_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match="is a folder"):
        report_file.check(str(tmp_path))
    with pytest.raises(click.BadParameter, match="there is no folder"):
        report_file.check(str(tmp_path / "none" / "run.json"))
