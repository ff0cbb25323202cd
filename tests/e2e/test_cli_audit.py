"""`rayfed audit` on files that a party wrote."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tests.e2e import command

from fed.codec import types
from fed.transport import audit, audit_lines, contents

PAYLOAD = b"bytes of a value"
SHA = hashlib.sha256(PAYLOAD).hexdigest()


class Ticks:
    """A clock that goes on by a minute at each look."""

    def __init__(self) -> None:
        self.now_ns = 1_772_366_400_000_000_000

    def __call__(self) -> int:
        self.now_ns += 60_000_000_000
        return self.now_ns


def _crossing(value: object, **more: object) -> audit.Crossing:
    given = {"peer": "BOB", "call": 4, "name": "mean", "made_by": 2, "index": 0, **more}
    made = contents.of(value, types=types.UserTypes(None, None))
    return audit.Crossing(size_bytes=len(PAYLOAD), value=made, **given)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> command.Folder:
    """A folder with `audit.jsonl`: one session of five values, one of which has no outcome."""
    auditor = audit.Auditor(
        audit.File.open(tmp_path / "audit.jsonl"),
        federation="clinics", party="ALICE", job="job", session="s1", clock_ns=Ticks(),
    )  # fmt: skip
    sent = auditor.leaving(_crossing({"a": 1.5}))
    sent.digest.update(PAYLOAD)
    sent.delivered()
    auditor.entered(_crossing([1], call=5, name="get", peer="CAROL"), digest=SHA)
    auditor.refused("out", _crossing((), call=6, name="Trainer.train"), rule="by \x1b[31mpolicy")
    auditor.leaving(_crossing(b"", call=7))
    auditor.close()
    return command.Folder(tmp_path)


def _lines(folder: command.Folder) -> list[bytes]:
    return (folder.path / "audit.jsonl").read_bytes().splitlines(keepends=True)


def _write(folder: command.Folder, lines: list[bytes]) -> None:
    (folder.path / "audit.jsonl").write_bytes(b"".join(lines))


def _tail(folder: command.Folder) -> str:
    return str(json.loads(_lines(folder)[-1])["hash"])


def test_an_intact_file(folder: command.Folder) -> None:
    ended = folder.rayfed("audit", "verify", "audit.jsonl")
    assert (ended.code, ended.stderr) == (0, "")
    session, last = ended.stdout.splitlines()
    assert "session s1 of ALICE, job job: 2 values out (32 bytes); 1 of them unconfirmed" in session
    assert last.endswith(f"every line follows from the one before; {len(_lines(folder))} lines, "
                         f"tail {_tail(folder)}")  # fmt: skip
    told = json.loads(folder.rayfed("audit", "verify", "audit.jsonl", "--json").stdout)
    assert (told["intact"], told["tail"], told["problems"]) == (True, _tail(folder), [])
    (found,) = told["sessions"]
    assert (found["out_values"], found["in_values"], found["ended"]) == (2, 1, True)


def test_a_change_is_told_with_its_line(folder: command.Folder) -> None:
    lines = _lines(folder)
    lines[2] = lines[2].replace(b'"bytes":16', b'"bytes":17')
    _write(folder, lines)
    ended = folder.rayfed("audit", "verify", "audit.jsonl")
    assert ended.code == 1
    assert "audit.jsonl:3: it was changed" in ended.stdout
    assert "NOT INTACT" in ended.stdout
    told = json.loads(folder.rayfed("audit", "verify", "audit.jsonl", "--json").stdout)
    assert [problem["line"] for problem in told["problems"]] == [3]


def test_a_cut_end_is_found_by_the_expected_tail(folder: command.Folder) -> None:
    tail = _tail(folder)
    arguments = ["audit", "verify", "audit.jsonl", "--expect-tail", tail.upper()]
    ended = folder.rayfed(*arguments)
    assert (ended.code, "the expected tail is here; 0 lines follow" in ended.stdout) == (0, True)
    _write(folder, _lines(folder)[:-2])
    cut = folder.rayfed("audit", "verify", "audit.jsonl")
    assert (cut.code, "it has no end" in cut.stdout) == (0, True)
    ended = folder.rayfed(*arguments)
    assert (ended.code, f"the expected tail {tail} is not there" in ended.stdout) == (1, True)


def _calls(folder: command.Folder, *options: str) -> list[int]:
    ended = folder.rayfed("audit", "show", "audit.jsonl", "--json", *options)
    assert (ended.code, ended.stderr) == (0, "")
    return [json.loads(line)["call"] for line in ended.stdout.splitlines()]


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ("", [4, 5, 6, 7]),
        ("--peer CAROL", [5]),
        ("--way out", [4, 6, 7]),
        ("--outcome refused", [6]),
        ("--outcome unconfirmed", [7]),
        ("--call 6", [6]),
        ("--name Trainer.*", [6]),
        ("--type float", [4]),
        ("--type l*", [5]),
        ("--session s1", [4, 5, 6, 7]),
        ("--session s2", []),
        ("--since 2026-03-01T13:03+01:00", [4, 5, 6, 7]),
        ("--since 2026-03-01T12:05", [6, 7]),
        ("--until 2026-03-01T12:05 --way in", [5]),
    ],
)
def test_filters(folder: command.Folder, options: str, calls: list[int]) -> None:
    assert _calls(folder, *options.split()) == calls


def test_rows_are_for_people_and_harmless(folder: command.Folder) -> None:
    rows = folder.rayfed("audit", "show", "audit.jsonl").stdout.splitlines()
    assert "-> BOB call 4 mean object 2.0: dict of float, str, 16 bytes" in rows[0]
    assert f"sha256:{SHA[:16]} delivered" in rows[0]
    assert "<- CAROL call 5 get" in rows[1]
    assert rows[2].endswith("refused: by ?[31mpolicy")
    lines = _lines(folder)  # somebody else's file may hold what ours never does
    record = audit_lines.read(lines[-2].strip())
    assert record is not None
    _write(folder, [lines[4].replace(b"by ?", b"by \\u001b")])
    assert "\x1b" not in folder.rayfed("audit", "show", "audit.jsonl").stdout


def test_lines_that_can_not_be_read_are_named(folder: command.Folder) -> None:
    _write(folder, [*_lines(folder), b"garbage\n"])
    ended = folder.rayfed("audit", "show", "audit.jsonl")
    assert ended.code == 1
    assert ended.stderr == f"audit.jsonl:{len(_lines(folder))}: it is no audit line\n"
    assert len(ended.stdout.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["verify", "none.jsonl"], "No such file"),
        (["verify", "."], "directory"),
        (["verify", "audit.jsonl", "--expect-tail", "abc"], "'abc' is not 64 hexadecimal digits"),
        (["show", "audit.jsonl", "--since", "noon"], "'noon' is not a time such as 2026-03-01"),
        (["show", "audit.jsonl", "--call", "0"], "0 is not in the range"),
        (["verfy", "audit.jsonl"], "No such command 'verfy'"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_told(
    folder: command.Folder, arguments: list[str], told: str
) -> None:
    ended = folder.rayfed("audit", *arguments)
    assert ended.code == 2
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
