"""Who a TLS connection's other end is: the one name in its certificate, held against its pin.

Pure but for the connection that is asked for its certificate: pins and time are passed in.
"""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from fed import errors, names
from fed.transport import certificates, frames, pins, spiffe

#: The protocol that both sides name while TLS is being set up (ALPN).
PROTOCOL: Final = "fed/1"

#: How a party that has no name yet is called in errors, where its address is not known either.
UNKNOWN: Final = "unknown"

#: More names than this of a strange certificate are not shown.
_SHOWN_NAMES: Final = 3
#: Bytes of a name that are shown.
_SHOWN_BYTES: Final = 200

#: A certificate that begins that little later than now is likely a clock's fault.
_SKEW: Final = datetime.timedelta(days=1)

_ISSUE: Final = "Issue it with rayfed cert issue"
_COMPARE: Final = "Compare the fingerprints at both parties: rayfed cert show"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who was found at the other end.

    Attributes:
        party: its name.
        not_after: when its certificate (or what vouches for it) ends, in seconds since the epoch:
            the connection must not outlive it.
        sha256: SHA-256 of its certificate, hexadecimal, for logs and the audit file.
    """

    party: names.PartyId
    not_after: float
    sha256: str


def check(
    tls: ssl.SSLObject | ssl.SSLSocket,
    *,
    federation: str,
    party: names.PartyId,
    pinned: Mapping[names.PartyId, pins.Pin],
    now: float,
    expected: names.PartyId | None = None,
    address: str = "",
) -> Peer:
    """The party at the other end of a connection whose handshake is done.

    Its certificate has exactly one URI name, `spiffe://<federation>/party/<name>`, of a party that
    is pinned here; what is pinned for that very party vouches for it, whoever else is pinned; and
    its dates include now.

    Args:
        tls: the connection, set up by `identity.Identity`.
        federation: name of the federation.
        party: this party's own name, which nobody else may have.
        pinned: the pin of each peer.
        now: seconds since the epoch.
        expected: the party that was dialled; None for whoever dialled.
        address: where the connection comes from or leads to, for the error.

    Raises:
        HandshakeError: any of this is not so; it says what the certificate says instead. Its
            `party` is the one expected, else the one that is proven, else the address.
    """
    whom = expected if expected is not None else (address or UNKNOWN)
    protocol = tls.selected_alpn_protocol()
    if protocol != PROTOCOL:
        raise errors.HandshakeError(
            party=whom,
            reason=f"it speaks {_shown(protocol) if protocol else 'no protocol by name'}, not "
            f"{PROTOCOL}",
            fix=f"Look at the address{f' {address}' if address else ''}: no party listens there",
        )
    der = tls.getpeercert(binary_form=True)
    if not der:
        raise errors.HandshakeError(
            party=whom, reason="it showed no certificate", fix="Give it tls.cert and tls.key"
        )
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    try:
        certificate = x509.load_der_x509_certificate(der)
        claimed = _claimed(certificate, whom, federation=federation, party=party, pinned=pinned)
        if expected is not None and claimed != expected:
            at = f" at {address}" if address else ""
            raise errors.HandshakeError(
                party=expected,
                reason=f"the certificate shown{at} is that of party {claimed!r} "
                f"({spiffe.uri(federation, claimed)})",
                fix=f"Look at the address of {expected!r}, and at its tls.cert",
            )
        if certificates.is_authority(certificate):
            raise errors.HandshakeError(
                party=whom,
                reason=f"the certificate of {claimed!r} is one of an authority, which speaks for "
                "others and not for itself",
                fix=_ISSUE,
            )
        _check_pin(certificate, whom, claimed, pinned)
        end = _checked_dates(certificate, claimed, pinned[claimed], moment, federation=federation)
        digest = certificate.fingerprint(hashes.SHA256())
    except certificates.UNREADABLE as error:
        raise errors.HandshakeError(
            party=whom, reason=f"its certificate can't be read: {_shown(str(error))}", fix=_ISSUE
        ) from error
    return Peer(party=claimed, not_after=end.timestamp(), sha256=digest.hex())


def _claimed(
    certificate: x509.Certificate,
    whom: str,
    *,
    federation: str,
    party: names.PartyId,
    pinned: Mapping[names.PartyId, pins.Pin],
) -> names.PartyId:
    """The party that the certificate names, as far as it is one of this job's."""
    uris = certificates.uris(certificate)
    if len(uris) != 1:
        said = ", ".join(map(_shown, uris[:_SHOWN_NAMES])) + (
            ", ..." if len(uris) > _SHOWN_NAMES else ""
        )
        said = f"{len(uris)} URI names ({said})" if uris else "no URI name"
        raise errors.HandshakeError(
            party=whom,
            reason=f"its certificate, made for {_shown(certificate.subject.rfc4514_string())}, has "
            f"{said}; exactly one says who a party is",
            fix=_ISSUE,
        )
    name = spiffe.parse(uris[0])
    if name is None:
        raise errors.HandshakeError(
            party=whom,
            reason=f"its certificate says {_shown(uris[0])}, which is not of the form "
            f"{spiffe.uri('<federation>', '<name>')}",
            fix=_ISSUE,
        )
    if name.federation != federation:
        raise errors.HandshakeError(
            party=whom,
            reason=f"its certificate is of federation {name.federation!r} ({uris[0]}), and this "
            f"is {federation!r}",
            fix="Look at the setting federation, or issue it by this federation's authority",
        )
    if name.party == party:
        raise errors.HandshakeError(
            party=whom,
            reason=f"its certificate says {uris[0]}, which is this party itself",
            fix="Give each party a certificate of its own, and look at the addresses",
        )
    if name.party not in pinned:
        folded = {known.casefold(): known for known in (*pinned, party)}
        same = folded.get(name.party.casefold())
        hint = (
            f"; case counts, and the party here is {same!r}"
            if same is not None
            else names.did_you_mean(name.party, pinned)
        )
        raise errors.HandshakeError(
            party=whom,
            reason=f"its certificate says {uris[0]}, and no party of this job is called "
            f"{name.party!r}{hint}",
            fix="Issue it for the name that stands in addresses",
        )
    return name.party


