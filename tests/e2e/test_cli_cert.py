"""`rayfed cert` as a user types it, and what each mistake costs: one clear line."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.e2e import command

from fed.testing import certificates as made
from fed.transport import certificates

CA = ("cert", "ca", "--out", "ca", "--federation", "hospitals")
ISSUE = ("cert", "issue", "--ca", "ca", "--party", "ALICE", "--out", "alice")


@pytest.fixture
def folder(tmp_path: Path) -> command.Folder:
    return command.Folder(tmp_path)


def files(folder: command.Folder) -> dict[str, bytes]:
    found = (path for path in folder.path.rglob("*") if path.is_file())
    return {str(path.relative_to(folder.path)): path.read_bytes() for path in found}


def test_an_authority_a_party_and_what_they_say(folder: command.Folder) -> None:
    top = folder.rayfed(*CA, "--days", "100", "--json")
    own = folder.rayfed(*ISSUE, "--days", "10", "--host", "alice.example.org", "--json")
    assert (top.code, own.code) == (0, 0), top.stderr + own.stderr
    facts = json.loads(own.stdout)
    assert facts["uris"] == ["spiffe://hospitals/party/ALICE"]
    assert facts["hosts"] == ["alice.example.org"]
    assert facts["server_name"] == "alice"
    assert set(files(folder)) == {
        "ca/ca.pem", "ca/ca.key", "alice/ALICE.pem", "alice/ALICE.key", "alice/ca.pem",
    }  # fmt: skip
    for key in (json.loads(top.stdout)["key"], facts["key"]):
        assert stat.S_IMODE((folder.path / key).stat().st_mode) == 0o600
    shown = json.loads(folder.rayfed("cert", "show", facts["certificate"], "--json").stdout)
    (found,) = shown["certificates"]
    assert found["sha256"] == facts["sha256"]
    assert found["key_sha256"] == facts["key_sha256"]
    text = folder.rayfed("cert", "show", facts["certificate"]).stdout
    assert certificates.shown_hash(facts["sha256"]) in text
    assert text.startswith("party ALICE of federation hospitals\n")


def remove_authority(path: Path) -> None:
    (path / "ca" / "ca.pem").unlink()


def rubbish_authority(path: Path) -> None:
    (path / "ca" / "ca.pem").write_bytes(b"rubbish")


def open_key(path: Path) -> None:
    (path / "ca" / "ca.key").chmod(0o644)


def other_key(path: Path) -> None:
    (path / "ca" / "ca.key").write_bytes(certificates.key_pem(made.authority().key))


def ended_authority(path: Path) -> None:
    made.write(path / "ca", "ca", made.authority())


def existing_key(path: Path) -> None:
    (path / "alice").mkdir()
    (path / "alice" / "ALICE.key").write_text("mine")


def existing_file(path: Path) -> None:
    (path / "alice").write_text("mine")


def undeclared(path: Path) -> None:
    (path / "federation.yaml").write_text("parties: [ALICA, BOB]\n")


def nothing(path: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("breaks", "arguments", "code", "said"),
    [
        (nothing, CA, 12, "Error: ca/ca.pem: it exists already, and nothing is overwritten."),
        (existing_key, ISSUE, 12, "Error: alice/ALICE.key: it exists already"),
        (existing_file, ISSUE, 12, "Error: alice: it is a file, not a folder"),
        (nothing, [*ISSUE, "--party", "-ALICE"], 22, "Error: '-ALICE' is not a party's name."),
        (undeclared, ISSUE, 22, "Error: federation.yaml: there is no party 'ALICE'. The nearest"),
        (nothing, [*ISSUE, "--ca", "nowhere"], 12, "Error: nowhere: there is no such folder."),
        (remove_authority, ISSUE, 12, "Error: ca/ca.pem: there is no such file."),
        (rubbish_authority, ISSUE, 12, "Error: ca/ca.pem: it holds no certificate in PEM form."),
        (open_key, ISSUE, 12, "Error: ca/ca.key: others can read this private key (mode 0644)."),
        (other_key, ISSUE, 12, "Error: ca/ca.key: it is not the key of the certificate ca/ca.pem."),
        (ended_authority, ISSUE, 12, "Error: ca/ca.pem: the authority ended at 2026-03-31 12:00"),
        (nothing, [*ISSUE, "--days", "3651"], 12, "Error: ca/ca.pem: the authority ends at "),
        (nothing, [*ISSUE, "--host", "a b"], 12, "Error: 'a b' is neither a host name nor an IP"),
        (nothing, [*CA, "--federation", "A"], 12, "Error: 'A' is not a federation's name"),
        (nothing, ["cert", "show", "nowhere.pem"], 12, "Error: nowhere.pem: there is no such file"),
        (open_key, ["cert", "show", "ca/ca.key"], 12, "Error: ca/ca.key: others can read this"),
    ],
)
def test_a_mistake_is_one_clear_line(
    folder: command.Folder, breaks, arguments: list[str], code: int, said: str
) -> None:
    assert folder.rayfed(*CA).code == 0
    breaks(folder.path)
    before = files(folder)
    ended = folder.rayfed(*arguments)
    assert (ended.code, ended.stdout) == (code, ""), ended.stderr
    assert ended.stderr.startswith(said)
    assert ended.stderr.count("\n") == 1
    assert files(folder) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cert", "isue"], "there is no command 'isue'; did you mean 'issue'?"),
        (["cert", "issue", "--ca", "ca", "--out", "x"], "Missing option '--party'"),
        (["cert", "issue", "--pary", "A"], "--party"),
        (["cert", "ca", "--out", "x", "--federation", "x", "--days", "0"], "'--days'"),
        (["cert", "show"], "Missing argument 'FILE'"),
    ],
)
def test_a_wrong_command_line(folder: command.Folder, arguments: list[str], said: str) -> None:
    ended = folder.rayfed(*arguments)
    assert (ended.code, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert files(folder) == {}


@pytest.mark.parametrize("arguments", [["cert"], ["cert", "issue", "--help"]], ids=" ".join)
def test_help_loads_nothing_heavy(folder: command.Folder, arguments: list[str]) -> None:
    folder.write(
        f"""
        import sys
        sys.argv = ["rayfed", *{arguments!r}]
        from fed.cli import main
        try:
            main.main()
        except SystemExit:
            print("LOADED", sorted({{"cryptography", "ssl", "yaml", "numpy"}} & set(sys.modules)))
        """
    )
    assert folder.python("script.py").stdout.splitlines()[-1] == "LOADED []"
