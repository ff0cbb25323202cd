"""Groups of commands: what is not there is told with the nearest that is."""

from __future__ import annotations

import click

from fed import names


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
