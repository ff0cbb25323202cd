"""Numbers, records and digests."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fed import errors
from fed.model import ledger


def call(book: ledger.Ledger, party: str = "ALICE", name: str = "f", **more: Any) -> int:
    keys = ledger.runs(more.pop("keys", []))
    makers = more.pop("makers", [])
    return book.add(book.shape(ledger.FUNCTION, name, keys=keys, **more), party, makers)


def random_calls(seed: int, count: int) -> list[dict[str, Any]]:
    r = random.Random(seed)
    made = []
    for number in range(1, count + 1):
        chosen = sorted(r.choices(range(8), k=r.randrange(4)))
        keys: list[Any] = [(place, r.choice([0, 0, 0, 1])) for place in chosen]
        if r.random() < 0.2:
            keys.append((r.choice(["x", "y"]), 0))
        made.append(
            {
                "party": r.choice(["ALICE", "BOB"]),
                "name": r.choice(["f", "g", "A.m"]),
                "keys": keys,
                "makers": [r.randrange(number) for _ in keys],
                "count": r.choice([1, 1, 2]),
            }
        )
    return made


def test_numbers_count_from_one() -> None:
    book = ledger.Ledger()
    assert book.number == 0
    assert book.records() == []
    assert [call(book) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 3000])
def test_records_come_back_as_they_were_made(count: int) -> None:
    book = ledger.Ledger()
    made = random_calls(count, count)
    for one in made:
        call(book, **{**one, "keys": one["keys"]})
    back = book.records()
    assert [record.number for record in back] == list(range(1, count + 1))
    for record, one in zip(back, made, strict=True):
        assert (record.party, record.name, record.count) == (
            one["party"],
            one["name"],
            one["count"],
        )
        wanted = [
            (key, f"{maker}#{index}")
            for (key, index), maker in zip(one["keys"], one["makers"], strict=True)
        ]
        assert list(record.objects) == wanted
    middle = count // 2 or 1
    assert book.records(middle, middle) == back[middle - 1 : middle]
    assert book.records(count + 1) == []
    assert book.records(count - 1 or 1, count + 10) == back[(count - 1 or 1) - 1 :]


def test_the_latest_hundred_thousand_are_kept() -> None:
    book = ledger.Ledger()
    shape = book.shape(ledger.PUT, "")
    for _ in range(150_000):
        book.add(shape, "ALICE")
    assert len(book.records(50_001)) == 100_000
    with pytest.raises(errors.UsageError, match="record 1 is no longer kept"):
        book.records(1)
    oldest = int(str(refusal(book)).partition("the oldest one is ")[2].partition(".")[0])
    assert book.records(oldest, oldest)[0].number == oldest


def refusal(book: ledger.Ledger) -> errors.UsageError:
    with pytest.raises(errors.UsageError) as caught:
        book.records()
    return caught.value


@pytest.mark.parametrize("seed", range(5))
def test_digests_are_equal_exactly_where_the_records_are(seed: int) -> None:
    made = random_calls(seed, 2100)
    one, other = ledger.Ledger(), ledger.Ledger()
    for place, each in enumerate(made):
        call(one, **each)
        call(other, **each)
        if place % 311 == 0 or place in (1022, 1023, 1024):
            assert one.digest() == other.digest()
    # Asking in between changes nothing.
    assert one.digest() == other.digest()
    call(one)
    assert one.digest() != other.digest()
    call(other)
    assert one.digest() == other.digest()


CHANGES: dict[str, dict[str, Any]] = {
    "party": {"party": "BOB"},
    "name": {"name": "g"},
    "count": {"count": 2},
    "actor": {"has_actor": True, "makers": [0, 3, 4]},
    "key": {"keys": [(0, 0), (2, 0)]},
    "same key twice": {"keys": [(0, 0), (0, 0)]},
    "keyword": {"keys": [(0, 0), ("b", 0)]},
    "index": {"keys": [(0, 0), (1, 1)]},
    "object": {"makers": [3, 5]},
    "order": {"makers": [4, 3]},
    "fewer": {"keys": [(0, 0)], "makers": [3]},
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("before", [0, 1500])
def test_any_difference_changes_the_digest(name: str, before: int) -> None:
    base: dict[str, Any] = {"keys": [(0, 0), (1, 0)], "makers": [3, 4]}
    digests = []
    for more in (base, {**base, **CHANGES[name]}, base):
        book = ledger.Ledger()
        for _ in range(before):
            call(book)
        call(book, **more)
        for _ in range(before):
            call(book)
        digests.append(book.digest())
    assert digests[0] == digests[2] != digests[1]


def test_a_call_cannot_be_mistaken_for_two() -> None:
    def digest(*calls: dict[str, Any]) -> bytes:
        book = ledger.Ledger()
        for one in calls:
            call(book, **one)
        return book.digest()

    two = {"keys": [(0, 0), (1, 0)], "makers": [1, 1]}
    one = {"keys": [(0, 0)], "makers": [1]}
    assert digest(two) != digest(one, one)
    assert digest({"name": "fg"}) != digest({"name": "f"}, {"name": "g"})


def test_runs_put_neighbours_together() -> None:
    keys: list[tuple[ledger.Key, int]]
    keys = [(0, 0), (1, 0), (2, 0), (2, 0), (3, 1), (4, 1), ("a", 0), ("b", 0), (5, 0)]
    assert ledger.runs(keys) == (
        (0, 0, 3), (2, 0, 1), (3, 1, 2), ("a", 0, 1), ("b", 0, 1), (5, 0, 1),
    )  # fmt: skip
    assert ledger.runs([]) == ()


def test_a_record_in_words() -> None:
    book = ledger.Ledger()
    keys = ledger.runs([(n, 0) for n in range(8)])
    shape = book.shape(ledger.METHOD, "A.m", count=2, keys=keys, has_actor=True)
    book.add(shape, "ALICE", [3, *range(8)])
    (record,) = book.records()
    assert record.actor == 3
    assert str(record) == (
        "call 1: method A.m of actor 3 at 'ALICE'"
        "(0=0#0, 1=1#0, 2=2#0, 3=3#0, 4=4#0, 5=5#0, ...) -> 2"
    )
