"""Hooks of pickle run inside the body whose values are copied: they may make no calls."""

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]

HELD = {}


@fed.remote
def value(x=None):
    return x


class Calling:
    """Makes a call while it is pickled, or while it is loaded."""

    def __init__(self, when):
        self.when = when

    def __reduce__(self):
        if self.when == "pickled":
            value.party("BOB").remote(1)
        return made, (self.when,)


def made(when):
    if when == "loaded":
        value.party("BOB").remote(1)
    return Calling(when)


class Asking:
    """Notes where it is pickled and loaded."""

    def __init__(self):
        self.notes = []

    def __getstate__(self):
        return [*self.notes, fed.current_party()]

    def __setstate__(self, state):
        self.notes = [*state, fed.current_party()]


def kinds(when):
    return Calling(when) if when != "asked" else Asking()


@fed.remote
class Actor:
    def one(self, when):
        return kinds(when)

    def listed(self, when):
        return [kinds(when)]

    def with_default(self, when, x=None):
        return kinds(when)

    def two(self, when):
        return kinds(when), 1

    async def later(self, when):
        return kinds(when)

    def take(self, x):
        return type(x).__name__

    def take_one(self, x, y=None):
        return type(x).__name__

    def notes(self, x, y=None):
        return x.notes

    def notes_quickly(self, x):
        return x.notes


WAYS = ["one", "listed", "with_default", "two", "later"]


def program(note):
    actor = Actor.party("ALICE").remote()
    for way in WAYS:
        method = getattr(actor, way)
        method = method.options(num_returns=2) if way == "two" else method
        note(f"{way}: pickled", lambda m=method: fed.get(m.remote("pickled")))
        loaded = method.remote("loaded")
        loaded = loaded[0] if way == "two" else loaded
        note(f"{way}: loaded", lambda o=loaded: fed.get(actor.take.remote(o)))
        note(f"{way}: loaded slowly", lambda o=loaded: fed.get(actor.take_one.remote(o)))
    asked = actor.one.remote("asked")
    note("party", lambda: fed.get(actor.notes.remote(asked)))
    note("party, quickly", lambda: fed.get(actor.notes_quickly.remote(asked)))
    # No call that a hook made took a number, so this one is the next of all.
    note("still", lambda: fed.get(value.party("BOB").remote(5)))


EXPECTED = {
    **{
        f"{way}: {when}": fails("UsageError", text="inside the body of Actor")
        if when == "pickled"
        else fails("ValueRefusedError", text="UsageError was raised")
        for way in WAYS
        for when in ("pickled", "loaded", "loaded slowly")
    },
    "party": ["ALICE", "ALICE"],
    "party, quickly": ["ALICE", "ALICE"],
    "still": 5,
}
