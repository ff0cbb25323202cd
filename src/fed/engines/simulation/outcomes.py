"""Outcomes of calls that have no value: made, remembered until somebody reads them, found again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from fed import errors
from fed.engines.simulation import crossing, results, sites
from fed.model import calls

#: An actor of a session: its class, its party, and which of that party's actors of the class.
ActorKey = tuple[type, str, int]


class Outcomes:
    """Makes the failures of one session.

    Attributes:
        unread: the errors that nobody read yet.
        gone: the actors that can run nothing more; None for those that were killed, else the
            failure of their constructor.
    """

    def __init__(
        self, *, fail_fast: bool, error_detail: str, name_of: Callable[[int], str | None]
    ) -> None:
        self._name_of = name_of
        self.unread = results.Unread()
        self.gone: dict[ActorKey, results.Failure | None] = {}
        self._fail_fast = fail_fast
        self._error_detail = error_detail

    def failure(self, call: calls.Call, error: errors.FedError, index: int = 0) -> results.Failure:
        """The failure of a call (or of its value `index`) by an error of the package.

        Raises:
            FedError: that error itself, with `fail_fast`.
        """
        if isinstance(error, errors.ValueRefusedError) and error.party is None:
            error.party = call.party
            error.call = call.number
            error.name = call.name
        if isinstance(error, errors.ValueRefusedError):
            self.located(error, call.site or sites.here())
        if self._fail_fast:
            raise error
        order = (call.number, index)
        self.unread.note(order, error)
        return results.Failure(error, order, self.unread)

    def located(self, error: errors.ValueRefusedError, site: str) -> errors.ValueRefusedError:
        """The refusal with the name of what made the value, and where it was refused."""
        if error.name is None and error.call is not None:
            error.name = self._name_of(error.call)
        error.site = error.site or site
        return error

    def raised(self, call: calls.Call, error: BaseException) -> results.Failure:
        """The failure of a call whose body raised.

        Raises:
            KeyboardInterrupt: goes on to the script.
            FedError: the failure's error, with `fail_fast`.
        """
        if isinstance(error, KeyboardInterrupt):
            raise error
        error.__traceback__ = _of_the_body(error.__traceback__)
        if isinstance(error, errors.IsolationError):
            return self.failure(call, error)
        return self.failure(call, self._remote_error(call, error))

    def broken_off(self, call: calls.Call, error: BaseException) -> results.Failure:
        """The failure of a call by an error that goes on to the script: it is read there."""
        own = error if isinstance(error, errors.FedError) else self._remote_error(call, error)
        return results.Failure(own, (call.number, 0), self.unread)

    def _remote_error(self, call: calls.Call, error: BaseException) -> errors.FedRemoteError:
        return crossing.remote_error(
            error,
            level=self._error_detail,
            party=call.party,
            call=call.number,
            name=call.name,
            actor=call.ordinal,
            site=call.site or sites.here(),
        )

    def of_inputs(self, found: Iterable[Any]) -> results.Failure | None:
        """The failure of the lowest-numbered failed object; None if none failed."""
        failed = [obj for obj in found if type(obj._form) is results.Failure]
        if not failed:
            return None
        first = min(failed, key=lambda obj: (obj.number, obj.index))
        return first._form  # type: ignore[no-any-return]

    def of_actor(self, key: ActorKey, call: calls.Call) -> results.Failure | None:
        """Why the actor can't run a call; None if it can."""
        if key not in self.gone:
            return None
        of_constructor = self.gone[key]
        if of_constructor is not None:
            return of_constructor
        killed = errors.ActorKilledError(
            party=call.party, name=call.name, actor=call.ordinal or 0, call=call.number
        )
        return self.failure(call, killed)


def _of_the_body(tb: TracebackType | None) -> TracebackType | None:
    """The traceback without the engine's own frames: of no use to the reader, and they hold much.

    Where the error was raised in the engine itself (it calls a body with arguments that do not
    fit), its innermost frame is all there is.
    """
    while tb is not None and tb.tb_next is not None:
        # The compiled short way of a method has no module.
        module = tb.tb_frame.f_globals.get("__name__", __package__)
        if not str(module).startswith(__package__):
            break
        tb = tb.tb_next
    return tb
