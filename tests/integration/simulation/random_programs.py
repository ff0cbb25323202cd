"""Random federated programs, and a plain interpreter that says what each must give.

`Program(random).run()` makes steps one by one and does each twice: by `fed`, and by the reference
below, which holds values, copies them whenever they pass a call, and knows nothing of sealing,
digests or coroutines. Every outcome is compared, and so is every number.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fed
from fed.model import engine as port
from fed.testing import engines

PARTIES = ["ALICE", "BOB", "CAROL", "DAVE"]


class Private:
    """Goes anywhere inside a party and crosses nowhere."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Private) and engines.same(self.inside, other.inside)

    __hash__ = None  # type: ignore[assignment]


# What bodies do: plain functions, used by both sides.


def size(x: Any) -> int:
    if isinstance(x, list | tuple | set):
        return 1 + sum(map(size, x))
    if isinstance(x, dict):
        return 1 + sum(map(size, x.values()))
    return 1 + size(x.inside) if isinstance(x, Private) else 1


def combine(*args: Any, **named: Any) -> Any:
    made = [list(args), named]
    return made if size(made) < 80 else size(made)


def double(x: Any) -> Any:
    return [x, (x, {"x": x})] if size(x) < 30 else 0


def mutate(x: Any) -> Any:
    if isinstance(x, list):
        if x:
            mutate(x[0])
        x.append("more")
        if len(x) > 5:
            x.clear()
    elif isinstance(x, dict):
        for item in x.values():
            mutate(item)
        x["new"] = len(x)
    elif isinstance(x, set):
        x.add("more")
    elif isinstance(x, tuple):
        for item in x:
            mutate(item)
    elif isinstance(x, np.ndarray) and x.size:
        try:
            x[...] = 99
        except ValueError:
            pass
        else:
            raise AssertionError("an argument's array can be written to")
    return x


def boom(x: Any = None) -> Any:
    raise ValueError(size(x))


def private(x: Any) -> Any:
    return Private(x)


def kind(x: Any) -> Any:
    return f"{type(x).__name__} {size(x)}"


def two(x: Any) -> Any:
    return x, [x]


def draw() -> Any:
    return fed.rng().integers(1 << 60)


def where(x: Any) -> Any:
    return fed.current_party()


def fold(a: Any, b: Any) -> Any:
    if isinstance(a, list):
        a.append(kind(b))
        return a if len(a) < 6 else []
    return [kind(a), b]


def fold_boom(a: Any, b: Any) -> Any:
    if isinstance(b, str):
        raise KeyError(b)
    return b


class Box:
    """An actor that hands out its own state, and changes it afterwards."""

    def __init__(self, x: Any) -> None:
        if isinstance(x, str):
            raise OSError(x)
        self.items = [x]
        self.own = np.zeros(2)

    def push(self, x: Any) -> Any:
        if size(self.items) > 60:
            self.items = []
        self.items.append(x)
        return self.items

    def peek(self) -> Any:
        return {"items": self.items, "own": [self.own]}

    def poke(self, by: Any = 1) -> Any:
        mutate(self.items)
        self.own += size(by)
        return self.own

    def fail(self, x: Any) -> Any:
        self.items.append(0)
        raise RuntimeError(size(x))

    def split(self, x: Any) -> Any:
        return self.items, x

    async def nap(self, x: Any, seconds: float) -> Any:
        self.items.append(1)
        mine = len(self.items)
        await asyncio.sleep(seconds)
        return [x, mine]


class SyncBox:
    """The same without coroutines, so that the engine's short way is taken."""

    __init__ = Box.__init__
    push, peek, poke, fail, split = Box.push, Box.peek, Box.poke, Box.fail, Box.split


FUNCTIONS = [combine, double, mutate, boom, private, kind, two, draw, where]
REMOTE = {function.__name__: fed.remote(function) for function in FUNCTIONS}
ACTORS = {cls.__name__: fed.remote(cls) for cls in (Box, SyncBox)}


# The reference.


