"""Every error that the package raises, as one tree under `FedError`.

Branches say who must act: `UsageError` the script, `ConfigError` the settings, `PartyError` a
party's operator, `ClusterError` the cluster's. Errors carry fields; the text is made from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


def _rebuild(cls: type[FedError], args: tuple[Any, ...], fields: dict[str, Any]) -> FedError:
    error = cls.__new__(cls)
    error.args = args
    for name, value in fields.items():
        setattr(error, name, value)
    return error


class FedError(Exception):
    """Root of all errors of the package. Its fields survive pickling, Ray and the wire."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(vars(self)))


def copy(error: FedError) -> FedError:
    """An error with the same fields, notes and cause, and a traceback and context of its own."""
    fields = dict(vars(error))
    if "__notes__" in fields:
        fields["__notes__"] = list(fields["__notes__"])
    made = _rebuild(type(error), error.args, fields)
    made.__cause__ = error.__cause__
    return made


def _joined(problem: str, fix: str) -> str:
    if not fix:
        return problem
    return f"{problem} {fix}" if problem.endswith("?") else f"{problem}. {fix}"


@dataclass(kw_only=True, eq=False)
class UsageError(FedError):
    """The script calls something in a way that can't work; nothing was done.

    Attributes:
        problem: what is wrong, naming the call, name or object.
        fix: what to do instead.
    """

    problem: str
    fix: str = ""

    def __str__(self) -> str:
        return _joined(self.problem, self.fix)


@dataclass(kw_only=True, eq=False)
class MissingPartyError(UsageError, ValueError):
    """A call was made without `.party(name)`; also a `ValueError`, as RayFed's."""


@dataclass(kw_only=True, eq=False)
class UnknownPartyError(UsageError):
    """A call names a party that the federation does not have, or a name that breaks the rule."""

    party: str


@dataclass(kw_only=True, eq=False)
class SessionError(UsageError):
    """A call outside a session, or with an object that belongs to another session."""


@dataclass(kw_only=True, eq=False)
class UnknownMethodError(UsageError, AttributeError):
    """An actor's handle was asked for a method that its class does not have."""


@dataclass(kw_only=True, eq=False)
class HandleError(UsageError, TypeError):
    """A fed object was used as if it were its value."""


@dataclass(kw_only=True, eq=False)
class NotRemotableError(UsageError, TypeError):
    """`fed.remote` was given something that is neither a function nor a class."""


@dataclass(kw_only=True, eq=False)
class ReturnCountError(UsageError):
    """A body did not return as many values as `num_returns` says; the outcome of all of them.

    Attributes:
        party: the party whose body ran.
        call: the call's number.
        expected: `num_returns`.
        got: what came back, in words.
    """

    party: str
    call: int
    expected: int
    got: str


@dataclass(kw_only=True, eq=False)
class IsolationError(UsageError):
    """A body changed what another party's bodies can see; found by `isolation: check`.

    Attributes:
        party: the party whose body did it.
        call: the call's number.
        changed: what it changed: `module global 'counter'`, `argument 0`, the state of `random`.
    """

    party: str
    call: int
    changed: str


@dataclass(kw_only=True, eq=False)
class ConfigError(FedError):
    """A setting is wrong, unknown, missing or contradicts another; nothing was started.

    Attributes:
        problem: what is wrong.
        fix: what to do.
        key: path of the key, dots between (`parties.ALICE.address`).
        source: where it was set: a file's path, `fed.init`, `FED_SEED`, `rayfed run --seed`.
        line: line in the file, from 1.
    """

    problem: str
    fix: str = ""
    key: str | None = None
    source: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = self.source or ""
        if self.line is not None:
            where += f":{self.line}"
        parts = [part for part in (where, self.key) if part]
        return _joined(": ".join([*parts, self.problem]), self.fix)


class RemoteCause(Exception):
    """Stands for the exception that a body raised: type name and the text its party lets out."""

    def __init__(self, type_name: str, text: str) -> None:
        super().__init__(type_name, text)
        self.type_name = type_name
        self.text = text

    def __str__(self) -> str:
        return f"{self.type_name}: {self.text}" if self.text else self.type_name


