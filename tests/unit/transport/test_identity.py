"""Who may speak: real handshakes over memory, with right certificates and every wrong one."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import os
import ssl
import stat
from pathlib import Path

import pytest
from tests.unit.transport import shaking

from fed import errors
from fed.config import federation, layers, resolve
from fed.testing import certificates as made
from fed.testing import clock as clocks
from fed.transport import certificate_files, certificates, identity, peer_identity, pins, spiffe

NOW_S = made.NOW.timestamp()


@pytest.fixture
def clock() -> clocks.FakeClock:
    return clocks.FakeClock(NOW_S)


@pytest.fixture
def ca() -> certificates.Pair:
    return made.authority()


class Place:
    """Identities of parties, each with a folder of its own."""

    def __init__(self, path: Path, clock: clocks.FakeClock) -> None:
        self.path = path
        self.clock = clock

    def __call__(
        self,
        party: str,
        own: certificates.Pair,
        peers: dict[str, certificates.Pair | None],
        shared: certificates.Pair | None = None,
        federation: str = made.FEDERATION,
    ) -> identity.Identity:
        folder = self.path / f"{party}-{len(list(self.path.iterdir()))}"
        folder.mkdir()
        files = made.files(folder, own, peers, shared=shared)
        return identity.Identity(files, federation=federation, party=party, clock=self.clock)


@pytest.fixture
def place(tmp_path: Path, clock: clocks.FakeClock) -> Place:
    return Place(tmp_path, clock)


@pytest.fixture
def bob(place: Place, ca: certificates.Pair) -> identity.Identity:
    """The listener of most tests: knows ALICE and CAROL by one authority."""
    return place("BOB", made.of_party(ca, "BOB"), {"ALICE": None, "CAROL": None}, ca)


def connect(
    dialler: identity.Identity, listener: identity.Identity, called: str = "BOB"
) -> shaking.Connection:
    return shaking.Connection(functools.partial(dialler.dialling, called), listener.accepting)


def stranger(
    pair: certificates.Pair | None,
    tmp_path: Path,
    *,
    alpn: str | None = peer_identity.PROTOCOL,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    is_server: bool = False,
) -> shaking.Maker:
    """An end that checks nothing and shows what it likes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = version
    if alpn is not None:
        context.set_alpn_protocols([alpn])
    if pair is not None:
        context.load_cert_chain(*made.write(tmp_path, "stranger", pair))
    return functools.partial(context.wrap_bio, server_side=is_server)


def refused(listener: identity.Identity, dialler: shaking.Maker) -> errors.HandshakeError:
    """Why the listener refuses a dialler with which TLS could be set up."""
    connection = shaking.Connection(dialler, listener.accepting)
    assert connection.listener.is_done, connection.listener.error
    with pytest.raises(errors.HandshakeError) as told:
        listener.peer(connection.listener.tls, address="10.0.0.9:4711")
    return told.value


def refused_by_tls(listener: identity.Identity, dialler: shaking.Maker) -> errors.HandshakeError:
    """Why TLS itself refuses a dialler."""
    connection = shaking.Connection(dialler, listener.accepting)
    assert not connection.listener.is_done
    assert connection.listener.error is not None
    return peer_identity.failure(connection.listener.error, address="10.0.0.9:4711")


# The right ones.


def test_both_ends_know_each_other(place: Place, ca: certificates.Pair, bob) -> None:
    own = made.of_party(ca, "ALICE", hosts=["alice.example.org", "10.0.0.1"])
    alice = place("ALICE", own, {"BOB": None}, ca)
    connection = connect(alice, bob)
    found = bob.peer(connection.listener.tls)
    assert found.party == "ALICE"
    assert found.not_after == own.certificate.not_valid_after_utc.timestamp()
    assert found.sha256 == certificates.facts(own.certificate).sha256
    assert alice.peer(connection.dialler.tls, expected="BOB").party == "BOB"
    assert connection.carries()
    for end in (connection.dialler.tls, connection.listener.tls):
        assert end.version() == "TLSv1.3"
        assert end.selected_alpn_protocol() == "fed/1"
        assert not end.session_reused


