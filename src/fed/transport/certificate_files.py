"""Certificates and keys on disk: keys that only their owner reads, and nothing overwritten.

Every error is a `ConfigError` with the file, what is wrong with it, and what to do.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import types

from fed import errors
from fed.transport import certificates

#: The largest file that is read. A certificate has some 700 bytes; a mistaken path to a disk image
#: does not fill the memory.
MAX_FILE_BYTES: Final = 1 << 20

#: Keys are for their owner alone, certificates for everybody.
KEY_MODE: Final = 0o600
CERTIFICATE_MODE: Final = 0o644
#: A folder that is made for keys.
FOLDER_MODE: Final = 0o700


def refused(
    path: Path, problem: str, *, fix: str = "", key: str | None = None
) -> errors.ConfigError:
    """The error that says what is wrong with a file."""
    return errors.ConfigError(problem=problem, fix=fix, key=key, source=str(path))


def read(path: Path, *, key: str | None = None) -> bytes:
    """A small file's bytes.

    Args:
        path: where it is.
        key: the setting that names it, for the error.

    Raises:
        ConfigError: there is none, it can't be read, or it is larger than `MAX_FILE_BYTES`.
    """
    try:
        # Opening a pipe would wait for whoever writes to it.
        if not stat.S_ISREG(path.stat().st_mode):
            raise refused(path, "it is not a plain file", key=key)
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise refused(
            path, "there is no such file", fix="rayfed cert makes them", key=key
        ) from None
    except OSError as error:
        raise refused(path, f"it can't be read: {error.strerror or error}", key=key) from error
    if len(data) > MAX_FILE_BYTES:
        raise refused(path, f"it is larger than {MAX_FILE_BYTES} bytes", key=key)
    return data


def parse_certificates(
    data: bytes, path: Path, *, key: str | None = None
) -> list[x509.Certificate]:
    """The certificates in a PEM file's bytes, in order; at least one.

    Raises:
        ConfigError: it holds none, or one that can't be read.
    """
    found = [block for label, block in certificates.blocks(data) if label == "CERTIFICATE"]
    if not found:
        raise refused(
            path,
            "it holds no certificate in PEM form",
            fix="Such a file has a line -----BEGIN CERTIFICATE-----",
            key=key,
        )
    return [parse_certificate(block, path, key=key) for block in found]


def parse_certificate(block: bytes, path: Path, *, key: str | None = None) -> x509.Certificate:
    """The certificate in one PEM block.

    Raises:
        ConfigError: it can't be read.
    """
    try:
        certificate = x509.load_pem_x509_certificate(block)
        certificates.facts(certificate)  # parts are parsed when first asked for
    except certificates.UNREADABLE as error:
        raise refused(path, f"a certificate in it can't be read: {error}", key=key) from error
    return certificate


def read_key(path: Path, *, key: str | None = None) -> certificates.Key:
    """The private key in a PEM file that only its owner can read.

    Raises:
        ConfigError: there is none, it can't be read, others can read it, or it has a passphrase.
    """
    data = read(path, key=key)
    check_private(path, key=key)
    return parse_key(data, path, key=key)


def parse_key(data: bytes, path: Path, *, key: str | None = None) -> certificates.Key:
    """The private key in a PEM file's bytes.

    Raises:
        ConfigError: it holds none or several, it can't be read, or it has a passphrase.
    """
    found = [block for label, block in certificates.blocks(data) if label.endswith("PRIVATE KEY")]
    if len(found) != 1:
        raise refused(
            path,
            f"it holds {len(found) or 'no'} private key{'s' if len(found) > 1 else ''} in PEM form",
            fix="Such a file has one line -----BEGIN PRIVATE KEY-----",
            key=key,
        )
    try:
        loaded = serialization.load_pem_private_key(found[0], password=None)
    except TypeError as error:  # what the library raises for a key that is encrypted
        raise refused(
            path,
            "the key has a passphrase, and nobody is there to type it when a job starts",
            fix="Write it without one: openssl pkey -in OLD -out NEW",
            key=key,
        ) from error
    except certificates.UNREADABLE as error:
        raise refused(path, f"the private key can't be read: {error}", key=key) from error
    if not isinstance(loaded, certificates.Key):
        raise refused(path, "the private key is of a kind that can't sign", key=key)
    return loaded


def check_private(path: Path, *, key: str | None = None) -> None:
    """Nobody but its owner reads or writes the file (or, of a file of root's, its group).

    The exception is PostgreSQL's: a key that the operating system or Kubernetes hands to a service
    is root's, and the service reads it by its group.

    Raises:
        ConfigError: others can.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise refused(path, f"it can't be read: {error.strerror or error}", key=key) from error
    is_handed_over = found.st_uid == 0 and os.geteuid() != 0
    tolerated = stat.S_IRGRP if is_handed_over else 0
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077 & ~tolerated:
        whose = "others" if mode & 0o007 else "its group"
        verb = "read" if mode & 0o044 else "use"
        raise refused(
            path,
            f"{whose} can {verb} this private key (mode {mode:04o})",
            fix=f"chmod 600 {path}, and issue a new one if somebody may have",
            key=key,
        )


class Written(NamedTuple):
    """A file to be written: where, what, and who may read it."""

    path: Path
    data: bytes
    mode: int


def refuse_existing(paths: Sequence[Path]) -> None:
    """None of the paths is taken.

    Raises:
        ConfigError: names the first that is.
    """
    for path in paths:
        if os.path.lexists(path):
            raise refused(
                path,
                "it exists already, and nothing is overwritten",
                fix="Give another folder, or move it away",
            )


def write_new(files: Sequence[Written]) -> None:
    """Write files that do not exist yet: all of them, or none.

    Each has its mode from its first moment. Folders that are missing are made, for the owner alone.

    Raises:
        ConfigError: one exists, or can't be written; what was written by then is gone again.
    """
    refuse_existing([file.path for file in files])
    done: list[Path] = []
    try:
        for file in files:
            _make_folder(file.path.parent)
            _create(file)
            done.append(file.path)
    except errors.ConfigError:
        for path in done:
            with contextlib.suppress(OSError):
                path.unlink()
        raise


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except FileExistsError:
        raise refused(folder, "it is a file, not a folder", fix="Give another folder") from None
    except OSError as error:
        raise refused(folder, f"it can't be made: {error.strerror or error}") from error


def _create(file: Written) -> None:
    try:
        # O_EXCL follows no link and takes no file that came in between.
        handle = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, file.mode)
    except FileExistsError:
        refuse_existing([file.path])
        raise
    except OSError as error:
        raise refused(file.path, f"it can't be written: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "wb") as opened:
            # What the umask took away from a certificate; never more than the mode.
            os.fchmod(opened.fileno(), file.mode)
            opened.write(file.data)
            opened.flush()
            os.fsync(opened.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            file.path.unlink()
        raise refused(file.path, f"it can't be written: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """What a key is, without its secret.

    Attributes:
        is_private: whether the file holds the private half.
        key: its kind.
        key_sha256: SHA-256 of its public half, hexadecimal.
    """

    is_private: bool
    key: str
    key_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a PEM file holds, each kind in the file's order."""

    certificates: tuple[certificates.Facts, ...]
    keys: tuple[KeyFacts, ...]


def read_contents(path: Path) -> Contents:
    """What the certificates and keys in a file say.

    Raises:
        ConfigError: it can't be read, holds neither, or holds a private key that others can read.
    """
    data = read(path)
    found: list[certificates.Facts] = []
    keys: list[KeyFacts] = []
    for label, block in certificates.blocks(data):
        if label == "CERTIFICATE":
            found.append(certificates.facts(parse_certificate(block, path)))
        elif label.endswith("PRIVATE KEY"):
            check_private(path)
            keys.append(_key_facts(parse_key(block, path).public_key(), is_private=True))
        elif label == "PUBLIC KEY":
            keys.append(_key_facts(parse_public_key(block, path), is_private=False))
    if not found and not keys:
        raise refused(path, "it holds neither a certificate nor a key in PEM form")
    return Contents(certificates=tuple(found), keys=tuple(keys))


def _key_facts(key: types.PublicKeyTypes, *, is_private: bool) -> KeyFacts:
    return KeyFacts(
        is_private=is_private,
        key=certificates.kind(key),
        key_sha256=certificates.key_hash(key).hex(),
    )


def parse_public_key(block: bytes, path: Path, *, key: str | None = None) -> types.PublicKeyTypes:
    """The public key in one PEM block.

    Raises:
        ConfigError: it can't be read.
    """
    try:
        return serialization.load_pem_public_key(block)
    except certificates.UNREADABLE as error:
        raise refused(path, f"a public key in it can't be read: {error}", key=key) from error
