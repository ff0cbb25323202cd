"""What runs now, and why calls can't take the short way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fed import errors
from fed.engines.simulation import methods
from fed.model import body, ledger

if TYPE_CHECKING:
    import numpy

    from fed.engines.simulation import engine as simulation
    from fed.model import calls


class State:
    """Stands in `SimulationEngine.running` where no body is known to run.

    Args:
        what: what runs in place of the script, for errors; empty while the script does.
    """

    party = None

    def __init__(self, what: str = "") -> None:
        self.what = what


#: Calls stand behind suspended coroutines: every call takes the general way, which looks for them.
WAITING: Final = State()

#: The event loop runs. Coroutines of bodies set themselves in each of their steps; what they
#: started (tasks, callbacks) runs under this one, with its `CallBody` in the context.
MOVING: Final = State("a coroutine")

#: The session has ended.
CLOSED: Final = State()

#: This is a child process made by fork: the session is its parent's.
FORKED: Final = State()


class RunningBody(body.Body):
    """The synchronous body that runs in one engine, as `fed.current_party` and `fed.rng` see it.

    Asked anew each time: cheaper than setting a context variable around every body.
    """

    def __init__(self, engine: simulation.SimulationEngine) -> None:
        self._engine = engine
        self._number = 0
        self._generator: numpy.random.Generator | None = None

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
        if self._generator is None or self._number != number:
            self._generator = body.generator(
                seed=self._engine.seed,
                party=running.party,
                name=name,
                ordinal=running.ordinal or 0,
                index=running.index,
            )
            self._number = number
        return self._generator

    def of_coroutine(self, call: calls.Call) -> CallBody:
        """The body of a call that returned a coroutine; it keeps the generator if it has one."""
        made = CallBody(
            call.party, call.what, self._engine.seed, call.name, call.ordinal or 0, call.index
        )
        if self._generator is not None and self._number == call.number:
            made.generators.append(self._generator)
        return made


@dataclass(frozen=True, slots=True)
class CallBody:
    """The body of one coroutine, set in the context of its task.

    The tasks and threads that it starts inherit it, whatever runs elsewhere at that time.

    Attributes:
        party: the executing party.
        what: the call in words, for errors.
        seed: the session's.
        name: `__qualname__` of the function or method.
        ordinal: which of its party's actors of its class; 0 for functions.
        index: how many calls of that function or method came before.
        generators: its generator, once it was asked for.
    """

    party: str
    what: str
    seed: int
    name: str
    ordinal: int
    index: int
    generators: list[numpy.random.Generator] = field(default_factory=list)

    def generator(self) -> numpy.random.Generator:
        """The body's generator: the same one each time, in all its tasks and threads."""
        if not self.generators:
            # Two threads may both come here: the first one in the list is the body's.
            self.generators.append(
                body.generator(
                    seed=self.seed,
                    party=self.party,
                    name=self.name,
                    ordinal=self.ordinal,
                    index=self.index,
                )
            )
        return self.generators[0]
