"""Layers: each place's settings, typed, with where they were said."""

from __future__ import annotations

from pathlib import Path

import pytest

from fed import errors
from fed.config import choices, layers


def values(layer):
    return {name: entry.value for name, entry in layer.entries.items()}


def refusal(call, *arguments, **keywords):
    with pytest.raises(errors.ConfigError) as caught:
        call(*arguments, **keywords)
    return caught.value


def test_arguments_of_none_are_not_given():
    layer = layers.from_init({"mode": None, "seed": 0, "tls": {"cert": None}})
    assert values(layer) == {"seed": 0}
    assert layer.entries["seed"].where == "fed.init"


def test_groups_are_taken_as_mappings_and_by_name():
    whole = layers.from_init({"codec": {"modules": ["a"]}, "tls": {"key": "k"}})
    flat = layers.from_init({"codec_modules": ["a"], "tls_key": "k"})
    assert values(whole) == values(flat) == {"codec_modules": ("a",), "tls_key": Path("k")}
    error = refusal(layers.from_init, {"codec_modules": ["a"], "codec": {"modules": ["a"]}})
    assert "given twice" in error.problem
    assert refusal(layers.from_init, {"codec": {"moduls": []}}).key == "codec.moduls"
    assert "modules, pickle" in refusal(layers.from_init, {"codec": ["a"]}).fix


@pytest.mark.parametrize(
    ("name", "near"),
    [("adresses", "addresses"), ("peer_timeout", "peer_timeout_s"), ("sead", "seed")],
)
def test_an_unknown_argument_names_the_nearest(name, near):
    error = refusal(layers.from_init, {name: 1})
    assert (error.source, error.key) == ("fed.init", name)
    assert f"did you mean {near!r}" in error.problem


def test_arguments_are_typed_not_text():
    error = refusal(layers.from_init, {"seed": "7"})
    assert (error.source, error.key) == ("fed.init", "seed")
    assert "whole number" in error.problem


def test_an_error_inside_a_value_has_the_whole_key():
    assert refusal(layers.from_init, {"addresses": {"BOB": "x"}}).key == "addresses.BOB"
    assert refusal(layers.from_init, {"parties": {"BOB": 0}}).key == "parties.BOB"
    assert refusal(layers.from_init, {"parties": ["A", "a"]}).key == "parties[1]"
    assert refusal(layers.from_init, {"codec": {"modules": ["?"]}}).key == "codec.modules[0]"


def test_the_environment_is_text():
    layer = layers.from_environ(
        {
            "FED_MODE": "SINGLE_CONTROLLER",
            "FED_SEED": "7",
            "FED_STRICT": "yes",
            "FED_PEER_TIMEOUT_S": "2 min",
            "FED_PARTIES": "server=1,client=10",
            "FED_ADDRESSES": "ALICE=10.0.0.1:9000,BOB=10.0.0.2:9000",
            "FED_CODEC_MODULES": "a,b.c",
            "FED_TLS_PINS": "BOB=bob.pem",
            "HOME": "/root",
            "FEDERATION": "x",
        }
    )
    found = values(layer)
    assert found["mode"] is choices.Mode.SINGLE_CONTROLLER
    assert found["seed"] == 7
    assert found["strict"] is True
    assert found["peer_timeout_s"] == 120.0
    assert len(found["parties"]) == 11
    assert found["addresses"] == {"ALICE": "10.0.0.1:9000", "BOB": "10.0.0.2:9000"}
    assert found["codec_modules"] == ("a", "b.c")
    assert found["tls_pins"] == {"BOB": Path("bob.pem")}
    assert layer.entries["seed"].where == "FED_SEED"
    assert len(found) == 8


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("FED_PEER_TIMEOUT", "3", "did you mean 'FED_PEER_TIMEOUT_S'"),
        ("FED_SEED", "", "empty"),
        ("FED_SEED", "x", "whole number"),
        ("FED_STRICT", "maybe", "true or false"),
        ("FED_TLS", "x", "no such setting"),
        ("FED_ADDRESSES", "ALICE", "mapping"),
        ("FED_ADDRESSES", "ALICE=h:1,ALICE=h:2", "mapping"),
        ("FED_PARTIES", "a=x", "count"),
    ],
)
def test_a_bad_variable_is_the_source_of_its_error(variable, text, problem):
    error = refusal(layers.from_environ, {variable: text})
    assert error.source == variable
    assert problem in error.problem


