"""What `fed.remote` makes: remote functions, remote classes, and the handles of actors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, ParamSpec, TypeVar, overload

from fed import errors, names
from fed.model import calls, engine, ledger, objects, options, showing, signatures

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _plain(target: Any) -> Any:
    """The function behind a static or class method, a partial or a wrapper."""
    return inspect.unwrap(getattr(target, "__func__", target))


def _refuse_generator(target: Any, name: str) -> None:
    if inspect.isgeneratorfunction(_plain(target)) or inspect.isasyncgenfunction(_plain(target)):
        raise errors.UsageError(
            problem=f"{name} is a generator: its values would have no fixed number",
            fix="Return a list, or a tuple with num_returns=N for N fed objects",
        )


def _missing_party(name: str) -> NoReturn:
    raise errors.MissingPartyError(
        problem=f"You should specify a party name for {name}",
        fix=f"Write {name}.party('NAME').remote(...)",
    )


def _party(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise errors.UsageError(
            problem=f"{name}.party({showing.shown(value)}): a party is named by a string",
            fix="Give the party's name",
        )
    if not names.is_name(value):
        raise errors.UnknownPartyError(
            problem=f"{value!r} can't be the name of a party",
            fix=f"A name has {names.NAME_RULE}",
            party=value,
        )
    return str(value)


class _Remote(objects.Caller):
    """What remote functions and classes share: a target, a party, options."""

    __slots__ = ("__dict__", "__weakref__", "_options", "_party", "_target")

    _kind = "function"

    def __init__(self, target: Any, given: Mapping[str, Any]) -> None:
        self._target = target
        self._party: str | None = None
        self._options = dict(given)
        # Shared by all copies, as the names are: it is compiled once.
        self.__dict__["_fed_bind"] = None
        self.__name__ = target.__name__
        self.__qualname__ = target.__qualname__
        self.__module__ = target.__module__
        self.__doc__ = target.__doc__
        self.__wrapped__ = target

    def _copy(self) -> Any:
        copy = object.__new__(type(self))
        copy._target = self._target
        copy._party = self._party
        copy._options = self._options
        copy.__dict__ = self.__dict__
        return copy

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> signatures.Bound:
        bind: signatures.Binder | None = self.__dict__["_fed_bind"]
        if bind is None:
            bind = self.__dict__["_fed_bind"] = signatures.binder(
                signatures.parameters(self._target, bound=False),
                name=f"{self.__qualname__}.remote",
            )
        return bind(*args, **kwargs)

    def _with_party(self, name: str) -> Any:
        copy = self._copy()
        copy._party = name if type(name) is str else _party(name, self.__qualname__)
        return copy

    def _with_options(self, given: Mapping[str, Any]) -> Any:
        copy = self._copy()
        copy._options = {
            **self._options,
            **options.checked(self._kind, given, target=self.__qualname__),
        }
        return copy

    if not TYPE_CHECKING:  # a type checker shall say that it can't be called

        def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
            """Refuse: it is called by `.remote(...)`."""
            name = self.__qualname__
            raise errors.UsageError(
                problem=f"{name} is a remote {self._kind} and can't be called directly",
                fix=f"Write {name}.party('NAME').remote(...), or {name}.__wrapped__(...) for the "
                "plain one",
            )

    def __repr__(self) -> str:
        at = f" at {self._party}" if self._party is not None else ""
        return f"<remote {self._kind} {self.__qualname__}{at}>"


class RemoteFunction(_Remote, Generic[P, R]):
    """A function whose calls run at a party. Made by `fed.remote`; never changed afterwards."""

    __slots__ = ()

    def party(self, name: str) -> RemoteFunction[P, R]:
        """A copy whose calls run at party `name`."""
        return self._with_party(name)  # type: ignore[no-any-return]

    def options(self, **given: Any) -> RemoteFunction[P, R]:
        """A copy with options: `num_returns`, and those of Ray (checked in every mode).

        Raises:
            UsageError: if an option is unknown, refused or out of bounds.
        """
        return self._with_options(given)  # type: ignore[no-any-return]

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> objects.FedObject[R]:
        """Call the function at its party.

        Arguments are values, or fed objects in the place of values, also inside containers.

        Returns:
            The fed object of the result; a list of N of them with `num_returns=N`, N above 1.

        Raises:
            MissingPartyError: if no party was named.
            UnknownPartyError: if the federation has no such party.
            SessionError: outside a session.
            UsageError: inside a body or in another thread than the session's.
            TypeError: if the arguments do not fit the signature.
        """
        if self._party is None:
            _missing_party(self.__qualname__)
        bound_args, bound_kwargs = self._bound(args, kwargs)
        return engine.current().submit(  # type: ignore[no-any-return]
            calls.Call(
                ledger.FUNCTION,
                self.__qualname__,
                self._party,
                self._target,
                bound_args,
                bound_kwargs,
                self._options.get("num_returns", 1),
                self._options,
                None,
            )
        )


class RemoteClass(_Remote, Generic[P, T]):
    """A class whose instances are actors at a party. Made by `fed.remote`."""

    __slots__ = ()

    _kind = "class"

    def party(self, name: str) -> RemoteClass[P, T]:
        """A copy whose actors live at party `name`."""
        return self._with_party(name)  # type: ignore[no-any-return]

    def options(self, **given: Any) -> RemoteClass[P, T]:
        """A copy with options of Ray (checked in every mode).

        Raises:
            UsageError: if an option is unknown, refused or out of bounds.
        """
        return self._with_options(given)  # type: ignore[no-any-return]

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ActorHandle:
        """Create an actor at the party; raises as `RemoteFunction.remote`.

        Returns:
            Its handle. A failing constructor is the outcome of every call of the actor.
        """
        if self._party is None:
            _missing_party(self.__qualname__)
        bound_args, bound_kwargs = self._bound(args, kwargs)
        return engine.current().submit(  # type: ignore[no-any-return]
            calls.Call(
                ledger.CREATE,
                self.__qualname__,
                self._party,
                self._target,
                bound_args,
                bound_kwargs,
                1,
                self._options,
                None,
            )
        )

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Lets a class inherit from the plain class behind this one."""
        return (self._target,)


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSpec:
    """One method of a remote class.

    Attributes:
        name: the attribute's name.
        qualname: `Trainer.train`.
        is_async: True for `async def`.
        is_generator: True if its body yields; engines refuse to call it.
        parameters: those of the bound method, None if unknown.
    """

    name: str
    qualname: str
    is_async: bool
    is_generator: bool
    parameters: list[inspect.Parameter] | None


