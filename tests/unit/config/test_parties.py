"""Parties: the forms of a declaration, positions, patterns, and what is refused."""

from __future__ import annotations

import fnmatch
import pickle  # noqa: TID251
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed import errors
from fed.config import parties

Parties = parties.Parties


def listed(form):
    return list(Parties.parse(form))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (["BOB", "ALICE"], ["BOB", "ALICE"]),
        (("BOB", "ALICE"), ["BOB", "ALICE"]),
        ({"BOB": "h:1", "ALICE": "h:2"}.keys(), ["BOB", "ALICE"]),
        ({"ALICE": "h:1", "BOB": {"address": "h:2"}, "CAROL": None}, ["ALICE", "BOB", "CAROL"]),
        ({"server": 1, "client": 3}, ["server", "client-0", "client-1", "client-2"]),
        ({"c": 10}, [f"c-{i:02d}" for i in range(10)]),
        (1, ["party"]),
        (2, ["party-0", "party-1"]),
        ("ALICE", ["ALICE"]),
        (" ALICE, BOB ", ["ALICE", "BOB"]),
        ("3", ["party-0", "party-1", "party-2"]),
        ("server=1,client=2", ["server", "client-0", "client-1"]),
        ("server,client=2", ["server", "client-0", "client-1"]),
        ({"a": 2, "x": None, "y": None, "b": 2}, ["a-0", "a-1", "x", "y", "b-0", "b-1"]),
        ({"a": 2, "a-0": 2}, ["a-0", "a-1", "a-0-0", "a-0-1"]),
    ],
)
def test_every_form_gives_its_names_in_order(form, expected):
    declared = Parties.parse(form)
    assert declared.is_declared
    assert list(declared.names()) == expected
    assert len(declared) == len(expected)
    assert [declared.index(name) for name in expected] == list(range(len(expected)))
    assert [declared.name(i) for i in range(len(expected))] == expected


def test_the_example_of_the_design():
    declared = Parties.parse({"server": 1, "client": 1000})
    assert len(declared) == 1001
    assert declared.name(0) == "server"
    assert declared.name(1) == "client-0000"
    assert declared.name(1000) == "client-0999"


@pytest.mark.parametrize(
    ("form", "key", "text"),
    [
        ([], "p", "no party"),
        ({}, "p", "no party"),
        ("", "p", "no party"),
        (0, "p", "not positive"),
        (-3, "p", "not positive"),
        ("0", "p", "not positive"),
        ({"a": 0}, "p.a", "not positive"),
        ({"a": 2.0}, "p.a", "neither a count"),
        ({"a": True}, "p.a", "neither a count"),
        (True, "p", "bool"),
        (2.5, "p", "float"),
        ({"ALICE", "BOB"}, "p", "set"),
        (b"ALICE", "p", "bytes"),
        (["ALICE", "alice"], "p[1]", "case"),
        (["ALICE", "BOB", "ALICE"], "p[2]", "twice"),
        (["ALICE", 7], "p[1]", "quotes"),
        (["-ALICE"], "p[0]", "63 characters"),
        (["ALICE", ""], "p[1]", "63 characters"),
        ("ALICE,,BOB", "p[1]", "63 characters"),
        ("a=2,a=3", "p", "twice"),
        ("a=x", "p", "count"),
        ("9" * 5000, "p[0]", "63 characters"),
        ({"a": 2, "A": 2}, "p.A", "case"),
        ({"a-1": None, "a": 2}, "p.a", "twice"),
        ({"a": 2, "A-1": None}, "p.A-1", "case"),
        ({"A-1": 1, "a": 2}, "p.a", "case"),
        ({"x" * 61: 10}, "p." + "x" * 61, "63 characters"),
        ({"a": 10**10}, "p.a", "more than"),
        ({"a": 10**5000}, "p.a", "more than"),
        ({"a": 600_000_000, "b": 600_000_000}, "p.b", "more than"),
    ],
)
def test_bad_forms_name_source_and_key(form, key, text):
    with pytest.raises(errors.ConfigError) as caught:
        Parties.parse(form, source="fed.init", key="p")
    assert caught.value.key == key
    assert caught.value.source == "fed.init"
    assert text in str(caught.value)


def test_single_names_beside_a_group_are_kept_when_they_are_no_names_of_it():
    declared = Parties.parse({"a": 2, "a-2": None, "a-01": None, "a-x": None})
    assert list(declared) == ["a-0", "a-1", "a-2", "a-01", "a-x"]
    assert [declared.index(name) for name in declared] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Client-0003", "'client-0003'"),
        ("SERVER", "'server'"),
        ("client-1000", "'client-0999'"),
        ("client-5", "'client-0005'"),
        ("clinet-0007", "'client-0007'"),
        ("client", "'client-0000'"),
        ("servr", "'server'"),
        ("zzz", "Declared are 'server', 'client-0000' ... 'client-0999'"),
        ("client-\u0660\u0660\u0660\u0661", "63 characters"),
        ("a b", "63 characters"),
        ("", "63 characters"),
        (7, "text"),
        (None, "text"),
        (["client-0001"], "text"),
        (b"server", "text"),
    ],
)
def test_unknown_parties_are_told_what_is_near(name, text):
    declared = Parties.parse({"server": 1, "client": 1000})
    with pytest.raises(errors.UnknownPartyError) as caught:
        declared.index(name)
    assert text in str(caught.value)
    assert isinstance(caught.value.party, str)
    assert name not in declared if not isinstance(name, list) else True


def test_only_case_is_said_to_differ():
    with pytest.raises(errors.UnknownPartyError, match="keep their case"):
        Parties.parse({"client": 10}).index("CLIENT-03")


