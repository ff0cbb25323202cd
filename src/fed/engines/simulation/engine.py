"""The simulation engine: bodies run when they are called, results live in their fed objects."""

from __future__ import annotations

import inspect
import logging
from _thread import get_ident
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from fed import errors
from fed.codec import seal, types
from fed.engines.simulation import crossing, folding, methods, results, sites, store
from fed.model import body, calls, ledger, objects, remote, trees
from fed.observe import report

if TYPE_CHECKING:
    import numpy

    from fed.config import parties as naming
    from fed.engines.simulation import coroutines, isolation

log = logging.getLogger(__name__)


class _State:
    """Stands where a running body may stand, while none runs."""

    party = None
    what = ""

    def __init__(self, name: str) -> None:
        self.name = name


#: Calls wait behind suspended coroutines: every call takes the general way, which looks for them.
WAITING: Final = _State("waiting")
CLOSED: Final = _State("closed")


class Run:
    """One call of a function, a constructor or a method, while it runs or waits to."""

    __slots__ = ("actor", "index", "name", "number", "ordinal", "party", "site")

    def __init__(
        self,
        *,
        name: str,
        party: str,
        number: int,
        ordinal: int | None,
        index: int,
        actor: tuple[type, str, int] | None = None,
    ) -> None:
        self.name = name
        self.party = party
        self.number = number
        self.ordinal = ordinal
        self.index = index
        self.actor = actor
        self.site: str | None = None

    @property
    def what(self) -> str:
        """The call in words, for errors."""
        actor = f" of actor {self.ordinal}" if self.ordinal is not None else ""
        return f"{self.name}{actor} of party {self.party!r} (call {self.number})"


class _Body(body.Body):
    """The running body of one engine, as `fed.current_party` and `fed.rng` see it."""

    def __init__(self, engine: SimulationEngine) -> None:
        self._engine = engine
        self._made: tuple[int, numpy.random.Generator] | None = None

    @property
    def party(self) -> str | None:
        running = self._engine.running
        return None if running is None else running.party

    @property
    def what(self) -> str:
        running = self._engine.running
        return "" if running is None else running.what

    def generator(self) -> numpy.random.Generator:
        engine = self._engine
        run = engine.running
        if isinstance(run, methods.Method):
            name, number = run.spec.qualname, engine.ledger.number
        else:
            name, number = run.name, run.number
        made = engine.generators.get(number)
        if made is None:
            made = engine.generators[number] = body.generator(
                seed=engine.seed,
                party=run.party,
                name=name,
                ordinal=run.ordinal or 0,
                index=run.index,
            )
        return made


