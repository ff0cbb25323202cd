"""What somebody waits for: values to come, and values sent to be delivered."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence

from fed import errors
from fed.transport import border, mailbox


class Waiter:
    """Something that happens once, and may be waited for. Set by one thread, under no lock."""

    __slots__ = ("_gate", "_guard", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._guard = threading.Lock()
        self._gate: threading.Lock | None = None

    def finish(self) -> None:
        """It has happened: who waits goes on."""
        with self._guard:
            self.is_done = True
            gate = self._gate
        if gate is not None:
            gate.release()

    def wait(self, timeout_s: float | None) -> bool:
        """True once it has happened; False if it has not within the time. One thread waits."""
        if self.is_done:
            return True
        with self._guard:
            if self.is_done:
                return True
            if self._gate is None:
                self._gate = threading.Lock()
                self._gate.acquire()
            gate = self._gate
        if timeout_s is None:
            timeout_s = -1
        elif timeout_s <= 0:
            timeout_s = 0
        if not gate.acquire(timeout=min(timeout_s, threading.TIMEOUT_MAX)):
            return False
        gate.release()
        return True


class Sent(Waiter):
    """A value on its way out.

    Attributes:
        party: where it goes.
        call: the call that made it.
        size_bytes: of its payload.
        is_done: it was delivered, or it never will be.
        error: why it never will be; None otherwise.
        outcome: told first what became of it; None if nobody wants to know.
    """

    __slots__ = ("_done", "call", "error", "outcome", "party", "size_bytes")

    def __init__(
        self, party: str, call: int, size_bytes: int, done: Callable[[Sent], None] | None
    ) -> None:
        super().__init__()
        self.party = party
        self.call = call
        self.size_bytes = size_bytes
        self.error: errors.FedError | None = None
        self.outcome: border.Outcome | None = None
        self._done = done

    def settle(self) -> None:
        """It was delivered, or never will be: then `error` says why."""
        if self.outcome is not None:
            self.outcome(self.error)
        self.finish()
        if self._done is not None:
            self._done(self)

    def result(self, timeout_s: float) -> None:
        """Wait until the peer's store has the value.

        Raises:
            FedTimeoutError: it has not within the time.
            FedError: it never will have it.
        """
        if not self.wait(timeout_s):
            raise errors.FedTimeoutError(
                what=f"the delivery of a value of call {self.call}", party=self.party,
                waited_s=timeout_s,
            )  # fmt: skip
        if self.error is not None:
            raise copy.copy(self.error)


class Request(Waiter):
    """Values that one call waits for.

    Attributes:
        number: the call.
        keys: what it waits for.
        waiting: what of it is not there yet.
        values: what of it was delivered.
        is_done: `values` has all of it, or `error` says why it never will.
        error: see there.
    """

    __slots__ = ("_count", "_done", "error", "keys", "number", "values", "waiting")

    def __init__(
        self,
        number: int,
        keys: Sequence[mailbox.Key],
        done: Callable[[Request], None] | None,
    ) -> None:
        super().__init__()
        self.number = number
        self.keys = tuple(keys)
        self.waiting = set(keys)
        self._count = len(self.waiting)
        self.values: dict[mailbox.Key, object] = {}
        self.error: errors.FedError | None = None
        self._done = done

    @property
    def has_all(self) -> bool:
        """True if every value was delivered."""
        return len(self.values) == self._count

    def settle(self) -> None:
        """All values are there, or the error is."""
        self.finish()
        if self._done is not None:
            self._done(self)

    def taken(self) -> list[object]:
        """The values, in the order of the keys, and no longer kept here.

        Raises:
            FedError: why there are none.
        """
        if self.error is not None:
            raise copy.copy(self.error)
        values, self.values = self.values, {}
        return [values[key] for key in self.keys]
