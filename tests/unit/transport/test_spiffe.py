from __future__ import annotations

import re

import hypothesis
import pytest
from hypothesis import strategies as st

from fed import names
from fed.transport import spiffe

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", fullmatch=True)
#: RFC 1123 host names: what gateways can be told to match.
HOST = re.compile(r"(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


@pytest.mark.parametrize(
    ("party", "expected"),
    [
        ("ALICE", "alice"),
        ("client-0007", "client-0007"),
        ("Bank.North", "bank.north"),
        ("007", "007"),
        ("a" * 63, "a" * 63),
        ("bank_a", "bank-a-fa2c0d86"),
        ("10.0.0.1", "10-0-0-1-f5047344"),
        ("clinic.7", "clinic-7-9f2ef971"),
        ("a..b", "a-b-f62b4241"),
    ],
)
def test_the_server_name_of_a_party(party: str, expected: str) -> None:
    assert spiffe.server_name(party) == expected


@hypothesis.given(NAMES)
def test_every_party_has_a_server_name_that_gateways_take(party: str) -> None:
    name = spiffe.server_name(party)
    assert HOST.fullmatch(name)
    assert not name.rpartition(".")[2].isdigit() or "." not in name
    assert spiffe.server_name(party.swapcase()) == name  # names are unique ignoring case


@hypothesis.given(st.lists(NAMES, min_size=2, unique_by=str.casefold))
def test_no_two_parties_share_a_server_name(parties: list[str]) -> None:
    assert len(set(map(spiffe.server_name, parties))) == len(parties)


@hypothesis.given(NAMES)
def test_a_uri_is_read_as_it_was_made(party: str) -> None:
    found = spiffe.parse(spiffe.uri("hospitals.example", party))
    assert found == ("hospitals.example", party)


@hypothesis.given(st.text(max_size=80))
def test_only_names_are_read(text: str) -> None:
    found = spiffe.parse(f"spiffe://hospitals/party/{text}")
    assert (found is not None) == names.is_name(text)
    assert spiffe.parse(text) is None or text.startswith("spiffe://")
