"""The simulation engine: bodies run when they are called, results live in their fed objects."""

from __future__ import annotations

import contextvars
import inspect
import sys
import traceback
from _thread import get_ident
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from fed import errors
from fed.codec import seal, types
from fed.engines.simulation import (
    bodies,
    collecting,
    counting,
    crossing,
    methods,
    outcomes,
    reducing,
    results,
    runner,
    sites,
    store,
    waiting,
)
from fed.engines.simulation import traffic as counted  # `self.traffic` has the plain name
from fed.model import body, calls, ledger, objects, remote, showing, trees
from fed.observe import report

if TYPE_CHECKING:
    from fed.config import parties as naming
    from fed.engines.simulation import coroutines, isolation

NOTHING: Final = calls.NOTHING


class SimulationEngine:
    """Implements `fed.model.engine.Engine` in this process and thread.

    Attributes:
        running: the body that runs (a `calls.Call` or a `methods.Method`), or why calls can't take
            short way: `bodies.WAITING`, `bodies.MOVING`, `bodies.CLOSED`. None while the script may
            call.
        ledger: numbers and records.
        traffic: what crossed between parties.
        store: the memory of large results.
        parties_seen: how many parties made a call so far.
        progressed: (done, total) as the script last said by `fed.progress`.
    """

    mode = "simulation"

    def __init__(
        self,
        *,
        parties: naming.Parties,
        seed: int = 0,
        level: str = "sealed",
        fail_fast: bool = False,
        error_detail: str = "type",
        strict: bool = False,
        max_value_bytes: int | None = None,
        user_types: types.UserTypes,
        kept: store.Store,
        guard: isolation.Guard | None = None,
        digests_values: bool = False,
        shutdown_timeout_s: float = 60.0,
    ) -> None:
        self.ledger = ledger.Ledger()
        self.traffic = counted.Traffic(user_types, max_value_bytes=max_value_bytes)
        self.store = kept
        self.seed = seed
        self.running: Any = None
        self.runner = runner.Runner()
        self.progressed: tuple[int, int | None] | None = None
        self.parties_seen = 0
        self.got_values = 0
        self.values_digest = crossing.ValuesDigest(user_types) if digests_values else None
        self._parties = parties
        self._seen = bytearray()
        self._strict = strict
        self._isolates = level != "off"
        self.guard = guard
        self._is_hot = guard is None and not fail_fast
        self._thread = get_ident()
        self._shutdown_timeout_s = shutdown_timeout_s
        self._classes: dict[type, methods.Known] = {}
        self._ordinals: dict[str, counting.Counts] = {}
        self._indices: dict[tuple[str, str], int] = {}
        self._shapes: dict[tuple[str, str, int], int] = {}
        self._idle: bodies.State | None = None
        self._told_stuck: set[int] = set()
        self._outcomes = outcomes.Outcomes(
            fail_fast=fail_fast, error_detail=error_detail, name_of=self._name_of
        )
        self._waiting = waiting.Waiting()
        self._crossing = crossing.Crossing(user_types, self.traffic, checks=self._isolates)
        # One class of fed objects per session: a look at the type tells whose an object is.
        self._result: type[results.Result] = type("FedObject", (results.Result,), {"__slots__": ()})
        self._indexed: type[results.Result] = type(
            "FedObject", (results.Result,), {"__slots__": ("index",)}
        )
        self._old_generation = collecting.OldGeneration()
        self._body = bodies.RunningBody(self)
        self.hot_scope = {
            "_engine": self,
            "_ident": get_ident,
            "_thread": self._thread,
            "_no_options": remote.NO_OPTIONS,
            "_Result": self._result,
            "_new": object.__new__,
            "_ATOMS": seal.ATOMS,
            "_Sent": counted.Sent,
            "_refused": self._is_refused,
            "_read": self._read_or_nothing,
            "_NO_VALUE": NOTHING,
            "_ledger": self.ledger,
            "_extend": self.ledger.log.extend,
            "_take": seal.take if self._isolates else (lambda value: value),
            "_keep": kept.keep,
            "_failed": self._method_failed,
        }

    # -- who may call, and with what -------------------------------------------------------------

    def _enter(self, verb: str) -> None:
        """Refuse a verb in another thread, inside a body or after the end."""
        running: Any = self.running
        if running is bodies.CLOSED:
            raise errors.SessionError(
                problem=f"{verb}: the session that this belongs to has ended",
                fix="Call fed.init again, and make actors and fed objects anew",
            )
        if running is bodies.FORKED:
            raise errors.SessionError(
                problem=f"{verb} in a forked process: the session belongs to the process that "
                "called fed.init",
                fix="Make calls there alone; what child processes compute, return to it",
            )
        inside = body.current.get()  # of a coroutine: its tasks and threads have it too
        if inside is None and get_ident() != self._thread:
            raise errors.UsageError(
                problem=f"{verb} in another thread than the one that called fed.init",
                fix="Make calls in that thread alone: their order is what all parties share",
            )
        if inside is None and running is not None and running is not bodies.WAITING:
            if _is_inside_a_body():
                inside = running
            else:  # Ctrl-C came where the engine notes the end of a body
                self.running = self._idle
        if inside is not None:
            raise errors.UsageError(
                problem=f"{verb} inside the body of {inside.what}",
                fix="Only the script makes calls; pass values in and return them",
            )

    def running_body(self) -> body.Body | None:
        """The synchronous body that runs in this thread; see `Engine.running_body`."""
        if self.running is None or get_ident() != self._thread:
            return None
        return self._body

    def _own(self, found: Iterable[objects.FedObject[Any]], verb: str) -> None:
        for obj in found:
            if type(obj) is not self._result and type(obj) is not self._indexed:
                raise errors.SessionError(
                    problem=f"{verb}: {obj!r} belongs to another session",
                    fix="Make it again in this session; values outlive a session, objects do not",
                )

    def _known(self, party: object, verb: str) -> str:
        """The party's name, after the check that the federation has it."""
        if type(party) is not str:
            raise errors.UsageError(
                problem=f"{verb}: party={showing.shown(party)} is not a name",
                fix="Give the party's name",
            )
        self.place(party)
        return party

    def _name_of(self, number: int) -> str | None:
        """What a call called; None if its record is no longer kept."""
        try:
            (record,) = self.ledger.records(number, number)
        except errors.UsageError:
            return None
        return record.name

    def place_of(self, party: str) -> int:
        """The place of a party that was seen before."""
        return self._parties.index(party)

    def place(self, party: str) -> int:
        """The party's place among all; it is counted as seen."""
        place = self._parties.index(party)
        seen = self._seen
        if place >= len(seen):
            seen.extend(bytes(max(place + 1, 2 * len(seen)) - len(seen)))
            self.traffic.parties = len(seen)
        if not seen[place]:
            seen[place] = 1
            self.parties_seen += 1
        return place

    # -- calls -----------------------------------------------------------------------------------

    def submit(self, call: calls.Call) -> Any:
        """Run the call now; see `fed.model.engine.Engine.submit`."""
        if self.running is not None or get_ident() != self._thread:
            self._enter(f"{call.name}.remote")
        if call.kind is ledger.CREATE and self._is_simple(call):
            return self._create_simply(call)
        if call.kind is ledger.METHOD:
            if call.target.is_generator:
                raise errors.UsageError(
                    problem=f"{call.name} is a generator: its values would have no fixed number",
                    fix="Return a list, or a tuple with num_returns=N for N fed objects",
                )
        else:
            self.place(call.party)
        keys, found = calls.inputs(call.args, call.kwargs)
        if found:
            self._own(found, f"{call.name}.remote")
        self._record(call, keys, found)
        if call.kind is ledger.CREATE:
            return self._create(call, found)
        made = self._new_results(call, call.num_returns)
        self._carry_out(call, found, made, None)
        return made if call.num_returns > 1 else made[0]

    def _record(
        self,
        call: calls.Call,
        keys: list[tuple[ledger.Key, int]],
        found: list[objects.FedObject[Any]],
    ) -> None:
        """Take the call's number, make its record, and count it among its like."""
        integers = [obj.number for obj in found]
        if call.kind is ledger.METHOD:
            method: Any = call.method
            call.ordinal, call.index = method.ordinal, method.index
            method.index += 1
            integers.insert(0, method.ordinal)
        elif call.kind is ledger.CREATE:
            ordinals = self._class(call.target).ordinals
            call.ordinal = ordinals.next(self._parties.index(call.party))
        else:
            place = (call.party, call.name)
            call.index = self._indices.get(place, 0)
            self._indices[place] = call.index + 1
        if keys:
            shape = self.ledger.shape(
                call.kind,
                call.name,
                count=call.num_returns,
                keys=ledger.runs(keys),
                has_actor=call.kind is ledger.METHOD,
            )
        else:
            shape = self._plain_shape(call.kind, call.name, call.num_returns)
        call.number = self.ledger.add(shape, call.party, integers)

    def _plain_shape(self, kind: str, name: str, count: int) -> int:
        """The shape of calls without fed objects."""
        key = (kind, name, count)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self.ledger.shape(
                kind, name, count=count, has_actor=kind is ledger.METHOD
            )
        return shape

    def _new_results(self, call: calls.Call, count: int) -> list[results.Result]:
        made = []
        for index in range(count):
            result: Any = object.__new__(self._result if count == 1 else self._indexed)
            result.party = call.party
            result.number = call.number
            result._sent = None
            result._form = None
            if count > 1:
                result.index = index
            made.append(result)
        return made

    def _is_simple(self, call: calls.Call) -> bool:
        """True if an actor can be created the short way: nothing to read, copy or wait for."""
        if not self._is_hot or self._idle is not None or call.kwargs:
            return False
        for value in call.args:  # noqa: SIM110  (a generator costs more than the look)
            if type(value) not in seal.ATOMS:
                return False
        return True

    def _create_simply(self, call: calls.Call) -> methods.Handle:
        """Create an actor from atoms; the general way does the same in three times the time."""
        cls, party = call.target, call.party
        place = self.place(party)
        known = self._classes.get(cls) or self._class(cls)
        call.ordinal = ordinal = known.ordinals.next(place)
        handle: Any = object.__new__(known.later if ordinal else known.first)
        if not known.shape:
            known.shape = self._plain_shape(ledger.CREATE, call.name, 1)
        # `Ledger.add`, written out.
        records = self.ledger
        records.number = call.number = number = records.number + 1
        records.log += (known.shape, party)
        if not number & ledger.BLOCK_MASK:
            records.close_block()
        handle._fed_party = party
        if ordinal:
            handle._fed_ordinal = ordinal
        try:
            self.running = call
            obj = self.runner(cls, call.args)
        finally:
            self.running = None
        if type(obj) is runner.Raised:
            handle._fed_obj = None
            self._failed(call, [], self._outcomes.raised(call, obj.error))
        else:
            handle._fed_obj = obj
        return handle  # type: ignore[no-any-return]

    def _class(self, cls: type) -> methods.Known:
        known = self._classes.get(cls)
        if known is None:
            ordinals = self._ordinals.setdefault(cls.__qualname__, counting.Counts())
            known = methods.Known(self, cls, hot=self._is_hot, ordinals=ordinals)
            self._classes[cls] = known
        return known

    def _create(self, call: calls.Call, found: list[objects.FedObject[Any]]) -> Any:
        known = self._class(call.target)
        handle: Any = object.__new__(known.later if call.ordinal else known.first)
        handle._fed_obj = None
        handle._fed_party = call.party
        if call.ordinal:
            handle._fed_ordinal = call.ordinal
        outcome = object.__new__(self._result)
        outcome._form = None
        self._carry_out(call, found, [outcome], handle)
        return handle

    def _carry_out(
        self,
        call: calls.Call,
        found: list[objects.FedObject[Any]],
        made: list[results.Result],
        handle: methods.Handle | None,
    ) -> None:
        """Run the call, or put it behind the calls that it has to wait for."""
        waits = []
        if self._waiting.lanes:
            behind = self._waiting.lanes.get(_actor(call))  # type: ignore[arg-type]
            if behind is not None and not behind.future.done():
                waits.append(behind)
        for obj in found:
            form = obj._form
            if type(form) is results.Pending and not self._settled(form):
                waits.append(form)
        if waits:
            self._defer(call, found, made, handle, waits)
        else:
            self._run(call, found, made, handle)

    def _run(
        self,
        call: calls.Call,
        found: list[objects.FedObject[Any]],
        made: list[results.Result],
        handle: methods.Handle | None,
    ) -> None:
        """Run the body with the values of its arguments; the outcome goes into `made`."""
        failure = self._outcomes.of_inputs(found) if found else None
        before = self.running
        try:
            # The body's own from here on: pickle's hooks run while values are read and sealed.
            self.running = call
            if failure is not None:
                failure = self._refused_input(call, found) or failure
            elif call.kind is ledger.METHOD and self._outcomes.gone:
                key: Any = _actor(call)
                if key in self._outcomes.gone:
                    failure = self._refused_input(call, found) or self._outcomes.of_actor(key, call)
            if failure is not None:
                self._failed(call, made, failure)
                return
            try:
                args, kwargs = self._values(call)
                function = self._function(call)
            except errors.FedError as error:
                failure = self._refused_input(call, found) or self._outcomes.failure(call, error)
                self._failed(call, made, failure)
                return
            value: Any = None
            if self.guard is None:
                value = self.runner(function, args, kwargs)
            else:
                value = self.runner(self.guard.invoke, (call, function, args, kwargs))
            is_coroutine = inspect.iscoroutine(value) and _is_coroutine_call(call)
            if type(value) is runner.Raised:
                self._failed(call, made, self._outcomes.raised(call, value.error))
            elif handle is not None:
                self._give(handle, call, value)
            elif len(made) > 1 and not is_coroutine:
                self._spread(call, value, made)
            elif not is_coroutine:
                del args, kwargs
                # Sealed here, where `value` is the only reference to it: so it can be moved.
                try:
                    if self._isolates:
                        value = seal.take(value)
                    made[0]._form = self.store.keep(value)
                except errors.FedError as error:
                    self._failed(call, made, self._outcomes.failure(call, error))
        finally:
            self.running = before
        if is_coroutine and handle is None:
            self._start(call, value, made)

    def _refused_input(self, call: calls.Call, found: list[Any]) -> results.Failure | None:
        """The refusal of the lowest-numbered object that may not cross, if none below it failed."""
        error = _first_refusal(found, lambda obj: self._crossing.check(obj, call.party))
        return None if error is None else self._outcomes.failure(call, error)

    def _values(self, call: calls.Call) -> tuple[list[Any], dict[str, Any]]:
        """The callee's own values of a call's arguments.

        Raises:
            ValueRefusedError: if a fed object may not cross, or a literal can't be copied.
        """
        party = call.party
        place = self._parties.index(party)

        def read(obj: Any) -> Any:
            return self._crossing.read(obj, party, place)

        if not self._isolates:
            return (
                [trees.replaced(value, read) for value in call.args],
                {key: trees.replaced(value, read) for key, value in call.kwargs.items()},
            )
        return self._literals(call, read)

    def _literals(
        self, call: calls.Call, read: Callable[[Any], Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        args = []
        for value in call.args:
            if type(value) in seal.ATOMS:
                args.append(value)
            elif type(value) is self._result:
                args.append(read(value))
            else:
                root = f"argument {len(args)}"
                args.append(seal.literal(value, root=root, on_object=read))
        if not call.kwargs:
            return args, {}
        return args, {
            key: seal.literal(value, root=f"argument {key}", on_object=read)
            for key, value in call.kwargs.items()
        }

    def _function(self, call: calls.Call) -> Callable[..., Any]:
        if call.kind is ledger.METHOD:
            method: Any = call.method
            if method.obj is None:
                method.obj = self._waiting.built[_actor(call)]  # type: ignore[index]
            return getattr(method.obj, call.target.name)  # type: ignore[no-any-return]
        if self.guard is not None:
            return self.guard.local(call.party, call.target)
        return call.target  # type: ignore[no-any-return]

    def _give(self, handle: methods.Handle, call: calls.Call, obj: Any) -> None:
        """An actor's constructor has ended: its handle and methods get the instance."""
        key: Any = _actor(call)
        if key in self._outcomes.gone:
            return
        handle._fed_obj = obj
        if key in self._waiting.lanes:
            self._waiting.built[key] = obj
            for method in methods.made(handle):
                method.obj = obj

    def _spread(self, call: calls.Call, value: Any, made: list[results.Result]) -> None:
        """Put the values that a body returned into as many fed objects."""
        if not isinstance(value, tuple | list) or len(value) != len(made):
            is_sequence = isinstance(value, tuple | list)
            got = f"{len(value)} values" if is_sequence else f"a {type(value).__name__}"
            error = errors.ReturnCountError(
                problem=f"{call.what} returned {got}, and num_returns is {len(made)}",
                fix=f"Return a tuple or list of {len(made)} values",
                party=call.party,
                call=call.number,
                expected=len(made),
                got=got,
            )
            self._failed(call, made, self._outcomes.failure(call, error))
            return
        for index, item in enumerate(value):
            try:
                form = seal.snapshot(item, root=f"result[{index}]") if self._isolates else item
                made[index]._form = self.store.keep(form)
            except errors.FedError as error:
                made[index]._form = self._outcomes.failure(call, error, index)

    def _failed(
        self, call: calls.Call, made: list[results.Result], failure: results.Failure
    ) -> None:
        """The call has no value; an actor whose constructor failed can run nothing."""
        for result in made:
            result._form = failure
        if call.kind is ledger.CREATE:
            self._outcomes.gone.setdefault(_actor(call), failure)  # type: ignore[arg-type]
            # Kept for later calls until the session ends: with the lines, not with the instance.
            cause = failure.error.__cause__
            traceback.clear_frames(cause.__traceback__ if cause is not None else None)

    # -- the short way of methods (see methods.py) -----------------------------------------------

    def _method_failed(
        self, method: methods.Method, number: int, error: BaseException, *, was_in_body: bool
    ) -> Any:
        """The result of a call on the short way that raised, in its body or while it was sealed."""
        name = method.spec.qualname
        call = calls.Call(
            ledger.METHOD, name, method.party, method.spec, (), {}, 1, remote.NO_OPTIONS, method
        )
        call.number, call.ordinal, call.index = number, method.ordinal, method.index
        method.index += 1
        (result,) = self._new_results(call, 1)
        if was_in_body or not isinstance(error, errors.FedError):
            result._form = self._outcomes.raised(call, error)
        else:
            result._form = self._outcomes.failure(call, error)
        return result

    def _is_refused(self, obj: Any, method: methods.Method, value: Any) -> bool:
        """Count an atom that crosses; True if it may not, which the general way then says."""
        try:
            self.traffic.to(obj, method.place, value, shared=value)
        except errors.ValueRefusedError:
            return True
        return False

    def _read_or_nothing(self, obj: Any, method: methods.Method) -> Any:
        """The value of an object for a call on the short way; NOTHING sends it the general way."""
        sent = obj._sent
        if type(sent) is counted.Sent and sent.shared is not NOTHING:
            if obj.party != method.party:
                try:
                    sent.bits[method.place] = 1  # type: ignore[index]
                except (IndexError, TypeError):
                    sent.add(method.place)
            return sent.shared
        form = obj._form
        if type(form) is results.Failure or type(form) is results.Pending:
            return NOTHING
        self.running = method  # the value's own code may run, to rebuild it
        try:
            return self._crossing.read(obj, method.party, method.place)
        except errors.ValueRefusedError:
            return NOTHING
        finally:
            self.running = None

    # -- coroutines and what waits for them ------------------------------------------------------

    def _start(self, call: calls.Call, coroutine: Any, made: list[results.Result]) -> None:
        """Drive a coroutine to its first suspension; it goes on in `_settled`."""
        from fed.engines.simulation import coroutines

        pending = self._waiting.put(call, made)
        context = contextvars.copy_context()
        context.run(body.current.set, self._body.of_coroutine(call))

        async def whole() -> None:
            try:
                value = await coroutines.stepped(self, call, coroutine)
                if type(value) is not runner.Raised:
                    self._returned(call, value, made)
                elif self.running is not bodies.CLOSED:
                    self._failed(call, made, self._outcomes.raised(call, value.error))
            except BaseException as error:  # noqa: BLE001  (it goes to the script)
                self._broken_off(call, made, error)
            finally:
                self._waiting.arrived(call, pending)

        self._waiting.start(pending, whole(), context)

    def _broken_off(
        self, call: calls.Call, made: list[results.Result], error: BaseException
    ) -> None:
        """An error that the script has to see at once ended a call; it is the call's outcome too.

        These are `KeyboardInterrupt` and, with `fail_fast`, all errors.
        """
        if self.running is bodies.CLOSED:
            return
        failure = self._outcomes.broken_off(call, error)
        coming = [result for result in made if type(result._form) is results.Pending]
        self._failed(call, coming, failure)
        if not isinstance(error, GeneratorExit):
            # That one says that a Ctrl-C inside asyncio lost the task, which was thrown away now.
            self._waiting.stop(error)

    def _returned(self, call: calls.Call, value: Any, made: list[results.Result]) -> None:
        """A coroutine has returned; if its actor was killed meanwhile, the result is dropped."""
        killed = None
        if call.kind is ledger.METHOD:
            killed = self._outcomes.of_actor(_actor(call), call)  # type: ignore[arg-type]
        before = self.running
        try:
            self.running = call  # pickle's hooks run while values are sealed
            if killed is not None:
                self._failed(call, made, killed)
            elif len(made) > 1:
                self._spread(call, value, made)
            else:
                try:
                    form = seal.snapshot(value, root="result") if self._isolates else value
                    made[0]._form = self.store.keep(form)
                except errors.FedError as error:
                    self._failed(call, made, self._outcomes.failure(call, error))
        finally:
            self.running = before

    def _defer(
        self,
        call: calls.Call,
        found: list[objects.FedObject[Any]],
        made: list[results.Result],
        handle: methods.Handle | None,
        waits: list[results.Pending],
    ) -> None:
        """Run a call when the calls that it waits for have ended.

        Its literals are copied now; fed objects are read when it runs. Later calls of a
        synchronous actor wait for it, and those of any actor for its constructor.
        """
        try:
            args, call.kwargs = self._literals(call, lambda obj: obj)
            call.args = tuple(args)
        except errors.FedError as error:
            self._failed(call, made, self._outcomes.failure(call, error))
            return
        pending = self._waiting.put(call, made)
        key = _actor(call)
        if key is not None and (call.kind is ledger.CREATE or not self._class(key[0]).is_async):
            self._waiting.lanes[key] = pending
        # From now on every call takes the general way, which looks for lanes.
        self._idle = self.running = bodies.WAITING

        async def later() -> None:
            try:
                for before in waits:
                    await before.future
                self._run(call, found, made, handle)
                for result in made:
                    if type(result._form) is results.Pending and result._form is not pending:
                        await result._form.future
            except BaseException as error:  # noqa: BLE001  (it goes to the script)
                self._broken_off(call, made, error)
            finally:
                self._waiting.arrived(call, pending)

        self._waiting.enqueue(pending, later())

    def _settled(self, pending: results.Pending, limit: coroutines.Limit | None = None) -> bool:
        """Let suspended coroutines go on until this one has ended.

        False if none can move, or the limit is over.
        """
        try:
            self.running = bodies.MOVING
            return self._waiting.settled(pending, limit)
        finally:
            if not self._waiting.calls:
                self._idle = None
            self.running = self._idle

    def _settle(self, found: Iterable[Any], timeout_s: float | None = None) -> None:
        """Wait for objects, in virtual time.

        Raises:
            DeadlockError: if one of them can't come.
            FedTimeoutError: the same with a timeout, as in modes that can't know; or if it does
                not come in that time, virtual or real.
        """
        limit = None
        for obj in found:
            pending = obj._form
            if type(pending) is not results.Pending:
                continue
            if limit is None and timeout_s is not None:
                limit = self._waiting.limit(timeout_s)
            if self._settled(pending, limit):
                continue
            if timeout_s is None:
                self._told_stuck.update(self._waiting.calls)
                raise errors.DeadlockError(calls=list(self._waiting.calls.values()))
            raise errors.FedTimeoutError(
                what=pending.what, party=obj.party, waited_s=float(timeout_s)
            )

    # -- the other verbs -------------------------------------------------------------------------

    def get(self, x: Any, *, timeout: float | None, parties: Sequence[str] | None) -> Any:
        """The value of `x`; see `fed.model.engine.Engine.get`."""
        self._enter("fed.get")
        found = trees.objects_in(x)
        self._own(found, "fed.get")
        if parties is None and self._strict:
            raise errors.UsageError(
                problem="fed.get without parties=, and the setting strict is on",
                fix="Name the parties that may see the value: fed.get(x, parties=[...])",
            )
        receivers = sorted({self._known(name, "fed.get") for name in parties or ()})
        if parties is not None and not receivers:
            raise errors.UsageError(
                problem="fed.get: parties=[] names nobody", fix="Name at least one party"
            )
        keys = [(place, obj.index) for place, obj in enumerate(found)]
        shape = self.ledger.shape(ledger.GET, "", keys=ledger.runs(keys))
        whom = ledger.EVERYBODY if parties is None else ",".join(receivers)
        self.ledger.add(shape, whom, [obj.number for obj in found])
        self._settle(found, timeout)
        failure = self._outcomes.of_inputs(found)
        if failure is not None:
            try:
                refusal = _first_refusal(found, self._crossing.handed_out)
                if refusal is not None:
                    raise self._outcomes.located(refusal, sites.here())
                raise failure.raised()
            finally:
                del x, found, failure  # the error keeps this frame, and these keep the error
        try:
            values = [self._crossing.handed_out(obj) for obj in found]
        except errors.ValueRefusedError as error:
            refusal = _first_refusal(found, self._crossing.handed_out) or error
            raise self._outcomes.located(refusal, sites.here()) from None
        self.got_values += len(values)
        if self.values_digest is not None:
            for value in values:
                self.values_digest.add(value)
        following = iter(values)  # `replaced` asks in the order of `found`
        return trees.replaced(x, lambda _: next(following))

    def put(self, value: Any, party: str) -> objects.FedObject[Any]:
        """Give `value` to `party`; see `fed.model.engine.Engine.put`."""
        self._enter("fed.put")
        party = self._known(party, "fed.put")
        if trees.objects_in(value):
            raise errors.UsageError(
                problem="fed.put of a value that holds fed objects",
                fix="They are at a party already: pass them to a call",
            )
        call = self._own_call(ledger.PUT, "fed.put", party)
        call.number = self.ledger.add(self._plain_shape(ledger.PUT, "", 1), party)
        (result,) = self._new_results(call, 1)
        try:
            form = seal.snapshot(value) if self._isolates else value
            result._form = self.store.keep(form)
        except errors.FedError as error:
            result._form = self._outcomes.failure(call, error)
        return result

    def _own_call(self, kind: str, name: str, party: str) -> calls.Call:
        """A call of the engine itself, to stand for the body that runs and in errors."""
        return calls.Call(kind, name, party, None, (), {}, 1, remote.NO_OPTIONS, None)

    def wait(
        self,
        objs: Sequence[objects.FedObject[Any]],
        *,
        num_returns: int,
        timeout: float | None,
        party: str | None,
    ) -> tuple[list[objects.FedObject[Any]], list[objects.FedObject[Any]]]:
        """The first `num_returns` in list order; see `fed.model.engine.Engine.wait`.

        If they do not come, the first ones that are there.
        """
        self._enter("fed.wait")
        self._own(objs, "fed.wait")
        decider = self._known(party, "fed.wait")
        keys = [(place, obj.index) for place, obj in enumerate(objs)]
        shape = self.ledger.shape(ledger.WAIT, "", count=num_returns, keys=ledger.runs(keys))
        self.ledger.add(shape, decider, [obj.number for obj in objs])
        try:
            self._settle(objs[:num_returns], timeout)
        except errors.FedTimeoutError:
            pass  # fewer may be there
        except errors.DeadlockError:
            if len(_there(objs)) < num_returns:
                raise
        places = _there(objs)[:num_returns]
        chosen = set(places)
        return (
            [objs[place] for place in places],
            [obj for place, obj in enumerate(objs) if place not in chosen],
        )

    def reduce(
        self,
        op: Callable[[Any, Any], Any],
        objs: Iterable[objects.FedObject[Any]],
        *,
        party: str,
        initial: Any,
    ) -> objects.FedObject[Any]:
        """Fold `objs` at `party`; see `fed.model.engine.Engine.reduce`."""
        self._enter("fed.reduce")
        party = self._known(party, "fed.reduce")
        reduction = reducing.Reduction(self, op, party=party, initial=initial)
        reduction.take(objs)
        return reduction.result()

    def kill(self, actor: remote.ActorHandle, *, no_restart: bool) -> None:
        """End an actor; see `fed.model.engine.Engine.kill`."""
        self._enter("fed.kill")
        if not isinstance(actor, methods.Handle) or actor._fed_engine is not self:
            raise errors.SessionError(
                problem=f"fed.kill: {actor!r} is not an actor of this session",
                fix="Give the handle that .remote(...) of a remote class returned",
            )
        cls = actor._fed_class
        shape = self.ledger.shape(ledger.KILL, cls.__qualname__, has_actor=True)
        self.ledger.add(shape, actor._fed_party, (actor._fed_ordinal,))
        self._outcomes.gone.setdefault((cls, actor._fed_party, actor._fed_ordinal), None)
        actor._fed_obj = None
        for method in methods.made(actor):
            method.obj = None

    def parties(self, pattern: str) -> list[str]:
        """The declared parties that match `pattern`, in declaration order."""
        if not self._parties.is_declared:
            raise errors.UsageError(
                problem="fed.parties: no parties were declared",
                fix="Declare them: fed.init(parties=...), rayfed run --parties, or federation.yaml",
            )
        found: list[str] = list(self._parties.match(pattern))
        if not found:
            raise errors.UnknownPartyError(
                problem=f"no party matches {pattern!r} among {repr(self._parties).strip('<>')}",
                fix="A count of 1 has no suffix: 'client*' matches a group of any size",
                party=pattern,
            )
        return found

    def driver_party(self) -> str | None:
        """None: one driver serves all parties."""
        return None

    def progress(self, done: int, total: int | None) -> None:
        """Remember how far the script is, for whoever shows it."""
        self.progressed = (done, total)

    # -- the end ---------------------------------------------------------------------------------

    def summary(self) -> report.Summary:
        """What the session did so far."""
        unread = self._outcomes.unread
        return report.Summary(
            mode=self.mode,
            parties=self.parties_seen,
            calls=self.ledger.number,
            crossed_values=self.traffic.values,
            crossed_bytes=self.traffic.size_bytes,
            got_values=self.got_values,
            spilled_bytes=self.store.spilled_bytes,
            program_digest=self.ledger.digest().hex(),
            values_digest=None if self.values_digest is None else self.values_digest.hex(),
            unread={f"{number}#{index}": text for (number, index), text in unread.texts.items()},
            unread_count=len(unread),
        )

    def check_end(self) -> None:
        """Refuse the end where the script may make no calls; see `Engine.check_end`."""
        self._enter("fed.shutdown")

    def shutdown(self, *, error: BaseException | None = None) -> None:
        """Let suspended coroutines end, then refuse everything.

        Those that can't end any more count as an unread `DeadlockError`, those that did not in the
        time of the setting `shutdown_timeout_s` as a `FedTimeoutError`. After an `error` of the
        script nothing goes on.
        """
        if error is None:
            self.check_end()
            self.running = bodies.MOVING
            left = self._waiting.finish(self._close, timeout_s=self._shutdown_timeout_s)
            if left is not None and not self._told_stuck.issuperset(left[0]):
                self._outcomes.unread.note((min(left[0]), 0), left[1])
        else:
            self._close()
            self._waiting.drop()

    def forked(self) -> None:
        """This process is a fork of the session's: refuse everything."""
        self.running = bodies.FORKED

    def _close(self) -> None:
        self.running = bodies.CLOSED
        self._old_generation.restore()


def _there(objs: Sequence[Any]) -> list[int]:
    """The places of the objects whose calls have ended."""
    return [place for place, obj in enumerate(objs) if type(obj._form) is not results.Pending]


def _is_inside_a_body() -> bool:
    """True if the engine calls user code somewhere above the user code that called it."""
    is_user_seen = False
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is runner.FRAME:
            return True
        module = str(frame.f_globals.get("__name__"))
        is_engine = module.startswith(f"{__package__}.") or frame.f_code.co_filename.startswith(
            methods.COMPILED
        )
        if is_engine and is_user_seen:
            return True
        if not is_engine and module.partition(".")[0] != "fed":
            is_user_seen = True
        frame = frame.f_back
    return False


def _actor(call: calls.Call) -> outcomes.ActorKey | None:
    """Which actor a call belongs to; None for functions."""
    if call.kind is ledger.METHOD:
        return (type(call.method).owner, call.party, call.ordinal)  # type: ignore[union-attr, return-value]
    if call.kind is ledger.CREATE:
        return (call.target, call.party, call.ordinal)  # type: ignore[return-value]
    return None


def _is_coroutine_call(call: calls.Call) -> bool:
    """True for `async def`; a coroutine that another body returns is a value like any other."""
    if call.kind is ledger.METHOD:
        return bool(call.target.is_async)
    return inspect.iscoroutinefunction(inspect.unwrap(call.target))


def _first_refusal(
    found: Iterable[Any], read: Callable[[Any], Any]
) -> errors.ValueRefusedError | None:
    """Why the lowest-numbered object that may not be read may not; None if one below it failed.

    Failed objects and those that may not cross count alike, in every mode: which of them is found
    out first must not decide which error a consumer gets.
    """
    for obj in sorted(found, key=lambda obj: (obj.number, obj.index)):
        if type(obj._form) is results.Failure:
            return None
        try:
            read(obj)
        except errors.ValueRefusedError as error:
            return error
    return None
