"""Throw-away certificates: right ones for every party, and any wrong one that a test needs.

`issuing.throw_away` makes the right ones for runs on one machine; this adds what nobody should
have: other names, other dates, other authorities.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from fed import names
from fed.transport import certificate_files, certificates, identity, spiffe

#: When tests take place, unless they say otherwise.
NOW: Final = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
DAY: Final = datetime.timedelta(days=1)
FEDERATION: Final = "hospitals"


def authority(
    federation: str = FEDERATION,
    *,
    now: datetime.datetime = NOW,
    not_after: datetime.datetime | None = None,
) -> certificates.Pair:
    """An authority of a federation, valid for 30 days from `now`."""
    end = not_after if not_after is not None else now + 30 * DAY
    return certificates.new_authority(federation, now=now, not_after=end)


def unbound_authority() -> certificates.Pair:
    """An authority that may sign under any federation's name, as one made by other tools."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = certificates.distinguished("anybody's authority", "nobody")
    certificate = certificates.sign(
        name,
        key,
        subject=name,
        public_key=key.public_key(),
        not_before=NOW - DAY,
        not_after=NOW + 30 * DAY,
        is_authority=True,
    )
    return certificates.Pair(certificate, key)


def of_party(
    signer: certificates.Pair,
    party: str,
    *,
    federation: str = FEDERATION,
    now: datetime.datetime = NOW,
    not_after: datetime.datetime | None = None,
    hosts: Iterable[str] = (),
) -> certificates.Pair:
    """A right certificate of a party, valid for 10 days from `now`."""
    end = not_after if not_after is not None else now + 10 * DAY
    return certificates.new_party(
        signer, federation=federation, party=party, now=now, not_after=end, hosts=hosts
    )


def saying(
    signer: certificates.Pair,
    uris: Sequence[str],
    *,
    hosts: Iterable[str] = (),
    not_before: datetime.datetime = NOW - DAY,
    not_after: datetime.datetime = NOW + 10 * DAY,
    is_authority: bool = False,
    key: certificates.Key | None = None,
) -> certificates.Pair:
    """A certificate with these URI names and dates, right or not."""
    key = key if key is not None else ec.generate_private_key(ec.SECP256R1())
    certificate = certificates.sign(
        signer.certificate.subject,
        signer.key,
        subject=certificates.distinguished("somebody", FEDERATION),
        public_key=key.public_key(),
        not_before=not_before,
        not_after=not_after,
        uris=uris,
        hosts=hosts,
        is_authority=is_authority,
    )
    return certificates.Pair(certificate, key)


def claiming(signer: certificates.Pair, party: str) -> certificates.Pair:
    """A certificate with a party's URI name from any authority, its own or not."""
    return saying(signer, [spiffe.uri(FEDERATION, party)])


def write(folder: Path, stem: str, pair: certificates.Pair) -> tuple[Path, Path]:
    """Put certificate and key into a folder as `STEM.pem` and `STEM.key`, over what was there."""
    certificate, key = folder / f"{stem}.pem", folder / f"{stem}.key"
    for path in (certificate, key):
        path.unlink(missing_ok=True)
    certificate_files.write_new(
        [
            certificate_files.Written(key, certificates.key_pem(pair.key), 0o600),
            certificate_files.Written(certificate, certificates.pem(pair.certificate), 0o644),
        ]
    )
    return certificate, key


def files(
    folder: Path,
    own: certificates.Pair,
    peers: Mapping[str, certificates.Pair | None],
    *,
    shared: certificates.Pair | None = None,
) -> identity.Files:
    """A party's files in a folder of its own.

    Args:
        folder: gets them.
        own: its certificate.
        peers: by peer, the authority or certificate that is pinned for it; None for `shared`.
        shared: the authority of the others.
    """
    certificate, key = write(folder, "own", own)
    pinned: dict[names.PartyId, Path | None] = {}
    for party, pair in peers.items():
        path = folder / f"pin-{party}.pem" if pair is not None else None
        if pair is not None and path is not None:
            path.write_bytes(certificates.pem(pair.certificate))
        pinned[names.PartyId(party)] = path
    top = folder / "ca.pem" if shared is not None else None
    if shared is not None and top is not None:
        top.write_bytes(certificates.pem(shared.certificate))
    return identity.Files(certificate=certificate, key=key, peers=pinned, authority=top)
