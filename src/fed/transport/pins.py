"""What vouches for one peer: an authority of its own, a certificate, or a public key.

A peer has one pin, and a pin says nothing of other peers. An authority must have signed the
peer's certificate itself: one in between is pinned in its place.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from fed import errors, names
from fed.transport import certificate_files, certificates


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What one peer's certificate is held against.

    Attributes:
        authorities: one of them must have signed it; several while one takes over from another.
        leaves: or it must be one of these, byte for byte.
        keys: SHA-256 of public keys (`certificates.key_hash`): if there are any, its own must be
            one of them, too.
        sources: the files that say so.
    """

    authorities: tuple[x509.Certificate, ...] = ()
    leaves: tuple[x509.Certificate, ...] = ()
    keys: frozenset[bytes] = frozenset()
    sources: tuple[Path, ...] = ()

    @property
    def anchors(self) -> tuple[x509.Certificate, ...]:
        """What TLS has to be given as trusted."""
        return (*self.authorities, *self.leaves)

    def vouches(self, certificate: x509.Certificate) -> bool:
        """True if it vouches for the certificate, dates aside."""
        if self.keys and certificates.key_hash(certificate.public_key()) not in self.keys:
            return False
        return certificate in self.leaves or any(
            certificates.is_issued_by(certificate, authority) for authority in self.authorities
        )

    def not_after(
        self, certificate: x509.Certificate, now: datetime.datetime
    ) -> datetime.datetime | None:
        """Until when it vouches for a certificate that it vouches for.

        None if it does not now: every authority that signed the certificate has ended, or has not
        begun. The certificate's own dates are included.
        """
        ends = [
            min(certificate.not_valid_after_utc, authority.not_valid_after_utc)
            for authority in self.authorities
            if authority.not_valid_before_utc <= now <= authority.not_valid_after_utc
            and certificates.is_issued_by(certificate, authority)
        ]
        if certificate in self.leaves:
            ends.append(certificate.not_valid_after_utc)
        return max(ends, default=None)


def read(path: Path, *, shared: Pin | None = None, key: str | None = None) -> Pin:
    """The pin in a PEM file: authorities, certificates of the peer itself, or its public keys.

    A public key alone can't be verified while TLS is being set up, so that it narrows what an
    authority says: the shared one, or one in the same file.

    Args:
        path: the file.
        shared: the pin of all peers, if there is one.
        key: the setting that names the file, for the error.

    Raises:
        ConfigError: it can't be read, holds nothing of this or a private key, or holds public keys
            and there is no authority.
    """
    data = certificate_files.read(path, key=key)
    authorities: list[x509.Certificate] = []
    leaves: list[x509.Certificate] = []
    keys: set[bytes] = set()
    for label, block in certificates.blocks(data):
        if label == "CERTIFICATE":
            certificate = certificate_files.parse_certificate(block, path, key=key)
            (authorities if certificates.is_authority(certificate) else leaves).append(certificate)
        elif label == "PUBLIC KEY":
            public = certificate_files.parse_public_key(block, path, key=key)
            keys.add(certificates.key_hash(public))
        elif label.endswith("PRIVATE KEY"):
            raise certificate_files.refused(
                path,
                "it holds a private key, which only its owner may have",
                fix="Pin the certificate: ca.pem of the party's authority",
                key=key,
            )
    if not authorities and not leaves and not keys:
        raise certificate_files.refused(
            path,
            "it holds neither a certificate nor a public key in PEM form",
            fix="Pin the party's ca.pem",
            key=key,
        )
    if not authorities and not leaves:
        if shared is None:
            raise certificate_files.refused(
                path,
                "a public key narrows what an authority says, and there is none",
                fix="Give tls.ca_cert too, or pin the party's certificate",
                key=key,
            )
        return Pin(
            authorities=shared.authorities,
            leaves=shared.leaves,
            keys=frozenset(keys),
            sources=(path, *shared.sources),
        )
    return Pin(
        authorities=tuple(authorities),
        leaves=tuple(leaves),
        keys=frozenset(keys),
        sources=(path,),
    )


def read_all(
    peers: Mapping[names.PartyId, Path | None], authority: Path | None
) -> dict[names.PartyId, Pin]:
    """The pin of each peer: its own file's, or the shared authority's.

    Args:
        peers: by peer, the file of `tls.pins` or None.
        authority: the file of `tls.ca_cert`, if there is one.

    Raises:
        ConfigError: as `read`; or nothing vouches for a peer.
    """
    shared = read(authority, key="tls.ca_cert") if authority is not None else None
    found: dict[names.PartyId, Pin] = {}
    for party, path in peers.items():
        key = f"tls.pins.{party}"
        pin = read(path, shared=shared, key=key) if path is not None else shared
        if pin is None:
            raise errors.ConfigError(
                problem=f"nothing vouches for party {party!r}",
                fix="Give tls.ca_cert, or its pin",
                key=key,
            )
        found[party] = pin
    return found
