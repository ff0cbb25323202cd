"""What every suite shares: how long the seeded suites run, and what the markers ask of a machine.

With SOAK=1 (`make soak`) a test with `@pytest.mark.soak` runs in full; without, a subset of it:

* with a parameter `seed`: seeds 0 to 4; in full 0 to 199, or `@pytest.mark.soak(seeds=N)`;
* a hypothesis test: the number of examples below, the same ones at every run; in full more of them,
  new ones each time (hypothesis prints how to repeat a failure);
* any other: not at all.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

SOAK = os.environ.get("SOAK") == "1"

#: Seeds per test, without and with SOAK=1.
SUBSET_SEEDS = 5
FULL_SEEDS = 200

# No limit on an example's time: the machine may be busy, and each test has a limit of its own.
hypothesis.settings.register_profile(
    "subset",
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "soak",
    max_examples=3000,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("soak" if SOAK else "subset")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each soak test its seeds."""
    soak = metafunc.definition.get_closest_marker("soak")
    if soak is None or "seed" not in metafunc.fixturenames:
        return
    full = soak.kwargs.get("seeds", FULL_SEEDS)
    metafunc.parametrize("seed", range(full if SOAK else min(full, SUBSET_SEEDS)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave long suites to `make soak`; skip what this machine can't do, with the reason."""
    long = [
        item
        for item in items
        if item.get_closest_marker("soak") and not SOAK and not _has_subset(item)
    ]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    for item in items:
        if item.get_closest_marker("namespaces") and not _can_unshare():
            item.add_marker(pytest.mark.skip(reason="needs root and Linux network namespaces"))
        if item.get_closest_marker("second_python") and not _second_python():
            item.add_marker(pytest.mark.skip(reason="no second Python: make test-second-python"))


def _has_subset(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    seeded = hasattr(item, "callspec") and "seed" in item.callspec.params
    return seeded or hypothesis.is_hypothesis_test(item.obj)


@functools.cache
def _can_unshare() -> bool:
    tool = shutil.which("unshare")
    if tool is None:
        return False
    return subprocess.run([tool, "-n", "true"], capture_output=True, timeout=10).returncode == 0


@functools.cache
def _second_python() -> str:
    """An interpreter of another version with this package installed; empty if there is none.

    SECOND_PYTHON names it; else it is the one that `make test-second-python` made.
    """
    path = os.environ.get("SECOND_PYTHON", "")
    if not path:
        made = Path(__file__).resolve().parent.parent / ".venv-second" / "bin" / "python"
        path = str(made) if made.exists() else ""
    if not path:
        return ""
    program = "import sys; import cloudpickle, msgspec, numpy; print(sys.version_info[:2])"
    told = subprocess.run([path, "-c", program], capture_output=True, text=True, timeout=60)
    usable = told.returncode == 0 and told.stdout.strip() != str(sys.version_info[:2])
    return path if usable else ""


@pytest.fixture
def second_python() -> str:
    """Path of another supported Python that has this package and its dependencies."""
    return _second_python()
