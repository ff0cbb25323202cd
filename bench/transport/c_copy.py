"""The copy over TLS in C, built where that can be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.transport import pair

_SOURCE: Final = Path(__file__).with_name("copy.c")
#: Copied at least per round: a shorter one measures mostly its begin.
_LEAST_BYTES: Final = 200_000_000
_BUILD_S: Final = 120.0
_INSTALL_S: Final = 600.0
_RUN_S: Final = 120.0


def build(folder: Path) -> Path | None:
    """The program, or None where there is no C compiler or no OpenSSL to build against."""
    made = folder / "copy"
    if _compiled(made) or (_installed() and _compiled(made)):
        return made
    return None


def _compiled(made: Path) -> bool:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return False
    command = [compiler, "-O2", "-o", str(made), str(_SOURCE), "-lssl", "-lcrypto"]
    done = subprocess.run(command, capture_output=True, timeout=_BUILD_S, check=False)
    return done.returncode == 0


def _installed() -> bool:
    """What it is built from is there now, if this is Debian and we are root."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    sys.stderr.write("installing Debian packages: gcc libc6-dev libssl-dev\n")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    words = ["-y", "-qq", "--no-install-recommends", "gcc", "libc6-dev", "libssl-dev"]
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", *words]):
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr,
            timeout=_INSTALL_S, check=False,
        )  # fmt: skip
        if done.returncode:
            return False
    return True


def run(program: Path, keys: Path, size_bytes: int) -> pair.Spent:
    """What copying that many bytes takes, measured over more of them if they are few."""
    total = max(size_bytes, _LEAST_BYTES)
    done = subprocess.run(
        [str(program), str(keys), str(total)], capture_output=True, text=True, timeout=_RUN_S,
        check=True,
    )  # fmt: skip
    time_s, send_s, receive_s = (float(word) * size_bytes / total for word in done.stdout.split())
    return pair.Spent(time_s=time_s, send_cpu_s=send_s, receive_cpu_s=receive_s)
