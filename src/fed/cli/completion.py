"""`rayfed completion`: the script by which a shell completes the command line."""

from __future__ import annotations

import click
from click import shell_completion

#: How each shell takes the script in for good.
_INSTALL = {
    "bash": 'add to ~/.bashrc: eval "$(rayfed completion bash)"',
    "zsh": 'add to ~/.zshrc: eval "$(rayfed completion zsh)"',
    "fish": "run once: rayfed completion fish > ~/.config/fish/completions/rayfed.fish",
}


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    r"""Print the script that completes `rayfed` in a shell.

    \b
    bash: add to ~/.bashrc: eval "$(rayfed completion bash)"
    zsh:  add to ~/.zshrc:  eval "$(rayfed completion zsh)"
    fish: rayfed completion fish > ~/.config/fish/completions/rayfed.fish
    """
    found = shell_completion.get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"this version of click has no completion for {shell}")
    made = found(ctx.find_root().command, {}, "rayfed", "_RAYFED_COMPLETE")
    # The base class's method: bash's own runs the bash found here to check its version, which
    # says nothing of the shell that will read the script.
    click.echo(shell_completion.ShellComplete.source(made))
    click.echo(f"# {_INSTALL[shell]}")
