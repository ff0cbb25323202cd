"""Authorities and parties' certificates in folders: what `rayfed cert` does.

An authority is `ca.pem` and `ca.key` in a folder. A party's folder has `NAME.pem`, `NAME.key` and a
copy of the authority's `ca.pem`, ready to be handed over.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509

from fed import errors, names
from fed.config import endpoints, kinds
from fed.transport import certificate_files, certificates, lifetimes

AUTHORITY_CERTIFICATE: Final = "ca.pem"
AUTHORITY_KEY: Final = "ca.key"

_AUTHORITY_STEM: Final = "ca"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Files that were written.

    Attributes:
        certificate: the new certificate.
        key: its private key.
        authority: certificate of the authority that vouches for it (for an authority: itself).
        facts: what the certificate says.
    """

    certificate: Path
    key: Path
    authority: Path
    facts: certificates.Facts


def create_authority(
    folder: Path,
    federation: str,
    *,
    now: datetime.datetime,
    days: int = lifetimes.AUTHORITY_DAYS,
) -> Made:
    """A new authority of a federation in a folder; its key has mode 0600.

    Args:
        folder: made if it is missing.
        federation: as the setting `federation` has it.
        now: with a time zone.
        days: how long it is valid, in 1..`lifetimes.MAX_DAYS`.

    Raises:
        ConfigError: the federation's name or the days can't be, or a file exists or can't be
            written; nothing is left behind.
    """
    kinds.DOMAIN.check(federation)
    _check_days(days)
    certificate, key = folder / AUTHORITY_CERTIFICATE, folder / AUTHORITY_KEY
    certificate_files.refuse_existing([certificate, key])
    pair = certificates.new_authority(
        federation, now=now, not_after=now + datetime.timedelta(days=days)
    )
    certificate_files.write_new([*_key_and_certificate(pair, key, certificate)])
    return Made(
        certificate=certificate,
        key=key,
        authority=certificate,
        facts=certificates.facts(pair.certificate),
    )


def create_party(
    authority_folder: Path,
    folder: Path,
    party: str,
    *,
    now: datetime.datetime,
    days: int | None = None,
    hosts: Sequence[str] = (),
    federation: str | None = None,
) -> Made:
    """A new certificate of a party in a folder, with a new key and the authority's certificate.

    Args:
        authority_folder: where `create_authority` put the authority.
        folder: made if it is missing; may be the authority's own.
        party: the party's name; its case is kept.
        now: with a time zone.
        days: how long it is valid; None means `lifetimes.PARTY_DAYS`, or as long as the
            authority is.
        hosts: host names and IP addresses for other software; RayFed compares the party's name.
        federation: what the authority's federation has to be; None for any.

    Raises:
        UnknownPartyError: the name breaks the rule for names.
        ConfigError: the authority can't be read, is another federation's, has ended or would end
            first, its key is not its own or can be read by others; a host is none; or a file
            exists or can't be written. Nothing is left behind.
    """
    if not names.is_name(party):
        raise errors.UnknownPartyError(
            problem=f"{party!r} is not a party's name",
            fix=f"A name has {names.NAME_RULE}",
            party=party,
        )
    checked = [_checked_host(host) for host in hosts]
    certificate, key = (folder / f"{_stem(party)}{suffix}" for suffix in (".pem", ".key"))
    certificate_files.refuse_existing([certificate, key])
    authority, found = read_authority(authority_folder, now=now)
    if federation not in (None, found):
        raise certificate_files.refused(
            authority_folder / AUTHORITY_CERTIFICATE,
            f"it is the authority of federation {found!r}, not of {federation!r}",
            fix="Give the right authority, or correct the setting federation",
        )
    pair = certificates.new_party(
        authority,
        federation=found,
        party=party,
        now=now,
        not_after=_end(authority_folder, authority, now=now, days=days),
        hosts=checked,
    )
    copy = folder / AUTHORITY_CERTIFICATE
    files = [*_key_and_certificate(pair, key, certificate)]
    if not _is_there(copy, authority):
        files.append(_public(copy, authority))
    certificate_files.write_new(files)
    return Made(
        certificate=certificate,
        key=key,
        authority=copy,
        facts=certificates.facts(pair.certificate),
    )


