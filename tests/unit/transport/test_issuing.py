from __future__ import annotations

import datetime
import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from fed import errors
from fed.testing import certificates as made
from fed.transport import certificate_files, certificates, issuing, spiffe

NOW = made.NOW


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    issuing.create_authority(tmp_path / "ca", "hospitals", now=NOW)
    return tmp_path / "ca"


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_an_authority(tmp_path: Path) -> None:
    found = issuing.create_authority(tmp_path / "new" / "ca", "hospitals", now=NOW, days=100)
    assert sorted(path.name for path in (tmp_path / "new" / "ca").iterdir()) == ["ca.key", "ca.pem"]
    assert (mode(found.key), mode(found.certificate)) == (0o600, 0o644)
    assert mode(tmp_path / "new" / "ca") == 0o700
    own = load(found.certificate)
    limits = own.extensions.get_extension_for_class(x509.BasicConstraints)
    assert limits.critical
    assert (limits.value.ca, limits.value.path_length) == (True, 0)
    names = own.extensions.get_extension_for_class(x509.NameConstraints)
    assert names.critical
    assert names.value.permitted_subtrees == [x509.UniformResourceIdentifier("hospitals")]
    assert certificates.uris(own) == ["spiffe://hospitals"]
    assert own.not_valid_before_utc == NOW - datetime.timedelta(hours=1)
    assert own.not_valid_after_utc == NOW + datetime.timedelta(days=100)


def test_a_partys_certificate(ca: Path, tmp_path: Path) -> None:
    found = issuing.create_party(
        ca, tmp_path / "alice", "Alice.N", now=NOW, hosts=["alice.example.org", "10.0.0.1", "::1"]
    )
    out = tmp_path / "alice"
    assert sorted(path.name for path in out.iterdir()) == ["Alice.N.key", "Alice.N.pem", "ca.pem"]
    assert (mode(found.key), mode(found.certificate), mode(out)) == (0o600, 0o644, 0o700)
    assert found.authority.read_bytes() == (ca / "ca.pem").read_bytes()
    own = load(found.certificate)
    assert certificates.uris(own) == ["spiffe://hospitals/party/Alice.N"]
    assert found.facts.hosts == ("alice.example.org", "10.0.0.1", "::1")
    assert certificates.missing_usages(own) == []
    assert not certificates.is_authority(own)
    assert certificates.is_issued_by(own, load(ca / "ca.pem"))
    assert isinstance(own.public_key(), ec.EllipticCurvePublicKey)
    assert own.not_valid_before_utc == NOW - datetime.timedelta(hours=1)
    assert own.not_valid_after_utc == NOW + datetime.timedelta(days=365)
    key = certificate_files.read_key(found.key)
    issuing.check_match(own, key, path=found.certificate, key_path=found.key)


def test_keys_and_serials_are_never_the_same(ca: Path, tmp_path: Path) -> None:
    found = [issuing.create_party(ca, tmp_path / str(i), "ALICE", now=NOW).facts for i in range(5)]
    assert len({facts.key_sha256 for facts in found}) == 5
    assert len({facts.serial for facts in found}) == 5


def test_several_parties_in_one_folder(ca: Path, tmp_path: Path) -> None:
    for party in ("ALICE", "BOB"):
        issuing.create_party(ca, tmp_path / "out", party, now=NOW)
    issuing.create_party(ca, ca, "CAROL", now=NOW)  # the authority's own folder, too
    assert len(list((tmp_path / "out").iterdir())) == 5


@pytest.mark.parametrize("party", ["ca", "CA"])
def test_a_party_with_the_authoritys_name(ca: Path, party: str) -> None:
    before = (ca / "ca.pem").read_bytes()
    found = issuing.create_party(ca, ca, party, now=NOW)
    assert found.certificate.name == f"party-{party}.pem"
    assert found.facts.party == party
    assert (ca / "ca.pem").read_bytes() == before


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    for umask in (0o000, 0o077):
        before = os.umask(umask)
        try:
            found = issuing.create_authority(tmp_path / str(umask), "hospitals", now=NOW)
        finally:
            os.umask(before)
        assert (mode(found.key), mode(found.certificate)) == (0o600, 0o644)


