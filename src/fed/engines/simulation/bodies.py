"""What runs now, and why calls can't take the short way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fed import errors
from fed.engines.simulation import methods
from fed.model import body, ledger

if TYPE_CHECKING:
    import numpy

    from fed.engines.simulation import engine as simulation


class State:
    """Stands in `SimulationEngine.running` where no body runs."""

    party = None
    what = ""


#: Calls stand behind suspended coroutines: every call takes the general way, which looks for them.
WAITING: Final = State()

#: The session has ended.
CLOSED: Final = State()


class RunningBody(body.Body):
    """The running body of one engine, as `fed.current_party` and `fed.rng` see it.

    Set once, in the context of the thread that made the session, and asked anew each time: cheaper
    than setting a context variable around every body.
    """

    def __init__(self, engine: simulation.SimulationEngine) -> None:
        self._engine = engine
        self._generators: dict[int, numpy.random.Generator] = {}

    @property
    def party(self) -> str | None:
        """The executing party, or None while no body runs."""
        running: Any = self._engine.running
        return None if running is None else running.party

    @property
    def what(self) -> str:
        """The call in words, for errors."""
        running: Any = self._engine.running
        return "" if running is None else running.what

    def generator(self) -> numpy.random.Generator:
        """The running body's generator: the same one each time it is asked for."""
        running: Any = self._engine.running
        if running.kind in (ledger.FOLD, ledger.REDUCE):
            raise errors.UsageError(
                problem=f"fed.rng() in {running.name}, the op of a fed.reduce",
                fix="Draw the numbers in a call and pass them in: an op may run in any number of "
                "workers, and has no stream of its own",
            )
        if isinstance(running, methods.Method):
            name, number = running.spec.qualname, self._engine.ledger.number
        else:
            name, number = running.name, running.number
        made = self._generators.get(number)
        if made is None:
            if self._engine.all_ended:
                self._generators.clear()
            made = self._generators[number] = body.generator(
                seed=self._engine.seed,
                party=running.party,
                name=name,
                ordinal=running.ordinal or 0,
                index=running.index,
            )
        return made

    def forget(self, number: int) -> None:
        """The body of a call has ended."""
        self._generators.pop(number, None)
