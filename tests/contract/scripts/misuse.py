"""Calls where none may be made: in bodies and in other threads; handles where values belong."""

import threading

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB"]


@fed.remote
def value(x=None):
    return x


@fed.remote
class Actor:
    def one(self, x=None):
        return 1


HELD = {}


@fed.remote
def call_inside(what):
    obj, actor = HELD["obj"], HELD["actor"]
    attempts = {
        "function": lambda: value.party("ALICE").remote(1),
        "class": lambda: Actor.party("ALICE").remote(),
        "method": lambda: actor.one.remote(),
        "put": lambda: fed.put(1, party="ALICE"),
        "get": lambda: fed.get(obj),
        "wait": lambda: fed.wait([obj], party="ALICE"),
        "reduce": lambda: fed.reduce(max, [obj], party="ALICE"),
        "kill": lambda: fed.kill(actor),
        "shutdown": fed.shutdown,
        "init": fed.init,
    }
    try:
        attempts[what]()
    except fed.UsageError as error:
        return [type(error).__name__, "call_inside" in str(error) or "already" in str(error)]
    return "went through"


@fed.remote
def careless():
    return fed.get(HELD["obj"])


def in_thread(function):
    found = []

    def run():
        try:
            found.append(function())
        except fed.FedError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], fed.FedError):
        raise found[0]
    return found[0]


class Hidden:
    def __init__(self, inside):
        self.inside = inside


class Sulky:
    def __repr__(self):
        raise RuntimeError("no")


def generator():
    yield 1


async def async_generator():
    yield 1


VERBS = ["function", "class", "method", "put", "get", "wait", "reduce", "kill", "shutdown", "init"]


def program(note):
    obj = HELD["obj"] = value.party("ALICE").remote(5)
    actor = HELD["actor"] = Actor.party("ALICE").remote()
    note("in a body", lambda: fed.get([call_inside.party("ALICE").remote(v) for v in VERBS]))
    note("not caught", lambda: fed.get(careless.party("ALICE").remote()))
    note("function in a thread", lambda: in_thread(lambda: value.party("ALICE").remote(1)))
    note("method in a thread", lambda: in_thread(actor.one.remote))
    note("get in a thread", lambda: in_thread(lambda: fed.get(obj)))
    note("put in a thread", lambda: in_thread(lambda: fed.put(1, "ALICE")))
    note("plain get in a thread", lambda: in_thread(lambda: fed.get(7)))
    note("shutdown in a thread", lambda: in_thread(fed.shutdown))
    note("init twice", fed.init)
    note("a handle as a value", lambda: value.party("BOB").remote(actor))
    note("a function as a value", lambda: value.party("BOB").remote(x=value))
    note("a method as a value", lambda: value.party("BOB").remote([actor.one]))
    method = actor.one.options(num_returns=2)
    note("one with options as a value", lambda: value.party("BOB").remote({"k": (obj, method)}))
    note("a handle for a method", lambda: actor.one.remote(actor))
    note("a handle in an object", lambda: fed.get(value.party("BOB").remote({Hidden(actor)})))
    note("a plain get of it", lambda: fed.get([actor])[0] is actor)
    note("a generator", lambda: fed.remote(generator))
    note("an async generator", lambda: fed.remote(async_generator))
    note("neither", lambda: fed.remote(5))
    note("unknown option", lambda: value.options(num_cpu=1))
    note("placement", lambda: value.options(scheduling_strategy="SPREAD"))
    note("reduce of what can't be shown", lambda: fed.reduce(max, [Sulky()], party="BOB"))
    note("put at what can't be shown", lambda: fed.put(1, party=Sulky()))
    note("send", lambda: fed.send("BOB", 1))
    note("recv", lambda: fed.recv("BOB"))
    note("unknown name", lambda: fed.shutdwon())
    note("still there", lambda: fed.get(value.party("BOB").remote(obj)))


EXPECTED = {
    "in a body": [["UsageError", True]] * 9 + [["SessionError", True]],
    "not caught": fails("FedRemoteError", type_name="UsageError", name="careless"),
    "function in a thread": fails("UsageError", text="thread"),
    "method in a thread": fails("UsageError", text="thread"),
    "get in a thread": fails("UsageError", text="thread"),
    "put in a thread": fails("UsageError", text="thread"),
    "plain get in a thread": 7,
    "shutdown in a thread": fails("UsageError", text="thread"),
    "init twice": fails("SessionError", text="fed.shutdown()"),
    "a handle as a value": fails("UsageError", text="Actor"),
    "a function as a value": fails("UsageError", text="value"),
    "a method as a value": fails("UsageError", text="Actor.one"),
    "one with options as a value": fails("UsageError", text="Actor.one"),
    "a handle for a method": fails("UsageError", text="Actor"),
    "a handle in an object": fails("UsageError", text="Actor"),
    "a plain get of it": True,
    "a generator": fails("UsageError", text="generator is a generator"),
    "an async generator": fails("UsageError", text="async_generator"),
    "neither": fails("NotRemotableError", text="5"),
    "unknown option": fails("UsageError", text="did you mean 'num_cpus'"),
    "placement": fails("UsageError", text=".party(name)"),
    "reduce of what can't be shown": fails("UsageError", text="<Sulky"),
    "put at what can't be shown": fails("UsageError", text="<Sulky"),
    "send": fails("UsageError", text="Pass the fed object"),
    "recv": fails("UsageError", text="fed.get"),
    "unknown name": fails("AttributeError", text="did you mean 'shutdown'"),
    "still there": 5,
}
