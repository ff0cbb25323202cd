"""Fed objects of this engine: the sealed value in them, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fed import errors
from fed.model import objects

if TYPE_CHECKING:
    import asyncio

    from fed.engines.simulation import sites, store, traffic


class Result(objects.FedObject[Any]):
    """A fed object of one session.

    Each engine derives its own class, so a look at the type tells whether an object is its own.
    For the engine alone, `_form` is an atom, a read-only array, `seal.Tree`, `seal.Pickled`,
    `Held`, `Failure` or `Pending`, and `_sent` tells where the value crossed to: None, the place of
    one party, or a `traffic.Sent`.
    """

    __slots__ = ("_form", "_sent")

    _form: Any
    _sent: int | traffic.Sent | None


class Failure:
    """The outcome of a call that has no value.

    One failure is shared, unchanged, by the call that failed and all that it kept from running.

    Attributes:
        error: what `get` raises.
        order: (call number, index) of the object that failed first.
    """

    __slots__ = ("error", "order", "unread")

    def __init__(self, error: errors.FedError, order: tuple[int, int], unread: Unread) -> None:
        self.error = error
        self.order = order
        self.unread = unread

    def raised(self) -> errors.FedError:
        """An error to raise: a copy, so that what raising leaves on it is the reader's alone."""
        self.unread.forget(self.order)
        return errors.copy(self.error)


class Unread:
    """Errors that nobody read yet, in call order, as texts: tracebacks would pin memory."""

    #: Further ones are counted only.
    MOST = 1_000

    def __init__(self) -> None:
        self.texts: dict[tuple[int, int], str] = {}
        self.uncounted: set[tuple[int, int]] = set()

    def note(self, order: tuple[int, int], error: errors.FedError) -> None:
        """Remember a new failure."""
        if len(self.texts) < self.MOST:
            self.texts[order] = str(error) + _where(error)
        else:
            self.uncounted.add(order)

    def forget(self, order: tuple[int, int]) -> None:
        """Somebody read it."""
        self.texts.pop(order, None)
        self.uncounted.discard(order)

    def __len__(self) -> int:
        return len(self.texts) + len(self.uncounted)


def _where(error: errors.FedError) -> str:
    """The line of the body that raised: it holds nobody's data, unlike the message."""
    tb = error.__cause__.__traceback__ if error.__cause__ is not None else None
    if not isinstance(error, errors.FedRemoteError) or tb is None or error.level == "traceback":
        return ""
    while tb.tb_next is not None:
        tb = tb.tb_next
    return f" [raised at {tb.tb_frame.f_code.co_filename}:{tb.tb_lineno}]"


class Pending:
    """The outcome of a call that has not ended: a coroutine that waits, or a call behind one."""

    __slots__ = ("future", "what")

    def __init__(self, future: asyncio.Future[None], what: str) -> None:
        self.future = future
        self.what = what


class Held:
    """A large sealed value, counted against the memory budget while its fed object lives."""

    __slots__ = ("_store", "form", "place", "size_bytes")

    def __init__(self, form: Any, size_bytes: int, place: sites.Place, store: store.Store) -> None:
        self.form = form
        self.size_bytes = size_bytes
        self.place = place
        self._store = store

    def __del__(self) -> None:
        self._store.released(self)
