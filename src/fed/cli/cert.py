"""`rayfed cert`: authorities and parties' certificates, made and looked at."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fed import errors
from fed.cli import commands, exits
from fed.transport import lifetimes

if TYPE_CHECKING:
    from fed.transport import certificates, issuing

_PATH: Final = click.Path(path_type=Path)
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")

#: Paths that stand in YAML as they are.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._/][A-Za-z0-9._/-]*")


@click.group(cls=commands.Commands, short_help="Make and show certificates.")
def cert() -> None:
    """Make and show the certificates by which parties know one another.

    An authority vouches for parties. One for all is the simple case; with one at each party, no
    private key ever leaves its party.
    """


@cert.command(short_help="Make an authority.")
@click.option("--out", metavar="DIR", type=_PATH, required=True, help="Folder for its files.")
@click.option("--federation", metavar="NAME", required=True, help="The federation it speaks for.")
@click.option(
    "--days",
    metavar="NUMBER",
    type=click.IntRange(1, lifetimes.MAX_DAYS),
    default=lifetimes.AUTHORITY_DAYS,
    show_default=True,
    help="How long it is valid.",
)
@_JSON
def ca(out: Path, federation: str, days: int, *, as_json: bool) -> None:
    """Make an authority: ca.pem, which all may see, and ca.key, which nobody else may.

    Nothing is overwritten.
    """
    from fed.transport import issuing

    with _errors_told():
        declared = _declared_federation()
        if declared not in (None, federation):
            raise errors.ConfigError(
                problem=f"federation.yaml in this folder says federation {declared!r}, and "
                f"--federation {federation!r}",
                fix="Give the same name",
            )
        made = issuing.create_authority(out, federation, now=_now(), days=days)
    if as_json:
        click.echo(json.dumps(_as_json(made)))
        return
    _echo_files(
        (made.certificate, "certificate, for the other parties"),
        (made.key, "private key, stays here (mode 0600)"),
    )
    click.echo(f"\nauthority of federation {federation}")
    _echo_facts(made.facts)
    click.echo(
        "\nIn federation.yaml, where it vouches for all parties:\n\n"
        f"federation: {federation}\n"
        f"tls: {{ca_cert: {_yaml(made.certificate)}}}\n"
        "\nWhere it vouches for one party, at all others:\n\n"
        "parties:\n"
        f"  NAME: {{tls: {{pin: {_yaml(made.certificate)}}}}}"
    )


@cert.command(short_help="Make a party's certificate.")
@click.option("--ca", metavar="DIR", type=_PATH, required=True, help="Folder of the authority.")
@click.option("--party", metavar="NAME", required=True, help="The party; its case is kept.")
@click.option("--out", metavar="DIR", type=_PATH, required=True, help="Folder for its files.")
@click.option(
    "--days",
    metavar="NUMBER",
    type=click.IntRange(1, lifetimes.MAX_DAYS),
    help=f"How long it is valid.  [default: {lifetimes.PARTY_DAYS}, or until the authority ends]",
)
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="A host name or IP address for other software that looks at it; may be given many times.",
)
@_JSON
def issue(
    ca: Path, party: str, out: Path, days: int | None, hosts: tuple[str, ...], *, as_json: bool
) -> None:
    """Make a party's certificate, with a new private key and a copy of the authority's ca.pem.

    Nothing is overwritten. To renew one, make it in another folder and move the two files over the
    old ones: running jobs take them in. If federation.yaml is in this folder, it has to know the
    party.
    """
    from fed.transport import issuing

    with _errors_told():
        _check_declared(party)
        made = issuing.create_party(
            ca, out, party, now=_now(), days=days, hosts=hosts, federation=_declared_federation()
        )
    if as_json:
        click.echo(json.dumps(_as_json(made)))
        return
    _echo_files(
        (made.certificate, "certificate"),
        (made.key, f"private key, for {party} alone (mode 0600)"),
        (made.authority, "certificate of the authority"),
    )
    click.echo(f"\nparty {party} of federation {made.facts.federation}")
    _echo_facts(made.facts)
    click.echo(
        f"\nIn federation.yaml at {party}:\n\n"
        f"federation: {made.facts.federation}\n"
        "parties:\n"
        f"  {_yaml(party)}: {{tls: {{cert: {_yaml(made.certificate)}, key: {_yaml(made.key)}}}}}\n"
        f"tls: {{ca_cert: {_yaml(made.authority)}}}"
        "    # if it vouches for the others too; else a pin for each"
    )


@cert.command(short_help="Show what a certificate or key says.")
@click.argument("file", type=_PATH)
@_JSON
def show(file: Path, *, as_json: bool) -> None:
    """Show what the certificates and keys in FILE say, with the fingerprints to compare.

    Of a private key only the fingerprint of its public key is shown.
    """
    from fed.transport import certificate_files, certificates

    with _errors_told():
        found = certificate_files.read_contents(file)
    if as_json:
        shown = {
            "file": str(file),
            "certificates": [_facts_json(one) for one in found.certificates],
            "keys": [dataclasses.asdict(one) for one in found.keys],
        }
        click.echo(json.dumps(shown))
        return
    parts = []
    for facts in found.certificates:
        parts.append("\n".join([_title(facts), *_lines(facts)]))
    for key in found.keys:
        secrecy = "private" if key.is_private else "public"
        hash_line = f"  public key SHA-256   {certificates.shown_hash(key.key_sha256)}"
        parts.append(f"{secrecy} key, {key.key}\n{hash_line}")
    click.echo("\n\n".join(parts))


@contextlib.contextmanager
def _errors_told() -> Iterator[None]:
    """An error of the block is one line on stderr and an exit code; nothing was left behind."""
    try:
        yield
    except errors.FedError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(exits.of_error(error))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _declared(name: str) -> Any:
    """A setting of the federation.yaml in this folder; None if there is none."""
    from fed.config import federation

    file = federation.find(Path())
    entry = federation.read(file).entries.get(name) if file is not None else None
    return entry.value if entry is not None else None


def _declared_federation() -> str | None:
    found = _declared("federation")
    return str(found) if found is not None else None


def _check_declared(party: str) -> None:
    """The party is one that the federation.yaml in this folder knows, if it knows any.

    Raises:
        UnknownPartyError: it is not; the nearest is named.
    """
    from fed.config import parties

    known = _declared("parties")
    if known is None:
        addresses = _declared("addresses")
        known = parties.Parties.parse(list(addresses)) if addresses else None
    if known is None or not known.is_declared:
        return
    try:
        known.index(party)
    except errors.UnknownPartyError as error:
        raise errors.UnknownPartyError(
            problem=f"federation.yaml: {error.problem}", fix=error.fix, party=party
        ) from None


def _as_json(made: issuing.Made) -> dict[str, object]:
    return {
        "certificate": str(made.certificate),
        "key": str(made.key),
        "authority": str(made.authority),
        **{name: value for name, value in _facts_json(made.facts).items() if name != "key"},
    }


def _facts_json(facts: certificates.Facts) -> dict[str, object]:
    from fed.transport import spiffe

    found: dict[str, object] = {
        name: value.isoformat() if isinstance(value, datetime.datetime) else value
        for name, value in dataclasses.asdict(facts).items()
    }
    found["server_name"] = spiffe.server_name(facts.party) if facts.party is not None else None
    return found


def _title(facts: certificates.Facts) -> str:
    of = f" of federation {facts.federation}" if facts.federation is not None else ""
    if facts.is_authority:
        return f"authority{of}"
    if facts.party is not None:
        return f"party {facts.party}{of}"
    return "certificate of no party: it has not exactly one name spiffe://<federation>/party/<name>"


def _lines(facts: certificates.Facts) -> list[str]:
    from fed.transport import certificates, spiffe

    rows = [("name", uri) for uri in facts.uris]
    if facts.party is not None:
        rows.append(("server name (SNI)", spiffe.server_name(facts.party)))
    rows += [("host", host) for host in facts.hosts]
    rows += [
        ("subject", facts.subject),
        ("issued by", "itself" if facts.subject == facts.issuer else facts.issuer),
        ("from", certificates.shown_time(facts.not_before)),
        ("until", f"{certificates.shown_time(facts.not_after)} ({_left(facts)})"),
        ("key", facts.key),
        ("certificate SHA-256", certificates.shown_hash(facts.sha256)),
        ("public key SHA-256", certificates.shown_hash(facts.key_sha256)),
    ]
    return [f"  {name:<20} {_harmless(value)}" for name, value in rows]


def _left(facts: certificates.Facts) -> str:
    now = _now()
    if now < facts.not_before:
        return "not valid yet"
    days = (facts.not_after - now).total_seconds() / 86_400
    if days < 0:
        return f"ENDED {-days:.0f} days ago"
    return f"{days:.0f} days left"


def _harmless(text: str) -> str:
    """Text of a file that somebody sent, fit for a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _echo_facts(facts: certificates.Facts) -> None:
    click.echo("\n".join(_lines(facts)))


def _echo_files(*files: tuple[Path, str]) -> None:
    width = max(len(str(path)) for path, _ in files)
    for path, what in files:
        click.echo(f"{path!s:<{width}}  {what}")


def _yaml(value: Path | str) -> str:
    """A path or name as it stands in YAML; in quotes where it might be read as something else."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) and not text.isdigit() else json.dumps(text)