def _check_pin(
    certificate: x509.Certificate,
    whom: str,
    claimed: names.PartyId,
    pinned: Mapping[names.PartyId, pins.Pin],
) -> None:
    pin = pinned[claimed]
    if pin.vouches(certificate):
        return
    issuer = _shown(certificate.issuer.rfc4514_string())
    if pin.keys and certificates.key_hash(certificate.public_key()) not in pin.keys:
        key = certificates.shown_hash(certificates.key_hash(certificate.public_key()))
        reason = f"it shows a certificate of {claimed!r} whose public key (SHA-256 {key}) is not "
        raise errors.HandshakeError(party=whom, reason=f"{reason}the pinned one", fix=_COMPARE)
    others = [other for other, one in pinned.items() if one != pin and one.vouches(certificate)]
    by = (
        f"what is pinned for {others[0]!r} vouches for it, which has no say over {claimed!r}"
        if others
        else f"what is pinned for {claimed!r} does not vouch for it"
    )
    raise errors.HandshakeError(
        party=whom,
        reason=f"it shows a certificate of {claimed!r} that {issuer} issued, and {by}",
        fix=f"{_COMPARE}. Pin the authority that signs the certificates of {claimed!r} itself",
    )


def _checked_dates(
    certificate: x509.Certificate,
    claimed: names.PartyId,
    pin: pins.Pin,
    now: datetime.datetime,
    *,
    federation: str,
) -> datetime.datetime:
    """When the connection has to end; the certificate is valid now."""
    uri = spiffe.uri(federation, claimed)
    problem = dates_problem(certificate, now)
    if problem is not None:
        raise errors.HandshakeError(
            party=claimed, reason=f"its certificate ({uri}) {problem.text}", fix=problem.fix
        )
    end = pin.not_after(certificate, now)
    if end is not None:
        return end
    for authority in pin.authorities:
        problem = dates_problem(authority, now)
        if problem is not None and certificates.is_issued_by(certificate, authority):
            raise errors.HandshakeError(
                party=claimed,
                reason=f"the authority of its certificate ({uri}), "
                f"{_shown(authority.subject.rfc4514_string())}, {problem.text}",
                fix="Make a new one (rayfed cert ca), issue by it, and pin it",
            )
    raise errors.HandshakeError(
        party=claimed, reason=f"nothing vouches for its certificate ({uri}) now", fix=_COMPARE
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with a certificate, as the end of a sentence, and what to do."""

    text: str
    fix: str


def dates_problem(certificate: x509.Certificate, now: datetime.datetime) -> Problem | None:
    """Why a certificate is not valid now; None if it is."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        return Problem(
            text=f"ended at {certificates.shown_time(end)}",
            fix="Renew it: rayfed cert issue. Running jobs take in the new files by themselves",
        )
    if now < begin:
        wait = begin - now
        fix = "Compare the clocks of both machines with the time (timedatectl)"
        return Problem(
            text=f"begins at {certificates.shown_time(begin)}, {_shown_span(wait)} after the time "
            "on this machine's clock",
            fix=fix if wait <= _SKEW else f"{fix}, or issue a certificate that is valid now",
        )
    return None