def method_specs(cls: type) -> dict[str, MethodSpec]:
    """The methods of `cls` that an actor offers: all of its functions but dunder methods."""
    found: dict[str, MethodSpec] = {}
    for name in sorted(type.__dir__(cls)):  # a metaclass may say anything in its own `__dir__`
        if name.startswith("__") and name.endswith("__"):
            continue
        raw = inspect.getattr_static(cls, name)
        if not _is_method(raw):
            continue
        plain = _plain(raw)
        found[name] = MethodSpec(
            name=name,
            qualname=f"{cls.__qualname__}.{name}",
            is_async=inspect.iscoroutinefunction(plain),
            is_generator=inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain),
            parameters=signatures.parameters(
                getattr(cls, name), bound=not isinstance(raw, staticmethod | classmethod)
            ),
        )
    return found


def _is_method(raw: Any) -> bool:
    """True for what `cls.__dict__` holds if it makes a method; properties of any kind do not."""
    if isinstance(raw, _METHOD_MAKERS):
        return True
    return inspect.isroutine(raw) and callable(raw)


_METHOD_MAKERS: Final = (
    staticmethod,
    classmethod,
    functools.partialmethod,
    functools.singledispatchmethod,
)


def is_async(cls: type) -> bool:
    """True if a method of the class is `async def`: its calls may then overtake one another."""
    return any(spec.is_async for spec in method_specs(cls).values())


