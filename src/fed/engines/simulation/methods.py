"""Handle classes, generated once per remote class and session: the hot path of this engine.

A call of an actor's method costs little more than the method itself because each method gets a
class of its own whose `remote` was compiled for that method's parameters: no look-up by name, no
argument tuple, no call object. Whatever is unusual (containers, failed or pending arguments, killed
actors, coroutines, options) is handed to the engine's general way, `submit`, before a number is
taken.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fed.engines.simulation import counting
from fed.model import calls, ledger, remote, signatures

if TYPE_CHECKING:
    from fed.engines.simulation import engine as simulation

#: How the file names of compiled methods begin.
COMPILED: Final = "<fed "

#: Methods with more parameters than this take the general way.
_MOST_PARAMETERS: Final = 4


class Method(remote.ActorMethod):
    """A method of one actor, made when it is first asked for and kept in the handle.

    It refers to the actor itself, not to the handle, so that dropping the handle frees all.

    Attributes:
        obj: the user's instance; None while there is none (constructor failed or pending, killed).
        party: the actor's party.
        ordinal: which of its party's actors of its class, from 0. Nearly all actors are the first,
            so there are two classes per method: in that of the first actors it is a constant.
        index: how many calls of this method came before.
        place: the party's place among all.
    """

    __slots__ = ("index", "obj", "party", "place")

    index: int
    obj: Any
    party: str
    place: int
    ordinal: int = 0
    kind = ledger.METHOD

    engine: simulation.SimulationEngine
    owner: type
    bind: Callable[..., signatures.Bound]

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the method; see `RemoteFunction.remote`."""
        return self.call(args, kwargs, remote.NO_OPTIONS)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: Any) -> Any:
        """Make the call the general way."""
        args, kwargs = self.bind(*args, **kwargs)
        return self.engine.submit(
            calls.Call(
                ledger.METHOD,
                self.spec.qualname,
                self.party,
                self.spec,
                args,
                kwargs,
                given.get("num_returns", 1),
                given,
                self,
            )
        )

    @property
    def what(self) -> str:
        """The call in words, for errors."""
        return f"{self.spec.qualname} of actor {self.ordinal} of party {self.party!r}"


class Handle(remote.ActorHandle):
    """A handle of this engine; one slot per method keeps the `Method` once it was asked for."""

    __slots__ = ("_fed_obj", "_fed_party")

    _fed_obj: Any
    _fed_party: str
    _fed_classes: dict[str, type[Method]]
    _fed_engine: simulation.SimulationEngine
    _fed_ordinal = 0

    def _fed_method(self, name: str) -> Method:
        cls = self._fed_classes[name]
        method: Any = cls.__new__(cls)
        method.obj = self._fed_obj
        method.party = self._fed_party
        method.place = self._fed_engine.place_of(self._fed_party)
        method.index = 0
        if self._fed_ordinal:
            method.ordinal = self._fed_ordinal
        object.__setattr__(self, name, method)
        return method  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<actor {self._fed_class.__qualname__} {self._fed_ordinal} of {self._fed_party}>"


def made(handle: Handle) -> list[Method]:
    """The methods of the handle that were asked for so far."""
    found = []
    for name in handle._fed_methods:
        try:
            found.append(object.__getattribute__(handle, name))
        except AttributeError:
            continue
    return found


class Known:
    """What a session knows of one remote class.

    Attributes:
        first: the handle class of the first actor at a party.
        later: that of the others.
        ordinals: how many actors each party has, of all classes with this qualified name: records
            and random streams tell actors apart by name and ordinal.
        shape: of the records of constructors without fed objects, 0 until there is one.
        is_async: True if a method is `async def`: calls may then overtake one another.
    """

    def __init__(
        self,
        engine: simulation.SimulationEngine,
        cls: type,
        *,
        hot: bool,
        ordinals: counting.Counts,
    ) -> None:
        self.first = handle_class(engine, cls, hot=hot, first=True)
        self.later = handle_class(engine, cls, hot=hot, first=False)
        self.ordinals = ordinals
        self.shape = 0
        self.is_async = any(spec.is_async for spec in self.first._fed_methods.values())


def handle_class(
    engine: simulation.SimulationEngine, cls: type, *, hot: bool, first: bool
) -> type[Handle]:
    """The handle class of `cls` in one session.

    Args:
        engine: the session's engine.
        cls: the user's class.
        hot: whether methods may take the compiled way (isolation levels that wrap bodies do not).
        first: whether it is for the first actor of the class at a party, or for later ones.
    """
    specs = remote.method_specs(cls)
    scope = {
        "__slots__": (*specs, *(() if first else ("_fed_ordinal",))),
        "__doc__": cls.__doc__,
        "_fed_class": cls,
        "_fed_engine": engine,
        "_fed_methods": specs,
        "_fed_classes": {
            name: _method_class(engine, cls, spec, hot=hot, first=first)
            for name, spec in specs.items()
        },
    }
    return type(f"{cls.__name__}Handle", (Handle,), scope)