@dataclass(kw_only=True, eq=False)
class FedRemoteError(FedError):
    """A body raised. In the raising party's process and in simulation `__cause__` is the original.

    Attributes:
        party: the party whose body raised.
        call: the call's number (`fed` numbers calls from 1, in program order).
        name: what was called: `mean`, `Trainer.train`.
        actor: which actor, for methods and constructors: its ordinal among that party's actors
            of its class, from 0; None for functions.
        site: `file:line` of the call in the script.
        type_name: the exception's type name.
        detail: what the raising party lets out (its setting `error_detail`): empty for `type`,
            the message for `message`, the traceback's text for `traceback`.
        level: that setting.
    """

    party: str
    call: int
    name: str
    type_name: str
    actor: int | None = None
    site: str | None = None
    detail: str = ""
    level: str = "type"

    @property
    def src_party(self) -> str:
        """The raising party: RayFed's name for `party`."""
        return self.party

    @property
    def cause(self) -> RemoteCause | None:
        """The cause as far as the raising party lets it out; None with `error_detail: type`."""
        return None if self.level == "type" else RemoteCause(self.type_name, self.detail)

    def __str__(self) -> str:
        which = f"{self.name} of actor {self.actor}" if self.actor is not None else self.name
        site = f", called at {self.site}" if self.site else ""
        head = f"party {self.party!r}: {which} raised {self.type_name} (call {self.call}{site})"
        if self.level == "traceback":
            return f"{head}\n{self.detail.rstrip()}"
        if self.level == "message":
            return f"{head}: {self.detail}"
        return (
            f"{head}; set error_detail to 'message' or 'traceback' at party {self.party!r} "
            "to see more"
        )


@dataclass(kw_only=True, eq=False)
class PartyError(FedError):
    """Something is wrong with another party, or between this party and it."""

    party: str


@dataclass(kw_only=True, eq=False)
class PartyUnreachableError(PartyError):
    """The party's port accepted no connection. Nothing was sent, so trying again is safe."""

    waited_s: float
    address: str = ""
    reason: str = ""

    def __str__(self) -> str:
        at = f" at {self.address}" if self.address else ""
        why = f" ({self.reason})" if self.reason else ""
        return (
            f"party {self.party!r}{at} accepted no connection in {self.waited_s:g} s{why}. "
            "Is it started, and is the address right?"
        )


@dataclass(kw_only=True, eq=False)
class PartyLostError(PartyError):
    """The party was there and is gone: its process ended, or no way leads to it any more."""

    reason: str = ""
    waiting_for: str = ""

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        what = f" while waiting for {self.waiting_for}" if self.waiting_for else ""
        return f"party {self.party!r} is lost{why}{what}. Look at its log, then start the job again"


@dataclass(kw_only=True, eq=False)
class PartyStalledError(PartyError):
    """The party's connection lives but it has not answered for `stall_timeout_s`."""

    waited_s: float

    def __str__(self) -> str:
        return (
            f"party {self.party!r} has not answered for {self.waited_s:g} s though its connection "
            "lives: its process is stopped, or a body holds the interpreter lock. "
            "Raise stall_timeout_s if that is meant"
        )


@dataclass(kw_only=True, eq=False)
class DivergenceError(PartyError):
    """Two parties run programs that differ.

    Attributes:
        call: number of the first call that differs.
        ours: that call here, in words.
        theirs: that call at the other party, in words.
    """

    call: int
    ours: str
    theirs: str

    def __str__(self) -> str:
        return (
            f"the program of party {self.party!r} differs from this one at call {self.call}: "
            f"here {self.ours}, there {self.theirs}. Run the same script at every party"
        )


@dataclass(kw_only=True, eq=False)
class HandshakeError(PartyError):
    """The party answered but can't be talked to: wrong identity, job, version or settings."""

    reason: str
    fix: str = ""

    def __str__(self) -> str:
        return _joined(f"party {self.party!r} was refused: {self.reason}", self.fix)