def test_each_party_has_its_own_authority(place: Place) -> None:
    of_alice, of_bob = made.authority(), made.authority()
    alice = place("ALICE", made.of_party(of_alice, "ALICE"), {"BOB": of_bob})
    bob = place("BOB", made.of_party(of_bob, "BOB"), {"ALICE": of_alice})
    connection = connect(alice, bob)
    assert bob.peer(connection.listener.tls).party == "ALICE"
    assert alice.peer(connection.dialler.tls, expected="BOB").party == "BOB"


def test_certificates_are_pinned_themselves(place: Place) -> None:
    forgotten = made.authority()
    own = {name: made.of_party(forgotten, name) for name in ("ALICE", "BOB")}
    alice = place("ALICE", own["ALICE"], {"BOB": own["BOB"]})
    bob = place("BOB", own["BOB"], {"ALICE": own["ALICE"]})
    connection = connect(alice, bob)
    assert bob.peer(connection.listener.tls).party == "ALICE"
    assert alice.peer(connection.dialler.tls, expected="BOB").party == "BOB"
    other = made.of_party(forgotten, "ALICE")  # of the same authority, which is not pinned
    told = refused_by_tls(bob, stranger(other, place.path))
    assert "nothing that is pinned for any party vouches for its certificate" in told.reason


def test_the_connection_ends_with_what_vouches_for_the_certificate(place: Place) -> None:
    soon = made.NOW + 3 * made.DAY
    ca = made.authority(not_after=soon)
    bob = place("BOB", made.of_party(ca, "BOB"), {"ALICE": None}, ca)
    connection = shaking.Connection(stranger(made.of_party(ca, "ALICE"), place.path), bob.accepting)
    assert bob.peer(connection.listener.tls).not_after == soon.timestamp()


@pytest.mark.parametrize("party", ["BOB", "bank_b", "10.0.0.1", "a..b"])
def test_the_called_party_is_the_server_name(
    place: Place, ca: certificates.Pair, party: str
) -> None:
    alice = place("ALICE", made.of_party(ca, "ALICE"), {party: None}, ca)
    callee = place(party, made.of_party(ca, party), {"ALICE": None}, ca)
    seen: list[str | None] = []
    callee._loaded.server.sni_callback = lambda _tls, name, _context: seen.append(name)
    connection = connect(alice, callee, party)
    assert seen == [spiffe.server_name(party)]
    assert alice.peer(connection.dialler.tls, expected=party).party == party


# Refused by TLS: nothing above it is reached.


def test_no_certificate(place: Place, bob) -> None:
    told = refused_by_tls(bob, stranger(None, place.path))
    assert told.reason == "it showed no certificate"
    assert told.party == "10.0.0.9:4711"


def test_the_certificate_of_another_authority(place: Place, bob) -> None:
    told = refused_by_tls(bob, stranger(made.of_party(made.authority(), "ALICE"), place.path))
    assert "nothing that is pinned for any party vouches for its certificate" in told.reason


def test_a_certificate_signed_by_itself(place: Place, bob) -> None:
    pair = made.authority()
    own = made.saying(pair, [spiffe.uri(made.FEDERATION, "ALICE")], key=pair.key)
    told = refused_by_tls(bob, stranger(own, place.path))
    assert "vouches for its certificate" in told.reason


def test_tls_1_2(place: Place, ca: certificates.Pair, bob) -> None:
    old = stranger(made.of_party(ca, "ALICE"), place.path, version=ssl.TLSVersion.TLSv1_2)
    assert refused_by_tls(bob, old).reason == "it does not speak TLS 1.3"


def test_an_authority_of_the_product_is_bound_to_its_federation(
    place: Place, ca: certificates.Pair, bob
) -> None:
    own = made.of_party(ca, "ALICE", federation="banks")
    told = refused_by_tls(bob, stranger(own, place.path))
    assert "a name that its authority has no say over" in told.reason


