"""The verbs of the programming model, handed to the engine in use."""

from __future__ import annotations

import operator
from collections import defaultdict, deque
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    KeysView,
    Sequence,
    ValuesView,
)
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fed import errors
from fed.model import body, calls, engine, objects, showing, trees

if TYPE_CHECKING:
    import numpy

    from fed.model import remote

T = TypeVar("T")


@overload
def get(
    x: objects.FedObject[T], timeout: float | None = None, parties: Sequence[str] | None = None
) -> T: ...
@overload
def get(
    x: list[objects.FedObject[T]],
    timeout: float | None = None,
    parties: Sequence[str] | None = None,
) -> list[T]: ...
@overload
def get(x: Any, timeout: float | None = None, parties: Sequence[str] | None = None) -> Any: ...
def get(x: Any, timeout: float | None = None, parties: Sequence[str] | None = None) -> Any:
    """The value of a fed object, or of a container with its fed objects replaced by values.

    Every party that runs the script gets the value; with `parties` only those named do, and the
    others get `fed.WITHHELD`. A plain value is given back as it is, anywhere, also inside bodies,
    and takes no number.

    Args:
        x: a fed object, or lists, tuples, dicts, named tuples and dataclasses of them.
        timeout: at most this many seconds; None waits as long as the parties live.
        parties: names of the parties that may see the value.

    Raises:
        FedRemoteError: if the body raised (or the other outcome of the call, see the errors).
        ValueRefusedError: if the value may not cross.
        FedTimeoutError: after `timeout`; the object stays valid.
        DeadlockError: if only calls still to be made could bring the value about.
    """
    if not trees.objects_in(x):
        _refuse_hidden(x)
        return x
    _check_timeout("fed.get", timeout)
    if isinstance(parties, str):
        raise errors.UsageError(
            problem=f"fed.get: parties={parties!r} is a string", fix=f"Write parties=[{parties!r}]"
        )
    try:
        return engine.current().get(x, timeout=timeout, parties=parties)
    finally:
        del x  # an error keeps this frame, and a failed object keeps its error


#: Collections that `get` does not look into; nobody means to get back the handles in them.
_OTHER_COLLECTIONS = (deque, defaultdict, set, frozenset, KeysView, ValuesView, ItemsView)


def _members(x: Any) -> Iterable[Any]:
    if isinstance(x, defaultdict):
        return x.values()
    return (value for _, value in x) if isinstance(x, ItemsView) else x


def _refuse_hidden(x: Any) -> None:
    """Refuse what is no value and no container of fed objects, though it was taken for one."""
    if isinstance(x, objects.Caller):
        raise errors.UsageError(
            problem=f"fed.get of {showing.shown(x)}, which makes calls and has no value",
            fix="Get what its .remote(...) returns",
        )
    if isinstance(x, _OTHER_COLLECTIONS) and any(
        isinstance(item, objects.FedObject) for item in _members(x)
    ):
        raise errors.UsageError(
            problem=f"fed.get of a {type(x).__name__} with fed objects in it",
            fix="Give a list, tuple, dict, named tuple or dataclass: fed.get(list(...))",
        )


def put(value: T, party: str) -> objects.FedObject[T]:
    """A fed object of `value` at `party`.

    Only the owning party's value is used; the other parties' are not looked at. The value is a
    snapshot: changing it afterwards changes nothing.
    """
    return engine.current().put(value, party)


def wait(
    objs: Sequence[objects.FedObject[Any]],
    num_returns: int = 1,
    timeout: float | None = None,
    *,
    party: str | None = None,
) -> tuple[list[objects.FedObject[Any]], list[objects.FedObject[Any]]]:
    """Split `objs` into `num_returns` that are ready and the others, in the order given.

    `party` decides and tells the others, so all parties see the same split. A call that failed is
    ready. In simulation the first ones in the list are taken.

    Args:
        objs: a list or tuple of distinct fed objects.
        num_returns: how many, from 1 to the length of `objs`.
        timeout: at most this many seconds: fewer may be ready then.
        party: the party that decides.

    Raises:
        UsageError: if the arguments do not fit each other.
    """
    if party is None:
        raise errors.MissingPartyError(
            problem="fed.wait needs a party that decides which objects are ready",
            fix="Write fed.wait(objs, num_returns=N, party='NAME')",
        )
    _check_timeout("fed.wait", timeout)
    if not isinstance(objs, list | tuple) or not all(
        isinstance(obj, objects.FedObject) for obj in objs
    ):
        raise errors.UsageError(
            problem="fed.wait takes a list of fed objects", fix="Give what .remote(...) returned"
        )
    if len({id(obj) for obj in objs}) != len(objs):
        raise errors.UsageError(
            problem="fed.wait was given the same fed object twice", fix="Give each one once"
        )
    is_count = isinstance(num_returns, int) and not isinstance(num_returns, bool)
    if not is_count or not 1 <= num_returns <= len(objs):
        raise errors.UsageError(
            problem=f"fed.wait: num_returns={showing.shown(num_returns)} of {len(objs)} objects",
            fix=f"Give an integer from 1 to {max(len(objs), 1)}",
        )
    return engine.current().wait(objs, num_returns=num_returns, timeout=timeout, party=party)


