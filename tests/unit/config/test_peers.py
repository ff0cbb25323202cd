"""What multi-controller refuses before anything is dialled."""

from __future__ import annotations

import pytest

from fed import errors
from fed.config import layers, resolve

LOCAL = {"ALICE": "127.0.0.1:9001", "BOB": "localhost:9002"}
FAR = {"ALICE": "alice.example.org:9000", "BOB": "bob.example.org:9000"}
TLS = {"ca_cert": "ca.pem", "cert": "a.pem", "key": "a.key"}


def settings(**arguments):
    given = {"party": "ALICE", **arguments}
    return resolve.settle(init=layers.from_init(given)).settings


@pytest.mark.parametrize(
    "arguments",
    [
        {"addresses": LOCAL},
        {"addresses": {"ALICE": "[::1]:1", "BOB": "127.0.0.1:2"}},
        {"addresses": {**LOCAL, "CAROL": None}},
        {"addresses": FAR, "insecure": True},
        {"addresses": FAR, "tls": TLS},
        {"addresses": FAR, "tls": TLS, "listen": "0.0.0.0:9000"},
        {"addresses": FAR, "tls": {"cert": "a", "key": "k", "pins": {"BOB": "b-ca.pem"}}},
    ],
)
def test_what_is_enough(arguments):
    assert settings(**arguments).addresses == arguments["addresses"]


@pytest.mark.parametrize(
    ("arguments", "key", "text"),
    [
        ({"addresses": LOCAL, "party": None}, "party", "which party this process acts for"),
        ({"addresses": LOCAL, "party": "ALCE"}, "party", "did you mean 'ALICE'"),
        ({"addresses": LOCAL, "parties": ["BOB"]}, "party", "not one of the job's"),
        ({"mode": "multi-controller"}, "addresses", "needs the addresses"),
        ({"mode": "multi-controller", "parties": ["A"]}, "parties", "needs the addresses"),
        ({"addresses": {**LOCAL, "C": None, "D": None}}, "addresses", "'C' and 'D' have no addr"),
        (
            {"addresses": {"ALICE": None, "BOB": "localhost:1"}, "listen": "127.0.0.1:1"},
            "listen",
            "nobody would dial",
        ),
        ({"addresses": {"ALICE": "H:1", "BOB": "h:1"}}, "addresses", "same address"),
        ({"addresses": FAR}, "addresses", "there is no TLS"),
        ({"addresses": LOCAL, "listen": "0.0.0.0:9000"}, "listen", "there is no TLS"),
        (
            {"addresses": FAR, "tls": {"cert": "a", "ca_cert": "c"}},
            "tls.cert",
            "tls.key is missing",
        ),
        ({"addresses": FAR, "tls": {"key": "a", "ca_cert": "c"}}, "tls.key", "tls.cert is missing"),
        (
            {"addresses": FAR, "tls": {"cert": "a", "key": "k"}},
            "tls.cert",
            "vouches for party 'BOB'",
        ),
        ({"addresses": FAR, "tls": {"ca_cert": "c"}}, "tls.ca_cert", "no certificate to show"),
        ({"addresses": FAR, "tls": {"pins": {"BOB": "b"}}}, "tls.pins", "no certificate to show"),
        ({"addresses": FAR, "tls": {**TLS, "pins": {"BB": "b"}}}, "tls.pins", "did you mean 'BOB'"),
        ({"addresses": FAR, "tls": TLS, "insecure": True}, "insecure", "no effect"),
    ],
)
def test_what_is_refused(arguments, key, text):
    with pytest.raises(errors.ConfigError) as caught:
        settings(**arguments)
    assert caught.value.key == key
    assert text in str(caught.value)


def test_a_pin_of_a_party_that_is_not_selected_is_no_mistake():
    three = {**FAR, "CAROL": "carol.example.org:9000"}
    found = settings(
        addresses=three, parties=["ALICE", "BOB"], tls={**TLS, "pins": {"CAROL": "c.pem"}}
    )
    assert set(found.addresses) == {"ALICE", "BOB"}


def test_a_partys_own_setting_said_twice_in_one_place_is_refused():
    with pytest.raises(errors.ConfigError, match="says it too") as caught:
        settings(
            parties={"ALICE": {"address": "localhost:1", "listen": "127.0.0.1:2"}},
            listen="127.0.0.1:3",
        )
    assert caught.value.key == "parties.ALICE.listen"


def test_a_partys_own_setting_yields_to_a_stronger_place():
    found = resolve.settle(
        init=layers.from_init({"parties": {"A": {"address": "localhost:1", "listen": "[::1]:2"}}}),
        run=layers.from_run({"listen": "127.0.0.1:3", "party": "A"}),
    )
    assert found.settings.listen == "127.0.0.1:3"
    assert found.source_of("listen") == "rayfed run --listen"
