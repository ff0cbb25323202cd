"""Mistakes that newcomers make: each is said, none passes in silence."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import command

import fed


@fed.remote
class Counter:
    def __init__(self) -> None:
        self.n = 0

    def add(self) -> int:
        self.n += 1
        return self.n


@fed.remote
async def hang() -> None:
    await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def _session() -> Iterator[None]:
    fed.init(parties={"server": 1, "client": 1})
    yield
    fed.shutdown()


def test_a_pattern_that_matches_nobody_is_an_error_that_names_who_there_is() -> None:
    with pytest.raises(fed.UnknownPartyError, match=r"'client-\*'.*'server', 'client'.*no suffix"):
        fed.parties("client-*")
    assert fed.parties("client*") == ["client"]


@pytest.mark.parametrize(
    "hide",
    [
        lambda obj: {"x": obj}.values(),
        lambda obj: {"x": obj}.items(),
        lambda obj: {obj: 1}.keys(),
        lambda obj: deque([obj]),
        lambda obj: defaultdict(list, x=obj),
        lambda obj: {obj},
    ],
)
def test_a_get_does_not_give_back_handles(hide: Callable[[Any], Any]) -> None:
    hidden = hide(fed.put(1, party="server"))
    with pytest.raises(fed.UsageError, match="list"):
        fed.get(hidden)


@pytest.mark.parametrize("plain", [deque([1]), {"x": 1}.values(), {1, 2}, defaultdict(list)])
def test_a_get_of_a_plain_collection_is_that_collection(plain: Any) -> None:
    assert fed.get(plain) is plain


def test_a_get_of_what_makes_calls_is_refused() -> None:
    actor = Counter.party("server").remote()
    for caller in (Counter, actor, actor.add):
        with pytest.raises(fed.UsageError, match=r"makes calls.*\.remote"):
            fed.get(caller)


def test_the_value_is_no_attribute_of_the_handle() -> None:
    obj = fed.put(1, party="server")
    public = {name for name in dir(obj) if not name.startswith("_")}
    assert public == {"get_fed_task_id", "get_party", "id", "index", "number", "party"}


def _in_a_child(actor: Any, answers: Any) -> None:
    try:
        answers.put(fed.get(actor.add.remote()))
    except fed.SessionError as error:
        answers.put(str(error))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_no_part_in_the_session() -> None:
    actor = Counter.party("server").remote()
    forking = multiprocessing.get_context("fork")
    answers = forking.Queue()
    child = forking.Process(target=_in_a_child, args=(actor, answers))
    child.start()
    told = answers.get(timeout=30)
    child.join(timeout=30)
    assert "in a forked process" in told
    assert fed.get(actor.add.remote()) == 1


def test_a_deadlock_that_was_read_is_not_told_again(tmp_path: Path) -> None:
    hangs = "import asyncio, fed\nfed.init()\n@fed.remote\nasync def hang():\n"
    hangs += "    await asyncio.Event().wait()\nobj = hang.party('A').remote()\n"
    read = "try:\n    fed.get(obj)\nexcept fed.DeadlockError:\n    pass\n"
    folder = command.Folder(tmp_path)
    assert folder.run(hangs + read).code == 0
    unread = folder.run(hangs)
    assert unread.code == 3
    assert "1#0" in unread.stderr
    assert "hang of party 'A'" in unread.stderr