def reduce(
    op: Callable[[T, T], T],
    objs: Iterable[objects.FedObject[T]],
    party: str,
    initial: T | Any = calls.NOTHING,
) -> objects.FedObject[T]:
    """Fold the values of `objs` at `party` by the binary function `op`.

    The objects are taken in the order given: a left fold in blocks of 1024, then the blocks'
    results left to right, so the result is the same bits with any number of workers. With a
    generator at most three values are alive at a time: the folded one, the next one, and the one
    that `op` makes.

    Args:
        op: a plain function of two values that returns one of the same kind.
        objs: any iterable of fed objects; a generator may make calls.
        party: where the fold is computed.
        initial: comes once, before the first object.

    Raises:
        UsageError: if `op` can't be called, an item is no fed object, or there are none and no
            `initial`.
    """
    from fed.model import remote as remotes

    if isinstance(op, remotes.RemoteFunction) or not callable(op):
        raise errors.UsageError(
            problem=f"fed.reduce: op is {showing.shown(op)}",
            fix="Give a plain function of two values, without fed.remote",
        )
    return engine.current().reduce(op, objs, party=party, initial=initial)


def kill(actor: remote.ActorHandle, no_restart: bool = True) -> None:
    """End an actor: its queued and later calls fail with `ActorKilledError`.

    A body that runs finishes, and its result is dropped.
    """
    from fed.model import remote as remotes

    if not isinstance(actor, remotes.ActorHandle):
        raise errors.UsageError(
            problem=f"fed.kill takes the handle of an actor, not {showing.shown(actor)}",
            fix="Give what .remote(...) of a remote class returned",
        )
    engine.current().kill(actor, no_restart=no_restart)


def parties(pattern: str = "*") -> list[str]:
    """The declared parties whose names match the shell pattern, in declaration order.

    Raises:
        UsageError: if no parties were declared.
        UnknownPartyError: if none matches: an empty federation computes nothing, without a word.
    """
    if not isinstance(pattern, str):
        raise errors.UsageError(
            problem=f"fed.parties({showing.shown(pattern)})",
            fix="Give a pattern of names such as 'client*'",
        )
    return engine.current().parties(pattern)


def current_party() -> str | None:
    """In a body the executing party; in the script its own party, None where it serves all."""
    running = _running_body()
    if running is not None and running.party is not None:
        return running.party
    return engine.current().driver_party()


def rng() -> numpy.random.Generator:
    """The running body's random generator, always the same one inside one body.

    It depends on the seed of the session, the party, the function or method, the actor and how
    many of its calls came before, so results do not depend on the mode or the order of execution.
    All parties can compute it: never use it for noise, masks or keys that hide something. For
    those there is `secrets`.

    Raises:
        UsageError: outside a body.
    """
    running = _running_body()
    if running is None or running.party is None:
        raise errors.UsageError(
            problem="fed.rng() outside a body",
            fix="In the script, make a generator of your own: numpy.random.default_rng(seed)",
        )
    return running.generator()


def _running_body() -> body.Body | None:
    running = body.current.get()
    # The context may be another one than that in which the session was made.
    if running is None and engine.slot.engine is not None:
        running = engine.slot.engine.running_body()
    return running


def progress(done: int, total: int | None = None) -> None:
    """Say that `done` (of `total`) rounds are over; `rayfed run` shows it. Takes no number.

    Raises:
        UsageError: if one of them is no integer of at least 0.
    """
    rounds = _rounds("done", done)
    engine.current().progress(rounds, None if total is None else _rounds("total", total))


def _rounds(name: str, value: Any) -> int:
    try:
        rounds = operator.index(value)  # an int, also one of numpy's
    except TypeError:
        rounds = -1
    if rounds < 0:
        raise errors.UsageError(
            problem=f"fed.progress: {name}={showing.shown(value)}",
            fix="Give the number of rounds that are over, and how many there are",
        )
    return rounds


def refused_send(*_args: Any, **_kwargs: Any) -> None:
    """RayFed's raw `send`: refused with what to use instead."""
    raise errors.UsageError(
        problem="fed.send is not offered: a raw message would bypass numbering and checks",
        fix="Pass the fed object to a call of the other party; it is pushed there by itself",
    )


def refused_recv(*_args: Any, **_kwargs: Any) -> None:
    """RayFed's raw `recv`: refused with what to use instead."""
    raise errors.UsageError(
        problem="fed.recv is not offered: a raw message would bypass numbering and checks",
        fix="Take the value as an argument of a call of this party, or read it with fed.get",
    )


def _check_timeout(verb: str, timeout: float | None) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise errors.UsageError(
            problem=f"{verb}: timeout={showing.shown(timeout)}",
            fix="Give seconds, 0 or more, or None",
        )