def test_a_certificate_ends_with_its_authority(tmp_path: Path) -> None:
    issuing.create_authority(tmp_path, "hospitals", now=NOW, days=100)
    found = issuing.create_party(tmp_path, tmp_path, "ALICE", now=NOW)
    assert found.facts.not_after == NOW + datetime.timedelta(days=100)
    with pytest.raises(errors.ConfigError, match="the authority ends at 2026-06-09 12:00:00 UTC"):
        issuing.create_party(tmp_path, tmp_path, "BOB", now=NOW, days=101)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["ALICE.pem", "ALICE.key", "ca.pem"])
@pytest.mark.parametrize("link", [False, True])
def test_nothing_is_overwritten(ca: Path, tmp_path: Path, name: str, link: bool) -> None:
    out = tmp_path / "out"
    out.mkdir()
    if link:
        (out / name).symlink_to(tmp_path / "nowhere")
    else:
        (out / name).write_bytes(certificates.pem(made.authority().certificate))
    before = files(tmp_path)
    with pytest.raises(errors.ConfigError) as told:
        issuing.create_party(ca, out, "ALICE", now=NOW)
    assert told.value.source == str(out / name)
    said = "another authority" if name == "ca.pem" and not link else "it exists already"
    assert said in told.value.problem
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["ca.pem", "ca.key"])
def test_no_authority_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(errors.ConfigError, match="it exists already, and nothing is overwritten"):
        issuing.create_authority(tmp_path, "hospitals", now=NOW)
    assert files(tmp_path) == {str(tmp_path / name): b"mine"}


def test_of_files_that_cannot_all_be_written_none_is_left(tmp_path: Path) -> None:
    first = certificate_files.Written(tmp_path / "new.key", b"key", 0o600)
    too_long = certificate_files.Written(tmp_path / ("x" * 300), b"", 0o644)
    with pytest.raises(errors.ConfigError):
        certificate_files.write_new([first, too_long])
    assert list(tmp_path.iterdir()) == []


def broken_missing(ca: Path) -> None:
    (ca / "ca.pem").unlink()


def broken_key_missing(ca: Path) -> None:
    (ca / "ca.key").unlink()


def broken_rubbish(ca: Path) -> None:
    (ca / "ca.pem").write_bytes(b"\x00rubbish")


def broken_key_readable(ca: Path) -> None:
    (ca / "ca.key").chmod(0o644)


def broken_key_of_group(ca: Path) -> None:
    (ca / "ca.key").chmod(0o660)


def broken_other_key(ca: Path) -> None:
    (ca / "ca.key").write_bytes(certificates.key_pem(made.authority().key))


def broken_two_keys(ca: Path) -> None:
    (ca / "ca.key").write_bytes(2 * (ca / "ca.key").read_bytes())


def broken_party(ca: Path) -> None:
    own = made.of_party(made.authority(), "ALICE")
    (ca / "ca.pem").write_bytes(certificates.pem(own.certificate))


def broken_folder(ca: Path) -> None:
    for path in ca.iterdir():
        path.unlink()
    ca.rmdir()


def broken_file(ca: Path) -> None:
    broken_folder(ca)
    ca.write_bytes(b"")


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (broken_folder, "ca: there is no such folder"),
        (broken_file, "ca: it is a file, not a folder"),
        (broken_missing, "ca.pem: there is no such file"),
        (broken_rubbish, "ca.pem: it holds no certificate in PEM form"),
        (broken_party, "ca.pem: it is not the certificate of an authority"),
        (broken_key_missing, "ca.key: there is no such file"),
        (broken_key_readable, "ca.key: others can read this private key (mode 0644). chmod 600"),
        (broken_key_of_group, "ca.key: its group can read this private key (mode 0660)"),
        (broken_other_key, "ca.key: it is not the key of the certificate"),
        (broken_two_keys, "ca.key: it holds 2 private keys"),
    ],
)
def test_an_authority_that_cannot_be_used(ca: Path, tmp_path: Path, breaks, said: str) -> None:
    breaks(ca)
    with pytest.raises(errors.ConfigError) as told:
        issuing.create_party(ca, tmp_path / "out", "ALICE", now=NOW)
    assert said in str(told.value)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "out").exists()


def test_an_authority_that_ended(ca: Path, tmp_path: Path) -> None:
    later = NOW + datetime.timedelta(days=3651)
    with pytest.raises(errors.ConfigError, match="the authority ended at 2036-02-27 12:00:00 UTC"):
        issuing.create_party(ca, tmp_path / "out", "ALICE", now=later)


