"""The verb `reduce`: takes the objects one by one, folds their values, makes the closing call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from fed import errors
from fed.codec import seal
from fed.engines.simulation import folding, results
from fed.model import calls, ledger, objects, showing

if TYPE_CHECKING:
    from fed.engines.simulation import engine as simulation

NOTHING: Final = calls.NOTHING

#: (number, index) of an object that has no value, and why.
_Missing = tuple[tuple[int, int], results.Failure | errors.FedError]


class Reduction:
    """One `fed.reduce` of a session.

    The engine's own state is reached through it: this is a part of it, in a file of its own.
    """

    def __init__(
        self,
        engine: simulation.SimulationEngine,
        op: Callable[[Any, Any], Any],
        *,
        party: str,
        initial: Any,
    ) -> None:
        self._engine = engine
        self._party = party
        self._place = engine.place_of(party)
        self._name = getattr(op, "__qualname__", type(op).__qualname__)
        self._missing: list[_Missing] = []
        self._length = 0
        self._shapes: dict[int, int] = {}
        self._step = engine._own_call(ledger.FOLD, self._name, party)
        guard = engine.guard
        if guard is not None:
            local = guard.local(party, op)

            def guarded(left: Any, right: Any) -> Any:
                return guard.invoke(engine.running, local, [left, right], {})

            op = guarded
        self._fold = folding.Fold(op, initial, isolates=engine._isolates, run=engine.runner)

    def take(self, objs: Iterable[Any]) -> None:
        """Fold in the values of all objects, each freed before the next one is made."""
        iterator = iter(objs)
        while (obj := next(iterator, NOTHING)) is not NOTHING:
            value = self._taken(obj)
            obj = NOTHING
            if value is not NOTHING and not self._missing:
                self._engine.running = self._step
                try:
                    self._fold.add(value)
                finally:
                    self._engine.running = self._engine._idle
            del value

    def _taken(self, obj: Any) -> Any:
        """Record an object and wait for it; its value, NOTHING if there is none."""
        engine = self._engine
        engine._enter("fed.reduce")
        if not isinstance(obj, objects.FedObject):
            raise errors.UsageError(
                problem=f"fed.reduce got {showing.shown(obj)}, which is not a fed object",
                fix="Give fed objects: make them by calls, or by fed.put",
            )
        engine._own((obj,), "fed.reduce")
        shape = self._shapes.get(obj.index)
        if shape is None:
            shape = engine.ledger.shape(ledger.FOLD, self._name, keys=((0, obj.index, 1),))
            self._shapes[obj.index] = shape
        self._step.number = engine.ledger.add(shape, self._party, (obj.number,))
        self._length += 1
        engine._settle((obj,))
        found: Any = obj
        if type(found._form) is results.Failure:
            self._missing.append(((obj.number, obj.index), found._form))
            return NOTHING
        engine.running = self._step  # pickle's hooks run while values are read
        try:
            return engine._crossing.read(obj, self._party, self._place)
        except errors.ValueRefusedError as error:
            self._missing.append(((obj.number, obj.index), error))
            return NOTHING
        finally:
            engine.running = engine._idle

    def result(self) -> results.Result:
        """Make the closing call: its fed object, with the outcome of the whole.

        Raises:
            UsageError: if there was no object and no initial value.
        """
        if self._fold.is_empty and not self._length:
            raise errors.UsageError(
                problem="fed.reduce of no objects, and without initial",
                fix="Give at least one object, or initial=",
            )
        engine = self._engine
        call = engine._own_call(ledger.REDUCE, self._name, self._party)
        shape = engine.ledger.shape(ledger.REDUCE, self._name, count=self._length)
        call.number = engine.ledger.add(shape, self._party)
        (result,) = engine._new_results(call, 1)
        result._form = self._outcome(call)
        return result

    def _outcome(self, call: calls.Call) -> Any:
        """The sealed form of the folded value, or the failure."""
        outcomes = self._engine._outcomes
        if self._missing:
            _, first = min(self._missing, key=lambda item: item[0])
            return first if isinstance(first, results.Failure) else outcomes.failure(call, first)
        value: Any = NOTHING
        self._engine.running = call
        try:
            value = self._fold.result()
            if self._fold.refused is not None:
                return outcomes.failure(call, self._fold.refused)
            try:
                if self._engine._isolates:
                    value = seal.take(value)
                return self._engine.store.keep(value)
            except errors.FedError as error:
                return outcomes.failure(call, error)
        except BaseException as error:  # noqa: BLE001  (it becomes the outcome)
            return outcomes.raised(call, error)
        finally:
            self._engine.running = self._engine._idle
