"""`rayfed version`: which version runs here, on what."""

from __future__ import annotations

import json
import platform

import click

from fed import _version


@click.command(short_help="Print the version of RayFed and Python.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def version(as_json: bool) -> None:
    """Print the version of RayFed, and the Python and system that it runs on."""
    facts = {
        "rayfed": _version.__version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
    }
    if as_json:
        click.echo(json.dumps(facts))
        return
    click.echo("rayfed {rayfed} ({implementation} {python}, {system} {machine})".format(**facts))
