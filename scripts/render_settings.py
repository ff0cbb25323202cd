"""Writes docs/settings.md from the table in `fed.config.settings`.

python scripts/render_settings.py            writes the page
python scripts/render_settings.py --check    fails if the page is not current
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from fed import names
from fed.config import choices, settings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

INTRODUCTION = """\
<!-- Made by scripts/render_settings.py from src/fed/config/settings.py: change it there. -->

# Settings

A setting can be given in several places; the strongest place that gives it wins:

1. options of `rayfed run` (one log line names what they replace in the script)
2. arguments of `fed.init`; `None` means not given
3. environment variables: `FED_` and the name in capitals, such as `FED_PEER_TIMEOUT_S`
4. `federation.yaml` next to the script
5. what the Ray cluster at `address` recorded when it was started
6. the default

Only for `party` does the argument come before the option. A mode that contradicts the one that a
cluster recorded is an error.

Nothing is ignored. An unknown argument, variable or key is an error that names the nearest known
one, and a wrong value is an error even where a stronger place would replace it. A setting that does
not apply in the mode is an error too, with these exceptions, which are logged: `federation.yaml`
may hold settings for all three modes, so that one file serves them all; arguments of `fed.init` may
be for another mode if the mode is named outside the script; environment variables may be if the
command or the script names the mode.

## How values are written

| | Python, YAML | environment, options |
|---|---|---|
| flag | `True`, `true` | `true`, `false`, `yes`, `no`, `on`, `off`, `1`, `0` |
| time | seconds as a number, or `"500 ms"`, `"30 s"`, `"2 min"`, `"1 h"` | the same |
| size | bytes as a whole number, or `"500 MB"`, `"1 GiB"` (kB to TB, KiB to TiB) | the same |
| list | `["a", "b"]` | `a,b` |
| mapping | `{"ALICE": "10.0.0.1:9000"}` | `ALICE=10.0.0.1:9000,BOB=10.0.0.2:9000` |
| parties | see below | `ALICE,BOB`, `server=1,client=1000`, `1000` |

Keys with a dot are nested in `federation.yaml` (`codec: {modules: [...]}`). As arguments and
variables they have an underscore: `codec_modules`, `FED_CODEC_MODULES`; `fed.init` takes the whole
group too: `tls={"cert": ..., "key": ...}`. Relative paths in the file are relative to its folder.
The file is read as YAML 1.2 is: `off`, `on`, `yes` and `no` are words. Anchors and aliases are not
read.

## How parties are declared

| form | parties |
|---|---|
| `["ALICE", "BOB"]` | `ALICE`, `BOB` |
| `{"server": 1, "client": 1000}` | `server`, `client-0000` ... `client-0999` |
| `1000` | `party-0000` ... `party-0999` |
| `{"ALICE": "10.0.0.1:9000", "BOB": {...}}` | `ALICE`, `BOB`, with their addresses |
| `"open"` | not declared |

A number has as many digits as the count; a count of 1 gives no number. A name has
{rule}.
Names are unique ignoring case, and their case is kept. In `federation.yaml` (and in `fed.init`) a
party can have a mapping of its own: `address`, and for that party alone `listen`, `tls.cert`,
`tls.key`; `tls.pin` is what the other parties pin for it.

```yaml
parties:
  ALICE:
    address: alice.example.org:9000
    listen: 0.0.0.0:9000
    tls: {cert: alice.pem, key: alice.key}
  BOB:
    address: bob.example.org:9000
    tls: {cert: bob.pem, key: bob.key}
tls: {ca_cert: ca.pem}
peer_timeout_s: 1 min
isolation: check
```

In multi-controller the keys of `addresses` are the parties, `parties` selects some of them, and at
most one may have no address: it dials all others. Without TLS only addresses of this machine are
accepted, unless `insecure: true` is written out.
"""


def render() -> str:
    """The page's text."""
    parts = [INTRODUCTION.replace("{rule}", names.NAME_RULE)]
    parts.append("## All settings\n\n| setting | default | modes |\n|---|---|---|")
    parts.extend(_row(field) for field in settings.FIELDS.values())
    parts.append("")
    for section, fields in itertools.groupby(
        settings.FIELDS.values(), key=lambda field: field.section
    ):
        parts.append(f"## {section}\n")
        parts.extend(_entry(field) for field in fields)
    agreeing = ", ".join(f"`{field.key}`" for field in settings.FIELDS.values() if field.must_agree)
    parts.append(
        "## What the parties must agree on\n\n"
        f"{agreeing}: a party that has set another value is refused at the start.\n"
    )
    return "\n".join(parts)


def _modes(field: settings.Field) -> str:
    if field.modes == frozenset(choices.Mode):
        return "all modes"
    return settings.in_words(field.modes, ", ")


def _row(field: settings.Field) -> str:
    anchor = field.key.replace(".", "")  # as the `toc` extension makes it
    return f"| [`{field.key}`](#{anchor}) | {field.default} | {_modes(field)} |"


def _entry(field: settings.Field) -> str:
    agree = " · must agree" if field.must_agree else ""
    argument = "" if field.key == field.name else f"`{field.name}` · "
    return (
        f"### `{field.key}`\n\n{field.doc}\n\n"
        f"{argument}`{field.variable}` · {_modes(field)}{agree}\n\n"
        f"Accepts: {field.kind.expected}. Default: {field.default}.\n"
    )


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is current; the exit code."""
    if arguments == ["--check"]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == render():
            return 0
        print("docs/settings.md is not current: run python scripts/render_settings.py")
        return 1
    if arguments:
        print(__doc__)
        return 2
    PAGE.write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
