"""Whole federations on a lossy, repeating wire: every value once, or a named failure."""

from __future__ import annotations

import random

import pytest
from tests.unit.transport import federation

from fed import errors
from fed.transport import events


def run(seed):
    rng = random.Random(seed)
    plan = federation.draw_plan(rng)
    made = federation.Federation(plan, rng)
    made.stir(rng.choice((0, 300, 3000)))
    made.drain()
    return made


@pytest.mark.soak(seeds=2000)
def test_every_value_once_or_a_named_failure(seed):
    # Ten federations in one test: a seed by itself is quick.
    for sub in range(10):
        made = run(seed * 10 + sub)
        plan = made.plan
        if made.failures:
            for driver in made.drivers.values():
                if driver.error is None:
                    continue
                assert driver.overflow is not None, f"{driver.party}: {driver.error}"
                assert_too_large(plan, driver)
            continue
        assert made.is_done, f"seed {seed * 10 + sub} is stuck\n{made.why_stuck()}"
        for driver in made.drivers.values():
            mine = [call.number for call in plan.calls if call.party == driver.party]
            assert sorted(driver.executed) == mine
            foreign = {
                arg
                for call in plan.calls
                if call.party == driver.party
                for arg in call.args
                if plan.calls[arg - 1].party != driver.party
            }
            assert sorted(driver.received) == sorted(foreign)
        finish(made)


def assert_too_large(plan, driver):
    """An overflow is allowed only for a call that does not fit into its reserve."""
    assert not plan.takes_singly, "each value leaves by itself: nothing can be too large"
    call = driver.by_number(driver.overflow.number)
    foreign = [plan.calls[arg - 1] for arg in call.args]
    total = sum(one.size + 576 for one in foreign if one.party != driver.party)
    box = driver.box
    reserve = (plan.budget - box.window_bytes * len(driver.links)) // 4
    if plan.lanes == 1:
        assert total > reserve, f"call {call.number} of {total} bytes fits {reserve}"
    assert str(call.number) in str(driver.error)


def finish(made):
    """After the end all is delivered, all books are empty, and nobody is lost."""
    for driver in made.drivers.values():
        for one in driver.links.values():
            one.finish()
    seen = {driver.party: [] for driver in made.drivers.values()}
    for _ in range(200):
        for driver in made.drivers.values():
            for one in driver.links.values():
                seen[driver.party] += one.poll()
        for line in made.wires:
            line.settle()
        made.tick(0.1)
    for driver in made.drivers.values():
        kinds = [type(event) for event in seen[driver.party]]
        assert kinds.count(events.Finished) == len(driver.links)
        assert events.Failed not in kinds
        assert driver.box.used_bytes == 0
        for one in driver.links.values():
            assert one.undrained == ""
            assert one.inbox.open_parcels == 0


@pytest.mark.soak(seeds=500)
def test_a_broken_network_is_a_named_loss_on_both_sides(seed):
    rng = random.Random(seed)
    plan = federation.draw_plan(rng)
    made = federation.Federation(plan, rng)
    made.stir(rng.choice((0, 30, 300, 3000)))
    for line in made.wires:
        line.settle()
    if made.failures:
        return
    for line in made.wires:
        line.is_broken = True
        line.cut()
    for _ in range(40):
        for line in made.wires:
            line.settle()
        made.tick(1.0)
    for driver in made.drivers.values():
        driver.hear()
        assert isinstance(driver.error, errors.PartyLostError)
        assert driver.error.party in driver.links
        assert driver.box.used_bytes == 0, "memory of a lost peer is kept"
