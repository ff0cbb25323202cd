"""The isolation level `process`: each party has its own classes, module globals and random state.

What a process of its own would give a party, as far as the user's code goes; see `copies` for what
is copied and when.
"""

from __future__ import annotations

import array
import ctypes
import hashlib
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.random

from fed.engines.simulation import copies, usercode

if TYPE_CHECKING:
    from fed.model import calls


class Worlds:
    """Implements `fed.engines.simulation.isolation.Guard`.

    Args:
        code: tells the user's code from libraries.
        seed: the session's seed; with the party's name it makes the start of the global generators.
    """

    def __init__(self, code: usercode.UserCode, *, seed: int = 0) -> None:
        self._worlds: dict[str, copies.World] = {}
        self._running: copies.World | None = None
        self._source = copies.Source(code, lambda: self._running)
        self._random = PythonRandom(seed)
        self._numpy = NumpyRandom(seed)

    def local(self, party: str, target: Callable[..., Any]) -> Callable[..., Any]:
        """The party's own copy of a function or class of the user's; others as they are."""
        made: Callable[..., Any] = self._world(party).copy(target)
        return made

    def invoke(
        self,
        call: calls.Call,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run a body in its party's world; see `isolation.Guard.invoke`."""
        world = self._world(call.party)
        if world.is_incomplete:
            world.complete()
        args = [world.received(value) for value in args]
        kwargs = {name: world.received(value) for name, value in kwargs.items()}
        return self._inside(call.party, world, lambda: function(*args, **kwargs))

    def step(self, call: calls.Call, resume: Callable[[Any], Any], argument: Any) -> Any:
        """Run one step of a coroutine in its party's world; see `isolation.Guard.step`."""
        return self._inside(call.party, self._world(call.party), lambda: resume(argument))

    def _world(self, party: str) -> copies.World:
        world = self._worlds.get(party)
        if world is None:
            world = self._worlds[party] = copies.World(self._source)
        return world

    def _inside(self, party: str, world: copies.World, body: Callable[[], Any]) -> Any:
        outer, self._running = self._running, world
        self._random.enter(party)
        self._numpy.enter(party)
        try:
            return body()
        except BaseException as error:
            world.give_class(error)
            raise
        finally:
            self._numpy.leave(party)
            self._random.leave(party)
            self._running = outer


#: Its functions that exchange the generator are not in the stubs.
_random: Any = numpy.random


def _key(seed: int, party: str, name: str) -> bytes:
    """The start of a party's global generator: SHA-256 of seed, party and library."""
    return hashlib.sha256("\0".join((str(seed), party, name)).encode()).digest()


class PythonRandom:
    """The state of `random`, one per party that ever drew; the script has its own."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._states: dict[str, tuple[int, array.array[int], float | None]] = {}
        self._script: Any = None
        self._entered: Any = None

    def enter(self, party: str) -> None:
        """Put the party's state in place of the script's."""
        self._script = random.getstate()
        state = self._states.get(party)
        if state is None:
            random.seed(int.from_bytes(_key(self._seed, party, "random"), "little"))
        else:
            random.setstate((state[0], tuple(state[1]), state[2]))
        self._entered = random.getstate()

    def leave(self, party: str) -> None:
        """Keep the party's state if it was used, and put the script's back."""
        state = random.getstate()
        if state != self._entered:
            self._states[party] = (state[0], array.array("I", state[1]), state[2])
        random.setstate(self._script)


#: Bytes of the Mersenne Twister's state in memory: 624 words and a position.
_TWISTER_BYTES = 625 * 4


class NumpyRandom:
    """The generator behind `numpy.random`'s functions, one per party that ever drew.

    A normal deviate that the legacy functions keep back for the next call is dropped at the end of
    a body; the script's own is not.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generators: dict[str, Any] = {}
        self._fresh: Any = None
        self._script: Any = None
        self._script_state: Any = None
        self._known: bytes | None = None
        self._entered: bytes = b""

    def enter(self, party: str) -> None:
        """Put the party's generator in place of the script's."""
        script = self._script = _random.get_bit_generator()
        # To read the whole state costs more than all else here; without it only the deviate that
        # was kept back would be lost, and there is none if the generator has not moved since.
        if type(script) is not _random.MT19937 or _memory(script) != self._known:
            state = _random.get_state(legacy=False)
            self._script_state = state if state.get("has_gauss") else None
            is_plain = type(script) is _random.MT19937 and self._script_state is None
            self._known = _memory(script) if is_plain else None
        own = self._generators.get(party)
        if own is None:
            own = self._fresh = self._fresh or _random.MT19937(0)
            _random.set_bit_generator(own)
            words = np.frombuffer(_key(self._seed, party, "numpy"), np.uint32)
            _random.seed(words)
        else:
            _random.set_bit_generator(own)
        self._entered = _memory(own)

    def leave(self, party: str) -> None:
        """Keep the party's generator if it was used, and put the script's back."""
        own = _random.get_bit_generator()
        if own is not self._fresh:
            self._generators[party] = own
        elif _memory(own) != self._entered:
            self._generators[party] = own
            self._fresh = None
        _random.set_bit_generator(self._script)
        if self._script_state is not None:
            _random.set_state(self._script_state)


def _memory(generator: Any) -> bytes:
    return ctypes.string_at(generator.ctypes.state_address, _TWISTER_BYTES)
