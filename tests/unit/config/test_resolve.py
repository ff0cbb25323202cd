"""Settling the settings: order, mode, what contradicts and what does not apply."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed import errors
from fed.config import choices, federation, layers, resolve

TWO = {"ALICE": "127.0.0.1:9001", "BOB": "127.0.0.1:9002"}


def settle(*, run=None, init=None, environ=None, file="", recorded=None):
    return resolve.settle(
        run=layers.from_run(run or {}),
        init=layers.from_init(init or {}),
        environ=layers.from_environ(environ or {}),
        federation=federation.parse(file, source="federation.yaml"),
        recorded=layers.from_recorded(recorded or {}, source="the cluster at h:1"),
    )


def refusal(**places):
    with pytest.raises(errors.ConfigError) as caught:
        settle(**places)
    return caught.value


# The order.


def test_nothing_given_is_a_simulation_with_open_parties():
    settled = settle()
    assert settled.settings.mode is choices.Mode.SIMULATION
    assert not settled.settings.parties.is_declared
    assert settled.source_of("mode") == settled.source_of("seed") == "default"
    assert (settled.replaced, settled.set_aside, settled.notes) == ((), (), ())


@given(st.lists(st.booleans(), min_size=5, max_size=5))
def test_the_strongest_place_wins(given_in):
    run, init, environ, file, recorded = given_in
    settled = settle(
        run={"seed": "1"} if run else {},
        init={"seed": 2} if init else {},
        environ={"FED_SEED": "3"} if environ else {},
        file="seed: 4" if file else "",
        recorded={"seed": "5"} if recorded else {},
    )
    expected = next((rank for rank, there in enumerate(given_in, 1) if there), 0)
    where = {
        0: "default", 1: "rayfed run --seed", 2: "fed.init", 3: "FED_SEED",
        4: "federation.yaml:1", 5: "the cluster at h:1",
    }  # fmt: skip
    assert settled.settings.seed == expected
    assert settled.source_of("seed") == where[expected]
    replaced = [(one.name, one.run, one.script) for one in settled.replaced]
    assert replaced == ([("seed", 1, 2)] if run and init else [])


def test_an_option_that_says_the_same_replaces_nothing():
    assert settle(run={"seed": "2"}, init={"seed": 2}).replaced == ()


def test_parties_given_to_the_command_replace_the_scripts_addresses():
    settled = settle(run={"mode": "simulation", "parties": "1000"}, init={"addresses": TWO})
    assert len(settled.settings.parties) == 1000
    (one,) = settled.replaced
    assert (one.name, len(one.run), list(one.script)) == ("parties", 1000, ["ALICE", "BOB"])


def test_a_bad_value_is_an_error_even_where_it_is_replaced():
    assert refusal(run={"seed": "1"}, environ={"FED_SEED": "x"}).source == "FED_SEED"


def test_source_of_what_is_no_setting():
    with pytest.raises(KeyError):
        settle().source_of("colour")


def test_first_finds_the_address_before_settling():
    one, two = layers.from_init({"address": "h:1"}), layers.from_environ({"FED_ADDRESS": "h:2"})
    found = resolve.first("address", layers.Layer(), two, one)
    assert found is not None
    assert (found.value, found.where) == ("h:2", "FED_ADDRESS")
    assert resolve.first("seed", one, two) is None


# The mode.


def test_addresses_or_an_address_mean_multi_controller():
    settled = settle(init={"addresses": TWO, "party": "ALICE"})
    assert settled.settings.mode is choices.Mode.MULTI_CONTROLLER
    assert settled.source_of("mode") == "default (addresses given: fed.init)"
    settled = settle(init={"address": "h:1"}, file="addresses: {A: 'localhost:1'}\nparty: A")
    assert settled.settings.mode is choices.Mode.MULTI_CONTROLLER
    assert settled.settings.address == "h:1"


def test_the_clusters_record_says_the_mode_before_the_guess_does():
    settled = settle(init={"address": "h:1"}, recorded={"mode": "single-controller"})
    assert settled.settings.mode is choices.Mode.SINGLE_CONTROLLER
    assert settled.source_of("mode") == "the cluster at h:1"
    assert not settled.settings.parties.is_declared


def test_a_mode_that_contradicts_the_clusters_is_refused():
    error = refusal(
        init={"address": "h:1", "mode": "multi-controller"}, recorded={"mode": "single-controller"}
    )
    assert (error.source, error.key) == ("fed.init", "mode")
    assert "the cluster at h:1 was started for single-controller" in error.problem


def test_a_mode_that_the_script_names_is_replaced_by_the_option():
    settled = settle(run={"mode": "SIMULATION"}, init={"mode": "multi-controller"})
    assert settled.settings.mode is choices.Mode.SIMULATION
    assert [one.name for one in settled.replaced] == ["mode"]


# The same script in all modes.

SCRIPT = {
    "addresses": {"ALICE": "alice.example.org:9000", "BOB": "bob.example.org:9000"},
    "party": "ALICE",
    "tls_config": {"ca_cert": "ca", "cert": "c", "key": "k"},
    "peer_timeout_s": 5,
}


def test_a_script_for_multi_controller_runs_in_simulation_when_told():
    for place in ({"run": {"mode": "simulation"}}, {"environ": {"FED_MODE": "simulation"}},
                  {"file": "mode: simulation"}):  # fmt: skip
        settled = settle(init=SCRIPT, **place)
        assert settled.settings.mode is choices.Mode.SIMULATION
        assert list(settled.settings.parties) == ["ALICE", "BOB"]
        assert settled.settings.addresses == {}
        assert settled.settings.party is None
        assert settled.settings.peer_timeout_s == 30.0
        assert settled.source_of("peer_timeout_s") == "default"
        aside = {one.name for one in settled.set_aside}
        assert aside == {"party", "tls_ca_cert", "tls_cert", "tls_key", "peer_timeout_s"}


def test_one_file_serves_all_modes():
    file = """