@dataclass(kw_only=True, eq=False)
class ValueRefusedError(FedError):
    """A value may not cross to another party (or can't be copied inside one).

    It is the outcome of the call that would have consumed the value, never raised at `.remote()`.

    Attributes:
        path: where inside the value, such as `result["model"][3]`.
        type_name: the refused type, with its module.
        reason: the rule that it breaks.
        limit: the limit in words, where one was passed.
        party: the party that owns the value.
        call: number of the call that made the value.
        name: what that call called: `Trainer.train`, empty for `fed.put`.
        site: `file:line` of the call that was to take the value.
    """

    path: str
    type_name: str
    reason: str
    limit: str | None = None
    party: str | None = None
    call: int | None = None
    name: str | None = None
    site: str | None = None

    def __str__(self) -> str:
        name = f" of {self.name}" if self.name else ""
        whose = f" of party {self.party!r}" if self.party is not None else ""
        call = f" (made by call {self.call})" if self.call is not None else ""
        limit = f" (limit: {self.limit})" if self.limit else ""
        site = f" [refused at {self.site}]" if self.site else ""
        return f"{self.path}{name}{whose}{call} is a {self.type_name}: {self.reason}{limit}{site}"


@dataclass(kw_only=True, eq=False)
class SpillError(FedError):
    """Results above the memory budget could not be written to disk; the call has no value.

    Attributes:
        size_bytes: size of the value.
        reason: the quota, or what the disk said.
        site: `file:line` of the call whose results hold most of the memory.
    """

    size_bytes: int
    reason: str
    site: str

    def __str__(self) -> str:
        return (
            f"a value of {self.size_bytes:,} bytes found no room: {self.reason}. Results made at "
            f"{self.site} hold most of it: fold them with fed.reduce and a generator, drop them "
            "earlier, or raise memory_budget_bytes or spill_quota_bytes"
        )


@dataclass(kw_only=True, eq=False)
class TransportError(FedError):
    """The link between two parties broke a rule of its own; names the peer and the rule."""

    party: str
    reason: str

    def __str__(self) -> str:
        return f"link to party {self.party!r}: {self.reason}"


@dataclass(kw_only=True, eq=False)
class FedTimeoutError(FedError, TimeoutError):
    """A wait passed the limit that its caller gave; what was waited for stays valid.

    Attributes:
        what: what was waited for.
        party: the party that has to deliver it.
        waited_s: how long it was waited for, in seconds.
        fix: what to do.
    """

    what: str
    party: str | None
    waited_s: float
    fix: str = "It is still on its way: get it again, or give a larger timeout"

    def __str__(self) -> str:
        of = f" of party {self.party!r}" if self.party is not None else ""
        return f"{self.what}{of} did not arrive in {self.waited_s:g} s. {self.fix}"


@dataclass(kw_only=True, eq=False)
class ActorKilledError(FedError):
    """The call was queued or made after `fed.kill` of its actor; it did not run."""

    party: str
    name: str
    actor: int
    call: int

    def __str__(self) -> str:
        return (
            f"party {self.party!r}: {self.name} of actor {self.actor} (call {self.call}) did not "
            "run, because the actor was killed by fed.kill"
        )


@dataclass(kw_only=True, eq=False)
class DeadlockError(FedError):
    """Coroutines wait for something that nothing left in the program can bring about.

    Attributes:
        calls: the waiting calls, in submission order, in words.
    """

    calls: list[str]

    def __str__(self) -> str:
        shown = "; ".join(self.calls[:5])
        more = f"; and {len(self.calls) - 5} more" if len(self.calls) > 5 else ""
        return (
            f"{len(self.calls)} suspended call(s) wait for something that no other call can bring "
            f"about: {shown}{more}. Make the call that releases them before getting their results"
        )


@dataclass(kw_only=True, eq=False)
class ClusterError(FedError):
    """A cluster, node or host did not do what was asked of it.

    Attributes:
        problem: what happened, with the host or node.
        fix: what to do.
    """

    problem: str
    fix: str = ""

    def __str__(self) -> str:
        return _joined(self.problem, self.fix)


def all_errors() -> list[type[FedError]]:
    """Every error class, root first, in the order of definition."""
    found: list[type[FedError]] = [FedError]
    for cls in found:
        found.extend(sub for sub in cls.__subclasses__() if sub not in found)
    return found
