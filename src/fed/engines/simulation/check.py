"""The isolation level `check`: names the call whose body changed what other parties' bodies see.

Around each body, and around each step of a coroutine, the arrays among its arguments are digested
and the state that bodies of all parties share in this process is fingerprinted. Reading shared
state changes nothing, so it is not found.
"""

from __future__ import annotations

import logging
import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from fed import errors
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
        """The target itself: parties share everything, which is why they are watched."""
        return target

    def invoke(
        self,
        call: calls.Call,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run a body, or one step of a coroutine; see `isolation.Guard.invoke`."""
        target, arrays = self._suspended.pop(call.number, (None, {}))
        if target is None:
            target, arrays = function, dict(_arrays(args, kwargs))
        shared = _Shared(self._looks, self._roots(target), arrays, self._unseen)
        error: BaseException | None = None
        value: Any = None
        try:
            value = function(*args, **kwargs)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:
            if self._changed(shared):
                error = raised
            else:
                raise
        changed = list(shared.changes())
        if changed:
            if hasattr(value, "close") and hasattr(value, "cr_frame"):
                value.close()
            raise _violation(call, changed) from error
        if hasattr(value, "cr_frame") or getattr(function, "__self__", None) is not None:
            self._suspended[call.number] = (target, arrays)
        return value
