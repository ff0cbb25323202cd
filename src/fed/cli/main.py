"""The command `rayfed` and its subcommands."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from fed import _version, names
from fed.cli import audit, completion, run, version


class Commands(click.Group):
    """A group whose error for an unknown command names the nearest one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names.

        Raises:
            UsageError: of click, if there is none.
        """
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            hint = names.did_you_mean(name, self.list_commands(ctx))
            if not hint and name.endswith(".py"):
                hint = f"; to run a script: rayfed run {name}"
            ctx.fail(f"there is no command {name!r}{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(_version.__version__, prog_name="rayfed", message="%(prog)s %(version)s")
def cli() -> None:
    """Run federated scripts.

    One script written with `import fed` runs with all parties in one process, on one Ray cluster,
    or on every party's own machines.
    """


cli.add_command(run.run)
cli.add_command(audit.audit)
cli.add_command(version.version)
cli.add_command(completion.completion)


def main() -> NoReturn:
    """Do what the command line says, and exit with a code of `fed.cli.exits`."""
    cli.main(prog_name="rayfed")
    sys.exit()  # click has left by itself