def test_an_authority_makes_no_authorities(place: Place, ca: certificates.Pair, bob) -> None:
    below = made.saying(ca, [], is_authority=True)
    own = made.claiming(below, "ALICE")
    cert, key = made.write(place.path, "chain", own)
    cert.write_bytes(cert.read_bytes() + certificates.pem(below.certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(cert, key)
    told = refused_by_tls(bob, context.wrap_bio)
    assert "path length constraint exceeded" in told.reason


def test_bytes_that_are_no_tls(bob) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = bob.accepting(incoming, outgoing)
    incoming.write(b"GET / HTTP/1.1\r\nHost: bob\r\n\r\n")
    with pytest.raises(ssl.SSLError) as told:
        tls.do_handshake()
    assert peer_identity.failure(told.value).reason == "it speaks HTTP, not TLS"


def test_the_dialler_trusts_what_is_pinned_for_the_party_called_alone(place: Place) -> None:
    of_bob, of_carol = made.authority(), made.authority()
    alice = place("ALICE", made.of_party(of_bob, "ALICE"), {"BOB": of_bob, "CAROL": of_carol})
    liar = stranger(made.claiming(of_carol, "BOB"), place.path, is_server=True)
    connection = shaking.Connection(functools.partial(alice.dialling, "BOB"), liar)
    assert not connection.dialler.is_done
    told = peer_identity.failure(connection.dialler.error, expected="BOB", address="10.0.0.2:9000")
    assert told.party == "BOB"
    assert "nothing that is pinned for party 'BOB' vouches for its certificate" in told.reason


def test_the_refused_dialler_is_told_why_at_its_first_read(place: Place, bob) -> None:
    own = made.authority()
    alice = place("ALICE", made.of_party(own, "ALICE"), {"BOB": None}, own)
    carol = place("CAROL", made.of_party(own, "CAROL"), {"BOB": None}, own)
    connection = connect(alice, bob)  # BOB's certificate is of another authority
    assert "vouches for its certificate" in (
        peer_identity.failure(connection.dialler.error, expected="BOB").reason
    )
    # And one that trusts BOB, but is not trusted: its handshake is done by then.
    connection = shaking.Connection(
        stranger(made.of_party(own, "CAROL"), place.path), bob.accepting
    )
    assert connection.dialler.is_done
    told = peer_identity.failure(connection.dialler.error, expected="BOB")
    assert told.reason == "it does not trust this party's certificate: it pins another authority"
    assert carol.not_after > NOW_S


# Refused by name: TLS stands, and nothing is read.


def test_a_valid_certificate_of_another_party(place: Place, ca: certificates.Pair) -> None:
    alice = place("ALICE", made.of_party(ca, "ALICE"), {"BOB": None, "CAROL": None}, ca)
    carol = stranger(made.of_party(ca, "CAROL"), place.path, is_server=True)
    connection = shaking.Connection(functools.partial(alice.dialling, "BOB"), carol)
    assert connection.dialler.is_done
    with pytest.raises(errors.HandshakeError) as told:
        alice.peer(connection.dialler.tls, expected="BOB", address="10.0.0.2:9000")
    assert told.value.party == "BOB"
    assert told.value.reason == (
        "the certificate shown at 10.0.0.2:9000 is that of party 'CAROL' "
        "(spiffe://hospitals/party/CAROL)"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("alice", "no party of this job is called 'alice'; case counts, and the party here is"),
        ("Alice", "case counts, and the party here is 'ALICE'"),
        ("ALICIA", "no party of this job is called 'ALICIA'; did you mean 'ALICE'?"),
        ("bob", "case counts, and the party here is 'BOB'"),
        ("BOB", "which is this party itself"),
        ("ALICE.", "'spiffe://hospitals/party/ALICE.', which is not of the form"),
        ("", "which is not of the form"),
        ("ALICE/", "which is not of the form"),
        ("ALICE/x", "which is not of the form"),
        ("ALICE%2E", "which is not of the form"),
        ("ALICE?x", "which is not of the form"),
        ("ALICE#x", "which is not of the form"),
        (" ALICE", "which is not of the form"),
        ("ALICE\x00", "'spiffe://hospitals/party/ALICE?', which is not of the form"),
        ("ALICE\n", "'spiffe://hospitals/party/ALICE?', which is not of the form"),
    ],
)
def test_a_name_that_is_nearly_a_partys(
    place: Place, ca: certificates.Pair, bob, name: str, said: str
) -> None:
    told = refused(bob, stranger(made.claiming(ca, name), place.path))
    assert said in told.reason
    assert told.party == "10.0.0.9:4711"


@pytest.mark.parametrize(
    "uri",
    [
        "SPIFFE://hospitals/party/ALICE",
        "spiffe://HOSPITALS/party/ALICE",
        "spiffe://hospitals/Party/ALICE",
        "spiffe://hospitals//party/ALICE",
        "spiffe://hospitals:443/party/ALICE",
        "spiffe://x@hospitals/party/ALICE",
        "spiffe://hospitals",
        "https://hospitals/party/ALICE",
        "ALICE",
    ],
)
def test_a_uri_of_another_form(place: Place, uri: str) -> None:
    ca = made.unbound_authority()
    bob = place("BOB", made.claiming(ca, "BOB"), {"ALICE": None}, ca)
    told = refused(bob, stranger(made.saying(ca, [uri]), place.path))
    assert f"{uri!r}, which is not of the form" in told.reason


def test_another_federation(place: Place) -> None:
    ca = made.unbound_authority()
    bob = place("BOB", made.claiming(ca, "BOB"), {"ALICE": None}, ca)
    own = made.saying(ca, ["spiffe://banks/party/ALICE"])
    told = refused(bob, stranger(own, place.path))
    assert told.reason == (
        "its certificate is of federation 'banks' (spiffe://banks/party/ALICE), and this is "
        "'hospitals'"
    )


@pytest.mark.parametrize(
    ("uris", "said"),
    [
        ([], "no URI name"),
        (
            ["spiffe://hospitals/party/ALICE", "spiffe://hospitals/party/CAROL"],
            "2 URI names ('spiffe://hospitals/party/ALICE', 'spiffe://hospitals/party/CAROL')",
        ),
        (["spiffe://hospitals/party/ALICE"] * 2, "2 URI names"),
        (["spiffe://hospitals/party/ALICE", "https://hospitals/"], "2 URI names"),
        ([f"spiffe://hospitals/party/P{i}" for i in range(100)], "100 URI names"),
    ],
)
def test_not_exactly_one_uri(
    place: Place, ca: certificates.Pair, bob, uris: list[str], said: str
) -> None:
    told = refused(bob, stranger(made.saying(ca, uris, hosts=["alice"]), place.path))
    assert said in told.reason
    assert "'CN=somebody,O=hospitals'" in told.reason
    assert len(told.reason) < 1000


def test_one_of_several_authorities_vouches_for_another_party(place: Place) -> None:
    of_alice, of_carol = made.authority(), made.authority()
    bob = place("BOB", made.of_party(of_alice, "BOB"), {"ALICE": of_alice, "CAROL": of_carol})
    told = refused(bob, stranger(made.claiming(of_carol, "ALICE"), place.path))
    assert told.party == "10.0.0.9:4711"
    assert "it shows a certificate of 'ALICE'" in told.reason
    assert certificates.facts(of_carol.certificate).subject in told.reason
    assert "what is pinned for 'CAROL' vouches for it, which has no say over 'ALICE'" in told.reason


def test_an_authority_with_the_same_name_vouches_for_nobody_else(place: Place) -> None:
    # Same subject, so that only the signature tells the two apart.
    of_alice, of_carol = made.unbound_authority(), made.unbound_authority()
    assert of_alice.certificate.subject == of_carol.certificate.subject
    bob = place("BOB", made.claiming(of_alice, "BOB"), {"ALICE": of_alice, "CAROL": of_carol})
    told = refused(bob, stranger(made.claiming(of_carol, "ALICE"), place.path))
    assert "what is pinned for 'CAROL' vouches for it" in told.reason


def test_a_pinned_certificate_vouches_for_itself_alone(place: Place) -> None:
    of_carol = made.authority()
    alices = made.of_party(made.authority(), "ALICE")
    bob = place("BOB", made.of_party(of_carol, "BOB"), {"ALICE": alices, "CAROL": of_carol})
    told = refused(bob, stranger(made.claiming(of_carol, "ALICE"), place.path))
    assert "which has no say over 'ALICE'" in told.reason


def test_a_pinned_key_narrows_what_the_authority_says(
    place: Place, ca: certificates.Pair, bob
) -> None:
    alices = made.of_party(ca, "ALICE")
    pin = bob._files.authority.with_name("alice.pub")
    pin.write_bytes(_public_pem(alices))
    files = identity.Files(
        certificate=bob._files.certificate, key=bob._files.key,
        peers={"ALICE": pin, "CAROL": None}, authority=bob._files.authority,
    )  # fmt: skip
    bob = identity.Identity(files, federation=made.FEDERATION, party="BOB", clock=place.clock)
    renewed = made.saying(ca, [spiffe.uri(made.FEDERATION, "ALICE")], key=alices.key)
    for own in (alices, renewed):
        connection = shaking.Connection(stranger(own, place.path), bob.accepting)
        assert bob.peer(connection.listener.tls).party == "ALICE"
    told = refused(bob, stranger(made.of_party(ca, "ALICE"), place.path))
    assert "is not the pinned one" in told.reason
    carol = shaking.Connection(stranger(made.of_party(ca, "CAROL"), place.path), bob.accepting)
    assert bob.peer(carol.listener.tls).party == "CAROL"


def _public_pem(pair: certificates.Pair) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return pair.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def test_expired(place: Place, ca: certificates.Pair, bob, clock: clocks.FakeClock) -> None:
    end = made.NOW + 2 * made.DAY
    alice = stranger(made.of_party(ca, "ALICE", not_after=end), place.path)
    connection = shaking.Connection(alice, bob.accepting)
    assert bob.peer(connection.listener.tls).not_after == end.timestamp()
    clock.now_s = end.timestamp() + 1
    told = refused(bob, alice)
    assert told.party == "ALICE"
    assert told.reason == (
        "its certificate (spiffe://hospitals/party/ALICE) ended at 2026-03-03 12:00:00 UTC"
    )
    assert "rayfed cert issue" in told.fix


def test_not_yet_valid(place: Place, ca: certificates.Pair, bob) -> None:
    begin = made.NOW + datetime.timedelta(minutes=12)
    own = made.saying(ca, [spiffe.uri(made.FEDERATION, "ALICE")], not_before=begin)
    told = refused(bob, stranger(own, place.path))
    assert told.party == "ALICE"
    assert told.reason == (
        "its certificate (spiffe://hospitals/party/ALICE) begins at 2026-03-01 12:12:00 UTC, "
        "12 min after the time on this machine's clock"
    )
    assert "clocks" in told.fix


def test_an_expired_authority(place: Place, bob, clock: clocks.FakeClock) -> None:
    ca = made.authority(not_after=made.NOW + made.DAY)
    carols = made.authority()
    bob = place("BOB", made.of_party(carols, "BOB"), {"ALICE": ca, "CAROL": carols})
    alice = stranger(made.of_party(ca, "ALICE"), place.path)
    clock.advance(2 * made.DAY.total_seconds())
    told = refused(bob, alice)
    assert "the authority of its certificate (spiffe://hospitals/party/ALICE)" in told.reason
    assert "ended at 2026-03-02 12:00:00 UTC" in told.reason


@dataclasses.dataclass
class Shown:
    """A connection that shows what OpenSSL would let nobody show."""

    der: bytes

    def selected_alpn_protocol(self) -> str:
        return peer_identity.PROTOCOL

    def getpeercert(self, *, binary_form: bool) -> bytes:
        return self.der


def test_an_authority_that_speaks_itself(place: Place) -> None:
    ca = made.unbound_authority()
    bob = place("BOB", made.claiming(ca, "BOB"), {"ALICE": None}, ca)
    own = made.saying(ca, [spiffe.uri(made.FEDERATION, "ALICE")], is_authority=True)
    told = refused_by_tls(bob, stranger(own, place.path))
    assert told.reason == "its certificate is not for both ends of a connection"
    with pytest.raises(errors.HandshakeError, match="'ALICE' is one of an authority"):
        bob.peer(Shown(certificates.der(own.certificate)))


def test_a_certificate_that_cannot_be_read(ca: certificates.Pair) -> None:
    der = certificates.der(made.of_party(ca, "ALICE").certificate)
    for at in range(0, len(der), 7):
        broken = der[:at] + bytes([der[at] ^ 0xFF]) + der[at + 1 :]
        for shown in (broken, der[:at]):
            with pytest.raises(errors.HandshakeError):
                peer_identity.check(
                    Shown(shown), federation=made.FEDERATION, party="BOB",
                    pinned={"ALICE": pins.Pin(authorities=(ca.certificate,))}, now=NOW_S,
                )  # fmt: skip


@pytest.mark.parametrize("alpn", [None, "h2", "fed/2"])
def test_another_protocol(place: Place, ca: certificates.Pair, bob, alpn: str | None) -> None:
    alice = stranger(made.of_party(ca, "ALICE"), place.path, alpn=alpn)
    assert "not fed/1" in refused(bob, alice).reason


def test_a_dialler_that_ends_the_connection_at_once(bob) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = bob.accepting(incoming, outgoing)
    incoming.write_eof()
    with pytest.raises(ssl.SSLError) as raised:
        tls.do_handshake()
    told = peer_identity.failure(raised.value)
    assert told.reason == "it ended the connection while TLS was being set up"
    assert told.party == peer_identity.UNKNOWN


def ssl_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] words (_ssl.c:1)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ssl_error("TLSV1_ALERT_UNKNOWN_CA"), "it pins another authority"),
        (ssl_error("SSLV3_ALERT_CERTIFICATE_EXPIRED"), "this party's certificate has ended"),
        (ssl_error("SSLV3_ALERT_BAD_CERTIFICATE"), "it does not take this party's certificate"),
        (ssl_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "this party showed none"),
        (ssl_error("TLSV1_ALERT_PROTOCOL_VERSION"), "it does not speak TLS 1.3"),
        (ssl_error("WRONG_VERSION_NUMBER"), "it does not speak TLS"),
        (ssl_error("SOMETHING_ELSE"), "TLS could not be set up: SOMETHING_ELSE"),
        (ssl.SSLEOFError(8, "EOF occurred"), "it ended the connection while TLS was being set up"),
        (ConnectionResetError(104, "Connection reset by peer"), "broke: Connection reset by peer"),
    ],
)
def test_what_the_connection_raised_is_a_named_error(error: OSError, said: str) -> None:
    told = peer_identity.failure(error, expected="BOB", address="10.0.0.2:9000")
    assert said in told.reason
    assert told.party == "BOB"
    assert told.fix
    assert peer_identity.failure(error, address="10.0.0.2:9000").party == "10.0.0.2:9000"


