"""What may cross, by which rule it may not, and that no minute has more than its limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed import errors
from fed.codec import types
from fed.config import policies
from fed.transport import contents, policy

SEND, RECEIVE = policy.Direction.SEND, policy.Direction.RECEIVE
USER = types.UserTypes(None, None)


def _gate(peers=("BOB", "CAROL"), **directions):
    return policy.Gate(policies.parse(directions), peers=peers)


def _admit(gate, size, *, direction=SEND, peer="BOB", call="mean", now_s=1000.0):
    return gate.admit(direction, peer, size_bytes=size, call=call, now_s=now_s)


def _look(gate, value, *, direction=SEND, peer="BOB", parts=contents.RULE_PARTS):
    return gate.contents(direction, peer, contents.of(value, types=USER, parts=parts))


def test_without_a_policy_everything_passes() -> None:
    gate = _gate()
    assert _admit(gate, 1 << 60).is_allowed
    assert not gate.looks_inside(SEND, "BOB")
    assert _look(gate, {"a": [1]}).is_allowed


def test_a_size_over_the_limit_names_limit_and_key() -> None:
    gate = _gate(send={"max_value_bytes": 100})
    assert _admit(gate, 100).is_allowed
    refused = _admit(gate, 101)
    assert not refused.is_allowed
    assert (refused.rule, refused.key) == ("max_value_bytes", "policy.send.max_value_bytes")
    assert refused.told == "it takes 101 bytes (limit: 100 bytes; policy.send.max_value_bytes)"
    assert _admit(gate, 101, direction=RECEIVE).is_allowed


def test_a_peers_limit_replaces_that_limit_alone() -> None:
    gate = _gate(
        send={
            "max_value_bytes": 100,
            "refused_types": ["bytes"],
            "peers": {"BOB": {"max_value_bytes": 500}, "CAROL": {"refused_types": []}},
        }
    )
    assert _admit(gate, 500).is_allowed
    assert _admit(gate, 501).key == "policy.send.peers.BOB.max_value_bytes"
    assert _admit(gate, 101, peer="CAROL").key == "policy.send.max_value_bytes"
    assert _look(gate, b"").key == "policy.send.refused_types"
    assert _look(gate, b"", peer="CAROL").is_allowed


@pytest.mark.parametrize(
    ("rules", "value", "path", "name"),
    [
        ({"refused_types": ["bytes"]}, {"a": [1, b"x"]}, '["a"][1]', "bytes"),
        ({"refused_types": ["numpy.*", "b*"]}, (True,), "[0]", "bool"),
        ({"types": ["list", "int"]}, [1, [2, "three"]], "[1][1]", "str"),
        ({"types": []}, None, "", "None"),
        ({"types": ["dict", "int"]}, {"key": 1}, ".keys(){element}", "str"),
        ({"types": ["*"], "refused_types": ["complex"]}, [{1j}], "[0]{element}", "complex"),
    ],
)
def test_types_anywhere_in_the_value_are_found(rules, value, path, name) -> None:
    gate = _gate(receive=rules)
    assert gate.looks_inside(RECEIVE, "BOB")
    refused = _look(gate, value, direction=RECEIVE)
    assert (refused.path, refused.type_name) == (path, name)
    error = refused.error(party="BOB", call=7, type_name="whole", root="value")
    assert isinstance(error, errors.ValueRefusedError)
    text = str(error)
    assert text.startswith(
        f"value{path} of party 'BOB' (made by call 7) is a {name}: no {name} may"
    )
    assert "enter this party from 'BOB'" in text
    assert refused.key in text
    assert _look(gate, value, direction=SEND).is_allowed


def test_allowed_types_pass() -> None:
    gate = _gate(send={"types": ["dict", "str", "float"]})
    assert _look(gate, {"a": 1.5, "b": {"c": 2.5}}).is_allowed


def test_what_was_not_looked_at_as_a_whole_is_refused() -> None:
    gate = _gate(send={"refused_types": ["complex"]})
    value = [[n] for n in range(50)]
    assert _look(gate, value).is_allowed
    refused = _look(gate, value, parts=10)
    assert (refused.rule, refused.is_allowed) == ("refused_types", False)


@pytest.mark.parametrize(
    ("rules", "allowed", "refused"),
    [
        ({"calls": ["mean", "Trainer.*"]}, ["mean", "Trainer.train"], ["get", "mean2", "Mean"]),
        ({"refused_calls": ["get"]}, ["mean"], ["get"]),
        ({"calls": ["*"], "refused_calls": ["dump*"]}, ["get"], ["dump", "dump_all"]),
    ],
)
def test_calls_go_by_their_names(rules, allowed, refused) -> None:
    gate = _gate(send=rules)
    assert all(_admit(gate, 1, call=name).is_allowed for name in allowed)
    for name in refused:
        decision = _admit(gate, 1, call=name)
        assert decision.rule in rules
        assert repr(name) in decision.reason


def test_a_minute_has_its_limit_per_peer_and_direction() -> None:
    gate = _gate(send={"max_bytes_per_minute": 100})
    assert _admit(gate, 60).is_allowed
    assert _admit(gate, 40, now_s=1030.5).is_allowed
    refused = _admit(gate, 1, now_s=1059.0)
    assert refused.rule == "max_bytes_per_minute"
    assert "100 crossed" in refused.reason
    assert _admit(gate, 100, peer="CAROL", now_s=1059.0).is_allowed
    assert _admit(gate, 1000, direction=RECEIVE, now_s=1059.0).is_allowed
    assert _admit(gate, 60, now_s=1061.0).is_allowed
    assert not _admit(gate, 1, now_s=1061.0).is_allowed


def test_what_is_refused_is_not_counted() -> None:
    gate = _gate(send={"max_bytes_per_minute": 100, "max_value_bytes": 90, "calls": ["mean"]})
    assert not _admit(gate, 50, call="other").is_allowed
    assert not _admit(gate, 91).is_allowed
    assert _admit(gate, 60).is_allowed
    assert not _admit(gate, 60).is_allowed
    assert _admit(gate, 40).is_allowed


def test_a_rule_for_a_party_that_is_none_is_an_error() -> None:
    with pytest.raises(errors.ConfigError) as caught:
        _gate(receive={"peers": {"CAROLL": {"max_value_bytes": 1}}})
    assert caught.value.key == "policy.receive.peers.CAROLL"
    assert "did you mean 'CAROL'?" in str(caught.value)


def test_the_other_end_says_who_refused() -> None:
    told = _admit(_gate(receive={"max_value_bytes": 5}), 9, direction=RECEIVE).told
    error = policy.refused_by_peer("BOB", told, party="ALICE", call=3, type_name="bytes")
    assert str(error) == (
        "result of party 'ALICE' (made by call 3) is a bytes: party 'BOB' refused it: "
        "it takes 9 bytes (limit: 5 bytes; policy.receive.max_value_bytes)"
    )


_offers = st.lists(
    st.tuples(
        st.floats(-2, 40, allow_nan=False), st.integers(0, 120)
    ),  # time that passes, bytes; time goes back now and then
    max_size=80,
)


@given(_offers, st.integers(1, 100))
def test_no_sixty_seconds_have_more_than_the_limit(offers, limit) -> None:
    window, now_s, latest_s = policy.Window(), 1000.0, 1000.0
    taken: list[tuple[float, int]] = []
    for passed_s, size in offers:
        now_s += passed_s
        latest_s = max(latest_s, now_s)
        if window.is_room(size, limit, now_s=now_s):
            window.take(size, now_s=now_s)
            taken.append((latest_s, size))
        else:  # refused for good reason only: what was taken within 61 s leaves no room
            assert sum(n for at, n in taken if at > latest_s - policy.SLOTS) + size > limit
    for start, _ in taken:
        assert sum(n for at, n in taken if start <= at <= start + policy.SPAN_S) <= limit


@given(st.lists(st.floats(0, 500, allow_nan=False), max_size=300))
def test_a_window_stays_small(passing) -> None:
    window, now_s = policy.Window(), 0.0
    for passed_s in passing:
        now_s += passed_s
        window.take(1, now_s=now_s)
        assert len(window._slots) <= policy.SLOTS
    assert window.used_bytes == sum(size for _, size in window._slots)