class ActorMethod(objects.Caller):
    """A method of an actor: `handle.train`, to be called by `.remote(...)`.

    Engines derive one class per method, with the engine's own state in it.
    """

    __slots__ = ()

    spec: MethodSpec

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the method at the actor's party; returns and raises as `RemoteFunction.remote`."""
        raise NotImplementedError

    def options(self, **given: Any) -> MethodCall:
        """The method with options for the next calls: `num_returns=N` and those of Ray.

        Raises:
            UsageError: if an option is unknown, refused or out of bounds.
        """
        return MethodCall(self, options.checked("method", given, target=self.spec.qualname))

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: Mapping[str, Any]) -> Any:
        """Make the call with options."""
        raise NotImplementedError

    if not TYPE_CHECKING:  # a type checker shall say that it can't be called

        def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
            """Refuse: a method is called by `.remote(...)`."""
            name = self.spec.qualname
            raise errors.UsageError(
                problem=f"{name} is a method of an actor and can't be called directly",
                fix=f"Write .{self.spec.name}.remote(...)",
            )

    def __repr__(self) -> str:
        return f"<remote method {self.spec.qualname}>"


class MethodCall(objects.Caller):
    """A method of an actor with options: `handle.train.options(num_returns=2)`."""

    __slots__ = ("_given", "_method")

    def __init__(self, method: ActorMethod, given: Mapping[str, Any]) -> None:
        self._method = method
        self._given = given

    def options(self, **given: Any) -> MethodCall:
        """The same with more options; raises as `ActorMethod.options`."""
        checked = options.checked("method", given, target=self._method.spec.qualname)
        return MethodCall(self._method, {**self._given, **checked})

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the method; returns and raises as `RemoteFunction.remote`."""
        return self._method.call(args, kwargs, self._given)

    def __repr__(self) -> str:
        return repr(self._method)


class ActorHandle(objects.Caller):
    """The handle of an actor: each of the class's methods is an attribute with `.remote(...)`.

    Engines derive one class per remote class.
    """

    __slots__ = ()

    _fed_class: type
    _fed_methods: Mapping[str, MethodSpec]

    def __getattr__(self, name: str) -> Any:
        if name in self._fed_methods:
            return self._fed_method(name)
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        cls = self._fed_class.__qualname__
        raise errors.UnknownMethodError(
            problem=f"{cls} has no method {name!r}{names.did_you_mean(name, self._fed_methods)}",
            fix="The state of an actor is reached by its methods only",
        )

    def _fed_method(self, name: str) -> ActorMethod:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<actor {self._fed_class.__qualname__}>"


@overload
def remote(target: type[T]) -> RemoteClass[..., T]: ...  # type: ignore[overload-overlap]
@overload
def remote(target: Callable[P, Awaitable[R]]) -> RemoteFunction[P, R]: ...
@overload
def remote(target: Callable[P, R]) -> RemoteFunction[P, R]: ...
@overload
def remote(**given: Any) -> Callable[[Any], Any]: ...
def remote(*targets: Any, **given: Any) -> Any:
    """Make a function or class callable at parties; a decorator, bare or with options.

    Returns:
        A `RemoteFunction` or `RemoteClass`. With options alone, a decorator.

    Raises:
        UsageError: for anything but a function or a class, for generators, and for options that
            are unknown, refused or out of bounds. Also a `TypeError` for what is neither.
    """
    if not targets:
        return lambda target: _made(target, given)
    if given or len(targets) > 1:
        raise errors.UsageError(
            problem="fed.remote takes one function or class, or options by name",
            fix="Write @fed.remote, or @fed.remote(num_returns=2)",
        )
    return _made(targets[0], {})


def _made(target: Any, given: Mapping[str, Any]) -> Any:
    if inspect.isclass(target):
        checked = options.checked("class", given, target=target.__qualname__)
        return RemoteClass(target, checked)
    if inspect.isfunction(target) or inspect.isbuiltin(target):
        _refuse_generator(target, target.__qualname__)
        checked = options.checked("function", given, target=target.__qualname__)
        return RemoteFunction(target, checked)
    raise errors.NotRemotableError(
        problem=f"fed.remote takes a function or a class, not {showing.shown(target)}",
        fix="Wrap it in a function",
    )


#: The options of a call that asks for nothing.
NO_OPTIONS: Final[Mapping[str, Any]] = {}
