"""Layers: the settings that one place gives, checked, each with where it was said.

The places are `rayfed run`, `fed.init`, the environment, federation.yaml and what a cluster
recorded. A bad value is an error here, also where a higher layer would replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fed import errors, names
from fed.config import rayfed_compat, settings

#: The keys of one party in a `parties` mapping, dots between, and the settings that they are at
#: that party. `address` goes into everyone's `addresses`, `tls.pin` into everyone's `tls_pins`.
PARTY_KEYS = {
    "address": "addresses",
    "listen": "listen",
    "tls.cert": "tls_cert",
    "tls.key": "tls_key",
    "tls.pin": "tls_pins",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One setting as one place gives it.

    Attributes:
        value: typed and checked.
        source: `fed.init`, `FED_SEED`, `rayfed run --seed`, a file's path.
        line: line in the file, from 1.
        key: the key as that place spells it; None where `source` says it all.
    """

    value: Any
    source: str
    line: int | None = None
    key: str | None = None

    @property
    def where(self) -> str:
        """For a message: `fed.init`, `FED_SEED`, `federation.yaml:12`."""
        return self.source if self.line is None else f"{self.source}:{self.line}"

    def error(self, problem: str, *, fix: str = "") -> errors.ConfigError:
        """A `ConfigError` that points here."""
        return errors.ConfigError(
            problem=problem, fix=fix, key=self.key, source=self.source, line=self.line
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The settings that one place gives.

    Attributes:
        entries: by setting.
        of_party: settings that hold at one party alone (its `listen`, `tls_cert`, `tls_key`), by
            party, from the mapping form of `parties`.
        notes: one line each for what was accepted and has no effect here, to be logged.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    of_party: Mapping[str, Mapping[str, Entry]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def from_init(arguments: Mapping[str, object]) -> Layer:
    """The layer of `fed.init`'s keyword arguments; None means not given.

    Takes the settings by name, the groups as mappings (`tls={"cert": ...}`), and RayFed's `config`,
    `tls_config` and `logging_level`.

    Raises:
        ConfigError: unknown (names the nearest), of the wrong type, or given twice.
    """
    ours, notes = rayfed_compat.translate(arguments)
    builder = Builder(notes=notes)
    for name, value in ours.items():
        if value is None:
            continue
        if name in settings.GROUPS:
            builder.group(name, value, source="fed.init")
        elif name in settings.FIELDS:
            builder.put(name, value, source="fed.init", key=name)
        else:
            known = [*settings.FIELDS, *settings.GROUPS]
            raise errors.ConfigError(
                problem=f"there is no argument {name!r}{names.did_you_mean(name, known)}",
                fix="Leave it out; docs/settings.md lists the settings",
                source="fed.init",
                key=name,
            )
    return builder.layer()


def from_run(options: Mapping[str, object]) -> Layer:
    """The layer of `rayfed run`'s options, by setting; None means not given, text is read.

    Raises:
        ConfigError: unknown, or not what the setting accepts.
    """
    builder = Builder()
    for name, value in options.items():
        if value is None:
            continue
        known = settings.FIELDS.get(name)
        if known is None:
            raise errors.ConfigError(
                problem=f"there is no setting {name!r}{names.did_you_mean(name, settings.FIELDS)}",
                source="rayfed run",
                key=name,
            )
        builder.put(name, _from_text(known, value), source=f"rayfed run {known.option}")
    return builder.layer()


def from_environ(environ: Mapping[str, str], *, others: Iterable[str] = ()) -> Layer:
    """The layer of the variables that begin with `FED_`.

    Args:
        environ: the environment.
        others: variables with that beginning that are no settings, to leave alone.

    Raises:
        ConfigError: a variable is unknown (names the nearest), empty, or not what the setting
            accepts.
    """
    builder = Builder()
    ignored = frozenset(others)
    for variable in sorted(name for name in environ if name.startswith("FED_")):
        if variable in ignored:
            continue
        known = settings.BY_VARIABLE.get(variable)
        if known is None:
            raise errors.ConfigError(
                problem="there is no such setting"
                f"{names.did_you_mean(variable, settings.BY_VARIABLE)}",
                fix="Unset it, or correct its name; docs/settings.md lists the settings",
                source=variable,
            )
        text = environ[variable]
        if not text.strip():
            raise errors.ConfigError(problem="it is empty", fix="Unset it", source=variable)
        builder.put(known.name, _from_text(known, text), source=variable)
    return builder.layer()


def from_recorded(recorded: Mapping[str, object], *, source: str) -> Layer:
    """The layer of what a cluster recorded when it was started, by setting; text is read.

    Args:
        recorded: values by setting; None means not recorded.
        source: in words, for messages: `the cluster at 10.0.0.1:6379`.

    Raises:
        ConfigError: unknown, or not what the setting accepts: another version recorded it.
    """
    builder = Builder()
    for name, value in recorded.items():
        if value is None:
            continue
        known = settings.FIELDS.get(name)
        if known is None:
            raise errors.ConfigError(
                problem=f"it recorded {name!r}, which is no setting here",
                fix="Run the version of rayfed that started the cluster",
                source=source,
            )
        builder.put(name, _from_text(known, value), source=source)
    return builder.layer()


def _from_text(known: settings.Field, value: object) -> object:
    return known.kind.read(value) if isinstance(value, str) else value


class Builder:
    """Collects the entries of one place; every value is checked as it comes."""

    def __init__(
        self,
        *,
        notes: tuple[str, ...] = (),
        line_of: Callable[[str], int | None] = lambda key: None,
        folder: Path | None = None,
    ) -> None:
        """An empty layer of a place.

        Args:
            notes: to hand on.
            line_of: the line of a key path such as `parties.BOB.address` or `parties[3]`.
            folder: what relative paths are relative to; None leaves them as they are.
        """
        self._entries: dict[str, Entry] = {}
        self._of_party: dict[str, dict[str, Entry]] = {}
        self._notes = notes
        self._line_of = line_of
        self._folder = folder

    def layer(self) -> Layer:
        """What was collected."""
        return Layer(entries=self._entries, of_party=self._of_party, notes=self._notes)

    def group(self, prefix: str, value: object, *, source: str) -> None:
        """Take in a mapping of the group `prefix`: `{"modules": [...]}` of `codec`.

        Raises:
            ConfigError: not a mapping, or a key is unknown or wrong.
        """
        if not isinstance(value, Mapping):
            raise self._error(
                f"{type(value).__name__} is no mapping", source=source, key=prefix,
                fix=f"Give {_inside(prefix)}",
            )  # fmt: skip
        for name, inner in value.items():
            key = f"{prefix}.{name}"
            known = settings.BY_KEY.get(key)
            if known is None:
                raise self.unknown(key, source=source, known=settings.BY_KEY)
            if inner is None and self._folder is None:
                continue  # an argument of None is not given, here as at the top
            self.put(known.name, inner, source=source, key=key)

    def put(self, name: str, value: object, *, source: str, key: str | None = None) -> None:
        """Take in one setting.

        Raises:
            ConfigError: not what the setting accepts, or given twice.
        """
        if name == "parties" and isinstance(value, Mapping):
            self._take_details(value, source=source, key=key)
        typed = self._checked(settings.FIELDS[name], value, source=source, key=key)
        self._add(name, typed, source=source, key=key)

    def unknown(self, key: str, *, source: str, known: Iterable[str]) -> errors.ConfigError:
        """The error for a key that is not one of `known`."""
        return self._error(
            f"there is no such key{names.did_you_mean(key, known)}",
            source=source,
            key=key,
            fix="Leave it out, or correct it; docs/settings.md lists the settings",
        )

    def _add(self, name: str, value: object, *, source: str, key: str | None) -> None:
        if name in self._entries:
            earlier = self._entries[name]
            raise self._error(
                f"it is given twice: {earlier.key or earlier.source} says it too",
                source=source,
                key=key,
                fix="Leave one out",
            )
        self._entries[name] = Entry(value=value, source=source, line=self._line(key), key=key)

    def _checked(
        self, known: settings.Field, value: object, *, source: str, key: str | None
    ) -> object:
        if value is None:
            raise self._error(
                "it has no value", source=source, key=key, fix="Leave it out, or give a value"
            )
        try:
            typed = known.kind.check(value)
        except errors.ConfigError as error:
            path = f"{key or ''}{error.key or ''}"
            raise self._error(
                error.problem, source=source, key=path.lstrip(".") or None, fix=error.fix
            ) from error.__cause__
        if self._folder is not None and known.kind.place is not None:
            return known.kind.place(typed, self._folder)
        return typed

    def _take_details(self, form: Mapping[object, object], *, source: str, key: str | None) -> None:
        """Take addresses, pins and each party's own settings out of a `parties` mapping."""
        addresses: dict[object, object] = {}
        pins: dict[object, object] = {}
        first_pin: str | None = None
        for name, value in form.items():
            at = f"{key or 'parties'}.{name}"
            if isinstance(value, str):
                addresses[name] = value
                self._checked_inside("addresses", name, value, source=source, key=at)
            elif isinstance(value, Mapping):
                for inner_key, inner in _flat(value):
                    inner_at = f"{at}.{inner_key}"
                    target = PARTY_KEYS.get(inner_key)
                    if target is None:
                        known = [f"{at}.{known_key}" for known_key in PARTY_KEYS]
                        raise self.unknown(inner_at, source=source, known=known)
                    if target == "addresses":
                        addresses[name] = inner
                        self._checked_inside(target, name, inner, source=source, key=inner_at)
                    elif target == "tls_pins":
                        pins[name] = inner
                        first_pin = first_pin or inner_at
                        self._checked_inside(target, name, inner, source=source, key=inner_at)
                    else:
                        typed = self._checked(
                            settings.FIELDS[target], inner, source=source, key=inner_at
                        )
                        self._of_party.setdefault(str(name), {})[target] = Entry(
                            value=typed, source=source, line=self._line(inner_at), key=inner_at
                        )
        if addresses:
            # A party without an address in a mapping that has others: it opens no port.
            whole = {
                name: addresses.get(name)
                for name, value in form.items()
                if not isinstance(value, int)
            }
            typed = self._checked(settings.FIELDS["addresses"], whole, source=source, key=key)
            self._add("addresses", typed, source=source, key=key)
        if pins:
            typed = self._checked(settings.FIELDS["tls_pins"], pins, source=source, key=key)
            self._add("tls_pins", typed, source=source, key=first_pin)

    def _checked_inside(
        self, target: str, name: object, value: object, *, source: str, key: str
    ) -> None:
        """Check one party's entry of a mapping setting, so that an error names its own key."""
        try:
            settings.FIELDS[target].kind.check({name: value})
        except errors.ConfigError as error:
            raise self._error(
                error.problem, source=source, key=key, fix=error.fix
            ) from error.__cause__

    def _line(self, key: str | None) -> int | None:
        """The line of a key, or of the nearest key around it that has one."""
        while key:
            line = self._line_of(key)
            if line is not None:
                return line
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return None

    def _error(
        self, problem: str, *, source: str, key: str | None, fix: str = ""
    ) -> errors.ConfigError:
        return errors.ConfigError(
            problem=problem, fix=fix, key=key, source=source, line=self._line(key)
        )


def _flat(mapping: Mapping[object, object]) -> Iterable[tuple[str, object]]:
    """The entries of one party with `tls: {cert: ...}` as `tls.cert`."""
    for name, value in mapping.items():
        if name == "tls" and isinstance(value, Mapping):
            for inner, path in value.items():
                yield f"tls.{inner}", path
        else:
            yield str(name), value


def _inside(prefix: str) -> str:
    """The keys of a group, in words."""
    keys = [
        known.removeprefix(f"{prefix}.")
        for known in settings.BY_KEY
        if known.startswith(f"{prefix}.")
    ]
    return f"a mapping with {', '.join(keys)}"
