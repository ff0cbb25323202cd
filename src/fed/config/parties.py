"""The parties of a federation: names in declaration order, never expanded before asked for.

`{"client": 1_000_000}` is one entry here. A name's position is computed from its digits, so that a
party that never acts costs nothing.
"""

from __future__ import annotations

import abc
import bisect
import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from typing import NamedTuple, cast

from fed import errors
from fed import names as naming  # `Parties.names` has the plain name

#: The most parties that a declaration may have. Far above what one machine can serve; it keeps
#: positions within a machine word, so that `len()` and arrays of positions work everywhere.
MAX_PARTIES = 1_000_000_000

#: The text that says that parties are accepted as they appear.
OPEN = "open"

#: The stem of the names that a bare number gives: 1000 -> party-0000 ... party-0999.
DEFAULT_STEM = "party"

#: A count in text; more digits than `MAX_PARTIES` has are no count.
_COUNT = re.compile(r"[0-9]{1,3}(?:_?[0-9]{1,3}){0,6}")

_FORMS = (
    "a list of names, a mapping of names to counts or addresses, a number of parties, "
    f"or {OPEN!r} (simulation: accept any name)"
)


class Parties(abc.ABC):
    """The names of a federation's parties and their positions, in declaration order.

    Equal when they hold the same names in the same order. Declared parties never change; open ones
    (`is_declared` is False) take a name in when `index` first sees it. Not safe to use from several
    threads while open: the one thread that makes calls is the one that asks.
    """

    __slots__ = ()

    @staticmethod
    def parse(form: object, *, source: str | None = None, key: str = "parties") -> Parties:
        """The parties that a declaration means.

        Args:
            form: a sequence of names; a mapping of names to counts (`{"server": 1, "client": 1000}`
                is `server`, `client-0000` ... `client-0999`) or to anything that is not a number
                (an address, a mapping, None: one party of that name, the value is not looked at);
                a number N (`party-...` likewise); text as in `FED_PARTIES`: `ALICE,BOB`,
                `server=1,client=1000` or `1000`; None or `open`: not declared.
            source: where the declaration stands, for the error.
            key: its key, for the error.

        Returns:
            Immutable parties for a declaration, open ones for None and `open`.

        Raises:
            ConfigError: the form is none of these, a name breaks the rule or is there twice
                (ignoring case), a count is not positive, or there is no party at all.

        O(entries), whatever the counts are.
        """
        declaration = _Declaration(source=source, key=key)
        if form is None:
            return _Open()
        if isinstance(form, str):
            form = _read_text(form, declaration)
            if form is None:
                return _Open()
        if isinstance(form, int) and not isinstance(form, bool):
            declaration.group(DEFAULT_STEM, form, key)
        elif isinstance(form, Mapping):
            for name, value in form.items():
                at = f"{key}.{name}"
                if isinstance(value, int) and not isinstance(value, bool):
                    declaration.group(name, value, at)
                elif value is None or isinstance(value, (str, Mapping)):
                    declaration.single(name, at)
                else:
                    raise declaration.error(
                        f"{type(value).__name__} is neither a count nor an address",
                        fix="Give the number of parties, an address, or nothing",
                        at=at,
                    )
        elif isinstance(form, (Sequence, KeysView)) and not isinstance(form, (bytes, bytearray)):
            for position, name in enumerate(form):
                declaration.single(name, f"{key}[{position}]")
        else:
            raise declaration.error(
                f"{type(form).__name__} does not declare parties", fix=f"Give {_FORMS}"
            )
        return declaration.parties()

    @property
    @abc.abstractmethod
    def is_declared(self) -> bool:
        """False when names are accepted as they appear."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """How many parties there are; while open, how many have been seen."""

    @abc.abstractmethod
    def index(self, name: str) -> int:
        """The position of a party in declaration order, from 0; O(1).

        While open, a new valid name gets the next position.

        Raises:
            UnknownPartyError: not declared (names the nearest one, or says that only the case
                differs), breaks the rule for names, or (open) equals an earlier name but for case.
        """

    @abc.abstractmethod
    def name(self, index: int) -> naming.PartyId:
        """The name at a position in 0..len-1.

        Raises:
            IndexError: there is no such position.
        """

    @abc.abstractmethod
    def names(self) -> Iterator[naming.PartyId]:
        """The names in declaration order, made one by one; while open, those seen so far."""

    @abc.abstractmethod
    def match(self, pattern: str = "*") -> list[naming.PartyId]:
        """The names that fit a shell pattern (`*`, `?`, `[...]`; case counts), in order.

        Raises:
            UsageError: the parties are not declared, so that they can't be listed.
        """

    def subset(self, selected: Iterable[str]) -> Parties:
        """Declared parties with these names alone, in the order given here.

        Raises:
            UnknownPartyError: as `index`.
            ConfigError: a name is there twice, or there is none.
        """
        chosen = list(selected)
        for name in chosen:
            self.index(name)
        return Parties.parse(chosen)

    def __iter__(self) -> Iterator[naming.PartyId]:
        return self.names()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._position(name) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parties):
            return NotImplemented
        if self is other:
            return True
        return (
            self.is_declared == other.is_declared
            and len(self) == len(other)
            and all(
                mine == theirs for mine, theirs in zip(self.names(), other.names(), strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]  # open parties change, and equality is by name

    @abc.abstractmethod
    def _position(self, name: str) -> int | None:
        """The position of a name that is there already, else None."""


class _Group(NamedTuple):
    """The parties `stem-000...` of one count: positions start ... start + size - 1."""

    start: int
    size: int
    width: int
    prefix: str

    def name(self, number: int) -> naming.PartyId:
        return naming.PartyId(f"{self.prefix}{number:0{self.width}d}")

    def names(self, numbers: range) -> list[naming.PartyId]:
        # One f-string per name, not one call: a million names in some 0.2 s.
        prefix, width = self.prefix, self.width
        return cast("list[naming.PartyId]", [f"{prefix}{number:0{width}d}" for number in numbers])

    def starting_with(self, head: str) -> range:
        """The numbers whose names start with `head`."""
        if self.prefix.startswith(head):
            return range(self.size)
        if not head.startswith(self.prefix):
            return range(0)
        digits = head[len(self.prefix) :]
        if len(digits) > self.width or not (digits.isascii() and digits.isdecimal()):
            return range(0)
        step: int = 10 ** (self.width - len(digits))
        first = int(digits) * step
        return range(min(first, self.size), min(first + step, self.size))


class _Declared(Parties):
    """Parties that were declared: single names in a dict, counts as groups."""

    __slots__ = ("_blocks", "_groups", "_singles", "_size", "_starts")

    def __init__(self, singles: dict[str, int], groups: dict[str, _Group], size: int) -> None:
        self._singles = singles
        self._groups = groups
        self._size = size
        # Runs of single names and groups, by their first position: what `name` and `names` walk.
        blocks: list[tuple[int, list[str] | _Group]] = []
        pending = sorted(groups.values())
        run: list[str] = []
        for name, position in singles.items():
            while pending and pending[0].start < position:
                blocks.append((pending[0].start, pending.pop(0)))
                run = []
            if not run:
                blocks.append((position, run))
            run.append(name)
        blocks.extend((group.start, group) for group in pending)
        self._blocks = blocks
        self._starts = [start for start, _ in blocks]

    @property
    def is_declared(self) -> bool:
        return True

    def __len__(self) -> int:
        return self._size

    def index(self, name: str) -> int:
        # `_position` written out: this runs at every `.party(name)`.
        try:
            position = self._singles.get(name)
            if position is not None:
                return position
            stem, _, digits = name.rpartition("-")
            group = self._groups.get(stem)
            if (
                group is not None
                and len(digits) == group[2]
                and digits.isdecimal()
                and digits.isascii()
            ):
                number = int(digits)
                if number < group[1]:
                    return group[0] + number
        except (TypeError, AttributeError):
            raise _not_a_name(name) from None
        raise self._unknown(name)

    def _position(self, name: str) -> int | None:
        position = self._singles.get(name)
        if position is not None:
            return position
        stem, _, digits = name.rpartition("-")
        group = self._groups.get(stem)
        if group is None:
            return None
        number = _number(digits, group)
        return None if number is None else group.start + number

    def _unknown(self, name: str) -> errors.UnknownPartyError:
        if not naming.is_name(name):
            return _not_a_name(name)
        folded = name.casefold()
        close: list[str] = [single for single in self._singles if single.casefold() == folded]
        stem, _, digits = name.rpartition("-")
        for own_stem, group in self._groups.items():
            number = _number(digits, group)
            if own_stem.casefold() == stem.casefold() and number is not None:
                close.append(group.name(number))
        if close:
            return errors.UnknownPartyError(
                problem=f"there is no party {name!r}: names keep their case",
                fix=f"Write {close[0]!r}",
                party=name,
            )
        own_group = self._groups.get(stem) or self._groups.get(name)
        if own_group is not None:
            first, last = own_group.name(0), own_group.name(own_group.size - 1)
            return errors.UnknownPartyError(
                problem=f"there is no party {name!r}",
                fix=f"The nearest declared name is {self._nearest(name)!r} "
                f"(that group is {first!r} ... {last!r})",
                party=name,
            )
        nearest = self._nearest(name)
        fix = f"The nearest declared name is {nearest!r}" if nearest else self._declared_in_words()
        return errors.UnknownPartyError(problem=f"there is no party {name!r}", fix=fix, party=name)

    def _nearest(self, name: str) -> str | None:
        # Of each group one candidate: the number that was meant, if the group has it.
        stem, _, digits = name.rpartition("-")
        number = int(digits) if digits.isdecimal() and digits.isascii() else 0
        candidates = [group.name(min(number, group.size - 1)) for group in self._groups.values()]
        own_group = self._groups.get(stem) or self._groups.get(name)
        if own_group is not None:
            return own_group.name(min(number, own_group.size - 1))
        return naming.nearest(name, [*candidates, *self._singles])

    def _declared_in_words(self) -> str:
        shown = []
        for _, block in self._blocks[:5]:
            if isinstance(block, _Group):
                shown.append(f"{block.name(0)!r} ... {block.name(block.size - 1)!r}")
            else:
                shown.extend(repr(single) for single in block[:5])
        more = ", ..." if len(self._blocks) > 5 or len(self._singles) > 5 else ""
        return f"Declared are {', '.join(shown)}{more}"

    def name(self, index: int) -> naming.PartyId:
        if not 0 <= index < self._size:
            raise IndexError(f"there is no party {index}: positions are 0 ... {self._size - 1}")
        start, block = self._blocks[bisect.bisect_right(self._starts, index) - 1]
        if isinstance(block, _Group):
            return block.name(index - start)
        return naming.PartyId(block[index - start])

    def names(self) -> Iterator[naming.PartyId]:
        for _, block in self._blocks:
            if isinstance(block, _Group):
                for number in range(block.size):
                    yield block.name(number)
            else:
                for single in block:
                    yield naming.PartyId(single)

    def match(self, pattern: str = "*") -> list[naming.PartyId]:
        found: list[naming.PartyId] = []
        magic = re.search(r"[*?\[]", pattern)
        if magic is None:
            position = self._position(pattern)
            return [] if position is None else [self.name(position)]
        head, tail = pattern[: magic.start()], pattern[magic.start() :]
        fits: Callable[[str], object] | None = None
        if tail.strip("*"):  # more than a prefix
            fits = re.compile(fnmatch.translate(pattern)).match
        for _, block in self._blocks:
            if isinstance(block, _Group):
                some = block.names(block.starting_with(head))
            else:
                some = [naming.PartyId(name) for name in block if name.startswith(head)]
            found.extend(some if fits is None else [name for name in some if fits(name)])
        return found

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Declared) and self._blocks == other._blocks:
            return True
        return super().__eq__(other)

    __hash__ = None

    def __repr__(self) -> str:
        return f"<{self._size} parties. {self._declared_in_words()}>"


class _Open(Parties):
    """Parties that are taken in as they appear (simulation without a declaration)."""

    __slots__ = ("_folded", "_names", "_positions")

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._folded: dict[str, str] = {}
        self._names: list[naming.PartyId] = []

    @property
    def is_declared(self) -> bool:
        return False

    def __len__(self) -> int:
        return len(self._names)

    def index(self, name: str) -> int:
        try:
            position = self._positions.get(name)
        except TypeError:
            raise _not_a_name(name) from None
        return self._admit(name) if position is None else position

    def _admit(self, name: str) -> int:
        if not naming.is_name(name):
            raise _not_a_name(name)
        # A str subclass would carry its own equality into the table.
        name = str(name)
        earlier = self._folded.setdefault(name.casefold(), name)
        if earlier != name:
            raise errors.UnknownPartyError(
                problem=f"{name!r} and the earlier party {earlier!r} differ in case alone",
                fix=f"Write {earlier!r}, or give the party another name",
                party=name,
            )
        position = self._positions[name] = len(self._names)
        self._names.append(naming.PartyId(name))
        return position

    def _position(self, name: str) -> int | None:
        return self._positions.get(name)

    def name(self, index: int) -> naming.PartyId:
        if not 0 <= index < len(self._names):
            raise IndexError(f"there is no party {index}: {len(self._names)} have been seen")
        return self._names[index]

    def names(self) -> Iterator[naming.PartyId]:
        return iter(tuple(self._names))

    def match(self, pattern: str = "*") -> list[naming.PartyId]:
        raise errors.UsageError(
            problem=f"the parties are not declared, so {pattern!r} can't list them",
            fix="Declare them: fed.init(parties=...), rayfed run --parties, FED_PARTIES, "
            "or parties: in federation.yaml",
        )

    def __repr__(self) -> str:
        return f"<open parties, {len(self._names)} seen>"


class _Declaration:
    """Collects entries, refusing bad and doubled names, and gives the parties."""

    def __init__(self, *, source: str | None, key: str) -> None:
        self._source = source
        self._key = key
        self._singles: dict[str, int] = {}
        self._groups: dict[str, _Group] = {}
        self._folded_singles: dict[str, str] = {}
        self._folded_groups: dict[str, _Group] = {}
        self._size = 0

    def error(self, problem: str, *, fix: str = "", at: str | None = None) -> errors.ConfigError:
        return errors.ConfigError(
            problem=problem, fix=fix, key=at or self._key, source=self._source
        )

    def single(self, name: object, at: str) -> None:
        name = self._checked(name, at)
        folded = name.casefold()
        earlier = self._folded_singles.get(folded) or self._in_group(folded)
        if earlier is not None:
            raise self._doubled(name, earlier, at)
        self._folded_singles[folded] = name
        self._singles[name] = self._size
        self._grow(1, at)

    def group(self, stem: object, count: int, at: str) -> None:
        if count < 1:
            raise self.error(
                f"a count of {count} is not positive",
                fix="Leave the entry out, or give 1 or more",
                at=at,
            )
        if count > MAX_PARTIES:
            raise self._too_many(at)
        if count == 1:
            self.single(stem, at)
            return
        stem = self._checked(stem, at)
        group = _Group(start=self._size, size=count, width=len(str(count)), prefix=f"{stem}-")
        self._checked(group.name(count - 1), at)
        folded = stem.casefold()
        if folded in self._folded_groups:
            raise self._doubled(stem, self._folded_groups[folded].prefix[:-1], at)
        for folded_single, name in self._folded_singles.items():
            own_stem, _, digits = folded_single.rpartition("-")
            if own_stem == folded and _number(digits, group) is not None:
                raise self._doubled(name, group.prefix + digits, at)
        self._folded_groups[folded] = self._groups[stem] = group
        self._grow(count, at)

    def parties(self) -> Parties:
        if not self._size:
            raise self.error(
                "no party is declared", fix=f"Give at least one name, or {OPEN!r} (simulation)"
            )
        return _Declared(self._singles, self._groups, self._size)

    def _checked(self, name: object, at: str) -> str:
        if not isinstance(name, str):
            raise self.error(
                f"a party's name is text, not {type(name).__name__} {name!r}",
                fix="Put it in quotes",
                at=at,
            )
        if not naming.is_name(name):
            raise self.error(
                f"{name!r} is not a party's name", fix=f"A name has {naming.NAME_RULE}", at=at
            )
        return str(name)

    def _in_group(self, folded: str) -> str | None:
        stem, _, digits = folded.rpartition("-")
        group = self._folded_groups.get(stem)
        number = None if group is None else _number(digits, group)
        return None if group is None or number is None else group.name(number)

    def _doubled(self, name: str, earlier: str, at: str) -> errors.ConfigError:
        if name == earlier:
            return self.error(f"party {name!r} is declared twice", fix="Leave one out", at=at)
        return self.error(
            f"parties {earlier!r} and {name!r} differ in case alone",
            fix="Give one of them another name",
            at=at,
        )

    def _grow(self, count: int, at: str) -> None:
        self._size += count
        if self._size > MAX_PARTIES:
            raise self._too_many(at)

    def _too_many(self, at: str) -> errors.ConfigError:
        return self.error(
            f"there are more than {MAX_PARTIES:,} parties", fix="Declare fewer", at=at
        )


def _number(digits: str, group: _Group) -> int | None:
    """The number in the group that these digits spell as its names do, else None."""
    if len(digits) != group.width or not (digits.isascii() and digits.isdecimal()):
        return None
    number = int(digits)
    return number if number < group.size else None


def _not_a_name(name: object) -> errors.UnknownPartyError:
    if not isinstance(name, str):
        return errors.UnknownPartyError(
            problem=f"{name!r} is not a party's name but {type(name).__name__}",
            fix="Give the party's name as text",
            party=repr(name),
        )
    return errors.UnknownPartyError(
        problem=f"{name!r} is not a party's name",
        fix=f"A name has {naming.NAME_RULE}",
        party=name,
    )


def _read_text(
    text: str, declaration: _Declaration
) -> int | list[str] | dict[str, int | None] | None:
    """`open`, `1000`, `ALICE,BOB` or `server=1,client=1000` as a declaration; None means open."""
    text = text.strip()
    if text == OPEN:
        return None
    if _COUNT.fullmatch(text):
        return int(text)
    entries = [entry.strip() for entry in text.split(",")]
    if not any("=" in entry for entry in entries):
        return entries if text else []
    counts: dict[str, int | None] = {}
    for entry in entries:
        name, equals, count = (part.strip() for part in entry.partition("="))
        if name in counts:
            raise declaration.error(f"party {name!r} is declared twice", fix="Leave one out")
        if equals and not _COUNT.fullmatch(count):
            raise declaration.error(
                f"{entry!r} gives no count", fix="Write name=count, such as client=1000"
            )
        counts[name] = int(count) if equals else None
    return counts