parties:
  ALICE: {address: 'localhost:9001', listen: '127.0.0.1:9001'}
  BOB: {address: 'localhost:9002'}
isolation: check
peer_timeout_s: 5
place_timeout_s: 7
"""
    simulated = settle(run={"mode": "simulation"}, file=file)
    assert simulated.settings.isolation is choices.Isolation.CHECK
    assert list(simulated.settings.parties) == ["ALICE", "BOB"]
    assert {one.name for one in simulated.set_aside} == {
        "listen", "peer_timeout_s", "place_timeout_s",
    }  # fmt: skip
    single = settle(run={"mode": "single-controller"}, file=file)
    assert single.settings.place_timeout_s == 7
    assert single.settings.isolation is choices.Isolation.SEALED
    multi = settle(environ={"FED_PARTY": "ALICE"}, file=file)
    assert multi.settings.listen == "127.0.0.1:9001"
    assert multi.settings.addresses == {"ALICE": "localhost:9001", "BOB": "localhost:9002"}
    assert multi.source_of("listen") == "federation.yaml:3"
    other = settle(environ={"FED_PARTY": "BOB"}, file=file)
    assert other.settings.listen is None


@pytest.mark.parametrize(
    ("places", "source"),
    [
        ({"run": {"isolation": "check"}, "init": {"mode": "single-controller"}},
         "rayfed run --isolation"),
        ({"run": {"isolation": "check", "mode": "single-controller"}}, "rayfed run --isolation"),
        ({"init": {"isolation": "check", "mode": "single-controller"}}, "fed.init"),
        ({"init": {"peer_timeout_s": 3}}, "fed.init"),
        ({"init": {"parties": {"A": {"listen": "localhost:1"}}}}, "fed.init"),
        ({"init": {"party": "ALICE"}}, "fed.init"),
        ({"environ": {"FED_PEER_TIMEOUT_S": "3"}}, "FED_PEER_TIMEOUT_S"),
        ({"environ": {"FED_PEER_TIMEOUT_S": "3"}, "file": "mode: simulation"},
         "FED_PEER_TIMEOUT_S"),
        ({"environ": {"FED_FAIL_FAST": "1", "FED_MODE": "single-controller"}}, "FED_FAIL_FAST"),
    ],
)  # fmt: skip
def test_what_does_not_apply_in_the_mode_is_refused(places, source):
    error = refusal(**places)
    assert error.source == source
    assert "applies in" in error.problem


def test_the_environment_may_be_for_another_mode_if_a_stronger_place_names_the_mode():
    settled = settle(run={"mode": "simulation"}, environ={"FED_PARTY": "ALICE"})
    (aside,) = settled.set_aside
    assert (aside.name, aside.where) == ("party", "FED_PARTY")
    assert "simulation" in aside.why


# Parties and addresses.


def test_parties_select_from_addresses():
    three = {**TWO, "CAROL": "127.0.0.1:9003"}
    settled = settle(init={"addresses": three, "party": "ALICE", "parties": ["CAROL", "ALICE"]})
    assert list(settled.settings.parties) == ["CAROL", "ALICE"]
    assert list(settled.settings.addresses) == ["CAROL", "ALICE"]
    settled = settle(run={"parties": "ALICE,CAROL"}, init={"addresses": three, "party": "ALICE"})
    assert list(settled.settings.addresses) == ["ALICE", "CAROL"]
    settled = settle(init={"addresses": three, "mode": "simulation", "parties": ["CAROL"]})
    assert list(settled.settings.parties) == ["CAROL"]


@pytest.mark.parametrize("mode", [None, "simulation", "single-controller"])
def test_parties_and_addresses_that_disagree_in_one_place_are_refused(mode):
    error = refusal(
        init={"addresses": TWO, "mode": mode, "parties": ["ALICE", "BOBB"],
              "party": None if mode else "ALICE"}
    )  # fmt: skip
    assert (error.source, error.key) == ("fed.init", "parties")
    assert "'BOBB' has no address" in error.problem
    assert "did you mean 'BOB'" in error.problem


def test_a_million_parties_against_two_addresses_are_refused_at_once():
    error = refusal(run={"parties": "client=1000000"}, init={"addresses": TWO, "party": "ALICE"})
    assert "'client-0000000' has no address" in error.problem


def test_stronger_addresses_say_who_takes_part():
    settled = settle(init={"addresses": TWO, "party": "ALICE"}, file="parties: [ALICE, BOB, CAROL]")
    assert list(settled.settings.parties) == ["ALICE", "BOB"]
    assert settled.source_of("parties") == "fed.init"


def test_declared_parties_in_single_controller():
    settled = settle(init={"mode": "single-controller"}, environ={"FED_PARTIES": "A,B"})
    assert list(settled.settings.parties) == ["A", "B"]


def test_open_parties_replace_the_scripts_in_simulation():
    settled = settle(run={"parties": "open"}, init={"mode": "simulation", "parties": ["A"]})
    assert not settled.settings.parties.is_declared


# The party.


def test_the_argument_comes_before_the_option_and_the_environment():
    settled = settle(
        run={"party": "BOB"}, init={"addresses": TWO, "party": "ALICE"},
        environ={"FED_PARTY": "BOB"}, recorded={"party": "BOB"},
    )  # fmt: skip
    assert settled.settings.party == "ALICE"
    assert settled.replaced == ()
    (aside,) = settled.set_aside
    assert (aside.name, aside.where) == ("party", "rayfed run --party")
    settled = settle(run={"party": "BOB"}, init={"addresses": TWO}, environ={"FED_PARTY": "ALICE"})
    assert settled.settings.party == "BOB"
    settled = settle(init={"addresses": TWO, "address": "h:1"}, recorded={"party": "BOB"})
    assert settled.settings.party == "BOB"


# Compute.


def test_embedded_compute_and_a_cluster_contradict():
    base = {"addresses": TWO, "party": "ALICE"}
    error = refusal(init={**base, "compute": "embedded", "address": "h:1"})
    assert error.key == "address"
    settled = settle(run={"compute": "embedded"}, init={**base, "address": "h:1"})
    assert settled.settings.address is None
    assert [one.name for one in settled.set_aside] == ["address"]


def test_cpus_of_embedded_compute_are_refused_with_ray():
    base = {"addresses": TWO, "party": "ALICE", "num_cpus": 2}
    assert settle(init=base).settings.num_cpus == 2
    assert refusal(init={**base, "compute": "ray"}).key == "num_cpus"
    assert refusal(init={**base, "address": "h:1"}).key == "num_cpus"


def test_notes_of_accepted_rayfed_keys_are_handed_on():
    settled = settle(
        init={"addresses": TWO, "party": "ALICE", "config": {"barrier_on_initializing": True}}
    )
    (note,) = settled.notes
    assert note.startswith("config.barrier_on_initializing has no effect")
