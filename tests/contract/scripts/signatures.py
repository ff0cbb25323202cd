"""Names of parameters, wrappers and attributes: a remote one takes what the plain one takes."""

import functools

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE"]


def injecting(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, "injected", **kwargs)

    return inner


def renaming(function):
    @functools.wraps(function)
    def inner(other):
        return function(other, "fixed")

    return inner


@fed.remote
def plain(self, args=None):
    return [self, args]


@fed.remote
@injecting
def injected(x, extra):
    return [x, extra]


@fed.remote
@renaming
def renamed(x, extra):
    return [x, extra]


class Meta(type):
    def __dir__(cls):
        return ["ghost"]


@fed.remote
class Actor(metaclass=Meta):
    def __init__(this, self=0):
        this.given = self

    def method(this, self):
        return [this.given, self]

    def two(self):
        return 1, 2

    @injecting
    def injected(self, x, extra):
        return [x, extra]

    @functools.cached_property
    def cached(self):
        return 5


def program(note):
    at = plain.party("ALICE")
    note("function", lambda: fed.get(at.remote(self=1, args=2)))
    actor = Actor.party("ALICE").remote(self=3)
    note("method", lambda: fed.get(actor.method.remote(self=4)))
    with_options = actor.method.options(num_returns=2)
    note("with options", lambda: fed.get(with_options.remote(self=4)))
    note("injected", lambda: fed.get(injected.party("ALICE").remote(1)))
    note("injected into a method", lambda: fed.get(actor.injected.remote(1)))
    note("renamed", lambda: fed.get(renamed.party("ALICE").remote(other=1)))
    note("wrong name", lambda: renamed.party("ALICE").remote(x=1))
    note("a property", lambda: actor.cached.remote())
    note("a name that is not there", lambda: actor.ghost.remote())
    note("progress", lambda: [fed.progress(1, 3), fed.progress(2)])
    note("progress of texts", lambda: fed.progress("a", "b"))
    note("progress below 0", lambda: fed.progress(1, -1))


EXPECTED = {
    "function": [1, 2],
    "method": [3, 4],
    "with options": [3, 4],
    "injected": [1, "injected"],
    "injected into a method": [1, "injected"],
    "renamed": [1, "fixed"],
    "wrong name": fails("TypeError", text="renamed.remote() got an unexpected keyword argument"),
    "a property": fails("UnknownMethodError", text="cached"),
    "a name that is not there": fails("UnknownMethodError", text="ghost"),
    "progress": [None, None],
    "progress of texts": fails("UsageError", text="done='a'"),
    "progress below 0": fails("UsageError", text="total=-1"),
}
