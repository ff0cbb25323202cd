"""What the command prints about certificates; making them is tests/unit/transport/test_issuing."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click.testing
import pytest
import yaml

from fed.cli import cert, exits
from fed.config import federation, layers, resolve
from fed.testing import certificates as made
from fed.transport import certificates, spiffe


class Command:
    """`rayfed cert` in this process, in a folder of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, *arguments: str) -> click.testing.Result:
        return click.testing.CliRunner().invoke(cert.cert, arguments)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(tmp_path)


@pytest.fixture
def with_ca(command: Command) -> Command:
    assert command("ca", "--out", "ca", "--federation", "hospitals").exit_code == 0
    return command


def settings(text: str) -> str:
    """The part of the output that goes into federation.yaml."""
    return text[text.index("federation: hospitals\n") :]


@pytest.mark.parametrize("party", ["ALICE", "007", "null", "1.5", "no"])
def test_what_is_printed_is_a_federation_yaml(with_ca: Command, party: str) -> None:
    done = with_ca("issue", "--ca", "ca", "--party", party, "--out", f"new {party}")
    assert done.exit_code == 0, done.output
    layer = federation.parse(settings(done.stdout), source="federation.yaml", folder=with_ca.path)
    assert layer.entries["federation"].value == "hospitals"
    own = layer.of_party[party]
    for name, entry in (("tls_cert", own["tls_cert"]), ("tls_key", own["tls_key"])):
        assert entry.value.is_file(), name
    assert layer.entries["tls_ca_cert"].value.is_file()


def test_an_authority_tells_both_ways_to_trust_it(command: Command) -> None:
    done = command("ca", "--out", "ca", "--federation", "hospitals")
    first, _, second = settings(done.stdout).partition("\nWhere it vouches for one party")
    assert yaml.safe_load(first) == {"federation": "hospitals", "tls": {"ca_cert": "ca/ca.pem"}}
    pin = yaml.safe_load(second[second.index("parties:") :])
    assert pin == {"parties": {"NAME": {"tls": {"pin": "ca/ca.pem"}}}}


@pytest.mark.parametrize("party", ["Alice", "ALCIE"])
def test_federation_yaml_knows_the_parties(with_ca: Command, party: str) -> None:
    (with_ca.path / "federation.yaml").write_text("parties: [ALICE, BOB]\n")
    done = with_ca("issue", "--ca", "ca", "--party", party, "--out", "out")
    assert done.exit_code == exits.CODES[cert.errors.UnknownPartyError]
    assert done.output.startswith(f"Error: federation.yaml: there is no party {party!r}")
    assert "'ALICE'" in done.output
    assert not (with_ca.path / "out").exists()
    assert with_ca("issue", "--ca", "ca", "--party", "ALICE", "--out", "out").exit_code == 0


@pytest.mark.parametrize(
    "text",
    ["", "seed: 1\n", "parties: open\n", "parties: {client: 9}\n",
     "addresses: {client-3: 'localhost:9000', B: 'localhost:9001'}\n"],
)  # fmt: skip
def test_a_federation_yaml_that_allows_the_party(with_ca: Command, text: str) -> None:
    (with_ca.path / "federation.yaml").write_text(text)
    done = with_ca("issue", "--ca", "ca", "--party", "client-3", "--out", "out")
    assert done.exit_code == 0, done.output


def test_addresses_know_the_parties_too(with_ca: Command) -> None:
    (with_ca.path / "federation.yaml").write_text("addresses: {ALICE: 'localhost:9000'}\n")
    done = with_ca("issue", "--ca", "ca", "--party", "BOB", "--out", "out")
    assert "there is no party 'BOB'" in done.output


def test_federation_yaml_knows_the_federation(with_ca: Command) -> None:
    (with_ca.path / "federation.yaml").write_text("federation: banks\n")
    done = with_ca("issue", "--ca", "ca", "--party", "ALICE", "--out", "out")
    assert "it is the authority of federation 'hospitals', not of 'banks'" in done.output
    done = with_ca("ca", "--out", "other", "--federation", "bank")
    assert "says federation 'banks', and --federation 'bank'" in done.output
    assert not (with_ca.path / "other").exists()


def test_show_tells_what_is_wrong_with_a_certificate(command: Command) -> None:
    two = made.saying(made.authority(), ["spiffe://hospitals/party/A", "https://\x1b[31m/"])
    (command.path / "two.pem").write_bytes(
        certificates.pem(two.certificate) + certificates.pem(made.authority().certificate)
    )
    done = command("show", "two.pem")
    assert done.exit_code == 0
    assert done.stdout.startswith("certificate of no party: it has not exactly one name")
    assert "ENDED" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\n\nauthority of federation hospitals\n" in done.stdout


def test_show_names_the_key_of_a_certificate_and_no_secret(with_ca: Command) -> None:
    shown = [with_ca("show", f"ca/ca.{kind}").stdout for kind in ("pem", "key")]
    (line,) = [line for line in shown[0].splitlines() if "public key SHA-256" in line]
    assert shown[1].splitlines() == ["private key, ECDSA secp256r1", line]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "there is no such file"),
        (b"", "it holds neither a certificate nor a key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "can't be read"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "can't be read"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "can't be read"),
    ],
)
def test_a_file_that_cannot_be_shown(command: Command, data: bytes | None, said: str) -> None:
    path = command.path / "file"
    if data is not None:
        path.write_bytes(data)
        path.chmod(0o600)
    done = command("show", "file")
    assert done.exit_code == 12
    assert done.output.startswith("Error: file: ")
    assert said in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_waited_for(command: Command, make) -> None:
    make(command.path / "file")
    assert command("show", "file").output == "Error: file: it is not a plain file\n"


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "certificates.md").read_text()


def test_the_pages_settings_are_ones() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        layer = federation.parse(block, source="federation.yaml")
        settled = resolve.settle(init=layers.from_init({"party": "ALICE"}), federation=layer)
        assert settled.settings.has_tls


def test_the_pages_server_names_are_those() -> None:
    named = re.findall(r"`(\S+)` is called `(\S+)`|`(10\.0\.0\.1)`\s+`(\S+)`", PAGE)
    assert len(named) == 3
    for found in named:
        party, name = filter(None, found)
        assert spiffe.server_name(party) == name


def test_the_pages_commands_work(command: Command, tmp_path: Path) -> None:
    lines = re.findall(r"^(?:alice)?\$ rayfed cert (.*)$", PAGE, re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        if line.startswith("ca ") and (tmp_path / "ca").exists():
            (tmp_path / "ca").rename(tmp_path / "earlier")
        done = command(*line.split())
        assert done.exit_code == 0, f"{line}: {done.output}"