def test_there_is_no_negative_and_no_far_position():
    declared = Parties.parse(["ALICE", "BOB"])
    for index in (-1, 2):
        with pytest.raises(IndexError, match=r"0 \.\.\. 1"):
            declared.name(index)


def test_open_parties_take_names_in_as_they_appear():
    for form in (None, "open"):
        found = Parties.parse(form)
        assert not found.is_declared
        assert len(found) == 0
        assert [found.index(name) for name in ("BOB", "ALICE", "BOB", "client-7")] == [0, 1, 0, 2]
        assert list(found) == ["BOB", "ALICE", "client-7"]
        assert found.name(1) == "ALICE"
        with pytest.raises(IndexError, match="3 have been seen"):
            found.name(3)
        assert "ALICE" in found
        assert "CAROL" not in found
        assert len(found) == 3


def test_open_parties_refuse_a_name_that_differs_in_case_alone():
    found = Parties.parse(None)
    found.index("ALICE")
    with pytest.raises(errors.UnknownPartyError, match="case alone"):
        found.index("Alice")
    assert len(found) == 1


@pytest.mark.parametrize("name", ["", "a b", "-a", 7, None, ["a"]])
def test_open_parties_refuse_what_is_no_name(name):
    found = Parties.parse(None)
    with pytest.raises(errors.UnknownPartyError):
        found.index(name)
    assert len(found) == 0


def test_open_parties_can_not_be_listed():
    with pytest.raises(errors.UsageError, match="not declared"):
        Parties.parse(None).match("*")


def test_a_text_that_is_a_name_in_a_list_is_a_name():
    assert listed(["open"]) == ["open"]


@pytest.mark.parametrize(
    "pattern",
    [
        "*", "**", "client-*", "c*", "client-00*", "client-01", "client-1*", "client-99*", "*7",
        "client-?5", "client-[01]?", "server", "s*", "SERVER", "client", "x*", "", "client-9",
        "client-1*0", "[", "client-0[", "*-*", "client-x*", "client-001*", "other-*", "o[!x]her-1",
    ],
)  # fmt: skip
def test_match_is_fnmatch_over_all_names(pattern):
    declared = Parties.parse({"server": 1, "client": 97, "other": 3, "client-x": None})
    expected = [name for name in declared if fnmatch.fnmatchcase(name, pattern)]
    assert declared.match(pattern) == expected


names_of = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,5}[A-Za-z0-9])?", fullmatch=True)
declarations = st.dictionaries(
    names_of, st.none() | st.integers(1, 25), min_size=1, max_size=8
).filter(lambda form: _parses(form))


def _parses(form):
    try:
        Parties.parse(form)
    except errors.ConfigError:
        return False
    return True


@given(declarations)
def test_positions_and_names_are_inverse(form):
    declared = Parties.parse(form)
    spelled = list(declared)
    assert len(declared) == len(spelled) == sum(count or 1 for count in form.values())
    assert len({name.casefold() for name in spelled}) == len(spelled)
    for position, name in enumerate(spelled):
        assert declared.index(name) == position
        assert declared.name(position) == name
        assert name in declared


@given(declarations, names_of)
def test_index_knows_declared_names_alone(form, name):
    declared = Parties.parse(form)
    if name in list(declared):
        assert declared.index(name) == list(declared).index(name)
    else:
        with pytest.raises(errors.UnknownPartyError):
            declared.index(name)


@given(declarations, st.text("abc*?[]-019!", max_size=5))
def test_match_agrees_with_fnmatch(form, pattern):
    declared = Parties.parse(form)
    assert declared.match(pattern) == [n for n in declared if fnmatch.fnmatchcase(n, pattern)]


@given(declarations, st.data())
def test_a_subset_keeps_the_order_given(form, data):
    declared = Parties.parse(form)
    chosen = data.draw(st.lists(st.sampled_from(list(declared)), min_size=1, unique=True))
    assert list(declared.subset(chosen)) == chosen


def test_a_subset_of_unknown_doubled_or_no_names_is_refused():
    declared = Parties.parse({"client": 10})
    with pytest.raises(errors.UnknownPartyError):
        declared.subset(["client-10"])
    with pytest.raises(errors.ConfigError, match="twice"):
        declared.subset(["client-01", "client-01"])
    with pytest.raises(errors.ConfigError, match="no party"):
        declared.subset([])


def test_equal_when_the_same_names_are_in_the_same_order():
    assert Parties.parse({"a": 2}) == Parties.parse(["a-0", "a-1"])
    assert Parties.parse(["a", "b"]) != Parties.parse(["b", "a"])
    assert Parties.parse(["a", "b"]) != Parties.parse(["a"])
    assert Parties.parse(["a"]) != Parties.parse(None)
    assert Parties.parse({"a": 10**6}) == Parties.parse({"a": 10**6})
    assert Parties.parse(["a"]) != ["a"]


def test_survives_pickling():
    declared = Parties.parse({"server": 1, "client": 10})
    assert pickle.loads(pickle.dumps(declared)) == declared
    found = Parties.parse(None)
    found.index("ALICE")
    again = pickle.loads(pickle.dumps(found))
    assert again.index("BOB") == 1


def test_a_million_parties_take_no_memory_until_asked_for():
    tracemalloc.start()
    try:
        declared = Parties.parse({"server": 1, "client": 1_000_000})
        assert declared.index("client-0999999") == 1_000_000
        assert declared.name(500_000) == "client-0499999"
        assert declared.match("client-000001*")[9] == "client-0000019"
        assert next(iter(declared)) == "server"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000


def test_repr_is_short():
    assert len(repr(Parties.parse({f"g{i}": 1000 for i in range(1000)}))) < 300
    assert repr(Parties.parse(None)) == "<open parties, 0 seen>"
