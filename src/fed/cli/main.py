"""The command `rayfed` and its subcommands."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from fed import _version
from fed.cli import audit, cert, commands, completion, run, version


@click.group(
    cls=commands.Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(_version.__version__, prog_name="rayfed", message="%(prog)s %(version)s")
def cli() -> None:
    """Run federated scripts.

    One script written with `import fed` runs with all parties in one process, on one Ray cluster,
    or on every party's own machines.
    """


cli.add_command(run.run)
cli.add_command(cert.cert)
cli.add_command(audit.audit)
cli.add_command(version.version)
cli.add_command(completion.completion)


def main() -> NoReturn:
    """Do what the command line says, and exit with a code of `fed.cli.exits`."""
    cli.main(prog_name="rayfed")
    sys.exit()  # click has left by itself