def _method_class(
    engine: simulation.SimulationEngine,
    cls: type,
    spec: remote.MethodSpec,
    *,
    hot: bool,
    first: bool,
) -> type[Method]:
    label = f"{spec.qualname}.remote"
    scope: dict[str, Any] = {
        "__slots__": () if first else ("ordinal",),
        "spec": spec,
        "engine": engine,
        "owner": cls,
        "bind": staticmethod(signatures.binder(spec.parameters, name=label)),
    }
    names = signatures.simple_names(spec.parameters, at_most=_MOST_PARAMETERS)
    plain = not (spec.is_async or spec.is_generator)
    if hot and plain and names is not None and _fit(spec.name, names):
        compiled = _compiled(engine, spec, names, ordinal="0" if first else "self.ordinal")
        compiled.__qualname__ = label
        scope["remote"] = compiled
    return type(f"{spec.name}Method", (Method,), scope)


def _fit(method: str, names: list[str]) -> bool:
    """True if the names can stand in a compiled function beside its own.

    Parameters often have the name of a built-in function, such as `type`, that the code uses.
    """
    return (
        all(
            name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
            for name in (method, *names)
        )
        and "self" not in names
        and not any(hasattr(builtins, name) for name in names)
    )


_HEAD: Final = """\
def remote(self{parameters}):
    if _engine.running is not None or _ident() != _thread or (_obj := self.obj) is None:
        return self.call(({arguments}), {{}}, _no_options)
    _party = self.party
"""

# A fed object's atom is the common case; whatever else it holds is opened, and what is not a value
# there (a failure, a pending call) is left to the general way, as are literals that hold others.
_ARGUMENT: Final = """\
    _type = type({name})
    if _type is _Result:
        _value{place} = {name}._form
        if type(_value{place}) in _ATOMS:
            if {name}.party != _party:
                _to = {name}._sent
                if type(_to) is _Sent:
                    try:
                        _to.bits[self.place] = 1
                    except (IndexError, TypeError):
                        _to.add(self.place)
                elif _to != self.place and _refused({name}, self, _value{place}):
                    return self.call(({arguments}), {{}}, _no_options)
        else:
            _value{place} = _read({name}, self)
            if _value{place} is _NO_VALUE:
                return self.call(({arguments}), {{}}, _no_options)
        {note_object}
    elif _type in _ATOMS:
        _value{place} = {name}
        {note_literal}
    else:
        return self.call(({arguments}), {{}}, _no_options)
"""

_TAIL: Final = """\
    _ledger.number = _number = _ledger.number + 1
    {record}
    if not _number & {mask}:
        _ledger.close_block()
    _returned = False
    _engine.running = self
    try:
        _value = _obj.{method}({values})
        _returned = True
        if type(_value) not in _ATOMS:
            _value = _take(_value)
            _value = _keep(_value)
        _engine.running = None
    except BaseException as _error:
        _engine.running = None
        # The error's traceback keeps this frame: it shall hold nothing else.
        _value = {forgotten} = None
        return _failed(self, _number, _error, was_in_body=not _returned)
    _result = _new(_Result)
    _result._form = _value
    _result.party = _party
    _result.number = _number
    _result._sent = None
    self.index += 1
    return _result
"""


def _compiled(
    engine: simulation.SimulationEngine,
    spec: remote.MethodSpec,
    names: list[str],
    *,
    ordinal: str,
) -> Any:
    """`remote` for a synchronous method with the parameters `names`, all required.

    `ordinal` is the expression for the actor's ordinal.
    """
    arguments = "".join(f"{name}, " for name in names)
    lines = [_HEAD.format(parameters="".join(f", {name}" for name in names), arguments=arguments)]
    many = len(names) > 1
    if many:
        lines.append("    _mask = 0\n    _numbers = ()\n")
    for place, name in enumerate(names):
        bit = 1 << place
        lines.append(
            _ARGUMENT.format(
                name=name,
                place=place,
                arguments=arguments,
                note_object=f"_mask |= {bit}; _numbers += ({name}.number,)"
                if many
                else f"_numbers = {name}.number",
                note_literal="pass" if many else "_numbers = None",
            )
        )
    if many:
        record = f"_extend((_shapes[_mask] or _shape(_mask), _party, {ordinal}, *_numbers))"
    elif names:
        record = (
            f"_extend((_shapes[1] or _shape(1), _party, {ordinal}, _numbers) "
            f"if _numbers else (_shapes[0] or _shape(0), _party, {ordinal}))"
        )
    else:
        record = f"_extend((_shapes[0] or _shape(0), _party, {ordinal}))"
    lines.append(
        _TAIL.format(
            record=record,
            mask=ledger.BLOCK_MASK,
            method=spec.name,
            values=", ".join(f"_value{place}" for place in range(len(names))),
            forgotten=" = ".join(
                ["_obj", *names, *(f"_value{place}" for place in range(len(names)))]
            ),
        )
    )
    shapes: list[int | None] = [None] * (1 << len(names))

    def shape(mask: int) -> int:
        keys = [(place, 0) for place in range(len(names)) if mask >> place & 1]
        number = engine.ledger.shape(
            ledger.METHOD, spec.qualname, keys=ledger.runs(keys), has_actor=True
        )
        shapes[mask] = number
        return number

    scope = {**engine.hot_scope, "_shapes": shapes, "_shape": shape}
    exec(compile("".join(lines), f"{COMPILED}{spec.qualname}>", "exec"), scope)  # noqa: S102
    return scope["remote"]
