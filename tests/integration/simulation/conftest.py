"""Sessions for the tests of the simulation engine."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fed


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Starts a session with settings; it ends with the test.

    Classes of the test's own module may cross.
    """

    def start(**settings: Any) -> None:
        given = {"parties": ["ALICE", "BOB", "CAROL"], "log_level": "critical", **settings}
        fed.init(mode="simulation", codec_modules=[request.module.__name__], **given)

    yield start
    fed.shutdown()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Reference counting alone frees."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """A failing test must not leave its session to the next one."""
    yield
    with contextlib.suppress(fed.FedError):
        fed.shutdown()