# Renewal.


def renew(party: identity.Identity, pair: certificates.Pair) -> None:
    """Put new files in the place of the old ones, as a secret's mount does: by renaming."""
    folder = party._files.certificate.parent
    fresh = folder / "fresh"
    fresh.mkdir(exist_ok=True)
    for path in made.write(fresh, "own", pair):
        path.replace(folder / path.name)


def test_a_renewed_certificate_serves_from_the_next_connection_on(
    place: Place, ca: certificates.Pair, bob, clock: clocks.FakeClock
) -> None:
    old = made.of_party(ca, "ALICE", not_after=made.NOW + made.DAY)
    alice = place("ALICE", old, {"BOB": None}, ca)
    first = connect(alice, bob)
    new = made.of_party(ca, "ALICE", not_after=made.NOW + 9 * made.DAY)
    renew(alice, new)
    second = connect(alice, bob)
    ends = [bob.peer(one.listener.tls) for one in (first, second)]
    assert [end.not_after for end in ends] == [
        pair.certificate.not_valid_after_utc.timestamp() for pair in (old, new)
    ]
    assert alice.not_after == ends[1].not_after
    assert first.carries()  # the one that stood goes on
    clock.advance(2 * made.DAY.total_seconds())
    third = connect(alice, bob)
    assert bob.peer(third.listener.tls).party == "ALICE"


