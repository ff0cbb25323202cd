"""Certificates of the run's two parties, which all ways use."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Final

from fed import names
from fed.testing import certificates as throw_away
from fed.transport import certificates, identity

FEDERATION: Final = "bench"
SENDER: Final = "ALICE"
RECEIVER: Final = "BOB"
#: gRPC and Flight check the host's name beside the authority; the link checks the party's.
HOST: Final = "127.0.0.1"


def make(folder: Path) -> None:
    """Put `ca.pem` and each party's `NAME.pem` and `NAME.key` there, valid for some days."""
    now = datetime.datetime.now(datetime.UTC)
    authority = throw_away.authority(FEDERATION, now=now)
    (folder / "ca.pem").write_bytes(certificates.pem(authority.certificate))
    for party in (SENDER, RECEIVER):
        pair = throw_away.of_party(
            authority, party, federation=FEDERATION, now=now, hosts=[HOST, "localhost"]
        )
        throw_away.write(folder, party, pair)


def identity_of(folder: Path, party: str) -> identity.Identity:
    """The party's identity for the link; it knows the other one."""
    other = RECEIVER if party == SENDER else SENDER
    files = identity.Files(
        certificate=folder / f"{party}.pem",
        key=folder / f"{party}.key",
        peers={names.PartyId(other): None},
        authority=folder / "ca.pem",
    )
    return identity.Identity(files, federation=FEDERATION, party=names.PartyId(party))


def read(folder: Path, party: str) -> tuple[bytes, bytes, bytes]:
    """Authority, key and certificate of the party, PEM."""
    files = ("ca.pem", f"{party}.key", f"{party}.pem")
    authority, key, certificate = ((folder / name).read_bytes() for name in files)
    return authority, key, certificate
