"""The kinds of value that settings have: what each accepts, in which words, and as what type.

A kind turns a Python or YAML value into the typed one (`check`), and the text of an environment
variable or command-line option into such a value first (`read`).
"""

from __future__ import annotations

import enum
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fed import errors, names
from fed.config import choices, endpoints, parties

#: Seeds are unsigned 64-bit numbers: they are hashed into keys in this width on every platform.
MAX_SEED = 2**64 - 1

#: The longest time-out: a year. A wait without end is not offered.
MAX_SECONDS = 366 * 24 * 3600.0

#: The largest size, 8 EiB: above it a size no longer is a file offset.
MAX_BYTES = 2**63 - 1

_SIZE_UNITS = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_TIME_UNITS = {
    "": 1.0, "ms": 0.001, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0,
}  # fmt: skip
_QUANTITY = re.compile(r"\s*([0-9]{1,18}(?:_[0-9]{3})*(?:\.[0-9]{1,18})?)\s*([A-Za-z]*)\s*")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,253}[a-z0-9]|[a-z0-9]")

_Choice = TypeVar("_Choice", bound=enum.StrEnum)


def _same(text: str) -> object:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a setting accepts.

    Attributes:
        expected: in words, to follow "is not" and to stand in the documentation.
        check: the typed value; raises `ConfigError` with `problem`, `fix` and, for an entry inside
            a mapping or list, the rest of the key path (`.BOB`, `[2]`).
        read: a value for `check` from the text of an environment variable or option.
        place: the typed value with relative paths taken from a folder; None where it has no paths.
    """

    expected: str
    check: Callable[[object], Any]
    read: Callable[[str], object] = _same
    place: Callable[[Any, Path], Any] | None = None


def refused(
    value: object, expected: str, *, fix: str = "", at: str | None = None
) -> errors.ConfigError:
    """The error that says that `value` is not what was expected."""
    shown = repr(value)
    if len(shown) > 80:
        shown = f"{shown[:77]}..."
    return errors.ConfigError(problem=f"{shown} is not {expected}", fix=fix, key=at)


def choice(words: type[_Choice]) -> Kind:
    """One word of an enum; case and underscores do not matter."""
    expected = f"one of {', '.join(words)}"

    def check(value: object) -> _Choice:
        if isinstance(value, str):
            word = choices.spelled(value)
            if word in set(words):
                return words(word)
            hint = names.did_you_mean(word, map(str, words))
            raise refused(value, f"{expected}{hint}")
        raise refused(value, expected)

    return Kind(expected=expected, check=check)


def _check_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise refused(value, "true or false")


def _read_flag(text: str) -> object:
    word = text.strip().casefold()
    if word in {"true", "yes", "on", "1"}:
        return True
    if word in {"false", "no", "off", "0"}:
        return False
    return text


def whole(low: int, high: int) -> Kind:
    """A whole number in low..high."""
    expected = (
        f"a whole number from {low} to {high}"
        if high < 2**53
        else (f"a whole number, {low} or more")
    )

    def check(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return int(value)
        raise refused(value, expected)

    return Kind(expected=expected, check=check, read=_read_whole)


def _read_whole(text: str) -> object:
    stripped = text.strip()
    return int(stripped) if re.fullmatch(r"[+-]?[0-9]{1,20}(?:_[0-9]{3})*", stripped) else text


def _check_seconds(value: object) -> float:
    expected = "a time above 0 s and of at most a year: seconds as a number, or '30 s', '2 min'"
    seconds: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(min(value, 2**62))
    elif isinstance(value, str):
        match = _QUANTITY.fullmatch(value)
        if match is not None and match[2].casefold() in _TIME_UNITS:
            seconds = float(match[1].replace("_", "")) * _TIME_UNITS[match[2].casefold()]
    if seconds is None or not math.isfinite(seconds) or not 0 < seconds <= MAX_SECONDS:
        raise refused(value, expected)
    return seconds


def _check_bytes(value: object) -> int:
    expected = "a size of 1 byte or more: bytes as a whole number, or '500 MB', '1 GiB'"
    size: int | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if math.isfinite(value) and value == int(value):  # YAML reads 1e9 as a float
            size = int(value)
    elif isinstance(value, str):
        match = _QUANTITY.fullmatch(value)
        if match is not None and match[2].casefold() in _SIZE_UNITS:
            size = _scaled(match[1].replace("_", ""), _SIZE_UNITS[match[2].casefold()])
    if size is None or not 1 <= size <= MAX_BYTES:
        raise refused(value, expected)
    return size


def _scaled(number: str, unit: int) -> int:
    """The whole bytes in a decimal number of units, exactly: floats end at 2**53."""
    integer, _, fraction = number.partition(".")
    return int(integer) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)


def _check_name(value: object) -> str:
    if names.is_name(value):
        return str(value)
    fix = "Put it in quotes" if isinstance(value, (int, float)) else ""
    raise refused(value, f"a name ({names.NAME_RULE})", fix=fix)


def _check_job(value: object) -> str:
    if isinstance(value, str) and 1 <= len(value) <= 200 and value.isprintable():
        return value
    raise refused(value, "a text of 1 to 200 printable characters")


def _check_domain(value: object) -> str:
    if isinstance(value, str) and _DOMAIN.fullmatch(value):
        return value
    raise refused(
        value,
        "a federation's name: lower-case letters, digits, '.', '_' and '-', at most 255, first and "
        "last a letter or a digit (it stands in certificates as a SPIFFE trust domain)",
    )


def _check_cluster(value: object) -> str:
    expected = "the address of a Ray cluster: host:port or auto"
    if not isinstance(value, str):
        raise refused(value, expected)
    if value != "auto":
        try:
            endpoints.split(value)
        except ValueError as error:
            raise refused(value, expected, fix=f"It {error}") from error
    return value


def _check_listen(value: object) -> str:
    return _endpoint(value, "an address to listen on: host:port (port 0: any free one)")


def _check_dialled(value: object, *, at: str | None = None) -> str:
    text = _endpoint(value, "the address that the other parties dial: host:port", at=at)
    endpoint = endpoints.split(text)
    if endpoint.is_wildcard:
        raise errors.ConfigError(
            problem=f"{text!r} can't be dialled: it means every interface",
            fix="Give the address that the others reach here; where to listen is the setting "
            "listen",
            key=at,
        )
    if endpoint.port == 0:
        raise errors.ConfigError(
            problem=f"{text!r} can't be dialled: port 0 is none", fix="Give the port", key=at
        )
    return text


def _endpoint(value: object, expected: str, *, at: str | None = None) -> str:
    if not isinstance(value, str):
        raise refused(value, expected, at=at)
    try:
        return str(endpoints.split(value.strip()))
    except ValueError as error:
        raise errors.ConfigError(problem=f"the address {value!r} {error}", key=at) from error


def _check_addresses(value: object) -> dict[names.PartyId, str | None]:
    found: dict[names.PartyId, str | None] = {}
    for name, address in _mapping(value, "a mapping of party names to addresses").items():
        if not isinstance(name, str):
            raise refused(name, "a party's name", fix="Put it in quotes", at=f".{name}")
        party = names.PartyId(name)
        found[party] = None if address is None else _check_dialled(address, at=f".{name}")
    parties.Parties.parse(list(found), key="")  # refuses bad and doubled names
    return found


def _check_path(value: object, *, at: str | None = None) -> Path:
    if isinstance(value, (str, os.PathLike)) and os.fspath(value):
        path = Path(os.fsdecode(os.fspath(value)))
        try:
            return path.expanduser()
        except RuntimeError as error:
            raise errors.ConfigError(problem=f"{error} in {path}", key=at) from error
    raise refused(value, "a path", at=at)


def _check_paths(value: object) -> dict[names.PartyId, Path]:
    found: dict[names.PartyId, Path] = {}
    for name, path in _mapping(value, "a mapping of party names to paths").items():
        if not isinstance(name, str) or not names.is_name(name):
            raise refused(name, f"a party's name ({names.NAME_RULE})", at=f".{name}")
        found[names.PartyId(name)] = _check_path(path, at=f".{name}")
    return found


def _check_dotted(value: object) -> tuple[str, ...]:
    expected = "a list of module names such as 'clinic.models'"
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise refused(value, expected)
    for position, name in enumerate(value):
        if not isinstance(name, str) or not _DOTTED.fullmatch(name):
            raise refused(name, "a dotted name such as 'clinic.models'", at=f"[{position}]")
    return tuple(dict.fromkeys(value))


def _check_parties(value: object) -> parties.Parties:
    if isinstance(value, parties.Parties):
        return value
    return parties.Parties.parse(value, key="")


def _mapping(value: object, expected: str) -> Mapping[object, object]:
    if isinstance(value, Mapping):
        return value
    raise refused(value, expected)


def _read_list(text: str) -> object:
    return [part.strip() for part in text.split(",")]


def _read_pairs(text: str) -> object:
    pairs: dict[str, str | None] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name in pairs:
            return text
        pairs[name] = value or None
    return pairs


def _place(path: Path, folder: Path) -> Path:
    return folder / path


def _place_all(paths: Mapping[names.PartyId, Path], folder: Path) -> dict[names.PartyId, Path]:
    return {name: folder / path for name, path in paths.items()}


FLAG = Kind(expected="true or false", check=_check_flag, read=_read_flag)
SECONDS = Kind(expected="seconds, or '30 s', '2 min'", check=_check_seconds)
BYTES = Kind(expected="bytes, or '500 MB', '1 GiB'", check=_check_bytes)
NAME = Kind(expected="a name", check=_check_name)
JOB = Kind(expected="text", check=_check_job)
DOMAIN = Kind(expected="lower-case name", check=_check_domain)
CLUSTER = Kind(expected="host:port or auto", check=_check_cluster)
LISTEN = Kind(expected="host:port", check=_check_listen)
ADDRESSES = Kind(
    expected="name: host:port, ... (or nothing: opens no port)",
    check=_check_addresses,
    read=_read_pairs,
)
PATH = Kind(expected="path", check=_check_path, place=_place)
PATHS = Kind(expected="name: path, ...", check=_check_paths, read=_read_pairs, place=_place_all)
DOTTED = Kind(expected="list of dotted names", check=_check_dotted, read=_read_list)
PARTIES = Kind(expected="names, counts, a number, or open", check=_check_parties)
