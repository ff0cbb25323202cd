"""Comparisons with other engines, each in an environment of its own.

python -m bench.comparisons ray       beside a Ray actor call per client
python -m bench.comparisons flower    beside Flower's simulation

The environment is made once, with pinned versions and this checkout installed, in
`RAYFED_BENCH_ENVS` (default ~/.cache/rayfed-bench); some 500 MB each. The measurement then runs
there and prints one JSON line per figure, as the other benches do.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
#: Far above what a slow machine takes for either measurement (both end within two minutes).
MEASURE_TIMEOUT_S = 900.0
#: The wheels are about 200 MB; a slow line gets its time.
INSTALL_TIMEOUT_S = 3600.0
#: Several times what Ray takes to end its processes after an interrupt. Flower's server thread
#: waits on for its replies; killed then, it leaves nothing: Ray's processes end with their driver.
STOP_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is compared: the module that measures, and what it needs beside this package."""

    module: str
    requirement: str


# Flower's extra brings the one version of Ray that it works with.
COMPARISONS = {
    "ray": Comparison(module="bench.with_ray", requirement="ray==2.60.0"),
    "flower": Comparison(module="bench.with_flower", requirement="flwr[simulation]==1.42.0"),
}


def environments() -> pathlib.Path:
    """The folder that holds the environments; it may not exist yet."""
    named = os.environ.get("RAYFED_BENCH_ENVS")
    return pathlib.Path(named or "~/.cache/rayfed-bench").expanduser().resolve()


def environment(name: str) -> pathlib.Path:
    """The interpreter of a comparison's environment, which holds what the comparison needs.

    The second time this takes a moment only, unless the pinned version, the interpreter or this
    package's requirements changed.
    """
    venv = environments() / name
    requirement = COMPARISONS[name].requirement
    python = venv / "bin" / "python"
    # The set-up of the repository: it finds a way to make an environment on most machines, and
    # installs the checkout editable, so that what is measured is the code as it stands.
    _install(
        ["scripts/setup.sh", "zstd"],
        env=os.environ | {"VENV": str(venv), "PYTHON": sys.executable},
    )
    stamp = venv / ".stamps" / "comparison"
    if not stamp.exists() or stamp.read_text() != requirement:
        sys.stderr.write(f"set-up: installing {requirement} into {venv} (a few minutes)\n")
        _install([str(python), "-m", "pip", "install", "--quiet", "--no-input", requirement])
        stamp.write_text(requirement)
    return python


def _install(command: list[str], *, env: dict[str, str] | None = None) -> None:
    subprocess.run(
        command,
        cwd=REPOSITORY,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        check=True,
        timeout=INSTALL_TIMEOUT_S,
    )


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold the comparison's environment: two at a time would disturb each other's figures.

    Raises:
        SystemExit: if another process holds it.
    """
    folder = environments()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(
                f"another comparison with {name} runs in {folder}; wait for its end, or name "
                "another folder by RAYFED_BENCH_ENVS"
            ) from None
        yield


def measure(name: str) -> int:
    """The exit code of the measurement, whose lines went to standard output."""
    with alone(name):
        python = environment(name)
        # In a session of its own, so that Ctrl-C reaches it once, by `_end`: a second one would
        # interrupt its own tidying up.
        child = subprocess.Popen(
            [python, "-m", COMPARISONS[name].module], cwd=REPOSITORY, start_new_session=True
        )
        try:
            return child.wait(MEASURE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            sys.stderr.write(f"{name}: no end after {MEASURE_TIMEOUT_S:g} s; interrupted\n")
            return 1
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """The process has ended. Interrupted first, so that it ends what it started itself."""
    if child.poll() is not None:
        return
    child.send_signal(signal.SIGINT)
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(STOP_TIMEOUT_S)


def main() -> None:
    """Run the comparison named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.comparisons", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("comparison", choices=COMPARISONS)
    name = parser.parse_args().comparison
    raise SystemExit(measure(name))


if __name__ == "__main__":
    main()