@dataclass
class Failed:
    """An outcome without a value: what the error says."""

    name: str
    party: str
    call: int
    detail: str = ""


@dataclass
class Known:
    """What the reference knows of one fed object."""

    obj: Any
    party: str
    number: int
    index: int
    outcome: Any
    is_late: bool = False

    @property
    def order(self) -> tuple[int, int]:
        return self.number, self.index


@dataclass
class Actor:
    handle: Any
    party: str
    name: str
    ordinal: int
    instance: Any = None
    gone: Failed | str | None = None
    counts: dict[str, int] = field(default_factory=dict)


def copied(x: Any) -> Any:
    """A copy that shares nothing: what is there twice becomes two."""
    if type(x) is list:
        return [copied(item) for item in x]
    if type(x) is tuple:
        return tuple(copied(item) for item in x)
    if type(x) is dict:
        return {key: copied(item) for key, item in x.items()}
    if type(x) is set:
        return set(x)
    if isinstance(x, Private):
        return Private(copied(x.inside))
    if isinstance(x, np.ndarray):
        copy = x.copy()
        copy.flags.writeable = False
        return copy
    return x


def has_private(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return any(map(has_private, x))
    return isinstance(x, Private) or (isinstance(x, dict) and any(map(has_private, x.values())))


class Program:
    """One random program in one session."""

    def __init__(self, seed: int, *, isolation: str = "sealed", steps: int = 60) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.steps = steps
        self.isolation = isolation
        self.number = 0
        self.known: list[Known] = []
        self.actors: list[Actor] = []
        self.ordinals: dict[tuple[str, str], int] = {}
        self.counts: dict[tuple[str, str], int] = {}
        self.log: list[str] = []

    def run(self) -> None:
        """Make the steps, then look at every outcome once more."""
        fed.init(
            mode="simulation",
            parties=PARTIES,
            seed=self.seed,
            isolation=self.isolation,
            codec_modules=["nothing.of.this"],
            log_level="critical",
        )
        try:
            choices = [self.call] * 6 + [self.create] * 2 + [self.method] * 8 + [self.look] * 3
            choices += [self.put, self.wait, self.fold, self.kill, self.look_at_many]
            for _ in range(self.steps):
                self.random.choice(choices)()
                engine: Any = port.current()
                assert engine.ledger.number == self.number, self.log
            for known in self.random.sample(self.known, len(self.known)):
                self.compare(known)
        except AssertionError:
            raise
        except BaseException as error:
            raise AssertionError("\n".join(self.log)) from error
        finally:
            fed.shutdown()

    # Steps.

    def next(self, text: str) -> int:
        self.number += 1
        self.log.append(f"{self.number}: {text}")
        return self.number

    def party(self) -> str:
        return self.random.choice(PARTIES)

    def literal(self, depth: int = 0) -> tuple[Any, list[Known]]:
        """An argument as the script writes it, and the fed objects in it, in order."""
        r = self.random
        roll = r.random()
        if self.known and roll < 0.4:
            known = r.choice(self.known[-12:])
            return known.obj, [known]
        if depth < 3 and roll < 0.7:
            parts = [self.literal(depth + 1) for _ in range(r.randrange(4))]
            found = [known for _, inner in parts for known in inner]
            values = [value for value, _ in parts]
            shape = r.randrange(3)
            if shape == 0:
                return values, found
            if shape == 1:
                return tuple(values), found
            return {f"k{n}": value for n, value in enumerate(values)}, found
        plain = [None, 5, -0.0, "text", 2**70, {1, "b"}, b"x", True, np.arange(3.0), np.float32(2)]
        plain += [[], {}, np.zeros((2, 0)), Private(1)]
        return copied(r.choice(plain)), []

    def delivered(self, x: Any, party: str) -> Any:
        """The callee's value of an argument."""
        by_id = {id(known.obj): known for known in self.known}

        def walk(item: Any) -> Any:
            if isinstance(item, fed.FedObject):
                return copied(by_id[id(item)].outcome)
            if type(item) is list:
                return [walk(inner) for inner in item]
            if type(item) is tuple:
                return tuple(walk(inner) for inner in item)
            if type(item) is dict:
                return {key: walk(inner) for key, inner in item.items()}
            return copied(item)

        return walk(x)

    def failure(self, found: list[Known], party: str | None) -> Failed | None:
        for known in sorted(found, key=lambda known: known.order):
            if isinstance(known.outcome, Failed):
                return known.outcome
            if known.party != party and has_private(known.outcome):
                return Failed("ValueRefusedError", known.party, known.number)
        return None

    def body(self, function: Any, found: list[Known], party: str, call: int, args: Any) -> Any:
        """The outcome of one call."""
        failed = self.failure(found, party)
        if failed is not None:
            return failed
        try:
            return function(*self.delivered(args, party))
        except Exception as error:
            return Failed("FedRemoteError", party, call, type(error).__name__)

    def remember(self, obj: Any, party: str, outcome: Any, *, is_late: bool = False) -> None:
        objs = obj if isinstance(obj, list) else [obj]
        parts = list(outcome) if len(objs) == 2 and isinstance(outcome, tuple) else None
        for index, one in enumerate(objs):
            value = outcome if parts is None else parts[index]
            value = value if isinstance(value, Failed) else copied(value)
            self.known.append(Known(one, party, self.number, index, value, is_late))
            assert one.id == f"{self.number}#{index}", self.log

    def call(self) -> None:
        function, party = self.random.choice(FUNCTIONS), self.party()
        name = function.__name__
        many = self.random.randrange(3) if function is combine else 0
        parts = [] if function is draw else [self.literal() for _ in range(1 + many)]
        args = [value for value, _ in parts]
        found = [known for _, inner in parts for known in inner]
        count = self.next(f"{name} at {party} {args!r}")
        place = (party, name)
        index = self.counts.get(place, 0)
        self.counts[place] = index + 1
        remote = REMOTE[name].party(party)
        if function is two:
            remote = remote.options(num_returns=2)
        obj = remote.remote(*args)
        if function is draw:
            from fed.model import body

            stream = body.generator(seed=self.seed, party=party, name=name, ordinal=0, index=index)
            outcome: Any = stream.integers(1 << 60)
        elif function is where:
            outcome = self.body(lambda x: party, found, party, count, args)
        else:
            outcome = self.body(function, found, party, count, args)
        for arg in args:
            if isinstance(arg, list):
                arg.append("changed after the call")
        self.remember(obj, party, outcome)

    def create(self) -> None:
        party, name = self.party(), self.random.choice(list(ACTORS))
        arg, found = self.literal()
        number = self.next(f"{name} at {party} {arg!r}")
        ordinal = self.ordinals.get((name, party), 0)
        self.ordinals[name, party] = ordinal + 1
        actor = Actor(ACTORS[name].party(party).remote(arg), party, name, ordinal)
        outcome = self.body(Box, found, party, number, [arg])
        if isinstance(outcome, Failed):
            actor.gone = outcome
        else:
            actor.instance = outcome
        self.actors.append(actor)

    def method(self) -> None:
        if not self.actors:
            return
        actor = self.random.choice(self.actors[-6:])
        names = ["push", "peek", "poke", "fail", "split", "poke", "push"]
        name = self.random.choice([*names, "nap", "nap"] if actor.name == "Box" else names)
        parts = [] if name == "peek" else [self.literal()]
        args = [value for value, _ in parts]
        found = [known for _, inner in parts for known in inner]
        number = self.next(f"{actor.name}.{name} of {actor.ordinal} at {actor.party} {args!r}")
        method = getattr(actor.handle, name)
        if name == "split":
            method = method.options(num_returns=2)
        if name == "nap":
            obj = method.remote(*args, self.random.choice([0, 0.5, 3]))
        elif args and self.random.random() < 0.3:
            obj = method.remote(**{"by" if name == "poke" else "x": args[0]})
        else:
            obj = method.remote(*args)
        self.remember(obj, actor.party, self.acted(actor, name, found, number, args),
                      is_late=name == "nap")  # fmt: skip

    def acted(self, actor: Actor, name: str, found: list[Known], number: int, args: Any) -> Any:
        failed = self.failure(found, actor.party)
        if failed is not None:
            return failed
        if actor.gone == "killed":
            return Failed("ActorKilledError", actor.party, number)
        if actor.gone is not None:
            return actor.gone

        def nap(x: Any) -> Any:
            actor.instance.items.append(1)
            return [x, len(actor.instance.items)]

        function = nap if name == "nap" else getattr(actor.instance, name)
        return self.body(function, [], actor.party, number, args)

    def put(self) -> None:
        party = self.party()
        value, found = self.literal()
        if found:
            return
        self.next(f"put at {party} {value!r}")
        obj = fed.put(value, party=party)
        self.remember(obj, party, value)
        if isinstance(value, list):
            value.append("changed after the put")

    def wait(self) -> None:
        if len(self.known) < 2:
            return
        chosen = self.random.sample(self.known, min(4, len(self.known)))
        count = self.random.randint(1, len(chosen))
        self.next(f"wait {[known.obj for known in chosen]}")
        objs = [known.obj for known in chosen]
        ready, pending = fed.wait(objs, num_returns=count, party=self.party())
        assert [id(obj) for obj in ready + pending] == [id(obj) for obj in objs], self.log
        assert len(ready) == count

    def fold(self) -> None:
        if not self.known:
            return
        party, op = self.party(), self.random.choice([fold, fold, fold_boom])
        chosen = [self.random.choice(self.known) for _ in range(self.random.randint(1, 5))]
        more = {"initial": [0]} if self.random.random() < 0.5 else {}
        for known in chosen:
            self.next(f"fold {known.obj}")
        number = self.next(f"reduce at {party}, {more}")
        objs: Any = [known.obj for known in chosen]
        obj = fed.reduce(op, iter(objs), party=party, **more)  # type: ignore[arg-type]
        outcome: Any = self.failure(chosen, party)
        if outcome is None:
            values = [copied(known.outcome) for known in chosen]
            values = [*copied(list(more.values())), *values]
            try:
                outcome = values[0]
                for value in values[1:]:
                    outcome = copied(op(outcome, value))
            except Exception as error:
                outcome = Failed("FedRemoteError", party, number, type(error).__name__)
        self.remember(obj, party, outcome)

    def kill(self) -> None:
        if not self.actors or self.random.random() < 0.5:
            return
        actor = self.random.choice(self.actors)
        for known in self.known:
            # What a suspended call becomes is the mode's own affair: let none be suspended.
            if known.is_late and known.party == actor.party:
                self.compare(known)
                known.is_late = False
        self.next(f"kill {actor.handle!r}")
        fed.kill(actor.handle)
        if actor.gone is None:
            actor.gone = "killed"

    def look(self) -> None:
        if self.known:
            self.compare(self.random.choice(self.known))

    def look_at_many(self) -> None:
        x, found = self.literal()
        if not found:
            return
        self.next(f"get {x!r}")
        expected: Any = self.failure(found, None)
        if expected is None:
            expected = self.delivered(x, "")
        self.same(lambda: fed.get(x), expected)

    def compare(self, known: Known) -> None:
        self.next(f"get {known.obj!r}")
        expected: Any = self.failure([known], None)
        self.same(lambda: fed.get(known.obj), known.outcome if expected is None else expected)

    def same(self, get: Any, expected: Any) -> None:
        try:
            value = get()
        except fed.FedError as error:
            seen: Any = error
            got = Failed(type(error).__name__, seen.party, seen.call,
                         getattr(seen, "type_name", "")
                         if isinstance(error, fed.FedRemoteError) else "")  # fmt: skip
            assert got == expected, self.text(got, expected)
        else:
            assert not isinstance(expected, Failed), self.text(value, expected)
            assert engines.same(value, expected), self.text(value, expected)
            mutate(value)

    def text(self, got: Any, expected: Any) -> str:
        return "\n".join([*self.log, f"got {got!r}", f"expected {expected!r}"])
