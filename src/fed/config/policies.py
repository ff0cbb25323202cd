"""What this party lets out and takes in: the setting `policy`, checked and typed.

`fed.transport.policy` decides by it. A limit of one peer replaces the limit of the same name that
stands for all peers.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fed import errors, names
from fed.config import kinds

#: The type table by the names that a policy has for it. A test compares it with `fed.codec`.
TYPE_NAMES: Final = (
    "None", "bool", "int", "float", "complex", "str", "bytes", "list", "tuple", "set", "frozenset",
    "dict", "OrderedDict", "datetime", "date", "time", "timedelta", "timezone", "Decimal", "UUID",
    "numpy.ndarray", "numpy.bool", "numpy.int8", "numpy.int16", "numpy.int32", "numpy.int64",
    "numpy.uint8", "numpy.uint16", "numpy.uint32", "numpy.uint64", "numpy.float16",
    "numpy.float32", "numpy.float64", "numpy.complex64", "numpy.complex128", "numpy.str_",
    "numpy.bytes_", "numpy.datetime64", "numpy.timedelta64", "numpy.void", "pandas.DataFrame",
    "pandas.Series", "pyarrow.Table", "torch.Tensor",
)  # fmt: skip

#: Packages whose types are all in the table: a dotted name below one of them is no user's class.
_LIBRARIES: Final = ("numpy.", "pandas.", "pyarrow.", "torch.")

#: The most patterns in one list: each is tried on every type of a value.
MAX_PATTERNS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one direction, for all peers or for one. None: not limited here.

    Attributes:
        types: patterns of the only types that may be anywhere in a value.
        refused_types: patterns of types that may not.
        calls: patterns of the only calls (by qualname; `get`) that may use a value.
        refused_calls: patterns of calls that may not.
        max_value_bytes: encoded size of one value.
        max_bytes_per_minute: encoded sizes of the values of one peer, in any 60 s.
    """

    types: tuple[str, ...] | None = None
    refused_types: tuple[str, ...] | None = None
    calls: tuple[str, ...] | None = None
    refused_calls: tuple[str, ...] | None = None
    max_value_bytes: int | None = None
    max_bytes_per_minute: int | None = None


#: The keys of limits, in the order of the documentation.
LIMITS: Final = tuple(field.name for field in dataclasses.fields(Limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The limits of one direction.

    Attributes:
        general: for every peer.
        peers: what replaces them at one peer, limit by limit.
    """

    general: Limits = field(default_factory=Limits)
    peers: Mapping[names.PartyId, Limits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What may leave (`send`) and what may enter (`receive`); empty, it limits nothing."""

    send: Rules = field(default_factory=Rules)
    receive: Rules = field(default_factory=Rules)


def parse(value: object) -> Policy:
    """The policy that the setting gives: `{"send": {...}, "receive": {...}}`.

    Raises:
        ConfigError: with the rest of the key path: an unknown key or type (names the nearest), a
            wrong value, or one pattern both allowed and refused.
    """
    if isinstance(value, Policy):
        return value
    given = _mapping(value, ("send", "receive"), at="")
    return Policy(**{name: _rules(inner, at=f".{name}") for name, inner in given.items()})


def _rules(value: object, *, at: str) -> Rules:
    given = _mapping(value, (*LIMITS, "peers"), at=at)
    peers = given.pop("peers", {})
    if not isinstance(peers, Mapping):
        raise kinds.refused(peers, "a mapping of party names to limits", at=f"{at}.peers")
    found: dict[names.PartyId, Limits] = {}
    for name, inner in peers.items():
        below = f"{at}.peers.{name}"
        if not names.is_name(name):
            raise kinds.refused(name, f"a party's name ({names.NAME_RULE})", at=below)
        found[names.PartyId(name)] = _limits(_mapping(inner, LIMITS, at=below), at=below)
    return Rules(general=_limits(given, at=at), peers=found)


def _limits(given: Mapping[str, object], *, at: str) -> Limits:
    made: dict[str, Any] = {}
    for name, value in given.items():
        below = f"{at}.{name}"
        if name.endswith("types"):
            made[name] = _patterns(value, at=below)
            for position, pattern in enumerate(made[name]):
                _check_type(pattern, at=f"{below}[{position}]")
        elif name.endswith("calls"):
            made[name] = _patterns(value, at=below)
        else:
            made[name] = _size(value, at=below)
    limits = Limits(**made)
    for name in ("types", "calls"):
        refused = getattr(limits, f"refused_{name}") or ()
        for pattern in getattr(limits, name) or ():
            if pattern in refused:
                raise errors.ConfigError(
                    problem=f"{pattern!r} is both allowed and refused",
                    fix=f"Take it out of {name} or of refused_{name}",
                    key=f"{at}.{name}",
                )
    return limits


def _mapping(value: object, known: Sequence[str], *, at: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise kinds.refused(value, f"a mapping with {', '.join(known)}", at=at or None)
    for name, inner in value.items():
        if name not in known:
            raise errors.ConfigError(
                problem=f"there is no such key{names.did_you_mean(str(name), known)}",
                fix=f"The keys are {', '.join(known)}",
                key=f"{at}.{name}",
            )
        if inner is None:
            raise errors.ConfigError(
                problem="it has no value", fix="Leave it out, or give a value", key=f"{at}.{name}"
            )
    return dict(value)


def _size(value: object, *, at: str) -> int:
    try:
        size: int = kinds.BYTES.check(value)
    except errors.ConfigError as error:
        error.key = at
        raise
    return size


def _patterns(value: object, *, at: str) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise kinds.refused(value, "a list of names, `*` for any part of one", at=at)
    if len(value) > MAX_PATTERNS:
        raise errors.ConfigError(
            problem=f"{len(value)} names are more than the {MAX_PATTERNS} that are allowed",
            fix="Use patterns such as 'clinic.models.*'",
            key=at,
        )
    for position, name in enumerate(value):
        if not isinstance(name, str) or not name or not name.isprintable():
            raise kinds.refused(name, "a name", fix="Put it in quotes", at=f"{at}[{position}]")
    return tuple(dict.fromkeys(value))


def _check_type(pattern: str, *, at: str) -> None:
    """Refuse a pattern that can match no type: a misspelt limit would limit nothing."""
    if any(fnmatch.fnmatchcase(name, pattern) for name in TYPE_NAMES):
        return
    if "." in pattern.strip(".") and not pattern.startswith(_LIBRARIES):
        return  # a user's class, by module and qualname, or a pattern of them
    raise errors.ConfigError(
        problem=f"no type is called {pattern!r}{names.did_you_mean(pattern, TYPE_NAMES)}",
        fix="Name a type of the type table, or a class with its module: '__main__.Model'",
        key=at,
    )


def _read(text: str) -> object:
    """The mapping of a text in JSON; any other text is left for the check to refuse."""
    try:
        return json.loads(text)
    except ValueError:
        return text


KIND = kinds.Kind(
    expected="a mapping with send and receive (as text: JSON); see security/audit.md",
    check=parse,
    read=_read,
)