def test_a_renewed_listener_shows_its_new_certificate(
    place: Place, ca: certificates.Pair, bob
) -> None:
    alice = place("ALICE", made.of_party(ca, "ALICE"), {"BOB": None}, ca)
    new = made.of_party(ca, "BOB", not_after=made.NOW + 5 * made.DAY)
    renew(bob, new)
    connection = connect(alice, bob)
    found = alice.peer(connection.dialler.tls, expected="BOB")
    assert found.sha256 == certificates.facts(new.certificate).sha256


def test_a_new_pin_is_taken_in(place: Place) -> None:
    old, new = made.authority(), made.authority()
    bob = place("BOB", made.of_party(old, "BOB"), {"ALICE": old})
    pin = bob._files.peers["ALICE"]
    pin.write_bytes(pin.read_bytes() + certificates.pem(new.certificate))
    for signer in (old, new):  # both while one takes over
        connection = shaking.Connection(
            stranger(made.of_party(signer, "ALICE"), place.path), bob.accepting
        )
        assert bob.peer(connection.listener.tls).party == "ALICE"


@pytest.mark.parametrize("what", ["other party", "half replaced", "rubbish", "gone", "readable"])
def test_files_that_cannot_be_used_leave_those_before_in_use(
    place: Place,
    ca: certificates.Pair,
    bob,
    clock: clocks.FakeClock,
    caplog: pytest.LogCaptureFixture,
    what: str,
) -> None:
    own = made.of_party(ca, "ALICE")
    alice = place("ALICE", own, {"BOB": None}, ca)
    files = alice._files
    if what == "other party":
        renew(alice, made.of_party(ca, "CAROL"))
    elif what == "half replaced":
        files.certificate.write_bytes(certificates.pem(made.of_party(ca, "ALICE").certificate))
    elif what == "rubbish":
        files.certificate.write_bytes(b"rubbish")
    elif what == "gone":
        files.key.unlink()
    else:
        files.key.chmod(0o644)
    for _ in range(3):
        connection = connect(alice, bob)
        assert bob.peer(connection.listener.tls).sha256 == (
            certificates.facts(own.certificate).sha256
        )
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "changed certificate files are not used (tls." in warnings[0].getMessage()
    assert str(files.key) not in warnings[0].getMessage()
    clock.advance(61)
    assert not alice.refresh()  # tried again, told again
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 2
    new = made.of_party(ca, "ALICE")
    renew(alice, new)
    assert alice.refresh()
    assert not alice.refresh()