def read_authority(folder: Path, *, now: datetime.datetime) -> tuple[certificates.Pair, str]:
    """The authority in a folder, and its federation.

    Raises:
        ConfigError: a file is missing, can't be read or can be read by others; it is no authority
            of a federation; the key is not its own; it has ended.
    """
    path, key_path = folder / AUTHORITY_CERTIFICATE, folder / AUTHORITY_KEY
    if not folder.is_dir():
        raise certificate_files.refused(
            folder,
            "there is no such folder" if not folder.exists() else "it is a file, not a folder",
            fix="Give the folder of an authority, or make one: rayfed cert ca",
        )
    certificate, *_ = certificate_files.parse_certificates(certificate_files.read(path), path)
    federation = certificates.federation_of(certificate)
    if not certificates.is_authority(certificate) or federation is None:
        raise certificate_files.refused(
            path, "it is not the certificate of an authority", fix="Make one: rayfed cert ca"
        )
    key = certificate_files.read_key(key_path)
    check_match(certificate, key, path=path, key_path=key_path)
    if certificate.not_valid_after_utc <= now:
        raise certificate_files.refused(
            path,
            f"the authority ended at {certificates.shown_time(certificate.not_valid_after_utc)}",
            fix="Make a new one (rayfed cert ca), and let the others pin it",
        )
    return certificates.Pair(certificate, key), federation


def check_match(
    certificate: x509.Certificate,
    key: certificates.Key,
    *,
    path: Path,
    key_path: Path,
    setting: str | None = None,
) -> None:
    """The key is the certificate's.

    Raises:
        ConfigError: it is another's.
    """
    expected = certificates.key_hash(certificate.public_key())
    if certificates.key_hash(key.public_key()) != expected:
        raise certificate_files.refused(
            key_path,
            f"it is not the key of the certificate {path}",
            fix="Give the two files that were made together",
            key=setting,
        )


def throw_away(
    folder: Path,
    federation: str,
    parties: Iterable[names.PartyId],
    *,
    now: datetime.datetime,
    days: int = 1,
) -> dict[names.PartyId, Made]:
    """Certificates for parties that all run on this machine, from an authority without a key file.

    The authority's key is never written: nobody can add a party later.

    Args:
        folder: gets the files of all; made if it is missing, for the owner alone.
        federation: as the setting `federation` has it.
        parties: their names, unique ignoring case.
        now: with a time zone.
        days: how long all are valid.

    Raises:
        ConfigError: a file exists or can't be written.
    """
    end = now + datetime.timedelta(days=days)
    authority = certificates.new_authority(federation, now=now, not_after=end)
    top = folder / AUTHORITY_CERTIFICATE
    files = [_public(top, authority)]
    found: dict[names.PartyId, Made] = {}
    for party in parties:
        pair = certificates.new_party(
            authority, federation=federation, party=party, now=now, not_after=end
        )
        certificate, key = (folder / f"{_stem(party)}{suffix}" for suffix in (".pem", ".key"))
        files += _key_and_certificate(pair, key, certificate)
        facts = certificates.facts(pair.certificate)
        found[party] = Made(certificate=certificate, key=key, authority=top, facts=facts)
    certificate_files.write_new(files)
    return found


def _stem(party: str) -> str:
    """The beginning of a party's file names; those of the authority stay free."""
    return f"party-{party}" if party.casefold() == _AUTHORITY_STEM else party


def _key_and_certificate(
    pair: certificates.Pair, key: Path, certificate: Path
) -> list[certificate_files.Written]:
    return [
        certificate_files.Written(key, certificates.key_pem(pair.key), certificate_files.KEY_MODE),
        _public(certificate, pair),
    ]


def _public(path: Path, pair: certificates.Pair) -> certificate_files.Written:
    return certificate_files.Written(
        path, certificates.pem(pair.certificate), certificate_files.CERTIFICATE_MODE
    )


def _is_there(path: Path, authority: certificates.Pair) -> bool:
    """True if the file is the authority's certificate, False if there is none.

    Raises:
        ConfigError: it is another authority's.
    """
    if not path.exists():
        return False
    there = certificate_files.parse_certificates(certificate_files.read(path), path)
    if there[0] == authority.certificate:
        return True
    raise certificate_files.refused(
        path, "it is the certificate of another authority", fix="Give another folder"
    )


def _end(
    folder: Path, authority: certificates.Pair, *, now: datetime.datetime, days: int | None
) -> datetime.datetime:
    last = authority.certificate.not_valid_after_utc
    if days is None:
        return min(now + datetime.timedelta(days=lifetimes.PARTY_DAYS), last)
    _check_days(days)
    end = now + datetime.timedelta(days=days)
    if end > last:
        raise certificate_files.refused(
            folder / AUTHORITY_CERTIFICATE,
            f"the authority ends at {certificates.shown_time(last)}, before {days} days have "
            "passed",
            fix="Give fewer days, or leave them out",
        )
    return end


def _check_days(days: int) -> None:
    if not 1 <= days <= lifetimes.MAX_DAYS:
        raise errors.ConfigError(
            problem=f"{days} days are not from 1 to {lifetimes.MAX_DAYS}",
            fix="Give another number",
        )


def _checked_host(host: str) -> str:
    text = f"[{host}]:1" if host.count(":") > 1 else f"{host}:1"
    try:
        return endpoints.split(text).host.rstrip(".")
    except ValueError:
        raise errors.ConfigError(
            problem=f"{host!r} is neither a host name nor an IP address",
            fix="Give it without a scheme and a port",
        ) from None
