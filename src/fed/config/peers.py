"""What multi-controller needs of its settings: who this party is, who can dial whom, and TLS."""

from __future__ import annotations

from collections.abc import Mapping

from fed import errors, names
from fed.config import endpoints, layers, settings


def check(result: settings.Settings, chosen: Mapping[str, layers.Entry]) -> None:
    """Refuse settled multi-controller settings that can't work or are not safe.

    Args:
        result: the settings.
        chosen: where each was given, for the message.

    Raises:
        ConfigError: this party is not named or not one of the job's, two parties can't reach each
            other, an address beyond this machine has no TLS, or TLS is incomplete.
    """
    if result.party is None:
        raise errors.ConfigError(
            problem="multi-controller needs to know which party this process acts for",
            fix="Give fed.init(party=...), rayfed run --party or FED_PARTY",
            key="party",
        )
    if result.party not in result.addresses:
        entry = chosen["party"]
        raise entry.error(
            f"party {result.party!r} is not one of the job's"
            f"{names.did_you_mean(result.party, result.addresses)}",
            fix=f"{chosen['parties'].where} says who takes part",
        )
    _check_reachable(result, chosen)
    _check_tls(result, chosen)


def _check_reachable(result: settings.Settings, chosen: Mapping[str, layers.Entry]) -> None:
    closed = [name for name, address in result.addresses.items() if address is None]
    if len(closed) > 1:
        raise chosen["addresses"].error(
            f"parties {closed[0]!r} and {closed[1]!r} have no address, so neither can dial the "
            "other",
            fix="Give all but one party an address",
        )
    listen = chosen.get("listen")
    if listen is not None and result.party in closed:
        raise listen.error(
            f"party {result.party!r} has no address, so nobody would dial {listen.value}",
            fix="Give the party an address, or leave listen out",
        )
    by_address: dict[str, str] = {}
    for name, address in result.addresses.items():
        if address is None:
            continue
        other = by_address.setdefault(address.casefold(), name)
        if other != name:
            raise chosen["addresses"].error(
                f"parties {other!r} and {name!r} have the same address {address}",
                fix="Give each its own",
            )


def _check_tls(result: settings.Settings, chosen: Mapping[str, layers.Entry]) -> None:
    known = chosen["addresses"].value
    for pinned in result.tls_pins:
        if pinned not in known:
            raise chosen["tls_pins"].error(
                f"there is no party {pinned!r} to pin{names.did_you_mean(pinned, known)}",
                fix="Leave it out, or correct the name",
            )
    cert, key = chosen.get("tls_cert"), chosen.get("tls_key")
    for one, other in ((cert, "tls.key"), (key, "tls.cert")):
        if one is not None and (cert is None or key is None):
            raise one.error(f"{other} is missing beside it", fix=f"Give {other} too")
    others = [name for name in result.addresses if name != result.party]
    if cert is not None:
        unvouched = [name for name in others if name not in result.tls_pins]
        if unvouched and result.tls_ca_cert is None:
            raise cert.error(
                f"nothing vouches for party {unvouched[0]!r}: both sides show a certificate",
                fix="Give tls.ca_cert, or a pin for each peer in tls.pins",
            )
        if result.insecure:
            raise chosen["insecure"].error(
                "insecure is set beside certificates, which would have no effect",
                fix="Leave insecure out",
            )
        return
    for name in ("tls_ca_cert", "tls_pins"):
        if name in chosen:
            raise chosen[name].error(
                "this party has no certificate to show", fix="Give tls.cert and tls.key too"
            )
    if result.insecure:
        return
    for name, address in result.addresses.items():
        if address is not None and not endpoints.split(address).is_loopback:
            raise chosen["addresses"].error(
                f"the address {address} of party {name!r} is beyond this machine, and there is "
                "no TLS",
                fix="Issue certificates (rayfed cert issue) and give tls, or write insecure: true",
            )
    if result.listen is not None and not endpoints.split(result.listen).is_loopback:
        raise chosen["listen"].error(
            f"{result.listen} can be reached from beyond this machine, and there is no TLS",
            fix="Issue certificates (rayfed cert issue) and give tls, or write insecure: true",
        )