def _shown_span(span: datetime.timedelta) -> str:
    minutes = span.total_seconds() / 60
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days"


def _shown(text: str) -> str:
    """A stranger's text, clipped and harmless."""
    return repr(frames.read_text(text.encode("utf-8", "replace")[:_SHOWN_BYTES]))


#: What the peer's alert says of us, by the end of OpenSSL's name for it (RFC 8446, section 6.2).
_ALERTS: Final = {
    "ALERT_UNKNOWN_CA": (
        "it does not trust this party's certificate: it pins another authority",
        "Send it this party's ca.pem, to be pinned there",
    ),
    "ALERT_CERTIFICATE_EXPIRED": (
        "it says that this party's certificate has ended",
        "Renew it (rayfed cert issue), or compare the clocks of both machines",
    ),
    "ALERT_CERTIFICATE_REQUIRED": (
        "it wants a certificate, and this party showed none",
        "Give tls.cert and tls.key",
    ),
    "ALERT_BAD_CERTIFICATE": ("it does not take this party's certificate", _COMPARE),
    "ALERT_CERTIFICATE_UNKNOWN": ("it does not take this party's certificate", _COMPARE),
    "ALERT_UNSUPPORTED_CERTIFICATE": ("it does not take this party's certificate", _ISSUE),
    "ALERT_ACCESS_DENIED": ("it does not take this party's certificate", _COMPARE),
    "ALERT_PROTOCOL_VERSION": ("it does not speak TLS 1.3", "Update it, or what stands between"),
    "ALERT_NO_APPLICATION_PROTOCOL": (
        f"it does not speak {PROTOCOL}",
        "Look at the address: no party listens there",
    ),
}

#: What we found wrong with the handshake.
_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "it showed no certificate",
        "Give it tls.cert and tls.key",
    ),
    "UNSUPPORTED_PROTOCOL": ("it does not speak TLS 1.3", "Update it, or what stands between"),
    "WRONG_VERSION_NUMBER": (
        "it does not speak TLS",
        "Give all parties certificates, and look at the address",
    ),
    "HTTP_REQUEST": ("it speaks HTTP, not TLS", "Look at the address"),
    "HTTPS_PROXY_REQUEST": ("it speaks HTTP, not TLS", "Look at the address"),
}

#: X509_V_ERR_* of OpenSSL.
_SELF_SIGNED: Final = (18, 19)
_NO_ISSUER: Final = (2, 20, 21)
_WRONG_PURPOSE: Final = 26
_NAME_NOT_PERMITTED: Final = 47


def failure(
    error: OSError, *, expected: names.PartyId | None = None, address: str = ""
) -> errors.HandshakeError:
    """The named error for a handshake, or a first read after it, that TLS ended.

    In TLS 1.3 a dialler's handshake is done before the listener has looked at its certificate, so
    that the refusal comes out of the first read.

    Args:
        error: what the connection raised.
        expected: the party that was dialled; None for whoever dialled.
        address: where the connection comes from or leads to.
    """
    whom = expected if expected is not None else (address or UNKNOWN)
    reason, fix = _explained(error, f"party {expected!r}" if expected is not None else "any party")
    return errors.HandshakeError(party=whom, reason=reason, fix=fix)


def _explained(error: OSError, pinned_for: str) -> tuple[str, str]:
    if isinstance(error, ssl.SSLCertVerificationError):
        code = error.verify_code
        if code in _SELF_SIGNED or code in _NO_ISSUER:
            signed = " (it is signed by itself)" if code == _SELF_SIGNED[0] else ""
            return (
                f"nothing that is pinned for {pinned_for} vouches for its certificate{signed}",
                f"{_COMPARE}. Pin the authority that signs the party's certificates itself",
            )
        if code == _WRONG_PURPOSE:
            return "its certificate is not for both ends of a connection", _ISSUE
        if code == _NAME_NOT_PERMITTED:
            return (
                "its certificate has a name that its authority has no say over: it is of another "
                "federation",
                _ISSUE,
            )
        return f"its certificate is refused: {error.verify_message}", _ISSUE
    if isinstance(error, ssl.SSLError):
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return "it ended the connection while TLS was being set up", "Look at its log"
        code_name = error.reason or ""
        if code_name in _REASONS:
            return _REASONS[code_name]
        for end, told in _ALERTS.items():
            if code_name.endswith(end):
                return told
        return f"TLS could not be set up: {code_name or error}", "Look at its log"
    return f"the connection broke: {error.strerror or error}", "Look at its log"
