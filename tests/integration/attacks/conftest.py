"""The certificates, and a scene for each attack."""

from __future__ import annotations

import logging

import pytest
from tests.integration.attacks import scenes, watching


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    return scenes.World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def log(caplog):
    """What the product said, see `scenes.Log`."""
    caplog.set_level(logging.INFO, "fed")
    return scenes.Log(caplog)


@pytest.fixture
def watch():
    """What runs in the product's threads during the test; nothing may."""
    with watching.Watch() as made:
        yield made


@pytest.fixture
def make_scene(world, log, watch):
    """Makes scenes, by `scenes.Scene`'s arguments; in the end nothing of an attack was run."""
    made = []

    def make(**given):
        made.append(scenes.Scene(world, log, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()
    assert watch.ran == []


@pytest.fixture
def scene(make_scene):
    """ALICE, who is attacked, BOB, whose transfer must finish, and CAROL, who attacks."""
    return make_scene()


@pytest.fixture
def make_apart(world, tmp_path):
    """Makes scenes with ALICE in a process of her own, by `scenes.Apart`'s arguments."""
    made = []

    def make(**given):
        made.append(scenes.Apart(world, tmp_path, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()
