"""federation.yaml: what it may say, and that every error names file, line and key."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from fed import errors
from fed.config import choices, federation


def parse(text):
    return federation.parse(
        textwrap.dedent(text), source="f/federation.yaml", folder=Path("/etc/fed")
    )


def values(text):
    return {name: entry.value for name, entry in parse(text).entries.items()}


def test_a_whole_file():
    layer = parse(
        """\
        # All three modes.
        mode: multi-controller
        job_name: study
        parties:
          ALICE:
            address: alice.example.org:9000
            listen: 0.0.0.0:9000
            tls: {cert: alice.pem, key: /keys/alice.key, pin: alice-ca.pem}
          NO:
            address: 10.0.0.2:9000
          007: {}
        codec:
          modules: [clinic.models, __main__]
        tls:
          ca_cert: ca.pem
        isolation: off
        peer_timeout_s: 2 min
        max_value_bytes: 1 GiB
        receive_budget_bytes: 1e9
        seed: 1_000
        strict: true
        """
    )
    found = {name: entry.value for name, entry in layer.entries.items()}
    assert found.pop("mode") is choices.Mode.MULTI_CONTROLLER
    assert list(found.pop("parties")) == ["ALICE", "NO", "007"]
    assert found == {
        "job_name": "study",
        "addresses": {"ALICE": "alice.example.org:9000", "NO": "10.0.0.2:9000", "007": None},
        "tls_pins": {"ALICE": Path("/etc/fed/alice-ca.pem")},
        "codec_modules": ("clinic.models", "__main__"),
        "tls_ca_cert": Path("/etc/fed/ca.pem"),
        "isolation": choices.Isolation.OFF,
        "peer_timeout_s": 120.0,
        "max_value_bytes": 2**30,
        "receive_budget_bytes": 10**9,
        "seed": 1000,
        "strict": True,
    }
    assert layer.entries["seed"].where == "f/federation.yaml:20"
    own = layer.of_party["ALICE"]
    assert own["tls_cert"].value == Path("/etc/fed/alice.pem")
    assert own["tls_key"].value == Path("/keys/alice.key")
    assert own["listen"].line == 7


def test_forms_of_parties():
    assert list(values("parties: [ALICE, BOB]")["parties"]) == ["ALICE", "BOB"]
    assert len(values("parties: {server: 1, client: 1000}")["parties"]) == 1001
    assert len(values("parties: 50")["parties"]) == 50
    assert not values("parties: open")["parties"].is_declared
    assert values("addresses: {ALICE: 'h:1', BOB: }")["addresses"] == {"ALICE": "h:1", "BOB": None}


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "{}", "~"])
def test_an_empty_file_says_nothing(text):
    assert values(text) == {}


@pytest.mark.parametrize(
    ("text", "line", "key", "problem"),
    [
        ("seed: 1\npeer_timeout: 3\n", 2, "peer_timeout", "did you mean 'peer_timeout_s'"),
        ("seed: 1\n\nseed: 2\n", 3, "seed", "twice, first in line 1"),
        ("parties:\n  A: {address: h:1}\n  A: {address: h:2}\n", 3, "parties.A", "twice"),
        ("parties:\n- ALICE\n- BOB\n- alice\n", 4, "parties[2]", "case alone"),
        ("parties:\n  client: 0\n", 2, "parties.client", "not positive"),
        ("parties:\n  A:\n    adress: h:1\n", 3, "parties.A.adress", "parties.A.address"),
        ("parties:\n  A:\n    tls:\n      key: [a]\n", 4, "parties.A.tls.key", "path"),
        ("parties: [A, 7]\n", 1, "parties[1]", "not int"),
        ("addresses:\n  A: h:1\n  B: 0.0.0.0:1\n", 3, "addresses.B", "can't be dialled"),
        ("seed: abc\n", 1, "seed", "whole number"),
        ("seed: '7'\n", 1, "seed", "whole number"),
        ("strict: yes\n", 1, "strict", "true or false"),
        ("strict: 'true'\n", 1, "strict", "true or false"),
        ("seed:\n", 1, "seed", "no value"),
        ("party: 007\n", 1, "party", "name"),
        ("codec:\n  modules:\n  - a\n  - b-c\n", 4, "codec.modules[1]", "dotted"),
        ("codec:\n  pickel: [a]\n", 2, "codec.pickel", "did you mean 'codec.pickle'"),
        ("codec: [a]\n", 1, "codec", "no mapping"),
        ("codec_modules: [a]\n", 1, "codec_modules", "no such key"),
        ("peer_timeout_s: -3\n", 1, "peer_timeout_s", "time"),
        ("peer_timeout_s: .inf\n", 1, "peer_timeout_s", "time"),
        ("seed: !!int '3'\n", 1, "seed", "tag"),
        ("seed: !custom 3\n", 1, "seed", "tag"),
        ("? [a]\n: 1\n", 1, None, "key is not text"),
        ("'': 1\n", 1, None, "key is not text"),
        ("a: &x 1\nb: *x\n", 1, None, "aliases"),
        ("- a\n- b\n", 1, None, "no mapping"),
        ("text\n", 1, None, "no mapping"),
        ("seed: 1\n---\nseed: 2\n", 2, None, "not YAML"),
        ("seed: [1\nx: 2\n", 2, None, "not YAML"),
        ("a:\n\t- b\n", 2, None, "not YAML"),
        ("seed: *nowhere\n", 1, None, "not YAML"),
    ],
)
def test_errors_name_file_line_and_key(text, line, key, problem):
    with pytest.raises(errors.ConfigError) as caught:
        parse(text)
    error = caught.value
    assert problem in str(error)
    assert (error.source, error.line, error.key) == ("f/federation.yaml", line, key)
    assert str(error).startswith(f"f/federation.yaml:{line}: ")


def test_a_setting_of_another_spelling_is_told_its_key():
    with pytest.raises(errors.ConfigError, match=r"codec\.modules"):
        parse("codec_modules: [a]")


def test_deep_nesting_is_refused():
    for text in ("parties: " + "[" * 50 + "]" * 50, "parties: " + "[" * 100_000):
        with pytest.raises(errors.ConfigError):
            parse(text)


def test_the_file_is_found_beside_the_script(tmp_path):
    assert federation.find(tmp_path) is None
    path = tmp_path / "federation.yaml"
    path.write_text("tls: {cert: a.pem}\n", encoding="utf-8")
    assert federation.find(tmp_path) == path
    entry = federation.read(path).entries["tls_cert"]
    assert entry.value == tmp_path / "a.pem"
    assert entry.where == f"{path}:1"


def test_a_byte_order_mark_is_no_key(tmp_path):
    path = tmp_path / "federation.yaml"
    path.write_bytes(b"\xef\xbb\xbfseed: 3\n")
    assert federation.read(path).entries["seed"].value == 3


def test_what_can_not_be_read_is_named(tmp_path):
    missing = tmp_path / "federation.yaml"
    with pytest.raises(errors.ConfigError, match="can't be read") as caught:
        federation.read(missing)
    assert caught.value.source == str(missing)
    missing.write_bytes(b"seed: 1\njob_name: \xff\n")
    with pytest.raises(errors.ConfigError, match="UTF-8") as caught:
        federation.read(missing)
    assert caught.value.line == 2
    missing.write_bytes(b"seed: \x00\n")
    with pytest.raises(errors.ConfigError, match="not YAML"):
        federation.read(missing)
    with pytest.raises(errors.ConfigError, match="can't be read"):
        federation.read(tmp_path)


def test_a_file_that_can_not_be_meant_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(federation, "MAX_FILE_BYTES", 10)
    path = tmp_path / "federation.yaml"
    path.write_text("seed: 1\n# more\n", encoding="utf-8")
    with pytest.raises(errors.ConfigError, match="larger than 10 bytes"):
        federation.read(path)


def test_no_is_a_name_and_off_is_a_word():
    assert values("party: NO\nisolation: off\nstrict: False") == {
        "party": "NO",
        "isolation": choices.Isolation.OFF,
        "strict": False,
    }
