"""This party's certificate and what it pins for its peers, as TLS needs them; renewed by itself.

    identity = Identity(files, federation="hospitals", party="ALICE")
    tls = identity.dialling("BOB", incoming, outgoing)      # or identity.accepting(...)
    ...                                                     # do_handshake over the memory BIOs
    peer = identity.peer(tls, expected="BOB", address="10.0.0.7:9000")

TLS proves that the peer holds its certificate's key and that something pinned stands behind the
certificate. `peer` says who it is: nothing is read or sent above TLS before it has returned.
"""

from __future__ import annotations

import datetime
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509

from fed import errors, names
from fed.config import settings
from fed.transport import (
    certificate_files,
    certificates,
    issuing,
    peer_identity,
    pins,
    spiffe,
)

log = logging.getLogger(__name__)

#: X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which the ssl module has no name for. Dates are looked at
#: by `peer_identity.check`, where a refusal can name the certificate: what OpenSSL refuses, a
#: listener never gets to see.
_DATES_LATER: Final = ssl.VerifyFlags(0x200000)

#: How often files that are replaced while they are read are read again.
_READ_ATTEMPTS: Final = 5

#: Files that could not be used are tried again after that long even if they did not change: a
#: certificate may have begun to be valid.
_RETRY_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Where this party's certificate is, and what vouches for the others.

    Attributes:
        certificate: PEM; certificates of authorities in between may stand behind it.
        key: its private key, PEM, which nobody else may read.
        peers: all other parties; by name the file that is pinned for it, or None for `authority`.
        authority: the authority of all peers that have no file of their own.
    """

    certificate: Path
    key: Path
    peers: Mapping[names.PartyId, Path | None]
    authority: Path | None = None

    @classmethod
    def of(cls, chosen: settings.Settings) -> Files:
        """The files that settled multi-controller settings with `has_tls` name."""
        if chosen.tls_cert is None or chosen.tls_key is None:
            raise errors.ConfigError(
                problem="this party has no certificate to show",
                fix="Give tls.cert and tls.key",
                key="tls.cert",
            )
        others = [party for party in chosen.addresses if party != chosen.party]
        return cls(
            certificate=chosen.tls_cert,
            key=chosen.tls_key,
            peers={party: chosen.tls_pins.get(party) for party in others},
            authority=chosen.tls_ca_cert,
        )

    def stamps(self) -> tuple[object, ...]:
        """What changes when one of the files is replaced, written to, or given another mode."""
        named = [self.certificate, self.key, self.authority, *self.peers.values()]
        return tuple(_stamp(path) for path in dict.fromkeys(named) if path is not None)


def _stamp(path: Path) -> object:
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """The files as they were at one moment; replaced as a whole.

    Attributes:
        stamps: by which a change of the files is seen.
        certificate: this party's.
        pins: by peer.
        server: for connections that the others dial; trusts what is pinned for any peer.
        clients: for dialling, by peer; each trusts what is pinned for that peer alone.
    """

    stamps: tuple[object, ...]
    certificate: x509.Certificate
    pins: Mapping[names.PartyId, pins.Pin]
    server: ssl.SSLContext
    clients: Mapping[names.PartyId, ssl.SSLContext]


class Identity:
    """What this party shows of itself, and by what it knows its peers.

    Each handshake looks whether the files have changed: a renewed certificate serves from the next
    connection on, and those that stand go on. Files that can't be used are told in the log, and
    the ones before stay in use. Any thread may call any method.

    Args:
        files: where they are.
        federation: name of the federation.
        party: this party's name.
        clock: seconds since the epoch.

    Raises:
        ConfigError: a file is missing, can't be read or can be read by others; the certificate is
            not this party's, not for both ends of a connection, or not valid now; the key is not
            its own; or nothing vouches for a peer.
    """

    def __init__(
        self,
        files: Files,
        *,
        federation: str,
        party: names.PartyId,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.federation = federation
        self.party = party
        self._files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._refused: tuple[object, ...] | None = None
        self._retry_at = 0.0
        self._loaded = self._load()

    @property
    def not_after(self) -> float:
        """When this party's own certificate ends, in seconds since the epoch."""
        return self._loaded.certificate.not_valid_after_utc.timestamp()

    def accepting(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        """TLS for a connection that somebody dialled; the handshake is yet to be done."""
        self.refresh()
        return self._loaded.server.wrap_bio(incoming, outgoing, server_side=True)

    def dialling(
        self, party: names.PartyId, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> ssl.SSLObject:
        """TLS for a connection dialled to a peer; the handshake is yet to be done.

        The server name that it sends is `spiffe.server_name(party)`.

        Raises:
            HandshakeError: this party's own certificate has ended: every peer would refuse it.
        """
        self.refresh()
        loaded = self._loaded
        problem = peer_identity.dates_problem(loaded.certificate, self._now())
        if problem is not None:
            raise errors.HandshakeError(
                party=party,
                reason=f"the certificate of this party, {self.party!r}, {problem.text}",
                fix=problem.fix,
            )
        return loaded.clients[party].wrap_bio(
            incoming, outgoing, server_side=False, server_hostname=spiffe.server_name(party)
        )

    def peer(
        self, tls: ssl.SSLObject, *, expected: names.PartyId | None = None, address: str = ""
    ) -> peer_identity.Peer:
        """Who is at the other end, once the handshake is done.

        Args:
            tls: from `accepting` or `dialling`.
            expected: the party that was dialled; None for whoever dialled.
            address: where the connection comes from or leads to, for messages.

        Raises:
            HandshakeError: as `peer_identity.check`. The connection has to be closed.
        """
        return peer_identity.check(
            tls,
            federation=self.federation,
            party=self.party,
            pinned=self._loaded.pins,
            now=self._clock(),
            expected=expected,
            address=address,
        )

    def refresh(self) -> bool:
        """Take in files that have changed; True if new ones are in use now."""
        with self._lock:
            stamps = self._files.stamps()
            if stamps == self._loaded.stamps:
                return False
            if stamps == self._refused and self._clock() < self._retry_at:
                return False
            try:
                loaded = self._load()
            except errors.ConfigError as error:
                self._refused = stamps
                self._retry_at = self._clock() + _RETRY_S
                # Without the path: where keys are kept does not belong in a log.
                log.warning(
                    "changed certificate files are not used (%s): %s",
                    error.key,
                    error.problem,
                    extra={"party": self.party},
                )
                return False
            self._loaded = loaded
            self._refused = None
        log.info(
            "changed certificate files are in use, until %s",
            certificates.shown_time(loaded.certificate.not_valid_after_utc),
            extra={"party": self.party},
        )
        return True

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock(), datetime.UTC)

    def _load(self) -> _Loaded:
        """Read all files; they are of one moment even while somebody replaces them."""
        for _ in range(_READ_ATTEMPTS):
            stamps = self._files.stamps()
            try:
                loaded = self._read(stamps)
            except errors.ConfigError:
                if stamps == self._files.stamps():
                    raise
                continue
            if stamps == self._files.stamps():
                return loaded
        raise errors.ConfigError(
            problem="the certificate files change while they are read",
            fix="Replace them by renaming new ones",
            key="tls.cert",
        )

    def _read(self, stamps: tuple[object, ...]) -> _Loaded:
        files = self._files
        certificate, *_ = certificate_files.parse_certificates(
            certificate_files.read(files.certificate, key="tls.cert"),
            files.certificate,
            key="tls.cert",
        )
        key = certificate_files.read_key(files.key, key="tls.key")
        issuing.check_match(
            certificate, key, path=files.certificate, key_path=files.key, setting="tls.key"
        )
        self._check_own(certificate)
        pinned = pins.read_all(files.peers, files.authority)
        server = self._context(
            ssl.PROTOCOL_TLS_SERVER, (anchor for pin in pinned.values() for anchor in pin.anchors)
        )
        # No tickets: every connection shows its certificates, to be held against today's pins.
        server.num_tickets = 0
        contexts: dict[tuple[x509.Certificate, ...], ssl.SSLContext] = {}
        for pin in pinned.values():
            if pin.anchors not in contexts:
                contexts[pin.anchors] = self._context(ssl.PROTOCOL_TLS_CLIENT, pin.anchors)
        return _Loaded(
            stamps=stamps,
            certificate=certificate,
            pins=pinned,
            server=server,
            clients={party: contexts[pin.anchors] for party, pin in pinned.items()},
        )

    def _check_own(self, certificate: x509.Certificate) -> None:
        """The certificate is this party's, and the peers will take it."""
        problem, fix = "", "Issue one: rayfed cert issue"
        wanted = spiffe.uri(self.federation, self.party)
        found = certificates.uris(certificate)
        missing = certificates.missing_usages(certificate)
        dates = peer_identity.dates_problem(certificate, self._now())
        if found != [wanted]:
            said = ", ".join(map(repr, found)) or "no URI name"
            problem = f"it has to say {wanted!r} and nothing else of the kind; it says {said}"
        elif certificates.is_authority(certificate):
            problem = "it is the certificate of an authority, not of a party"
        elif missing:
            problem = f"it is not for the {missing[0]}'s end of a connection"
        elif dates is not None:
            problem, fix = f"it {dates.text}", dates.fix
        if problem:
            raise certificate_files.refused(
                self._files.certificate, problem, fix=fix, key="tls.cert"
            )

    def _context(self, protocol: int, trusted: Iterable[x509.Certificate]) -> ssl.SSLContext:
        """A context with this party's certificate: TLS 1.3, ALPN, both sides show certificates."""
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # A party is known by its URI name, wherever its host may be.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        # Partial chain: what is pinned is trusted as it stands, whoever signed it.
        context.verify_flags |= (
            ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN | _DATES_LATER
        )
        context.set_alpn_protocols([peer_identity.PROTOCOL])
        ders = b"".join(dict.fromkeys(map(certificates.der, trusted)))
        try:
            if ders:
                context.load_verify_locations(cadata=ders)
            # An empty password, since OpenSSL would ask for one at the terminal.
            context.load_cert_chain(self._files.certificate, self._files.key, password="")
        except (ssl.SSLError, OSError) as error:
            raise certificate_files.refused(
                self._files.certificate, f"TLS can't use it: {error}", key="tls.cert"
            ) from error
        return context
