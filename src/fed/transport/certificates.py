"""X.509 certificates of parties and of the authorities that vouch for them: made, read, compared.

Pure: bytes, times and keys are passed in; `certificate_files` keeps them on disk.

Keys are ECDSA on P-256: like Ed25519 they are small and quick, and unlike it every TLS library,
gateway, hardware module and FIPS mode takes them. Certificates of other key kinds are accepted.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import cryptography.exceptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa, types
from cryptography.x509 import oid

from fed.transport import lifetimes, spiffe

#: The longest common name and organisation that X.509 allows (RFC 5280, A.1), in characters.
_NAME_LIMIT: Final = 64

#: What reading a certificate that somebody else made may raise. Each is a certificate refused.
UNREADABLE: Final = (
    ValueError,
    TypeError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
    cryptography.exceptions.UnsupportedAlgorithm,
)

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----\r?\n.*?-----END \1-----", re.DOTALL)

#: The kinds of key that TLS 1.3 signs with.
Key = (
    ec.EllipticCurvePrivateKey
    | ed25519.Ed25519PrivateKey
    | ed448.Ed448PrivateKey
    | rsa.RSAPrivateKey
)
PublicKey = types.CertificatePublicKeyTypes


class Pair(NamedTuple):
    """A certificate and the private key that goes with it."""

    certificate: x509.Certificate
    key: Key


def new_authority(federation: str, *, now: datetime.datetime, not_after: datetime.datetime) -> Pair:
    """An authority that vouches for parties of one federation.

    It can't make further authorities (path length 0), and its name constraint makes every TLS
    library refuse what it issues under another federation's name.

    Args:
        federation: the federation's name.
        now: with a time zone.
        not_after: when it ends.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    # The key's hash tells authorities apart that serve one federation.
    name = distinguished(f"RayFed CA {key_hash(key.public_key()).hex()[:16]}", federation)
    certificate = sign(
        name,
        key,
        subject=name,
        public_key=key.public_key(),
        not_before=now - lifetimes.BACKDATED,
        not_after=not_after,
        uris=[spiffe.authority_uri(federation)],
        constrained_to=federation,
        is_authority=True,
    )
    return Pair(certificate, key)


