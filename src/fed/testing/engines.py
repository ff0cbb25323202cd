"""The contract of engines: one script, run by a launcher of N drivers, and what each one saw.

A *script* is a plain Python file, run as `__main__` by every driver:

* `PARTIES`: the names of the federation's parties, in order;
* `SETTINGS` (optional): settings that every driver gets, by name;
* `program(note)`: makes the calls, and notes values and outcomes under names;
* `EXPECTED`: what is noted, by name, in order: the same in every mode and at every driver.
  `anything` stands for a value that is only compared between drivers;
* `RECORDS` (optional): the calls' records as texts, compared with the ledger's;
* `UNREAD` (optional, 0): how many errors nobody reads.

A *launcher* is one engine's way to run a script with all its drivers. `check` holds what it
gives back against the script and the drivers against each other.
"""

from __future__ import annotations

import dataclasses
import decimal
import hashlib
import os
import struct
import sys
import traceback
import types as python_types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from fed import errors
from fed.codec import types, wire
from fed.model import engine as port
from fed.model import ledger, objects

#: Errors that Python itself raises for misuse; all others of a program end it.
_NOTED: Final = (errors.FedError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An error as a driver saw it.

    Attributes:
        class_name: of the error.
        is_fed: True if it is one of this package's.
        fields: its fields by name, as texts where they are no plain values.
        text: its text.
        cause: the type name of the chained original, None without one.
        lines: source lines in the chained original's traceback, innermost last.
        number: which error object it is, counted from 0 in the order they were first seen, so
            that one error seen twice has the same number.
    """

    class_name: str
    is_fed: bool
    fields: Mapping[str, Any]
    text: str
    cause: str | None
    lines: tuple[str, ...]
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a driver noted under one name.

    Attributes:
        name: the name.
        value: the value, as text if it can't leave the driver's process; None with an error.
        digest: SHA-256 over the encoded value, hexadecimal; None where it can't be encoded.
        raised: the error, None with a value.
    """

    name: str
    value: Any = None
    digest: str | None = None
    raised: Raised | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """What one driver saw and did.

    Attributes:
        party: the party it drove; None where it drove all.
        outcomes: what it noted, in order.
        problems: where that differs from the script's `EXPECTED` or `RECORDS`, in words.
        records: its calls.
        digest: its program digest, hexadecimal.
        values_digest: its values digest, None if it kept none.
        unread: errors that nobody read, by object id.
        ended: the error by which the program or the session's end failed, None if it ended well.
    """

    party: str | None
    outcomes: tuple[Outcome, ...]
    problems: tuple[str, ...]
    records: tuple[ledger.Record, ...]
    digest: str
    values_digest: str | None
    unread: Mapping[str, str]
    ended: Raised | None

    def __getitem__(self, name: str) -> Outcome:
        return next(outcome for outcome in self.outcomes if outcome.name == name)


class Launcher(Protocol):
    """One engine's way to run scripts.

    Attributes:
        drivers: how many drivers run a script of N parties: 1, or N where this is None.
    """

    drivers: int | None

    def launch(
        self, script: Path, *, parties: Sequence[str], settings: Mapping[str, Any]
    ) -> list[Driver]:
        """Run the script with all its drivers to their ends; one `Driver` each, by party."""


class _Anything:
    """Equal to every value."""

    def __repr__(self) -> str:
        return "anything"


#: In `EXPECTED`: any value, the same at all drivers.
anything: Final = _Anything()


@dataclass(frozen=True, slots=True)
class Fails:
    """In `EXPECTED`: an error of this class whose fields have at least these values.

    A field `text` is a part of the error's text; `cause` the type name of the chained original,
    where the engine chains one; `same_as` the name of an earlier outcome that failed by the very
    same error: the same object, or in another process than the first one's, equal.
    """

    class_name: str
    fields: Mapping[str, Any] = field(default_factory=dict)


def fails(class_name: str, **fields: Any) -> Fails:
    """The expectation of an error; see `Fails`."""
    return Fails(class_name, fields)


@dataclass(frozen=True, slots=True)
class Only:
    """In `EXPECTED`: a value at some drivers, `fed.WITHHELD` at the others."""

    parties: Sequence[str]
    value: Any


def only(parties: Sequence[str], value: Any) -> Only:
    """The expectation of `fed.get(x, parties=parties)`; a driver of all parties gets the value."""
    return Only(parties, value)


class Notes:
    """Takes down what a program sees."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.values: dict[str, Any] = {}
        self._seen: list[BaseException] = []

    def __call__(self, name: str, thing: Any) -> None:
        """Note a value, or what a function without arguments returns or raises."""
        if name in self.values:
            raise ValueError(f"{name!r} is noted twice")
        if callable(thing):
            try:
                thing = thing()
            except _NOTED as error:
                self.values[name] = error
                self.outcomes.append(Outcome(name=name, raised=self.raised(error)))
                return
        self.values[name] = thing
        self.outcomes.append(Outcome(name=name, value=thing, digest=_digest(thing)))

    def raised(self, error: BaseException) -> Raised:
        """The error as plain data."""
        number = next((n for n, seen in enumerate(self._seen) if seen is error), None)
        if number is None:
            number = len(self._seen)
            self._seen.append(error)
        cause = error.__cause__
        frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
        return Raised(
            class_name=type(error).__name__,
            is_fed=isinstance(error, errors.FedError),
            fields={name: _plain(value) for name, value in vars(error).items()},
            text=str(error),
            cause=type(cause).__name__ if cause is not None else None,
            lines=tuple(frame.line or "" for frame in frames),
            number=number,
        )


def _plain(value: Any) -> Any:
    is_plain = isinstance(value, str | int | float | list | tuple | type(None))
    return value if is_plain else str(value)


def _digest(value: Any) -> str | None:
    try:
        return wire.digest(value, types=types.UserTypes(["__main__"], None)).hex()
    except errors.ValueRefusedError:
        return None


def run(script: Path, settings: Mapping[str, Any]) -> Driver:
    """Run a script in this process, with one driver, as `__main__`."""
    import fed

    with _as_main(script) as module:
        notes = Notes()
        party: str | None = settings.get("party")
        ended: Raised | None = None
        fed.init(**settings)
        engine: Any = port.current()
        try:
            module.program(notes)
        except Exception as error:  # noqa: BLE001  (it is the driver's outcome)
            ended = notes.raised(error)
        try:
            fed.shutdown()
        except errors.FedError as error:
            ended = ended or notes.raised(error)
        summary = engine.summary()
        records = tuple(engine.ledger.records())
        return Driver(
            party=party,
            outcomes=tuple(notes.outcomes),
            problems=tuple(_problems(module, party, notes, records, summary.unread_count)),
            records=records,
            digest=engine.ledger.digest().hex(),
            values_digest=summary.values_digest,
            unread=dict(summary.unread),
            ended=ended,
        )


class _as_main:  # noqa: N801  (used like a function)
    """Within the block a script's module stands as `__main__`, as if Python had been given it."""

    def __init__(self, script: Path) -> None:
        self._script = script

    def __enter__(self) -> Any:
        self._before = sys.modules["__main__"]
        module: Any = python_types.ModuleType("__main__")
        module.__file__ = str(self._script)
        sys.modules["__main__"] = module
        try:
            source = self._script.read_text(encoding="utf-8")
            exec(compile(source, str(self._script), "exec"), vars(module))  # noqa: S102
        except BaseException:
            sys.modules["__main__"] = self._before
            raise
        return module

    def __exit__(self, *_: object) -> None:
        sys.modules["__main__"] = self._before


def read(script: Path) -> Any:
    """A script's module, for its `PARTIES` and `SETTINGS`."""
    with _as_main(script) as module:
        return module


def check(launcher: Launcher, script: Path, **more: Any) -> list[Driver]:
    """Launch a script and hold its drivers against its expectations and against each other.

    Args:
        launcher: of the engine under test.
        script: the file.
        **more: settings beside the script's own.

    Raises:
        AssertionError: naming every difference.
    """
    module = read(script)
    settings = {**getattr(module, "SETTINGS", {}), **more}
    drivers = launcher.launch(script, parties=module.PARTIES, settings=settings)
    wanted = launcher.drivers or len(module.PARTIES)
    problems = [] if len(drivers) == wanted else [f"{len(drivers)} drivers in place of {wanted}"]
    for driver in drivers:
        who = driver.party or "the driver"
        if driver.ended is not None:
            problems.append(f"{who} ended by {driver.ended.class_name}: {driver.ended.text}")
        problems += [f"{who}: {problem}" for problem in driver.problems]
    problems += _disagreements(drivers, module.EXPECTED)
    if problems:
        raise AssertionError(f"{script.name}:\n" + "\n".join(f"* {text}" for text in problems))
    return drivers


def _disagreements(drivers: Sequence[Driver], expected: Mapping[str, Any]) -> Iterator[str]:
    first, *others = drivers
    for other in others:
        pair = f"{first.party} and {other.party}"
        if first.records != other.records:
            yield f"{pair} have different records"
        if first.digest != other.digest:
            yield f"{pair} have different digests: {first.digest}, {other.digest}"
        for a, b in zip(first.outcomes, other.outcomes, strict=False):
            differ = a.name != b.name or a.digest != b.digest
            if differ and not isinstance(expected.get(a.name), Only):
                yield f"{pair} noted different values: {a}, {b}"


def _problems(
    module: Any, party: str | None, notes: Notes, records: Sequence[ledger.Record], unread: int
) -> Iterator[str]:
    expected: dict[str, Any] = module.EXPECTED
    got = {outcome.name: outcome for outcome in notes.outcomes}
    if list(got) != list(expected):
        yield f"noted {list(got)}, expected {list(expected)}"
    for name in expected.keys() & got.keys():
        want = expected[name]
        if isinstance(want, Only):
            want = want.value if party is None or party in want.parties else objects.WITHHELD
        yield from _compared(name, want, got[name], notes)
    wanted = getattr(module, "RECORDS", None)
    if wanted is not None:
        texts = [str(record) for record in records]
        for place, (have, want) in enumerate(zip(texts, wanted, strict=False)):
            if have != want:
                yield f"record {place}: {have!r}, expected {want!r}"
        if len(texts) != len(wanted):
            yield f"{len(texts)} records, expected {len(wanted)}: {texts[len(wanted) :]}"
    if unread != getattr(module, "UNREAD", 0):
        yield f"{unread} errors unread, expected {getattr(module, 'UNREAD', 0)}"


def _compared(name: str, want: Any, got: Outcome, notes: Notes) -> Iterator[str]:
    raised = got.raised
    if not isinstance(want, Fails):
        if raised is not None:
            yield f"{name} failed by {raised.class_name}: {raised.text}"
        elif want is not anything and not same(notes.values[name], want):
            yield f"{name} is {notes.values[name]!r}, expected {want!r}"
        return
    if raised is None:
        yield f"{name} is {notes.values[name]!r}, expected {want.class_name}"
        return
    if raised.class_name != want.class_name:
        yield f"{name} failed by {raised.class_name} ({raised.text}), expected {want.class_name}"
    for key, value in want.fields.items():
        if key == "text":
            if value not in raised.text:
                yield f"{name}: {value!r} is not in {raised.text!r}"
        elif key == "cause":
            if raised.cause not in (value, None):
                yield f"{name}: its cause is {raised.cause}, expected {value}"
        elif key == "same_as":
            if not _is_same_error(notes, name, value):
                yield f"{name} failed by another error than {value}"
        elif raised.fields.get(key) != value:
            yield f"{name}: {key} is {raised.fields.get(key)!r}, expected {value!r}"


def _is_same_error(notes: Notes, name: str, other: str) -> bool:
    a, b = notes.values[name], notes.values[other]
    return type(a) is type(b) and vars(a) == vars(b) and a.__cause__ is b.__cause__


def same(a: Any, b: Any) -> bool:
    """True if two values are the same to the last bit: types, order, array layout, NaN payloads."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, decimal.Decimal):
        return bool(a.as_tuple() == b.as_tuple())  # a signalling NaN can't be compared
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    np = sys.modules.get("numpy")
    if np is not None and isinstance(a, np.ndarray):
        return bool(
            a.dtype == b.dtype
            and a.shape == b.shape
            and a.flags.f_contiguous == b.flags.f_contiguous
            and _same_elements(a, b)
        )
    if np is not None and isinstance(a, np.generic):
        return same(np.asarray(a), np.asarray(b))
    return bool(a == b)


def _same_elements(a: Any, b: Any) -> bool:
    if a.dtype.names is not None:  # bytes between fields belong to no value
        return all(same(a[name].copy(), b[name].copy()) for name in a.dtype.names)
    return same(a.tolist(), b.tolist()) if a.dtype.hasobject else a.tobytes() == b.tobytes()


class InProcess:
    """Launches the simulation engine in this process."""

    drivers: int | None = 1

    def launch(
        self, script: Path, *, parties: Sequence[str], settings: Mapping[str, Any]
    ) -> list[Driver]:
        """See `Launcher.launch`."""
        return [run(script, {"mode": "simulation", "parties": list(parties), **settings})]


class Subprocess:
    """Launches the simulation engine in a process of its own.

    Args:
        environ: variables beside those of this process.
    """

    drivers: int | None = 1

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(environ or {})

    def launch(
        self, script: Path, *, parties: Sequence[str], settings: Mapping[str, Any]
    ) -> list[Driver]:
        """See `Launcher.launch`."""
        asked = {"mode": "simulation", "parties": list(parties), **settings}
        return [Process(script, asked, environ=self._environ).driver()]


class Process:
    """One driver in a process of its own; begins at once.

    Args:
        script: the file.
        settings: for its `fed.init`, plain values alone.
        environ: variables beside those of this process.
    """

    def __init__(
        self, script: Path, settings: Mapping[str, Any], *, environ: Mapping[str, str] | None = None
    ) -> None:
        import json
        import subprocess

        source = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        self.popen = subprocess.Popen(  # noqa: S603  (this interpreter, our own module)
            [sys.executable, "-m", __name__, str(script), json.dumps(dict(settings))],
            env={**os.environ, "PYTHONPATH": path, **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def driver(self, timeout_s: float = 60.0) -> Driver:
        """What the driver saw, after its end.

        Raises:
            RuntimeError: if the process ended badly; with what it wrote.
        """
        import pickle  # noqa: TID251  (what our own child process wrote)

        try:
            out, err = self.popen.communicate(timeout=timeout_s)
        except BaseException:
            self.popen.kill()
            raise
        if self.popen.returncode:
            raise RuntimeError(f"driver ended with {self.popen.returncode}:\n{err.decode()}")
        driver: Driver = pickle.loads(out)  # noqa: S301
        return driver


def _portable(driver: Driver) -> Driver:
    """The driver with values of the script's own classes as texts: their module is not there."""
    import pickle  # noqa: TID251

    outcomes = []
    for outcome in driver.outcomes:
        found = outcome
        try:
            data = pickle.dumps(outcome.value)
        except Exception:  # noqa: BLE001  (whatever a value's class raises)
            data = b"__main__"
        if b"__main__" in data:
            found = dataclasses.replace(outcome, value=repr(outcome.value))
        outcomes.append(found)
    return dataclasses.replace(driver, outcomes=tuple(outcomes))


def fingerprint(drivers: Sequence[Driver]) -> str:
    """A digest over all that drivers noted and called, for comparing runs."""
    sha = hashlib.sha256()
    for driver in drivers:
        for outcome in driver.outcomes:
            sha.update(repr((outcome.name, outcome.digest)).encode())
        sha.update(repr((driver.digest, driver.values_digest)).encode())
    return sha.hexdigest()


Program = Callable[[Notes], None]


def _main(arguments: Sequence[str]) -> None:
    import json
    import pickle  # noqa: TID251

    script, settings = arguments
    # What the script prints must not mix with the report.
    report = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    driver = run(Path(script), json.loads(settings))
    with report:
        report.write(pickle.dumps(_portable(driver)))


if __name__ == "__main__":
    # By the module's real name, so that what is pickled here has the classes of `fed.testing`.
    from fed.testing import engines

    engines._main(sys.argv[1:])
