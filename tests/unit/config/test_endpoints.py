"""Addresses: what is one, and what it can be used for."""

from __future__ import annotations

import pytest

from fed.config import endpoints


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:80", "localhost", 80),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("alice.example.org:9000", "alice.example.org", 9000),
        ("alice_1:65535", "alice_1", 65535),
        ("[::1]:9000", "::1", 9000),
        ("[2001:db8::1]:9000", "2001:db8::1", 9000),
    ],
)
def test_host_and_port(text, host, port):
    endpoint = endpoints.split(text)
    assert endpoint == (host, port)
    assert str(endpoint) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("alice", "no port"),
        ("alice:", "no port"),
        (":9000", "no port"),
        ("", "no port"),
        ("alice:x", "no port"),
        ("alice:-1", "no port"),
        ("alice:65536", "above 65535"),
        ("http://alice:80", "scheme"),
        ("::1:9000", "without brackets"),
        ("[127.0.0.1]:9000", "brackets"),
        ("[x]:9000", "brackets"),
        ("al ice:80", "no host name"),
        ("-alice:80", "no host name"),
        ("a..b:80", "no host name"),
        ("256.1.1.1:80", "is none"),
        ("10.0.0:80", "is none"),
        (f"{'a' * 254}:80", "no host name"),
    ],
)
def test_what_is_no_address_says_why(text, why):
    with pytest.raises(ValueError, match=why):
        endpoints.split(text)


@pytest.mark.parametrize(
    ("text", "is_loopback", "is_wildcard"),
    [
        ("LocalHost:1", True, False),
        ("127.9.9.9:1", True, False),
        ("[::1]:1", True, False),
        ("0.0.0.0:1", False, True),
        ("[::]:1", False, True),
        ("10.0.0.1:1", False, False),
        ("localhost.example.org:1", False, False),
    ],
)
def test_loopback_and_wildcard(text, is_loopback, is_wildcard):
    endpoint = endpoints.split(text)
    assert (endpoint.is_loopback, endpoint.is_wildcard) == (is_loopback, is_wildcard)
