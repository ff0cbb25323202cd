"""Whether peers can be reached at all, and who was not: the errors of an endpoint's start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fed import errors
from fed.config import endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A peer that is not there.

    Attributes:
        party: its name.
        address: where it is dialled; empty if it has to dial.
        cause: what became of the last try; None if there was none, or it got through.
        was_reached: TLS stood once, so the handshake above it is what failed.
        last_cause: what the link says.
    """

    party: str
    address: str
    cause: errors.FedError | None
    was_reached: bool
    last_cause: str

    @property
    def why(self) -> str:
        """The last cause in words."""
        if self.cause is not None:
            return getattr(self.cause, "reason", "") or str(self.cause)
        if not self.address and not self.was_reached:
            return "it has not dialled this party yet"
        return self.last_cause


def error_of(missing: Sequence[Missing], waited_s: float) -> errors.FedError:
    """Who is not there, and why: the first as the error, the others in its words."""
    first = missing[0]
    others = "".join(f"; party {one.party!r} is missing too: {one.why}" for one in missing[1:])
    reason = f"{first.why}{others}"
    cause = first.cause
    if isinstance(cause, errors.HandshakeError):
        return errors.HandshakeError(party=first.party, reason=reason, fix=cause.fix)
    if cause is None and first.was_reached:
        fix = "Look at its log, and start all parties with the same settings"
        return errors.HandshakeError(party=first.party, reason=reason, fix=fix)
    return errors.PartyUnreachableError(
        party=first.party, waited_s=round(waited_s, 1), address=first.address, reason=reason
    )


def check(
    peers: Mapping[str, str | None], listen: str | None, *, has_tls: bool, insecure: bool
) -> None:
    """Refuse addresses that can't work or are not safe.

    Args:
        peers: where each is dialled; None for one that dials.
        listen: where this party listens, if it does.
        has_tls: it has a certificate.
        insecure: it may do without beyond this machine.

    Raises:
        ConfigError: a peer can't be dialled nor dial here, an address is none, or is beyond this
            machine without TLS.
    """
    for party, address in peers.items():
        if address is None:
            if listen is None:
                raise errors.ConfigError(
                    problem=f"party {party!r} has no address, and this party does not listen",
                    fix="Give one of the two an address",
                    key="addresses",
                )
            continue
        where = _split(address, "addresses")
        if where.is_wildcard:
            raise errors.ConfigError(
                problem=f"{address} of party {party!r} is a place to listen, not one to dial",
                fix="Give the address under which the others reach it",
                key="addresses",
            )
        if not (has_tls or insecure or where.is_loopback):
            raise _unsafe(address)
    if listen is not None and not (has_tls or insecure or _split(listen, "listen").is_loopback):
        raise _unsafe(listen)


def _split(address: str, key: str) -> endpoints.Endpoint:
    try:
        return endpoints.split(address)
    except ValueError as error:
        raise errors.ConfigError(problem=f"{address} {error}", key=key) from error


def _unsafe(address: str) -> errors.ConfigError:
    return errors.ConfigError(
        problem=f"{address} is beyond this machine, and there is no TLS",
        fix="Issue certificates (rayfed cert issue) and give tls, or write insecure: true",
    )