def new_party(
    authority: Pair,
    *,
    federation: str,
    party: str,
    now: datetime.datetime,
    not_after: datetime.datetime,
    hosts: Iterable[str] = (),
) -> Pair:
    """A party's certificate with a new key, for both ends of a connection.

    Args:
        authority: who vouches for it.
        federation: the authority's federation.
        party: the party's name; its case is kept.
        now: with a time zone.
        not_after: when it ends.
        hosts: host names and IP addresses, for other software that looks at them; RayFed does not.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = sign(
        authority.certificate.subject,
        authority.key,
        subject=distinguished(party, federation),
        public_key=key.public_key(),
        not_before=now - lifetimes.BACKDATED,
        not_after=not_after,
        uris=[spiffe.uri(federation, party)],
        hosts=hosts,
    )
    return Pair(certificate, key)


def distinguished(common_name: str, organisation: str) -> x509.Name:
    """A subject, for people to read; nothing is decided by it."""
    return x509.Name(
        [
            x509.NameAttribute(oid.NameOID.ORGANIZATION_NAME, organisation[:_NAME_LIMIT]),
            x509.NameAttribute(oid.NameOID.COMMON_NAME, common_name[:_NAME_LIMIT]),
        ]
    )


def sign(
    issuer: x509.Name,
    issuer_key: Key,
    *,
    subject: x509.Name,
    public_key: PublicKey,
    not_before: datetime.datetime,
    not_after: datetime.datetime,
    uris: Sequence[str] = (),
    hosts: Iterable[str] = (),
    constrained_to: str | None = None,
    is_authority: bool = False,
) -> x509.Certificate:
    """A certificate, whatever it says; `new_authority` and `new_party` say the right things.

    Args:
        issuer: the authority's subject.
        issuer_key: the authority's key.
        subject: whom it is for.
        public_key: the subject's key.
        not_before: first moment of its validity, with a time zone.
        not_after: last moment.
        uris: URI names.
        hosts: host names and IP addresses.
        constrained_to: the one host that URI names of certificates below may have.
        is_authority: whether it may sign others (and then only parties' certificates).
    """
    alternatives: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
    alternatives += [_host(host) for host in hosts]
    builder = (
        x509.CertificateBuilder(
            issuer, subject, public_key, x509.random_serial_number(), not_before, not_after
        )
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not is_authority,
                key_cert_sign=is_authority,
                crl_sign=is_authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), False
        )
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), False)
    if not is_authority:
        both = [oid.ExtendedKeyUsageOID.SERVER_AUTH, oid.ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), False)
    if constrained_to is not None:
        permitted = [x509.UniformResourceIdentifier(constrained_to)]
        builder = builder.add_extension(x509.NameConstraints(permitted, None), True)
    has_own_hash = isinstance(issuer_key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    return builder.sign(issuer_key, None if has_own_hash else hashes.SHA256())


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def blocks(pem: bytes) -> list[tuple[str, bytes]]:
    """The PEM blocks in a file: label (`CERTIFICATE`, `PRIVATE KEY`) and text of each, in order."""
    return [(match[1].decode(), match[0] + b"\n") for match in _BLOCK.finditer(pem)]


def pem(certificate: x509.Certificate) -> bytes:
    """The certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def der(certificate: x509.Certificate) -> bytes:
    """The certificate as DER, as TLS carries it."""
    return certificate.public_bytes(serialization.Encoding.DER)


def key_pem(key: Key) -> bytes:
    """The private key as PEM (PKCS 8), not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def key_hash(key: types.PublicKeyTypes) -> bytes:
    """SHA-256 of a public key as it stands in certificates (SubjectPublicKeyInfo), 32 bytes.

    It stays the same when a certificate is renewed for the same key.
    """
    info = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    digest = hashes.Hash(hashes.SHA256())
    digest.update(info)
    return digest.finalize()


def is_authority(certificate: x509.Certificate) -> bool:
    """True if it says that it may sign other certificates.

    Raises:
        ValueError: or another of `UNREADABLE`, if its extensions can't be read.
    """
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def uris(certificate: x509.Certificate) -> list[str]:
    """Its URI names, in order.

    Raises:
        ValueError: or another of `UNREADABLE`, if its extensions can't be read.
    """
    names = _alternatives(certificate)
    return names.get_values_for_type(x509.UniformResourceIdentifier) if names is not None else []


def _alternatives(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def missing_usages(certificate: x509.Certificate) -> list[str]:
    """Which ends of a connection it may not stand at: of `server` and `client`.

    Raises:
        ValueError: or another of `UNREADABLE`, if its extensions can't be read.
    """
    try:
        found = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return []
    ends = {
        "server": oid.ExtendedKeyUsageOID.SERVER_AUTH,
        "client": oid.ExtendedKeyUsageOID.CLIENT_AUTH,
    }
    return [end for end, usage in ends.items() if usage not in found]


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """True if the authority signed the certificate itself: names meet and the signature holds."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (*UNREADABLE, cryptography.exceptions.InvalidSignature):
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a certificate says, in words, for people.

    Attributes:
        federation: the federation of its one URI name; None if there is no such name.
        party: the party of that name; None for an authority.
        is_authority: whether it may sign others.
        uris: its URI names.
        hosts: its host names and IP addresses.
        subject: whom it is for.
        issuer: who signed it.
        not_before: first moment of its validity.
        not_after: last moment.
        key: kind of its key.
        serial: its serial number, hexadecimal.
        sha256: SHA-256 of the certificate, hexadecimal.
        key_sha256: SHA-256 of its public key, hexadecimal.
    """

    federation: str | None
    party: str | None
    is_authority: bool
    uris: tuple[str, ...]
    hosts: tuple[str, ...]
    subject: str
    issuer: str
    not_before: datetime.datetime
    not_after: datetime.datetime
    key: str
    serial: str
    sha256: str
    key_sha256: str


def facts(certificate: x509.Certificate) -> Facts:
    """What a certificate says.

    Raises:
        ValueError: or another of `UNREADABLE`, if parts of it can't be read.
    """
    names = _alternatives(certificate)
    hosts: list[str] = []
    if names is not None:
        hosts += names.get_values_for_type(x509.DNSName)
        hosts += [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    key = certificate.public_key()
    own = uris(certificate)
    name = spiffe.parse(own[0]) if len(own) == 1 else None
    return Facts(
        federation=name.federation if name is not None else federation_of(certificate),
        party=name.party if name is not None else None,
        is_authority=is_authority(certificate),
        uris=tuple(own),
        hosts=tuple(hosts),
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        key=kind(key),
        serial=f"{certificate.serial_number:x}",
        sha256=certificate.fingerprint(hashes.SHA256()).hex(),
        key_sha256=key_hash(key).hex(),
    )


def federation_of(authority: x509.Certificate) -> str | None:
    """The federation of an authority that `new_authority` made; None for others.

    Raises:
        ValueError: or another of `UNREADABLE`, if its extensions can't be read.
    """
    own = uris(authority)
    prefix = spiffe.authority_uri("")
    if len(own) != 1 or not own[0].startswith(prefix):
        return None
    federation = own[0].removeprefix(prefix)
    # A trust domain alone: with a party's name behind it, it must be of the whole form.
    return federation if spiffe.parse(spiffe.uri(federation, "x")) is not None else None


def kind(key: types.PublicKeyTypes) -> str:
    """The kind of a key, in words."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"ECDSA {key.curve.name}"
    name = type(key).__name__.lstrip("_").removesuffix("PublicKey")
    size = getattr(key, "key_size", None)
    return f"{name} {size}" if size is not None else name


def shown_hash(digest: bytes | str) -> str:
    """A hash as `openssl x509 -fingerprint` shows it: `AB:CD:...`, to be compared by eye or ear."""
    text = digest if isinstance(digest, str) else digest.hex()
    return ":".join(text[at : at + 2] for at in range(0, len(text), 2)).upper()


def shown_time(moment: datetime.datetime) -> str:
    """A moment to the second, in UTC."""
    return f"{moment.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