def test_other_variables_can_be_left_alone():
    assert values(layers.from_environ({"FED_TRACE": "1"}, others=["FED_TRACE"])) == {}


def test_options_name_themselves():
    layer = layers.from_run({"seed": "3", "fail_fast": True, "mode": None, "num_cpus": 2})
    assert values(layer) == {"seed": 3, "fail_fast": True, "num_cpus": 2}
    assert layer.entries["fail_fast"].where == "rayfed run --fail-fast"
    assert refusal(layers.from_run, {"seed": "x"}).source == "rayfed run --seed"
    assert "did you mean 'seed'" in refusal(layers.from_run, {"sed": 1}).problem


def test_what_a_cluster_recorded_is_text():
    layer = layers.from_recorded(
        {"mode": "multi-controller", "party": "ALICE", "seed": None}, source="the cluster at h:1"
    )
    assert values(layer) == {"mode": choices.Mode.MULTI_CONTROLLER, "party": "ALICE"}
    assert layer.entries["mode"].where == "the cluster at h:1"
    error = refusal(layers.from_recorded, {"colour": "red"}, source="the cluster at h:1")
    assert error.source == "the cluster at h:1"


def test_a_mapping_of_parties_gives_addresses_pins_and_each_partys_own():
    layer = layers.from_init(
        {
            "parties": {
                "ALICE": {
                    "address": "h:1",
                    "listen": "0.0.0.0:1",
                    "tls": {"cert": "a.pem", "key": "a.key", "pin": "a-ca.pem"},
                },
                "BOB": "h:2",
                "CAROL": None,
            }
        }
    )
    found = values(layer)
    assert list(found["parties"]) == ["ALICE", "BOB", "CAROL"]
    assert found["addresses"] == {"ALICE": "h:1", "BOB": "h:2", "CAROL": None}
    assert found["tls_pins"] == {"ALICE": Path("a-ca.pem")}
    own = {name: entry.value for name, entry in layer.of_party["ALICE"].items()}
    assert own == {"listen": "0.0.0.0:1", "tls_cert": Path("a.pem"), "tls_key": Path("a.key")}
    assert set(layer.of_party) == {"ALICE"}


def test_a_mapping_without_addresses_gives_names_alone():
    assert set(values(layers.from_init({"parties": {"ALICE": None, "BOB": {}}}))) == {"parties"}
    assert set(values(layers.from_init({"parties": {"server": 1, "c": 5}}))) == {"parties"}


@pytest.mark.parametrize(
    ("detail", "key", "problem"),
    [
        ({"adress": "h:1"}, "parties.BOB.adress", "did you mean 'parties.BOB.address'"),
        ({"tls": {"crt": "x"}}, "parties.BOB.tls.crt", "did you mean 'parties.BOB.tls.cert'"),
        ({"address": "h"}, "parties.BOB.address", "no port"),
        ({"listen": "h"}, "parties.BOB.listen", "no port"),
        ({"listen": None}, "parties.BOB.listen", "no value"),
        ({"tls": {"pin": 7}}, "parties.BOB.tls.pin", "path"),
        ({"tls": "x"}, "parties.BOB.tls", "no such key"),
        ("h", "parties.BOB", "no port"),
        (2.5, "parties.BOB", "neither a count"),
    ],
)
def test_a_bad_detail_of_a_party_names_its_key(detail, key, problem):
    error = refusal(layers.from_init, {"parties": {"ALICE": "h:1", "BOB": detail}})
    assert error.key == key
    assert problem in error.problem


def test_addresses_in_two_places_are_given_twice():
    error = refusal(layers.from_init, {"parties": {"ALICE": "h:1"}, "addresses": {"ALICE": "h:1"}})
    assert "given twice" in error.problem
