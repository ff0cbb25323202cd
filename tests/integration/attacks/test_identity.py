"""Who is not let in: no certificate that counts, or one that is another party's."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import threading

import pytest
from tests.integration.attacks import scenes

from fed import errors
from fed.testing import certificates
from fed.transport import frames, handshake, spiffe

URI = "spiffe://hospitals/party/"
TRANSFER = "BOB's arrays to ALICE, answered by their digests"
HOUR = datetime.timedelta(hours=1)


def attack(scene, pair, **given):
    """A connection with that certificate says HELLO as BOB; gives it with all that it heard."""
    with scene.honest(TRANSFER) as transfer:
        one = scene.raw(pair, **given)
        if one.error is None:
            one.send(scenes.hello("BOB", epoch=99))
        heard = one.rest() if one.error is None else b""
        transfer.finish()
    return one, heard


def said(heard):
    """The words of the one ERROR frame that was heard."""
    kind, _, _, _, length, code, *_ = frames.HEADER.unpack_from(heard)
    assert (kind, code) == (frames.ERROR, handshake.REFUSED)
    assert len(heard) == frames.HEADER_SIZE + length
    return heard[frames.HEADER_SIZE :].decode()


def test_no_certificate(scene):
    one, heard = attack(scene, None)
    assert heard == b""
    assert "CERTIFICATE_REQUIRED" in str(one.error)
    scene.log.says(one.address, "it showed no certificate")


def test_other_ca(scene, world):
    # It says BOB, and is right in all but who signed it.
    other = world.new_authority()
    pair = certificates.of_party(other, "BOB", now=world.now)
    one, heard = attack(scene, pair)
    assert heard == b""
    assert isinstance(one.error, OSError)
    scene.log.says(one.address, "vouches for its certificate")


def test_a_certificate_that_signs_itself(scene, world):
    one, heard = attack(scene, world.new_authority())
    assert heard == b""
    scene.log.says(one.address, "signed by itself")


@pytest.mark.parametrize("party", ["BOB", "CAROL"])
def test_expired_certificate(scene, world, party):
    pair = world.saying(URI + party, end=world.now - HOUR)
    _, heard = attack(scene, pair)
    assert "ended at" in said(heard)
    scene.log.says(URI + party, "ended at")


def test_a_certificate_that_has_not_begun(scene, world):
    pair = world.saying(URI + "CAROL", begin=world.now + HOUR)
    _, heard = attack(scene, pair)
    assert "begins at" in said(heard)
    scene.log.says(URI + "CAROL", "begins at")


def test_tls_1_2_is_refused(scene, world):
    one, heard = attack(scene, world.of("CAROL"), newest=ssl.TLSVersion.TLSv1_2)
    assert heard == b""
    assert "PROTOCOL_VERSION" in str(one.error)
    scene.log.says(one.address, "does not speak TLS 1.3")


@pytest.mark.parametrize("alpn", [(), ("h2", "http/1.1")])
def test_another_protocol_above_tls(scene, world, alpn):
    one, _ = attack(scene, world.of("CAROL"), alpn=alpn)
    scene.log.says(one.address, "fed/1")


PLAIN = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: alice\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(2000),
    "zeros": bytes(200_000),
    "a TLS record of another version": b"\x16\x02\x00\x00\x05hello",
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_bytes_on_the_port(scene, name):
    with scene.honest(TRANSFER) as transfer:
        one = scene.raw(shakes=False)
        one.send(PLAIN[name])
        assert frames.HELLO not in one.rest()[:1]
        transfer.finish()
    scene.log.says(one.address)


def test_a_hello_without_tls(scene):
    with scene.honest(TRANSFER) as transfer:
        one = scene.raw(shakes=False)
        one.send(scenes.hello("CAROL"))
        one.rest()
        transfer.finish()
    scene.log.says(one.address, "does not speak TLS")


# --- valid certificates of somebody else ----------------------------------------------------------


class Impostor:
    """Listens with a certificate of its own where another party is dialled."""

    def __init__(self, world, pair):
        files = certificates.write(world.new_folder(), "impostor", pair)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*files)
        self._context.set_alpn_protocols(["fed/1"])
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.heard = b""
        self.dialled = 0
        threading.Thread(target=self._run, name="impostor", daemon=True).start()

    def _run(self):
        while True:
            try:
                one, _ = self._socket.accept()
            except OSError:
                return
            self.dialled += 1
            one.settimeout(scenes.PATIENCE_S)
            with contextlib.suppress(OSError):
                one = self._context.wrap_socket(one, server_side=True)
                self.heard += one.recv(1000)
            one.close()

    def close(self):
        self._socket.close()


@pytest.mark.parametrize("shown", ["CAROL", "dave", "DAVE.", "BOB"])
def test_valid_certificate_of_another_party(make_scene, world, shown):
    # At DAVE's address somebody answers with a certificate that the same authority signed.
    impostor = Impostor(world, world.saying(URI + shown))
    scene = make_scene(peers={"CAROL": None, "DAVE": impostor.address})
    try:
        with scene.honest(TRANSFER) as transfer:
            scenes.wait_until(lambda: impostor.dialled >= 2)
            transfer.finish()
        assert impostor.heard == b"", "ALICE spoke to an impostor"
        with pytest.raises(errors.PartyError) as caught:
            scene.alice.start(0.0)
        told = str(caught.value)
        assert "DAVE" in told
        assert URI + shown in told
        scene.log.says("'DAVE'", URI + shown)
    finally:
        impostor.close()


def test_name_in_other_case(scene, world):
    one, heard = attack(scene, world.saying(URI + "bob"))
    assert "case counts, and the party here is 'BOB'" in said(heard)
    scene.log.says(one.address, URI + "bob", "case counts")


def test_name_with_trailing_dot(scene, world):
    one, heard = attack(scene, world.saying(URI + "BOB."))
    assert "not of the form" in said(heard)
    scene.log.says(one.address, URI + "BOB.")


@pytest.mark.parametrize(
    "uri",
    [
        URI + "BOB/", URI + "%42OB", URI + "BOB?x", URI + "BOB#", "spiffe://hospitals/Party/BOB",
        "spiffe://hospitals:1/party/BOB", "https://hospitals/party/BOB",
        "spiffe://hospitals/party/", URI + "B0B", URI + "ALICE",
    ],
)  # fmt: skip
def test_other_spellings_of_a_name(scene, world, uri):
    one, heard = attack(scene, world.saying(uri))
    assert said(heard)
    scene.log.says(one.address, uri)


def test_another_federation(scene, world):
    # The authority of `hospitals` may not sign for another; one that may sign all is not pinned.
    one, _ = attack(scene, world.saying("spiffe://banks/party/BOB"))
    scene.log.says(one.address, "another federation")


def test_two_uri_names(scene, world):
    one, heard = attack(scene, world.saying(URI + "CAROL", URI + "BOB"))
    assert "2 URI names" in said(heard)
    scene.log.says(one.address, "2 URI names", URI + "CAROL", URI + "BOB")


def test_no_uri_name(scene, world):
    one, heard = attack(scene, world.saying())
    assert "no URI name" in said(heard)
    scene.log.says(one.address, "no URI name")


def test_ca_vouches_for_another_party(make_scene, world):
    # BOB and CAROL have authorities of their own, both trusted. CAROL's signs a BOB.
    of_bob, of_carol = world.new_authority(), world.new_authority()
    scene = make_scene(
        pins={"BOB": of_bob, "CAROL": of_carol},
        bob=certificates.of_party(of_bob, "BOB", now=world.now),
    )
    one, heard = attack(scene, certificates.of_party(of_carol, "BOB", now=world.now))
    words = "what is pinned for 'CAROL' vouches for it, which has no say over 'BOB'"
    assert words in said(heard)
    scene.log.says(one.address, words)
    # And for itself it may speak.
    own = scene.raw(certificates.of_party(of_carol, "CAROL", now=world.now))
    assert own.error is None
    own.close()


def test_another_key_than_the_pinned_one(make_scene, world):
    scene = make_scene(pins={"CAROL": world.of("CAROL")})
    other = certificates.of_party(world.authority, "CAROL", now=world.now)
    one, heard = attack(scene, other)
    assert "vouch" in said(heard) or "pinned" in said(heard)
    scene.log.says(one.address, "CAROL")


@pytest.mark.parametrize("claimed", ["BOB", "bob", "BOB.", "carol", "ALICE", ""])
def test_speaks_as_another_party(scene, world, claimed):
    # CAROL's certificate is right, TLS stands, and her HELLO says another name.
    with scene.honest(TRANSFER) as transfer:
        one = scene.raw(world.of("CAROL"))
        one.send(scenes.hello(claimed, epoch=99))
        code, words = one.last_words()
        transfer.finish()
    assert code == handshake.MISMATCH
    assert words == f"the certificate says 'CAROL', the HELLO {claimed!r}"
    scene.log.says("the link to party CAROL ended", f"the HELLO {claimed!r}")
    assert not scene.log.lines("party BOB")


# --- what was recorded ----------------------------------------------------------------------------


class Recorder:
    """A gateway between BOB and ALICE that keeps what BOB said and may say a part of it twice."""

    def __init__(self, target):
        self._target = target
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.recordings = []
        self.repeats = 0
        self.changes = 0
        self.done = 0
        self._live = []
        threading.Thread(target=self._accept, name="recorder", daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._socket.accept()
                far = socket.create_connection(self._target, 10)
            except OSError:
                return
            far.settimeout(None)
            self._live += [near, far]
            recording = bytearray()
            self.recordings.append(recording)
            for source, sink, kept in ((near, far, recording), (far, near, None)):
                threading.Thread(
                    target=self._carry, args=(source, sink, kept), name="recorder", daemon=True
                ).start()

    def _carry(self, source, sink, kept):
        try:
            while data := source.recv(1 << 16):
                if kept is not None:
                    kept += data
                    if self.repeats and len(kept) > 100_000:
                        self.repeats -= 1
                        self.done += 1
                        data += data
                    elif self.changes and len(kept) > 100_000:
                        self.changes -= 1
                        self.done += 1
                        data = data[:-1] + bytes([data[-1] ^ 1])
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._socket.close()
        for one in self._live:
            one.close()


def test_replayed_bytes(make_scene):
    # All that BOB ever said, handshake included, once more on connections of the gateway's own.
    scene = make_scene(through=Recorder)
    with scene.honest(TRANSFER) as transfer:
        recordings = [bytes(one) for one in scene.gateway.recordings]
        assert len(recordings) == 2
        assert max(map(len, recordings)) > 256 << 10
        for recording in recordings:
            again = scene.raw(shakes=False)
            again.send(recording)
            heard = again.rest()
            assert heard[:1] in (b"", b"\x16"), "an answer that is no handshake"
            scene.log.says(again.address)
        transfer.finish()
    assert not scene.log.lines("party BOB")


@pytest.mark.parametrize("way", ["repeats", "changes"])
def test_records_that_a_gateway_repeats_or_changes(make_scene, way):
    # TLS sees it, the connection ends, BOB dials again, and every array is itself.
    scene = make_scene(through=Recorder)
    with scene.honest(TRANSFER) as transfer:
        setattr(scene.gateway, way, 2)
        scenes.wait_until(lambda: scene.gateway.done == 2, way)
        transfer.finish()
    scene.log.says("the connection to party BOB broke")
    assert len(scene.gateway.recordings) >= 4


def test_another_session_with_a_stolen_place(scene, world):
    # A second process with BOB's own certificate does not take over what BOB's process does.
    with scene.honest(TRANSFER):
        one = scene.raw(world.of("BOB"))
        one.send(scenes.hello("BOB", epoch=99))
        code, words = one.last_words()
    assert code == handshake.LOST
    assert "its session id is another one" in words
    scene.log.says("the link to party BOB ended", "its session id is another one")


def test_names_of_certificates_are_shown_harmlessly(scene, world):
    # The log gets no line breaks and no megabytes out of a certificate.
    uri = "spiffe://hospitals/party/" + "X" * 20_000
    one, heard = attack(scene, world.saying(uri))
    assert len(said(heard)) < 2000
    scene.log.says(one.address)
    assert max(map(len, scene.log.lines(one.address))) < 2000
    assert spiffe.parse(uri) is None
