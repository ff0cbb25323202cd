"""The isolation level `check`: names the call whose body changed what other parties' bodies see.

Around each body, and around each step of a coroutine, the arrays among its arguments are digested
and the state that bodies of all parties share in this process is fingerprinted. Reading shared
state changes nothing, so it is not found.
"""

from __future__ import annotations

import inspect
import logging
import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fed import errors
from fed.codec import seal
from fed.engines.simulation import fingerprint, usercode
from fed.model import trees

if TYPE_CHECKING:
    from fed.model import calls

log = logging.getLogger(__name__)

#: An error names at most this many changes.
_SHOWN: Final = 5

_FIXES: Final = (
    ("argument", "Arguments are read-only for every reader: work on a copy, x = x.copy()"),
    (
        "the global state of",
        "Draw from fed.rng(), or from a generator that the actor keeps; where a library draws, "
        "give it one (random_state=...)",
    ),
    (
        "module global",
        "Keep it in the actor (self.NAME), or return it: on machines of their own, each party has "
        "its own copy of the module",
    ),
    (
        "class attribute",
        "Keep it in the instance (self.NAME), or return it: on machines of their own, each party "
        "has its own copy of the class",
    ),
    ("", "Keep it in the actor (self.NAME), or return it: parties share no state"),
)


class Checker:
    """Implements `fed.engines.simulation.isolation.Guard`.

    A call that changed shared state ends with `IsolationError`; what it changed stays changed.
    The cost per body, or per step of a coroutine, grows with the modules' globals and all that
    hangs on them, up to `fingerprint.MOST` references, and with the bytes of their arrays.
    """

    def __init__(self, code: usercode.UserCode) -> None:
        self._code = code
        self._looks = fingerprint.Looks(code)
        self._suspended: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._told: set[str] = set()

    def local(self, party: str, target: Callable[..., Any]) -> Callable[..., Any]:
        """The target itself: parties share everything here, which is why they are watched."""
        return target

    def invoke(
        self,
        call: calls.Call,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run a body; see `isolation.Guard.invoke`."""
        arrays = dict(_arrays(args, kwargs))
        value = self._watched(call, function, arrays, lambda: function(*args, **kwargs))
        if inspect.iscoroutine(value):
            self._suspended[call.number] = (function, arrays)
        return value

    def step(self, call: calls.Call, resume: Callable[[Any], Any], argument: Any) -> Any:
        """Run one step of a coroutine; see `isolation.Guard.step`."""
        function, arrays = self._suspended.pop(call.number)
        value = self._watched(call, function, arrays, lambda: resume(argument))
        self._suspended[call.number] = (function, arrays)
        return value

    def _watched(
        self,
        call: calls.Call,
        function: Callable[..., Any],
        arrays: dict[str, Any],
        body: Callable[[], Any],
    ) -> Any:
        before = _Shared(self._looks, self._roots(function), arrays, self._unseen)
        try:
            value = body()
        except Exception as error:
            changed = list(before.changes())
            if changed:
                # A coroutine that returns raises too, but that is no cause.
                has_failed = not isinstance(error, StopIteration)
                raise _violation(call, changed) from error if has_failed else None
            raise
        changed = list(before.changes())
        if not changed:
            return value
        if inspect.iscoroutine(value):
            value.close()
        raise _violation(call, changed)

    def _roots(self, function: Any) -> list[Any]:
        """The user's modules, and what is called: it may have been made inside a function."""
        roots: list[Any] = [*self._code.modules()]
        owner = getattr(function, "__self__", None)
        if owner is not None:
            roots.extend(owner.__mro__ if isinstance(owner, type) else type(owner).__mro__)
            function = getattr(function, "__func__", function)
        roots.extend(function.__mro__ if isinstance(function, type) else [function])
        return roots

    def _unseen(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            log.warning("isolation check: %s", what)


class _Shared:
    """What bodies share, as it is at one instant."""

    def __init__(
        self,
        looks: fingerprint.Looks,
        roots: list[Any],
        arrays: dict[str, Any],
        unseen: Callable[[str], None],
    ) -> None:
        self._arrays = arrays
        self._digests = {path: fingerprint.array_digest(array) for path, array in arrays.items()}
        self._state = fingerprint.Fingerprint(looks, roots, unseen)
        self._modules = len(sys.modules)
        self._environment = dict(os.environ)
        self._folder = _folder()
        self._random = random.getstate()
        self._numpy = _numpy_state()

    def changes(self) -> Iterator[str]:
        """What is no longer as it was, in words."""
        for path, array in self._arrays.items():
            if fingerprint.array_digest(array) != self._digests[path]:
                yield path
        yield from self._state.changes()
        # Libraries set variables, and some draw, while they are imported: nobody depends on that.
        is_importing = len(sys.modules) != self._modules
        if not is_importing and random.getstate() != self._random:
            yield "the global state of random"
        if not is_importing and _numpy_state() != self._numpy:
            yield "the global state of numpy.random"
        environment = dict(os.environ)
        if environment != self._environment:
            yield from self._variables(environment, is_importing)
        if _folder() != self._folder:
            yield "the working directory"

    def _variables(self, environment: dict[str, str], is_importing: bool) -> Iterator[str]:
        for name in sorted({*environment, *self._environment}):
            if is_importing and name not in self._environment:
                continue
            if environment.get(name) != self._environment.get(name):
                yield f"environment variable {name}"


def _violation(call: calls.Call, changed: list[str]) -> errors.IsolationError:
    shown = ", ".join(changed[:_SHOWN])
    if len(changed) > _SHOWN:
        shown += f", and {len(changed) - _SHOWN} more"
    return errors.IsolationError(
        problem=f"{call.what} changed what bodies of other parties see: {shown}",
        fix=next(fix for start, fix in _FIXES if changed[0].startswith(start)),
        party=call.party,
        call=call.number,
        changed=shown,
    )


def _arrays(args: list[Any], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arrays among the arguments, also in containers, as (path, array that owns the memory).

    Arrays are what sealing shares between readers; whatever else an argument is or holds is the
    body's own, to be changed at will.
    """
    waiting = [(f"argument {key}", value) for key, value in [*enumerate(args), *kwargs.items()]]
    seen: set[int] = set()
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, np.ndarray):
            owner = fingerprint.owner_of(value)
            if id(owner) not in seen and not owner.dtype.hasobject:
                seen.add(id(owner))
                yield path, owner
            continue
        inner = trees.children(value)
        if inner is None or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            waiting.extend((f"{path}[{key!r:.40}]", item) for key, item in value.items())
        elif type(value) is list or type(value) is tuple:
            if not seal.ATOMS.issuperset(map(type, value)):
                waiting.extend((f"{path}[{place}]", item) for place, item in enumerate(value))
        else:
            waiting.extend((f"{path}.{place}", item) for place, item in enumerate(inner))


def _numpy_state() -> Any:
    """The state of numpy's global generator."""
    return fingerprint.plain_state(np.random.get_state(legacy=False))


def _folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None
