"""Kinds of value: what each accepts, as what, and how a refusal reads."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed import errors
from fed.config import choices, kinds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(1, 1.0), (0.5, 0.5), ("30", 30.0), ("30 s", 30.0), ("30s", 30.0), ("2 min", 120.0),
     ("1.5 h", 5400.0), ("500 ms", 0.5), (" 7 S ", 7.0)],
)  # fmt: skip
def test_times(value, seconds):
    assert kinds.SECONDS.check(value) == seconds
    assert isinstance(kinds.SECONDS.check(value), float)


@pytest.mark.parametrize(
    "value",
    [0, -1, math.inf, math.nan, True, None, "", "s", "30 x", "-3 s", "1e3", [30], 10**400,
     "400 h min", kinds.MAX_SECONDS + 1, "0 s"],
)  # fmt: skip
def test_what_is_no_time(value):
    with pytest.raises(errors.ConfigError, match="is not a time"):
        kinds.SECONDS.check(value)


@pytest.mark.parametrize(
    ("value", "size"),
    [(1, 1), (1e9, 10**9), ("1 GiB", 2**30), ("1GiB", 2**30), ("500 MB", 500_000_000),
     ("1.5 KiB", 1536), ("10_000", 10_000), ("7 b", 7), ("0.3 kB", 300), ("2 tib", 2**41),
     ("9007199254740993", 9007199254740993)],
)  # fmt: skip
def test_sizes(value, size):
    assert kinds.BYTES.check(value) == size
    assert isinstance(kinds.BYTES.check(value), int)


@pytest.mark.parametrize(
    "value",
    [0, -1, 1.5, math.inf, math.nan, True, None, "", "GiB", "1 GiBs", "-1 MB", [1], 2**63,
     "99999999999 TiB", "0.1 B"],
)  # fmt: skip
def test_what_is_no_size(value):
    with pytest.raises(errors.ConfigError, match="is not a size"):
        kinds.BYTES.check(value)


@given(st.integers(1, 10**6), st.sampled_from([("kB", 10**3), ("MiB", 2**20), ("TB", 10**12)]))
def test_sizes_are_exact(number, unit):
    name, factor = unit
    assert kinds.BYTES.check(f"{number} {name}") == number * factor


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("simulation", choices.Mode.SIMULATION),
        ("SIMULATION", choices.Mode.SIMULATION),
        ("SINGLE_CONTROLLER", choices.Mode.SINGLE_CONTROLLER),
        ("Multi-Controller", choices.Mode.MULTI_CONTROLLER),
        ("multiple-controller", choices.Mode.MULTI_CONTROLLER),
        ("MULTIPLE_CONTROLLER", choices.Mode.MULTI_CONTROLLER),
        (choices.Mode.SIMULATION, choices.Mode.SIMULATION),
    ],
)
def test_spellings_of_the_mode(text, mode):
    assert kinds.choice(choices.Mode).check(text) is mode


@pytest.mark.parametrize("value", ["simulate", "", None, 1, True])
def test_what_is_no_mode_names_the_modes(value):
    with pytest.raises(errors.ConfigError, match="one of simulation, single-controller"):
        kinds.choice(choices.Mode).check(value)


def test_a_near_word_is_named():
    with pytest.raises(errors.ConfigError, match="did you mean 'sealed'"):
        kinds.choice(choices.Isolation).check("seald")


@pytest.mark.parametrize("text", ["true", "Yes", "ON", "1"])
def test_flags_in_text_that_are_true(text):
    assert kinds.FLAG.check(kinds.FLAG.read(text)) is True


@pytest.mark.parametrize("text", ["false", "no", "off", "0"])
def test_flags_in_text_that_are_false(text):
    assert kinds.FLAG.check(kinds.FLAG.read(text)) is False


@pytest.mark.parametrize("value", [1, 0, "true", None, "maybe"])
def test_flags_are_booleans(value):
    with pytest.raises(errors.ConfigError, match="true or false"):
        kinds.FLAG.check(value)


def test_whole_numbers_have_bounds():
    seed = kinds.whole(0, kinds.MAX_SEED)
    assert seed.check(kinds.MAX_SEED) == 2**64 - 1
    assert seed.check(seed.read(" 1_000 ")) == 1000
    for value in (-1, 2**64, 1.0, True, "7", None):
        with pytest.raises(errors.ConfigError, match="0 or more"):
            seed.check(value)


def test_a_long_value_is_clipped_in_the_message():
    with pytest.raises(errors.ConfigError) as caught:
        kinds.FLAG.check("x" * 10_000)
    assert len(str(caught.value)) < 200


def test_addresses():
    checked = kinds.ADDRESSES.check({"ALICE": "10.0.0.1:9000", "BOB": None})
    assert checked == {"ALICE": "10.0.0.1:9000", "BOB": None}
    text = kinds.ADDRESSES.read("ALICE=10.0.0.1:9000, BOB=")
    assert kinds.ADDRESSES.check(text) == checked


@pytest.mark.parametrize(
    ("value", "key", "why"),
    [
        ({"ALICE": "0.0.0.0:9000"}, ".ALICE", "can't be dialled"),
        ({"ALICE": "[::]:9000"}, ".ALICE", "can't be dialled"),
        ({"ALICE": "host:0"}, ".ALICE", "port 0"),
        ({"ALICE": "host"}, ".ALICE", "no port"),
        ({"ALICE": "https://host:1"}, ".ALICE", "scheme"),
        ({"ALICE": 9000}, ".ALICE", "dial"),
        ({7: "host:1"}, ".7", "quotes"),
        ({"a b": "host:1"}, "[0]", "not a party's name"),
        ({"ALICE": "h:1", "Alice": "h:2"}, "[1]", "case alone"),
        ({}, "", "no party"),
        (["ALICE"], "", "mapping"),
        ("ALICE", "", "mapping"),
    ],
)
def test_bad_addresses_name_the_party(value, key, why):
    with pytest.raises(errors.ConfigError, match=why) as caught:
        kinds.ADDRESSES.check(value)
    assert (caught.value.key or "") == key


def test_a_party_may_listen_on_every_interface_and_any_port():
    assert kinds.LISTEN.check("0.0.0.0:0") == "0.0.0.0:0"


def test_addresses_of_clusters():
    assert kinds.CLUSTER.check("auto") == "auto"
    assert kinds.CLUSTER.check("10.0.0.1:6379") == "10.0.0.1:6379"
    for value in ("local", "ray://10.0.0.1:10001", "", 6379):
        with pytest.raises(errors.ConfigError, match="Ray cluster"):
            kinds.CLUSTER.check(value)


def test_paths_are_placed_in_a_folder_unless_absolute():
    place = kinds.PATH.place
    assert place is not None
    assert place(kinds.PATH.check("a/b.pem"), Path("/etc/fed")) == Path("/etc/fed/a/b.pem")
    assert place(kinds.PATH.check("/x.pem"), Path("/etc/fed")) == Path("/x.pem")
    place = kinds.PATHS.place
    assert place is not None
    assert place(kinds.PATHS.check({"BOB": "b.pem"}), Path("/e")) == {"BOB": Path("/e/b.pem")}
    for value in ("", 7, None, b""):
        with pytest.raises(errors.ConfigError, match="path"):
            kinds.PATH.check(value)


def test_lists_of_dotted_names():
    assert kinds.DOTTED.check(kinds.DOTTED.read("a.b, c,a.b")) == ("a.b", "c")
    assert kinds.DOTTED.check([]) == ()
    for value, key in (("a.b", None), (["a-b"], "[0]"), (["a", ""], "[1]"), ([7], "[0]")):
        with pytest.raises(errors.ConfigError) as caught:
            kinds.DOTTED.check(value)
        assert caught.value.key == key


@pytest.mark.parametrize("value", ["Hospital-A", "-a", "", "a b", None, "x" * 256])
def test_a_federation_is_named_as_a_trust_domain(value):
    with pytest.raises(errors.ConfigError, match="trust domain"):
        kinds.DOMAIN.check(value)


def test_names_that_yaml_reads_as_numbers_want_quotes():
    with pytest.raises(errors.ConfigError, match="quotes"):
        kinds.NAME.check(7)


def test_paths_of_parties_are_refused_by_party():
    for value, key in (({"a b": "x"}, ".a b"), ({7: "x"}, ".7"), ({"BOB": 7}, ".BOB"), ("x", None)):
        with pytest.raises(errors.ConfigError) as caught:
            kinds.PATHS.check(value)
        assert caught.value.key == key


def test_a_home_that_is_not_there_is_an_error():
    with pytest.raises(errors.ConfigError, match="home"):
        kinds.PATH.check("~no-such-user-here/x.pem")


@pytest.mark.parametrize("value", ["", "a\nb", "x" * 201, None, 7])
def test_a_job_is_named_in_printable_text(value):
    with pytest.raises(errors.ConfigError, match="printable"):
        kinds.JOB.check(value)


def test_parties_that_are_parsed_already_are_taken_as_they_are():
    found = kinds.PARTIES.check(["ALICE"])
    assert kinds.PARTIES.check(found) is found