@pytest.mark.parametrize("party", ["", "-x", "a b", "x" * 64, "../x", "ALICE."])
def test_a_name_that_breaks_the_rule(ca: Path, tmp_path: Path, party: str) -> None:
    with pytest.raises(errors.UnknownPartyError, match="is not a party's name"):
        issuing.create_party(ca, tmp_path / "out", party, now=NOW)


@pytest.mark.parametrize("host", ["", "https://x", "x:1", "a b", "*.x", "10.0.0.256"])
def test_a_host_that_is_none(ca: Path, tmp_path: Path, host: str) -> None:
    with pytest.raises(errors.ConfigError, match="is neither a host name nor an IP address"):
        issuing.create_party(ca, tmp_path / "out", "ALICE", now=NOW, hosts=[host])


@pytest.mark.parametrize("federation", ["", "Hospitals", "a b", "x/y", "-x"])
def test_a_federation_that_is_none(tmp_path: Path, federation: str) -> None:
    with pytest.raises(errors.ConfigError, match="is not a federation's name"):
        issuing.create_authority(tmp_path / "ca", federation, now=NOW)
    assert not (tmp_path / "ca").exists()


@pytest.mark.parametrize("days", [0, -1, 7301])
def test_days_that_are_none(ca: Path, tmp_path: Path, days: int) -> None:
    for make in (
        lambda: issuing.create_authority(tmp_path / "x", "hospitals", now=NOW, days=days),
        lambda: issuing.create_party(ca, tmp_path / "x", "ALICE", now=NOW, days=days),
    ):
        with pytest.raises(errors.ConfigError, match="days are not from 1 to 7300"):
            make()


def test_a_long_federation(tmp_path: Path) -> None:
    federation = "f" * 255
    issuing.create_authority(tmp_path, federation, now=NOW)
    found = issuing.create_party(tmp_path, tmp_path, "P" * 63, now=NOW)
    assert found.facts.uris == (spiffe.uri(federation, "P" * 63),)


def test_an_authority_with_another_kind_of_key(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    name = certificates.distinguished("own", "own")
    own = certificates.sign(
        name, key, subject=name, public_key=key.public_key(),
        not_before=NOW, not_after=NOW + made.DAY, uris=["spiffe://hospitals"], is_authority=True,
    )  # fmt: skip
    made.write(tmp_path, "ca", certificates.Pair(own, key))
    found = issuing.create_party(tmp_path, tmp_path, "ALICE", now=NOW)
    assert certificates.is_issued_by(load(found.certificate), own)
    assert certificates.facts(own).key == "Ed25519"


def test_throw_away_certificates_have_no_key_of_their_authority(tmp_path: Path) -> None:
    found = issuing.throw_away(tmp_path / "tls", "hospitals", ["ALICE", "BOB", "ca"], now=NOW)
    assert mode(tmp_path / "tls") == 0o700
    assert sorted(path.name for path in (tmp_path / "tls").iterdir()) == [
        "ALICE.key", "ALICE.pem", "BOB.key", "BOB.pem", "ca.pem", "party-ca.key", "party-ca.pem",
    ]  # fmt: skip
    top = load(tmp_path / "tls" / "ca.pem")
    for party, one in found.items():
        assert one.facts.party == party
        assert certificates.is_issued_by(load(one.certificate), top)
        assert one.facts.not_after == NOW + made.DAY
        assert mode(one.key) == 0o600


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command")
def test_openssl_takes_what_is_made(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    top = issuing.create_authority(tmp_path, "hospitals", now=now)
    found = issuing.create_party(tmp_path, tmp_path, "ALICE", now=now)
    openssl("verify", "-x509_strict", "-CAfile", top.certificate, found.certificate)
    for facts, path in ((top.facts, top.certificate), (found.facts, found.certificate)):
        said = openssl("x509", "-noout", "-fingerprint", "-sha256", "-in", path)
        assert said.rpartition("=")[2].strip() == certificates.shown_hash(facts.sha256)


def openssl(*arguments: str | Path) -> str:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_hash_of_a_public_key_is_that_of_its_form_in_certificates() -> None:
    pair = made.authority()
    info = pair.key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert info in certificates.der(pair.certificate)
    assert certificates.facts(pair.certificate).key_sha256 == hashlib.sha256(info).hexdigest()
