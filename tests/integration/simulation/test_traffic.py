"""What is counted as crossing between parties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fed
from fed.model import engine as port


@fed.remote
def numbers() -> Any:
    return [1, 2, 3]


@fed.remote
def failing() -> Any:
    raise ValueError


@fed.remote
class Reader:
    def read(self, *given: Any) -> int:
        return len(given)


def test_what_a_call_that_never_ran_was_to_read_did_not_cross(
    session: Callable[..., None],
) -> None:
    session(parties=["ALICE", "BOB"])
    engine: Any = port.current()
    reader = Reader.party("BOB").remote()
    before, failed, after = (body.party("ALICE").remote() for body in (numbers, failing, numbers))
    for obj in (reader.read.remote(before, failed), reader.read.remote(failed, after)):
        with pytest.raises(fed.FedRemoteError):
            fed.get(obj)
    fed.kill(reader)
    with pytest.raises(fed.ActorKilledError):
        fed.get(reader.read.remote(before))
    assert engine.traffic.values == 0
    fed.get(Reader.party("BOB").remote().read.remote(before, after))
    assert engine.traffic.values == 2
