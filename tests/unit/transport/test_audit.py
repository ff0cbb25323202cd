"""The audit file: what its lines say, that it fails closed, and that every change is found."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import logging
import os
import stat
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed import errors
from fed.codec import types
from fed.transport import audit, audit_check, audit_lines, contents

USER = types.UserTypes(None, None)
PAYLOAD = b"payload of a value"
SIZE = len(PAYLOAD)
SHA = hashlib.sha256(PAYLOAD).hexdigest()


class Clock:
    """Nanoseconds since 1970 that pass only when told."""

    def __init__(self) -> None:
        self.now_ns = 1_772_366_400_000_000_000

    def __call__(self) -> int:
        return self.now_ns


def _crossing(call=7, *, peer="BOB", size=SIZE, value=("secret", 1.5), **more):
    given = {"name": "mean", "made_by": 3, "index": 0, **more}
    made = None if value is None else contents.of(value, types=USER)
    return audit.Crossing(peer=peer, call=call, size_bytes=size, value=made, **given)


def _auditor(path, *, session="s1", write=os.write, clock=None, **more):
    return audit.Auditor(
        audit.File.open(path, write=write),
        federation="clinics",
        party="ALICE",
        job="job",
        session=session,
        clock_ns=clock or Clock(),
        **more,
    )


def _send(auditor, **more):
    passage = auditor.leaving(_crossing(**more))
    passage.digest.update(PAYLOAD)
    passage.delivered()


def _verify(data, expected=()):
    if not isinstance(data, bytes):
        data = data.read_bytes()
    return audit_check.verify(io.BytesIO(data), expected=expected)


def _records(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


# What the lines say.


def test_a_value_that_leaves_has_a_line_before_and_one_after(path) -> None:
    clock = Clock()
    with _auditor(path, clock=clock) as auditor:
        clock.now_ns += 250_000_000
        passage = auditor.leaving(_crossing())
        assert len(_records(path)) == 2  # before anything was sent
        passage.digest.update(PAYLOAD[:5])
        passage.digest.update(memoryview(PAYLOAD)[5:])
        passage.delivered()
    header, leaving, delivered, end = _records(path)
    chain = {"prev", "hash"}
    assert {name: header[name] for name in header if name not in chain} == {
        "kind": "session",
        "version": 1,
        "time": "2026-03-01T12:00:00.000000Z",
        "federation": "clinics",
        "party": "ALICE",
        "job": "job",
        "session": "s1",
    }
    told = {
        "kind": "value",
        "time": "2026-03-01T12:00:00.250000Z",
        "way": "out",
        "id": 1,
        "peer": "BOB",
        "job": "job",
        "call": 7,
        "name": "mean",
        "object": "3.0",
        "type": "tuple",
        "inside": ["float", "str"],
        "bytes": len(PAYLOAD),
    }
    assert {n: leaving[n] for n in leaving if n not in chain} == {**told, "outcome": "leaving"}
    assert {n: delivered[n] for n in delivered if n not in chain} == {
        **told,
        "outcome": "delivered",
        "digest": SHA,
    }
    totals = {"lines": 2, "out_values": 1, "out_bytes": 18, "in_values": 0, "in_bytes": 0}
    assert (end["kind"], end["totals"]) == ("end", totals)
    assert header["prev"] == audit_lines.GENESIS
    assert [leaving["prev"], delivered["prev"], end["prev"]] == [
        header["hash"],
        leaving["hash"],
        delivered["hash"],
    ]


def test_values_that_enter_and_refusals(path) -> None:
    with _auditor(path) as auditor:
        auditor.entered(_crossing(peer="CAROL"), digest=SHA)
        auditor.refused(audit_lines.IN, _crossing(value=None), rule="too large\x1b[31m\u202e")
        auditor.leaving(_crossing()).refused("its policy")
        auditor.leaving(_crossing()).lost("the link ended")
    entered, refused, _, told, _, lost = _records(path)[1:-1]
    assert (entered["way"], entered["outcome"], entered["digest"]) == ("in", "delivered", SHA)
    assert entered["peer"] == "CAROL"
    assert (refused["way"], refused["outcome"]) == ("in", "refused")
    assert refused["rule"] == "too large?[31m?"
    assert "type" not in refused
    assert (told["way"], told["outcome"], told["rule"]) == ("out", "refused", "its policy")
    assert "digest" not in told
    assert (lost["outcome"], lost["rule"]) == ("lost", "the link ended")
    assert _verify(path).is_intact


def test_nothing_of_a_values_content_is_in_it(path) -> None:
    with _auditor(path) as auditor:
        _send(auditor, value={"patient": ["Smith", 4711], b"key": ("Jones",)})
    text = path.read_text()
    assert not [word for word in ("patient", "Smith", "4711", "key", "Jones") if word in text]


def test_a_line_is_bounded(path) -> None:
    many = {f"T{n}": type(f"T{n}" + "\u4e2d" * 5000, (), {})() for n in range(100)}
    with _auditor(path) as auditor:
        _send(auditor, value=many, name="f" * 10**6)
    assert max(map(len, path.read_bytes().splitlines())) < audit_lines.MAX_LINE_BYTES
    assert _verify(path).is_intact


# The digest.


def test_chunks_that_are_sent_again_are_taken_once() -> None:
    digest = audit.Digest()
    digest.update(PAYLOAD[:10], offset=0)
    digest.update(PAYLOAD[4:8], offset=4)
    digest.update(PAYLOAD[4:], offset=4)
    assert (digest.hex(), digest.size_bytes) == (SHA, len(PAYLOAD))
    with pytest.raises(ValueError, match="bytes 18 to 20 of the value are missing"):
        digest.update(b"x", offset=20)


def test_a_delivery_without_the_whole_digest_is_refused(path) -> None:
    with _auditor(path) as auditor:
        passage = auditor.leaving(_crossing())
        passage.digest.update(PAYLOAD[:4])
        with pytest.raises(ValueError, match="4 of 18 bytes"):
            passage.delivered()


def test_the_first_outcome_stands(path) -> None:
    with _auditor(path) as auditor:
        passage = auditor.leaving(_crossing())
        passage.lost("cut")
        passage.refused("late")
    assert [line["kind"] for line in _records(path)] == ["session", "value", "value", "end"]


# Fails closed.


class Disk:
    """A disk with a number of bytes left."""

    def __init__(self, left: int) -> None:
        self.left = left

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = os.write(descriptor, data[: self.left])
        self.left -= taken
        return taken


def test_on_a_full_disk_nothing_leaves_and_the_file_stays_whole(path) -> None:
    disk = Disk(1 << 20)
    auditor = _auditor(path, write=disk.write)
    _send(auditor)
    before = path.read_bytes()
    disk.left = 100  # less than a line
    with pytest.raises(errors.TransportError) as caught:
        auditor.leaving(_crossing(call=9))
    assert caught.value.party == "BOB"
    for part in ("the value 3.0 for call 9 (mean)", "may not cross", str(path), "No space left"):
        assert part in str(caught.value)
    with pytest.raises(errors.TransportError):
        auditor.entered(_crossing(), digest=SHA)
    assert path.read_bytes() == before
    disk.left = 1 << 20
    _send(auditor)
    auditor.close()
    assert _verify(path).is_intact


def test_what_can_not_be_taken_back_ends_the_session_and_is_marked_by_the_next(
    path, monkeypatch
) -> None:
    disk = Disk(1 << 20)
    auditor = _auditor(path, write=disk.write)

    def refuse(*_):
        raise OSError(errno.EPERM, "append only")

    monkeypatch.setattr(os, "ftruncate", refuse)
    disk.left = 100
    with pytest.raises(errors.TransportError):
        auditor.leaving(_crossing())
    disk.left = 1 << 20
    with pytest.raises(errors.TransportError):
        auditor.leaving(_crossing())
    with pytest.raises(errors.ConfigError):
        auditor.close()
    assert not path.read_bytes().endswith(b"\n")
    with _auditor(path, session="s2") as auditor:
        _send(auditor)
    verdict = _verify(path)
    assert (verdict.is_intact, verdict.torn) == (True, [2])


def test_after_a_failed_sync_nothing_crosses(path, monkeypatch, caplog) -> None:
    auditor = _auditor(path)
    _send(auditor)

    def fail(_):
        raise OSError(errno.EIO, "bad block")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        assert auditor.flush() is False
    assert "nothing crosses any more" in caplog.text
    assert auditor.flush() is False  # the system said it once and would not again
    with pytest.raises(errors.TransportError, match="bad block"):
        auditor.leaving(_crossing())
    with pytest.raises(errors.ConfigError, match="bad block"):
        auditor.close()


def test_synced_means_that_a_value_waits_for_the_disk(path, monkeypatch) -> None:
    auditor = _auditor(path, is_synced=True)
    synced = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.stat().st_size))
    passage = auditor.leaving(_crossing())
    assert synced == [path.stat().st_size]
    passage.lost("cut")
    assert len(synced) == 1  # nothing waits for that
    auditor.entered(_crossing(), digest=SHA)
    assert synced[1:] == [path.stat().st_size]
    auditor.close()


@pytest.mark.parametrize("change", ["cut", "grow", "delete"])
def test_a_file_that_others_change_is_not_written_any_more(path, change) -> None:
    auditor = _auditor(path)
    _send(auditor)
    if change == "cut":
        os.truncate(path, 10)
    elif change == "grow":
        with path.open("ab") as file:
            file.write(b"more\n")
    else:
        path.unlink()
    with pytest.raises(errors.TransportError, match=r"deleted|changed by somebody else"):
        auditor.leaving(_crossing())
    with pytest.raises(errors.ConfigError):
        auditor.close()


def test_after_the_end_nothing_is_recorded(path) -> None:
    auditor = _auditor(path)
    auditor.close()
    auditor.close()
    with pytest.raises(errors.TransportError, match="it was closed"):
        auditor.leaving(_crossing())
    assert _verify(path).sessions[0].is_ended


def test_the_thread_that_flushes_ends_with_the_session(path) -> None:
    auditor = _auditor(path)
    auditor.start()
    thread = auditor._flusher
    assert thread is not None
    auditor.close()
    thread.join(timeout=10)
    assert not thread.is_alive()


# Opening.


def test_a_new_file_is_the_owners_alone(path) -> None:
    _auditor(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_processes_do_not_write_to_one_file(path) -> None:
    with _auditor(path):
        program = (
            "import sys, pathlib\n"
            "from fed import errors\n"
            "from fed.transport import audit\n"
            "try:\n"
            "    audit.File.open(pathlib.Path(sys.argv[1]))\n"
            "except errors.ConfigError as error:\n"
            "    print(error)\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", program, str(path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "another process writes to it" in told.stdout, told.stderr
    _auditor(path, session="s2").close()  # the lock went with the file
    assert _verify(path).is_intact


def _refused(path) -> str:
    with pytest.raises(errors.ConfigError) as caught:
        _auditor(path)
    assert caught.value.key == "audit"
    return str(caught.value)


def test_what_is_no_audit_file_is_left_alone(path, tmp_path) -> None:
    for content in (b"import fed\n", b"x", b"\n", b'{"kind":"other"}\n', b"a\n" * 200_000):
        path.write_bytes(content)
        path.chmod(0o600)
        assert "does not end as an audit file does" in _refused(path)
        assert path.read_bytes() == content
    assert "can't be opened: No such file" in _refused(tmp_path / "missing" / "audit.jsonl")
    assert "can't be opened" in _refused(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "no plain file" in _refused(tmp_path / "pipe")


def test_a_file_that_others_may_change_is_refused(path) -> None:
    _auditor(path).close()
    path.chmod(0o620)
    assert "others may change it (mode 0620). chmod 600" in _refused(path)


def test_a_changed_last_line_is_not_written_after(path) -> None:
    _auditor(path).close()
    data = path.read_bytes().replace(b'"out_values":0', b'"out_values":1')
    path.write_bytes(data)
    assert "its last line was changed" in _refused(path)


# Several sessions, and crashes.


def test_sessions_follow_one_another_in_one_file(path) -> None:
    for session in ("s1", "s2", "s3"):
        with _auditor(path, session=session) as auditor:
            _send(auditor)
    verdict = _verify(path)
    assert verdict.is_intact
    assert [(found.line, found.header.session) for found in verdict.sessions] == [
        (1, "s1"),
        (5, "s2"),
        (9, "s3"),
    ]
    assert all(found.is_ended and found.totals.out_values == 1 for found in verdict.sessions)
    assert verdict.tail == _records(path)[-1]["hash"]


def test_a_crash_is_seen_but_is_no_break(path) -> None:
    auditor = _auditor(path)
    auditor.leaving(_crossing())
    auditor._file.close()  # no end, no outcome
    with _auditor(path, session="s2") as auditor:
        _send(auditor)
    verdict = _verify(path)
    assert verdict.is_intact
    assert [(found.is_ended, found.unconfirmed) for found in verdict.sessions] == [
        (False, 1),
        (True, 0),
    ]


def _file_of_two_sessions(path) -> bytes:
    with _auditor(path) as auditor:
        _send(auditor)
        auditor.entered(_crossing(), digest=SHA)
    with _auditor(path, session="s2") as auditor:
        _send(auditor)
    data = path.read_bytes()
    path.unlink()
    return data


@given(data=st.data())
def test_a_crash_at_any_byte_is_continued_and_marked(tmp_path_factory, data) -> None:
    path = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    content = _file_of_two_sessions(path)
    for number in range(data.draw(st.integers(1, 3))):
        cut = data.draw(st.integers(1, len(content)))
        whole, _, torn = content[:cut].rpartition(b"\n")
        path.write_bytes(content[:cut])
        path.chmod(0o600)
        before = _verify(path)
        # Between the line feed after an unfinished line and its mark it looks like damage.
        assert before.is_intact or not torn
        assert before.is_tail_torn is bool(torn and audit_lines.read(torn) is None)
        with _auditor(path, session=f"after {number}") as auditor:
            _send(auditor)
        content = path.read_bytes()
        assert content.startswith(whole + b"\n" * bool(whole) + torn)  # kept
        verdict = _verify(content)
        assert verdict.is_intact, verdict.problems
        assert not verdict.is_tail_torn
        assert verdict.sessions[-1].header.session == f"after {number}"


# Every change is found.


@given(data=st.data())
def test_a_changed_byte_is_found_with_its_line(tmp_path_factory, data) -> None:
    content = _file_of_two_sessions(tmp_path_factory.mktemp("audit") / "audit.jsonl")
    at = data.draw(st.integers(0, len(content) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[at]))
    verdict = _verify(content[:at] + bytes([byte]) + content[at + 1 :])
    assert not verdict.is_intact
    assert verdict.problems[0].line == content.count(b"\n", 0, at) + 1


@given(data=st.data())
def test_removed_moved_and_repeated_lines_are_found(tmp_path_factory, data) -> None:
    content = _file_of_two_sessions(tmp_path_factory.mktemp("audit") / "audit.jsonl")
    lines = content.splitlines(keepends=True)
    first = data.draw(st.integers(0, len(lines) - 2))
    last = data.draw(st.integers(first, len(lines) - 2))
    removed = _verify(b"".join(lines[:first] + lines[last + 1 :]))
    assert (removed.is_intact, removed.problems[0].line) == (False, first + 1)
    repeated = _verify(b"".join(lines[: last + 1] + lines[first:]))
    assert (repeated.is_intact, repeated.problems[0].line) == (False, last + 2)
    if first != last:
        lines[first], lines[last] = lines[last], lines[first]
        moved = _verify(b"".join(lines))
        assert (moved.is_intact, moved.problems[0].line) == (False, first + 1)


@given(data=st.data())
def test_a_cut_end_is_found_by_a_tail_known_from_elsewhere(tmp_path_factory, data) -> None:
    content = _file_of_two_sessions(tmp_path_factory.mktemp("audit") / "audit.jsonl")
    hashes = [json.loads(line)["hash"] for line in content.splitlines()]
    known = data.draw(st.integers(0, len(hashes) - 1))
    kept = data.draw(st.integers(0, len(hashes)))
    left = b"".join(content.splitlines(keepends=True)[:kept])
    verdict = _verify(left, [hashes[known]])
    assert not verdict.problems
    assert verdict.is_intact is (known < kept)
    assert verdict.expected == {hashes[known]: known + 1 if known < kept else None}


def _rewritten(lines: list[bytes], *, start: int) -> bytes:
    """The lines with all hashes computed anew from `start` on, as a forger would."""
    made, prev = [], audit_lines.GENESIS
    for number, line in enumerate(lines):
        if number >= start:
            record = audit_lines.read(line.strip()).record
            line, prev = audit_lines.seal(record, prev=prev)
        else:
            prev = json.loads(line)["hash"]
        made.append(line)
    return b"".join(made)


def test_a_rewritten_file_holds_but_not_against_a_known_tail(path) -> None:
    content = _file_of_two_sessions(path)
    lines = content.replace(b'"peer":"BOB"', b'"peer":"EVE"').splitlines(keepends=True)
    forged = _rewritten(lines, start=0)
    assert _verify(forged).is_intact  # why tails belong elsewhere
    assert not _verify(forged, [json.loads(content.splitlines()[-1])["hash"]]).is_intact


def test_a_line_with_its_own_hash_anew_breaks_the_next(path) -> None:
    lines = _file_of_two_sessions(path).splitlines(keepends=True)
    record = audit_lines.read(lines[2].strip()).record
    lines[2] = audit_lines.seal(record, prev=audit_lines.GENESIS)[0]
    assert [problem.line for problem in _verify(b"".join(lines)).problems] == [3, 4]


def test_totals_and_order_are_held_against_the_lines(path) -> None:
    lines = _file_of_two_sessions(path).splitlines(keepends=True)
    without = lines[:3] + lines[4:]  # the value that entered
    (problem,) = _verify(_rewritten(without, start=3)).problems
    assert (problem.line, problem.what) == (
        4,
        "its totals are not those of the lines before it",
    )
    (problem, *_) = _verify(_rewritten(lines[:1] + lines[2:], start=1)).problems
    assert (problem.line, problem.what) == (2, "no line before it says that value 1 left")
    (problem, *_) = _verify(_rewritten(lines[1:], start=0)).problems
    assert (problem.line, problem.what) == (1, "no session is open here")


def test_a_mark_for_another_unfinished_line_is_found(path) -> None:
    auditor = _auditor(path)
    auditor._file.close()
    with path.open("ab") as file:
        file.write(b'{"kind":"value","time":"2026')
    _auditor(path, session="s2").close()
    content = path.read_bytes()
    assert _verify(content).torn == [2]
    changed = _verify(content.replace(b'"time":"2026\n', b'"time":"2027\n'))
    assert not changed.is_intact
    removed = _verify(content.replace(b'{"kind":"value","time":"2026\n', b""))
    assert not removed.is_intact


def test_lines_of_any_length_and_kind_are_read_in_bounded_memory() -> None:
    line, _ = audit_lines.seal(
        audit_lines.Torn(time="", bytes=0, digest=""), prev=audit_lines.GENESIS
    )
    other = line.replace(b'"torn"', b'"born"')
    for content in (b"x" * 10**6, b"\n" * 500, b'{"kind":"' * 10**5 + b"\n", other, b"\xff\n"):
        verdict = _verify(content)
        assert not verdict.is_intact
        assert verdict.problems[0].line == 1
        assert len(verdict.problems) <= audit_check.SHOWN_PROBLEMS
    assert _verify(b"\n" * 500).problems_left_out == 400


@given(st.binary(max_size=300))
def test_any_bytes_have_a_verdict(content) -> None:
    verdict = _verify(content)
    starts = content == b"" or audit_lines.START.startswith(content[:9])
    assert not verdict.is_intact or starts
    list(audit_check.values(io.BytesIO(content)))


# Checkpoints and reading.


def test_a_checkpoint_comes_with_the_lines_and_the_time_and_is_logged(
    path, caplog, monkeypatch
) -> None:
    monkeypatch.setattr(audit, "CHECKPOINT_LINES", 4)
    clock = Clock()
    with caplog.at_level(logging.INFO), _auditor(path, clock=clock) as auditor:
        _send(auditor)
        _send(auditor)
        _send(auditor)
        clock.now_ns += 61_000_000_000
        _send(auditor)
    kinds = [line["kind"] for line in _records(path)]
    assert [n for n, kind in enumerate(kinds) if kind == "checkpoint"] == [5, 8]
    logged = [record.tail for record in caplog.records if record.getMessage() == "audit checkpoint"]
    assert logged == [line["hash"] for line in _records(path) if line["kind"] == "checkpoint"]
    assert _verify(path, logged).is_intact


def test_values_are_shown_once_with_their_outcome(path) -> None:
    auditor = _auditor(path)
    auditor.leaving(_crossing(call=1))
    _send(auditor, call=2)
    auditor._file.close()
    with path.open("ab") as file:
        file.write(b'{"kind":"val')
    with _auditor(path, session="s2") as auditor:
        auditor.entered(_crossing(call=3), digest=SHA)
    found = list(audit_check.values(io.BytesIO(path.read_bytes())))
    assert found[1] == audit_check.Problem(line=5, what="it is no audit line")
    shown = [item for item in found if isinstance(item, audit_check.Shown)]
    assert [
        (item.line, item.session.session, item.value.call, item.value.outcome) for item in shown
    ] == [(4, "s1", 2, "delivered"), (2, "s1", 1, "unconfirmed"), (8, "s2", 3, "delivered")]