def test_a_party_whose_own_certificate_ended_does_not_dial(
    place: Place, ca: certificates.Pair, clock: clocks.FakeClock
) -> None:
    alice = place(
        "ALICE", made.of_party(ca, "ALICE", not_after=made.NOW + made.DAY), {"BOB": None}, ca
    )
    clock.advance(made.DAY.total_seconds() + 1)
    with pytest.raises(errors.HandshakeError) as told:
        alice.dialling("BOB", ssl.MemoryBIO(), ssl.MemoryBIO())
    assert "the certificate of this party, 'ALICE', ended at 2026-03-02" in told.value.reason
    renew(alice, made.of_party(ca, "ALICE"))
    alice.dialling("BOB", ssl.MemoryBIO(), ssl.MemoryBIO())


# What is wrong with this party's own files is a ConfigError at the start.


@pytest.mark.parametrize(
    ("change", "key", "said"),
    [
        (lambda f: f.certificate.unlink(), "tls.cert", "there is no such file"),
        (lambda f: f.certificate.write_bytes(b""), "tls.cert", "it holds no certificate"),
        (lambda f: f.certificate.write_bytes(b"x" * (2 << 20)), "tls.cert", "it is larger than"),
        (
            lambda f: f.certificate.write_bytes(
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
            ),
            "tls.cert", "a certificate in it can't be read",
        ),
        (lambda f: f.key.unlink(), "tls.key", "there is no such file"),
        (lambda f: f.key.write_bytes(b""), "tls.key", "it holds no private key"),
        (lambda f: f.key.chmod(0o640), "tls.key", "its group can read this private key (mode 0640"),
        (lambda f: f.key.chmod(0o604), "tls.key", "others can read this private key (mode 0604)"),
        (lambda f: f.authority.unlink(), "tls.ca_cert", "there is no such file"),
        (lambda f: f.authority.write_bytes(b""), "tls.ca_cert", "it holds neither"),
        (
            lambda f: f.authority.write_bytes(f.key.read_bytes()),
            "tls.ca_cert", "it holds a private key",
        ),
        (
            lambda f: f.authority.write_bytes(_public_pem(made.authority())),
            "tls.ca_cert", "a public key narrows what an authority says",
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong(bob, place: Place, change, key: str, said: str) -> None:
    change(bob._files)
    with pytest.raises(errors.ConfigError) as told:
        identity.Identity(bob._files, federation=made.FEDERATION, party="BOB", clock=place.clock)
    assert told.value.key == key
    assert said in told.value.problem
    assert str(bob._files.certificate.parent) in told.value.source
    assert "\n" not in str(told.value)


def test_an_own_certificate_that_is_wrong(
    place: Place, ca: certificates.Pair, clock: clocks.FakeClock
) -> None:
    def problem(own: certificates.Pair) -> str:
        with pytest.raises(errors.ConfigError) as told:
            place("BOB", own, {"ALICE": None}, ca)
        return told.value.problem

    wanted = "it has to say 'spiffe://hospitals/party/BOB' and nothing else of the kind; it says"
    assert problem(made.of_party(ca, "bob")) == f"{wanted} 'spiffe://hospitals/party/bob'"
    assert problem(made.saying(ca, [])) == f"{wanted} no URI name"
    assert problem(made.authority()).startswith(wanted)
    top = made.saying(ca, [spiffe.uri(made.FEDERATION, "BOB")], is_authority=True)
    assert problem(top) == "it is the certificate of an authority, not of a party"
    mixed = certificates.Pair(made.of_party(ca, "BOB").certificate, made.of_party(ca, "BOB").key)
    assert "it is not the key of the certificate" in problem(mixed)
    own = made.of_party(ca, "BOB")
    clock.advance(11 * made.DAY.total_seconds())
    assert problem(own) == "it ended at 2026-03-11 12:00:00 UTC"


def test_the_files_that_settings_name(tmp_path: Path) -> None:
    text = """
        parties:
          ALICE: {address: 'a:1', tls: {cert: alice.pem, key: alice.key, pin: alice-ca.pem}}
          BOB: {address: 'b:1', tls: {pin: bob-ca.pem}}
          CAROL: {address: 'c:1'}
        tls: {ca_cert: ca.pem}
    """
    layer = federation.parse(text, source="federation.yaml", folder=tmp_path)
    init = layers.from_init({"party": "ALICE"})
    found = identity.Files.of(resolve.settle(init=init, federation=layer).settings)
    assert found == identity.Files(
        certificate=tmp_path / "alice.pem",
        key=tmp_path / "alice.key",
        peers={"BOB": tmp_path / "bob-ca.pem", "CAROL": None},
        authority=tmp_path / "ca.pem",
    )


def test_nothing_vouches_for_a_peer(place: Place, ca: certificates.Pair) -> None:
    with pytest.raises(errors.ConfigError, match="nothing vouches for party 'ALICE'"):
        place("BOB", made.of_party(ca, "BOB"), {"ALICE": None})


def test_a_key_with_a_passphrase_asks_nobody(bob, place: Place) -> None:
    from cryptography.hazmat.primitives import serialization

    key = certificate_files.read_key(bob._files.key)
    bob._files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(errors.ConfigError, match="the key has a passphrase"):
        identity.Identity(bob._files, federation=made.FEDERATION, party="BOB", clock=place.clock)


def test_a_key_that_root_hands_over_may_be_read_by_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"")
    found = key.stat()
    given = os.stat_result((stat.S_IFREG | 0o640, *found[1:4], 0, *found[5:]))
    monkeypatch.setattr(Path, "stat", lambda self, **_: given)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    certificate_files.check_private(key)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(errors.ConfigError, match="its group can read"):
        certificate_files.check_private(key)
