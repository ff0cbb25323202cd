"""How a party is named in a certificate and in the greeting of TLS: pure, and exact.

A certificate says `spiffe://<federation>/party/<name>`, compared byte for byte. The server name
(SNI) only routes: gateways may change its case, so it identifies nobody.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

from fed import names

#: A label of a host name (RFC 1123): what every gateway can match.
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_OTHER: Final = re.compile(r"[^a-z0-9]+")
_URI: Final = re.compile(r"spiffe://([a-z0-9][a-z0-9._-]{0,254})/party/([A-Za-z0-9._-]{1,63})")

#: Hexadecimal digits of a hash in a server name: two of the 1,000 parties of a federation meet with
#: a probability of 1 in 8,000, and then reach the wrong door, which refuses them.
_HASH_DIGITS: Final = 8
_STEM_LIMIT: Final = names.MAX_NAME_LENGTH - _HASH_DIGITS - 1


class Name(NamedTuple):
    """Whom a URI names."""

    federation: str
    party: names.PartyId


def uri(federation: str, party: str) -> str:
    """The one URI name of a party's certificate."""
    return f"spiffe://{federation}/party/{party}"


def authority_uri(federation: str) -> str:
    """The URI name of a federation's authority: the trust domain alone, as SPIFFE has it."""
    return f"spiffe://{federation}"


def parse(text: str) -> Name | None:
    """Whom a URI names; None if it is not of the form, to the last byte.

    No escapes, no port, no query, nothing behind the name; a name keeps the rule for names.
    """
    match = _URI.fullmatch(text)
    if match is None or not names.is_name(match[2]):
        return None
    return Name(match[1], names.PartyId(match[2]))


def server_name(party: str) -> str:
    """The server name (SNI) by which a party is called, for gateways that route by it.

    The name in lower case where that is a host name: `ALICE` -> `alice`, `Bank.North` ->
    `bank.north`. What no host name has becomes a dash, and a hash tells such names apart:
    `bank_a` -> `bank-a-fa2c0d86`. So does a name that looks like an IP address, which TLS does not
    allow here. At most 63 characters. Names are unique ignoring case, and so are these.
    """
    lower = party.lower()
    labels = lower.split(".")
    if all(_LABEL.fullmatch(label) for label in labels) and not labels[-1].isdigit():
        return lower
    if len(labels) == 1 and _LABEL.fullmatch(lower):
        return lower  # digits alone: no address without dots
    digest = hashlib.sha256(lower.encode()).hexdigest()[:_HASH_DIGITS]
    stem = _OTHER.sub("-", lower)[:_STEM_LIMIT].strip("-")
    return f"{stem}-{digest}"