class SimulationEngine:
    """Implements `fed.model.engine.Engine` in this process and thread.

    Attributes:
        running: the body that runs (a `Run` or a `methods.Method`), or why calls can't take the
            short way: `WAITING`, `CLOSED`. None while the script may call.
        ledger: numbers and records.
        traffic: what crossed between parties.
        store: the memory of large results.
        unread: errors that nobody read.
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
    ) -> None:
        self.ledger = ledger.Ledger()
        self.traffic = crossing.Traffic()
        self.store = kept
        self.unread = results.Unread()
        self.seed = seed
        self.running: Any = None
        self.generators: dict[int, numpy.random.Generator] = {}
        self.progressed: tuple[int, int | None] | None = None
        self.values_digest = crossing.ValuesDigest(user_types) if digests_values else None
        self._parties = parties
        self._seen = bytearray()
        self.parties_seen = 0
        self.got_values = 0
        self._fail_fast = fail_fast
        self._error_detail = error_detail
        self._strict = strict
        self._is_off = level == "off"
        self._guard = guard
        self._thread = get_ident()
        self._handles: dict[type, type[methods.Handle]] = {}
        self._ordinals: dict[type, dict[str, int]] = {}
        self._indices: dict[tuple[str, str], int] = {}
        self._loop: coroutines.Loop | None = None
        self._tasks: set[Any] = set()
        self._pending: dict[int, str] = {}
        self._idle: _State | None = None
        self._lanes: dict[tuple[type, str, int], results.Pending] = {}
        self._built: dict[tuple[type, str, int], Any] = {}
        self._gone: dict[tuple[type, str, int], results.Failure | None] = {}
        scope = {"__slots__": (), "engine": self}
        self._result: type[results.Result] = type("FedObject", (results.Result,), scope)
        self._indexed: type[results.Result] = type(
            "FedObject", (results.Result,), {"__slots__": ("index",), "engine": self}
        )
        self._crossing = crossing.Crossing(
            user_types,
            self.traffic,
            checks=not self._is_off,
            max_value_bytes=max_value_bytes,
        )
        self._body = _Body(self)
        self._token = body.current.set(self._body)
        self.hot_scope = {
            "_engine": self,
            "_ident": get_ident,
            "_thread": self._thread,
            "_no_options": remote.NO_OPTIONS,
            "_Result": self._result,
            "_new": object.__new__,
            "_ATOMS": seal.ATOMS,
            "_traffic": self.traffic,
            "_atom_bytes": crossing.atom_bytes,
            "_crossed_again": self._crossing.again,
            "_read": self._read_or_nothing,
            "_NO_VALUE": calls.NOTHING,
            "_ledger": self.ledger,
            "_extend": self.ledger.log.extend,
            "_take": (lambda value: value) if self._is_off else seal.take,
            "_keep": kept.keep,
            "_failed": self._method_failed,
        }

    # -- entering -------------------------------------------------------------------------------

    def _enter(self, verb: str) -> None:
        """Refuse a verb in another thread, inside a body or after the end."""
        running = self.running
        if running is CLOSED:
            raise errors.SessionError(
                problem=f"{verb}: the session that this belongs to has ended",
                fix="Call fed.init again, and make actors and fed objects anew",
            )
        if get_ident() != self._thread:
            raise errors.UsageError(
                problem=f"{verb} in another thread than the one that called fed.init",
                fix="Make calls in that thread alone: their order is what all parties share",
            )
        if running is not None and running is not WAITING:
            raise errors.UsageError(
                problem=f"{verb} inside the body of {running.what}",
                fix="Only the script makes calls; pass values in and return them",
            )

    def _own(self, found: Iterable[objects.FedObject[Any]], verb: str) -> None:
        for obj in found:
            if type(obj) is not self._result and type(obj) is not self._indexed:
                raise errors.SessionError(
                    problem=f"{verb}: {obj!r} belongs to another session",
                    fix="Make it again in this session; values outlive a session, objects do not",
                )

    def _known(self, party: object, verb: str) -> str:
        """The party's name after the check that the federation has it."""
        if not isinstance(party, str):
            raise errors.UsageError(
                problem=f"{verb}: party={party!r} is not a name", fix="Give the party's name"
            )
        self._parties.index(party)
        return party

    def _saw(self, party: str) -> None:
        place = self._parties.index(party)
        if place >= len(self._seen):
            self._seen.extend(bytes(max(place + 1, 2 * len(self._seen)) - len(self._seen)))
        if not self._seen[place]:
            self._seen[place] = 1
            self.parties_seen += 1

    # -- calls ----------------------------------------------------------------------------------

    def submit(self, call: calls.Call) -> Any:
        """Run the call now; see `fed.model.engine.Engine.submit`."""
        verb = f"{call.name}.remote"
        self._enter(verb)
        if call.kind is ledger.METHOD:
            if call.target.is_generator:
                raise errors.UsageError(
                    problem=f"{call.name} is a generator: its values would have no fixed number",
                    fix="Return a list, or a tuple with num_returns=N for N fed objects",
                )
        else:
            self._saw(call.party)
        keys, found = calls.inputs(call.args, call.kwargs)
        self._own(found, verb)
        run = self._recorded(call, keys, found)
        if call.kind is ledger.CREATE:
            return self._create(call, run, found)
        made = self._new_results(run, call.num_returns)
        self._carry_out(call, run, found, made)
        return made if call.num_returns > 1 else made[0]

    def _recorded(
        self,
        call: calls.Call,
        keys: list[tuple[ledger.Key, int]],
        found: list[objects.FedObject[Any]],
    ) -> Run:
        """Take the call's number, make its record, and count it for `fed.rng`."""
        actor: tuple[type, str, int] | None = None
        ordinal: int | None = None
        integers = [obj.number for obj in found]
        if call.kind is ledger.METHOD:
            method: Any = call.actor
            ordinal, index = method.ordinal, method.index
            method.index += 1
            actor = (type(method).owner, call.party, method.ordinal)
            integers.insert(0, method.ordinal)
        elif call.kind is ledger.CREATE:
            ordinals = self._ordinals.setdefault(call.target, {})
            ordinal = ordinals.get(call.party, 0)
            ordinals[call.party] = ordinal + 1
            index = 0
            actor = (call.target, call.party, ordinal)
        else:
            place = (call.party, call.name)
            index = self._indices.get(place, 0)
            self._indices[place] = index + 1
        shape = self.ledger.shape(
            call.kind,
            call.name,
            count=call.num_returns,
            keys=ledger.runs(keys),
            has_actor=call.kind is ledger.METHOD,
        )
        number = self.ledger.add(shape, call.party, integers)
        return Run(
            name=call.name,
            party=call.party,
            number=number,
            ordinal=ordinal,
            index=index,
            actor=actor,
        )

    def _new_results(self, run: Run, count: int) -> list[results.Result]:
        made = []
        for index in range(count):
            result = object.__new__(self._result if count == 1 else self._indexed)
            result.party = run.party  # type: ignore[assignment]
            result.number = run.number
            result.sent = None
            result.value = None
            if count > 1:
                result.index = index
            made.append(result)
        return made

    def _create(self, call: calls.Call, run: Run, found: list[objects.FedObject[Any]]) -> Any:
        cls = call.target
        handle_class = self._handles.get(cls)
        if handle_class is None:
            handle_class = self._handles[cls] = methods.handle_class(
                self, cls, hot=self._guard is None and not self._fail_fast
            )
        handle = object.__new__(handle_class)
        handle._fed_obj = None
        handle._fed_party = run.party
        handle._fed_ordinal = run.ordinal
        outcome = results.Result.__new__(self._result)
        outcome.value = None
        self._carry_out(call, run, found, [outcome], handle)
        return handle

    def _carry_out(
        self,
        call: calls.Call,
        run: Run,
        found: list[objects.FedObject[Any]],
        made: list[results.Result],
        handle: methods.Handle | None = None,
    ) -> None:
        """Run the call, or put it behind the coroutines that it waits for."""
        behind = self._lanes.get(run.actor) if run.actor is not None else None
        waits = [behind] if behind is not None and not behind.future.done() else []
        for obj in found:
            form = obj.value  # type: ignore[attr-defined]
            if type(form) is results.Pending and not self._settle(form):
                waits.append(form)
        if not waits:
            self._run(call, run, found, made, handle)
            return
        self._defer(call, run, found, made, handle, waits)

    def _run(
        self,
        call: calls.Call,
        run: Run,
        found: list[objects.FedObject[Any]],
        made: list[results.Result],
        handle: methods.Handle | None,
    ) -> None:
        """Run the body with the values of its arguments; the outcome goes into `made`."""
        failure = self._failed_input(found)
        if failure is None and run.actor is not None and call.kind is ledger.METHOD:
            failure = self._actor_failure(run)
        if failure is not None:
            self._ended(run, made, failure)
            return
        try:
            args, kwargs = self._values(call, run.party)
            function = self._function(call, run)
        except errors.FedError as error:
            self._ended(run, made, self._failure(run, error))
            return
        value: Any = None
        self.running = run
        try:
            if self._guard is None:
                value = function(*args, **kwargs)
            else:
                value = self._guard.invoke(run, function, args, kwargs)
        except BaseException as error:
            self.running = self._idle
            self._ended(run, made, self._raised(run, error))
            return
        self.running = self._idle
        if handle is not None:
            self._give(handle, run, value)
        elif inspect.iscoroutine(value):
            self._start(run, value, made)
        else:
            del args, kwargs
            self._sealed(run, value, made, call.num_returns)

    def _values(self, call: calls.Call, party: str) -> tuple[list[Any], dict[str, Any]]:
        """The callee's own values of a call's arguments.

        Raises:
            ValueRefusedError: if a fed object may not cross, or a literal can't be copied.
        """

        def read(obj: Any) -> Any:
            return self._crossing.read(obj, party)

        if self._is_off:
            return (
                [trees.replaced(value, read) for value in call.args],
                {key: trees.replaced(value, read) for key, value in call.kwargs.items()},
            )
        return (
            [
                seal.literal(value, root=f"argument {place}", on_object=read)
                for place, value in enumerate(call.args)
            ],
            {
                key: seal.literal(value, root=f"argument {key}", on_object=read)
                for key, value in call.kwargs.items()
            },
        )

    def _function(self, call: calls.Call, run: Run) -> Callable[..., Any]:
        if call.kind is ledger.METHOD:
            method: Any = call.actor
            obj = method.obj
            if obj is None:
                obj = method.obj = self._built[run.actor]  # type: ignore[index]
            return getattr(obj, call.target.name)  # type: ignore[no-any-return]
        if self._guard is not None:
            return self._guard.local(run.party, call.target)
        return call.target  # type: ignore[no-any-return]

    def _give(self, handle: methods.Handle, run: Run, obj: Any) -> None:
        """An actor's constructor has ended: its handle and methods get the instance."""
        key: Any = run.actor
        if key in self._gone:
            return
        handle._fed_obj = obj
        for method in methods.made(handle):
            method.obj = obj
        if key in self._lanes:
            self._built[key] = obj

    def _sealed(self, run: Run, value: Any, made: list[results.Result], count: int) -> None:
        """Put what a body returned into its fed objects."""
        if count == 1:
            try:
                if not self._is_off:
                    value = seal.take(value)
                made[0].value = self.store.keep(value)
            except errors.FedError as error:
                self._ended(run, made, self._failure(run, error))
            return
        if not isinstance(value, tuple | list) or len(value) != count:
            got = (
                f"{len(value)} values" if isinstance(value, tuple | list) else type(value).__name__
            )
            error = errors.ReturnCountError(
                problem=f"{run.what} returned {got}, and num_returns is {count}",
                fix=f"Return a tuple or list of {count} values",
                party=run.party,
                call=run.number,
                expected=count,
                got=got,
            )
            self._ended(run, made, self._failure(run, error))
            return
        for index, item in enumerate(value):
            try:
                form = item if self._is_off else seal.snapshot(item, root=f"result[{index}]")
                made[index].value = self.store.keep(form)
            except errors.FedError as error:
                made[index].value = self._failure(run, error, index)

    # -- outcomes -------------------------------------------------------------------------------

    def _failed_input(self, found: Iterable[Any]) -> results.Failure | None:
        """The failure of the lowest-numbered failed object, None if none failed."""
        failed = [obj for obj in found if type(obj.value) is results.Failure]
        if not failed:
            return None
        first = min(failed, key=lambda obj: (obj.number, obj.index))
        return first.value  # type: ignore[no-any-return]

    def _actor_failure(self, run: Run) -> results.Failure | None:
        """Why the actor can't run a call: its constructor failed, or it was killed."""
        key: Any = run.actor
        if key not in self._gone:
            return None
        failure = self._gone[key]
        if failure is not None:
            return failure
        return self._failure(
            run,
            errors.ActorKilledError(
                party=run.party, name=run.name, actor=run.ordinal or 0, call=run.number
            ),
        )

    def _ended(self, run: Run, made: list[results.Result], failure: results.Failure) -> None:
        for result in made:
            result.value = failure
        if run.actor is not None and run.name == run.actor[0].__qualname__:
            self._gone.setdefault(run.actor, failure)

    def _failure(self, run: Run, error: errors.FedError, index: int = 0) -> results.Failure:
        if isinstance(error, errors.ValueRefusedError) and error.party is None:
            error.party = run.party
            error.call = run.number
        if self._fail_fast:
            raise error
        order = (run.number, index)
        self.unread.note(order, error)
        return results.Failure(error, order, self.unread)

    def _raised(self, run: Run, error: BaseException) -> results.Failure:
        """The outcome of a body that raised; `KeyboardInterrupt` goes on to the script."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next
        if isinstance(error, errors.IsolationError):
            return self._failure(run, error)
        return self._failure(
            run,
            crossing.remote_error(
                error,
                level=self._error_detail,
                party=run.party,
                call=run.number,
                name=run.name,
                actor=run.ordinal,
                site=run.site or sites.here(),
            ),
        )

    def _method_failed(self, method: methods.Method, number: int, error: BaseException) -> Any:
        """The result of a call on the short way that raised, in its body or while it was sealed."""
        was_in_body = self.running is not None
        self.running = None
        run = Run(
            name=method.spec.qualname,
            party=method.party,
            number=number,
            ordinal=method.ordinal,
            index=method.index,
        )
        method.index += 1
        (result,) = self._new_results(run, 1)
        if was_in_body or not isinstance(error, errors.FedError):
            result.value = self._raised(run, error)
        else:
            result.value = self._failure(run, error)
        return result

    def _read_or_nothing(self, obj: Any, party: str) -> Any:
        """The value of an object for a call on the short way; NOTHING sends it the general way."""
        form = obj.value
        if type(form) is results.Failure or type(form) is results.Pending:
            return calls.NOTHING
        try:
            return self._crossing.read(obj, party)
        except errors.ValueRefusedError:
            return calls.NOTHING

    # -- coroutines and what waits for them -------------------------------------------------------

    def _the_loop(self) -> coroutines.Loop:
        if self._loop is None:
            from fed.engines.simulation import coroutines

            self._loop = coroutines.Loop()
        return self._loop

    def _waiting(self, run: Run, made: list[results.Result]) -> results.Pending:
        """Mark results as still to come."""
        run.site = sites.here()
        pending = results.Pending(self._the_loop().create_future(), run.what)
        for result in made:
            result.value = pending
        self._pending[run.number] = f"{run.what}, called at {run.site}"
        return pending

    def _arrived(self, run: Run, pending: results.Pending) -> None:
        self._pending.pop(run.number, None)
        self.generators.pop(run.number, None)
        if not pending.future.done():
            pending.future.set_result(None)

    def _start(self, run: Run, coroutine: Any, made: list[results.Result]) -> None:
        """Drive a coroutine to its first suspension; the rest happens in `_settle`."""
        from fed.engines.simulation import coroutines

        pending = self._waiting(run, made)

        async def whole() -> None:
            try:
                value = await coroutines.stepped(self, run, coroutine)
            except BaseException as error:  # noqa: BLE001  (it becomes the outcome)
                if self.running is not CLOSED:
                    self._ended(run, made, self._raised(run, error))
            else:
                if run.actor in self._gone:
                    failure = self._actor_failure(run)
                    if failure is not None:
                        self._ended(run, made, failure)
                else:
                    self._sealed(run, value, made, len(made))
            finally:
                self._arrived(run, pending)

        self._keep_task(self._the_loop().started(whole()))

    def _defer(
        self,
        call: calls.Call,
        run: Run,
        found: list[objects.FedObject[Any]],
        made: list[results.Result],
        handle: methods.Handle | None,
        waits: list[results.Pending],
    ) -> None:
        """Run a call when the coroutines that it waits for have ended."""
        try:
            call.args = tuple(
                seal.literal(value, root=f"argument {place}", on_object=lambda obj: obj)
                for place, value in enumerate(call.args)
            )
            call.kwargs = {
                key: seal.literal(value, root=f"argument {key}", on_object=lambda obj: obj)
                for key, value in call.kwargs.items()
            }
        except errors.FedError as error:
            self._ended(run, made, self._failure(run, error))
            return
        pending = self._waiting(run, made)
        if run.actor is not None and not _is_async(run.actor[0]):
            self._lanes[run.actor] = pending
        self._idle = self.running = WAITING

        async def later() -> None:
            for before in waits:
                await before.future
            before_running, self.running = self.running, None
            try:
                self._run(call, run, found, made, handle)
                for result in made:
                    if type(result.value) is results.Pending:
                        await result.value.future
            finally:
                self.running = before_running
                self._arrived(run, pending)

        self._keep_task(self._the_loop().create_task(later()))

    def _keep_task(self, task: Any) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _settle(self, pending: results.Pending) -> bool:
        """Let suspended coroutines go on until this one has ended, or none can move."""
        ended = self._the_loop().settled(pending.future)
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            if not task.cancelled() and task.exception() is not None:
                raise task.exception()
        if not self._pending:
            self._lanes.clear()
            self._built.clear()
            self._idle = None
        self.running = self._idle
        return ended

    def _settle_all(self, found: Iterable[Any]) -> None:
        """Wait for objects in virtual time.

        Raises:
            DeadlockError: if one of them can't come.
        """
        for obj in found:
            form = obj.value
            if type(form) is results.Pending and not self._settle(form):
                raise errors.DeadlockError(calls=list(self._pending.values()))

    # -- the other verbs --------------------------------------------------------------------------

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
        keys = [(place, obj.index) for place, obj in enumerate(found)]
        shape = self.ledger.shape(ledger.GET, "", keys=ledger.runs(keys))
        whom = "*" if parties is None else ",".join(receivers)
        self.ledger.add(shape, whom, [obj.number for obj in found])
        self._settle_all(found)
        failure = self._failed_input(found)
        if failure is not None:
            raise failure.raised()
        return trees.replaced(x, self._got)

    def _got(self, obj: Any) -> Any:
        self.got_values += 1
        value = self._crossing.handed_out(obj)
        if self.values_digest is not None:
            self.values_digest.add(value)
        return value

    def put(self, value: Any, party: str) -> objects.FedObject[Any]:
        """Give `value` to `party`; see `fed.model.engine.Engine.put`."""
        self._enter("fed.put")
        party = self._known(party, "fed.put")
        self._saw(party)
        if trees.objects_in(value):
            raise errors.UsageError(
                problem="fed.put of a value that holds fed objects",
                fix="They are at a party already: pass them to a call",
            )
        number = self.ledger.add(self.ledger.shape(ledger.PUT, ""), party)
        run = Run(name="fed.put", party=party, number=number, ordinal=None, index=0)
        (result,) = self._new_results(run, 1)
        try:
            form = value if self._is_off else seal.snapshot(value)
            result.value = self.store.keep(form)
        except errors.FedError as error:
            result.value = self._failure(run, error)
        return result

    def wait(
        self,
        objs: Sequence[objects.FedObject[Any]],
        *,
        num_returns: int,
        timeout: float | None,
        party: str | None,
    ) -> tuple[list[objects.FedObject[Any]], list[objects.FedObject[Any]]]:
        """The first `num_returns` in list order; see `fed.model.engine.Engine.wait`."""
        self._enter("fed.wait")
        self._own(objs, "fed.wait")
        decider = self._known(party, "fed.wait")
        keys = [(place, obj.index) for place, obj in enumerate(objs)]
        shape = self.ledger.shape(ledger.WAIT, "", count=num_returns, keys=ledger.runs(keys))
        self.ledger.add(shape, decider, [obj.number for obj in objs])
        self._settle_all(objs[:num_returns])
        return list(objs[:num_returns]), list(objs[num_returns:])

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
        self._saw(party)
        name = getattr(op, "__qualname__", type(op).__qualname__)
        fold = folding.Fold(op, initial, isolate=not self._is_off)
        failed: list[tuple[tuple[int, int], results.Failure]] = []
        refused: errors.FedError | None = None
        length = 0
        iterator = iter(objs)
        while True:
            obj: Any = next(iterator, None)
            if obj is None:
                break
            self._enter("fed.reduce")
            if not isinstance(obj, objects.FedObject):
                raise errors.UsageError(
                    problem=f"fed.reduce got {obj!r}, which is not a fed object",
                    fix="Give fed objects: make them by calls, or by fed.put",
                )
            self._own((obj,), "fed.reduce")
            keys = ((0, obj.index, 1),)
            shape = self.ledger.shape(ledger.FOLD, name, keys=keys)
            number = self.ledger.add(shape, party, (obj.number,))
            length += 1
            self._settle_all((obj,))
            if type(obj.value) is results.Failure:
                failed.append(((obj.number, obj.index), obj.value))
                obj = None
                continue
            try:
                value = self._crossing.read(obj, party)
            except errors.ValueRefusedError as error:
                refused = refused or error
                continue
            finally:
                obj = None
            if not failed and refused is None:
                self.running = Run(name=name, party=party, number=number, ordinal=None, index=0)
                try:
                    fold.add(value)
                finally:
                    self.running = self._idle
            del value
        return self._folded(fold, name, party, length, failed, refused)

    def _folded(
        self,
        fold: folding.Fold,
        name: str,
        party: str,
        length: int,
        failed: list[tuple[tuple[int, int], results.Failure]],
        refused: errors.FedError | None,
    ) -> results.Result:
        number = self.ledger.add(self.ledger.shape(ledger.REDUCE, name, count=length), party)
        run = Run(name=name, party=party, number=number, ordinal=None, index=0)
        (result,) = self._new_results(run, 1)
        if failed:
            result.value = min(failed, key=lambda item: item[0])[1]
            return result
        if refused is not None:
            result.value = self._failure(run, refused)
            return result
        self.running = run
        try:
            value = fold.result()
        except BaseException as error:
            self.running = self._idle
            result.value = self._raised(run, error)
            return result
        self.running = self._idle
        if value is calls.NOTHING:
            raise errors.UsageError(
                problem="fed.reduce of no objects without initial", fix="Give initial="
            )
        self._sealed(run, value, [result], 1)
        return result

    def kill(self, actor: remote.ActorHandle, *, no_restart: bool) -> None:
        """End an actor; see `fed.model.engine.Engine.kill`."""
        self._enter("fed.kill")
        if not isinstance(actor, methods.Handle) or type(actor) not in self._handles.values():
            raise errors.SessionError(
                problem=f"fed.kill: {actor!r} is not an actor of this session",
                fix="Give the handle that .remote(...) of a remote class returned",
            )
        cls = actor._fed_class
        shape = self.ledger.shape(ledger.KILL, cls.__qualname__, has_actor=True)
        self.ledger.add(shape, actor._fed_party, (actor._fed_ordinal,))
        self._gone.setdefault((cls, actor._fed_party, actor._fed_ordinal), None)
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
        return list(self._parties.match(pattern))

    def driver_party(self) -> str | None:
        """None: one driver serves all parties."""
        return None

    def progress(self, done: int, total: int | None) -> None:
        """Remember how far the script is, for whoever shows it."""
        self.progressed = (done, total)

    def shutdown(self, *, error: BaseException | None = None) -> None:
        """Let suspended coroutines end, then refuse everything.

        Coroutines that can't end any more are unread errors of class `DeadlockError`.
        """
        self._enter("fed.shutdown")
        try:
            while error is None and self._tasks:
                first = next(iter(self._tasks))
                if not self._settle_task(first):
                    stuck = errors.DeadlockError(calls=list(self._pending.values()))
                    self.unread.note((self.ledger.number, 0), stuck)
                    break
        finally:
            self.running = CLOSED
            body.current.set(None)
            if self._loop is not None:
                for task in self._tasks:
                    task.cancel()
                self._loop.finish()

    def summary(self) -> report.Summary:
        """What the session did so far."""
        digest = self.values_digest
        return report.Summary(
            mode=self.mode,
            parties=self.parties_seen,
            calls=self.ledger.number,
            crossed_values=self.traffic.values,
            crossed_bytes=self.traffic.size_bytes,
            got_values=self.got_values,
            spilled_bytes=self.store.spilled_bytes,
            program_digest=self.ledger.digest().hex(),
            values_digest=None if digest is None else digest.hex(),
            unread={f"{number}#{index}": text for (number, index), text in self.unread.texts.items()},
            unread_count=len(self.unread),
        )

    def _settle_task(self, task: Any) -> bool:
        return self._the_loop().settled(task)


def _is_async(cls: type) -> bool:
    return any(spec.is_async for spec in remote.method_specs(cls).values())

