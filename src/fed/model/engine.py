"""The port that every engine implements, and the slot that holds the engine in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from fed import errors

if TYPE_CHECKING:
    from fed.model import body, calls, ledger, objects, remote
    from fed.observe import report


class Engine(Protocol):
    """Runs calls in one mode. Every verb but `parties` and `driver_party` takes one number.

    Verbs may be used by the thread that made the session only, and never inside a body:
    `UsageError` otherwise. A failing body never raises in `submit` (`fail_fast` apart): its error
    is the outcome of the call.

    Attributes:
        mode: its name.
        ledger: numbers and records.
        parties_seen: how many parties made or received a call so far.
        progressed: (done, total) as the script last said by `fed.progress`.
    """

    mode: str
    ledger: ledger.Ledger
    parties_seen: int
    progressed: tuple[int, int | None] | None

    def submit(self, call: calls.Call) -> Any:
        """Make a call.

        Returns:
            The `FedObject` of its value, a list of them if `num_returns` is above 1, or the
            handle of the actor that it creates. The values may still have to come.
        """

    def put(self, value: Any, party: str) -> objects.FedObject[Any]:
        """Give `value` to `party`; only the owning party looks at it."""

    def get(self, x: Any, *, timeout: float | None, parties: Sequence[str] | None) -> Any:
        """The value of `x`, a fed object or a container of at least one."""

    def wait(
        self,
        objs: Sequence[objects.FedObject[Any]],
        *,
        num_returns: int,
        timeout: float | None,
        party: str | None,
    ) -> tuple[list[objects.FedObject[Any]], list[objects.FedObject[Any]]]:
        """Split `objs` into `num_returns` that are ready and the rest, each in the order given."""

    def reduce(
        self,
        op: Callable[[Any, Any], Any],
        objs: Iterable[objects.FedObject[Any]],
        *,
        party: str,
        initial: Any,
    ) -> objects.FedObject[Any]:
        """Fold `objs` at `party`; `initial` is `calls.NOTHING` where there is none."""

    def kill(self, actor: remote.ActorHandle, *, no_restart: bool) -> None:
        """End an actor: queued and later calls of it fail."""

    def parties(self, pattern: str) -> list[str]:
        """The declared parties that match, in declaration order."""

    def driver_party(self) -> str | None:
        """The party that this process drives, or None where one driver serves all."""

    def running_body(self) -> body.Body | None:
        """The body that runs in the calling thread, where `body.current` is not set; None if none.

        Its party is None while the engine runs something else than a body.
        """

    def progress(self, done: int, total: int | None) -> None:
        """The script says how far it is."""

    def forked(self) -> None:
        """This process is a fork of the session's: refuse everything from now on."""

    def summary(self) -> report.Summary:
        """What the session did so far."""

    def check_end(self) -> None:
        """Do nothing, or say why `shutdown` can't be called here.

        Raises:
            UsageError: inside a body or in another thread than the session's.
        """

    def shutdown(self, *, error: BaseException | None = None) -> None:
        """End the session; the engine refuses everything from now on."""


class Slot:
    """Holds the engine in use: a plain attribute that `fed.session` alone writes."""

    __slots__ = ("engine", "was_used")

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.was_used = False


slot: Final = Slot()


def current() -> Engine:
    """The engine in use.

    Raises:
        SessionError: before `fed.init` and after `fed.shutdown`.
    """
    engine = slot.engine
    if engine is None:
        _refuse()
    return engine


def _refuse() -> NoReturn:
    if slot.was_used:
        raise errors.SessionError(
            problem="the session has ended by fed.shutdown",
            fix="Call fed.init again before making calls",
        )
    raise errors.SessionError(
        problem="there is no session yet", fix="Call fed.init() before making calls"
    )
