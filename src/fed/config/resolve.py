"""The settings of a job out of its layers: what wins, what contradicts, what does not apply.

Order: `rayfed run` options, `fed.init` arguments, the environment, federation.yaml, what the
cluster recorded, defaults. For `party` the argument comes before the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fed import errors, names
from fed.config import choices, layers, peers
from fed.config import parties as declared
from fed.config import settings as table  # `Settled.settings` has the plain name

Mode = choices.Mode

_DEFAULT = "default"
_EMPTY = layers.Layer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """A `rayfed run` option that took the place of what the script says.

    Attributes:
        name: the setting.
        run: the option's value, in effect.
        script: the script's value.
    """

    name: str
    run: object
    script: object


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A setting that was given and has no effect, because something else decides.

    Attributes:
        name: the setting.
        where: where it was given.
        why: in words.
    """

    name: str
    where: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The settings of a job, and how they came about.

    Attributes:
        settings: in effect.
        sources: by setting, where its value was given; those with defaults are not in it.
        replaced: what `rayfed run` options replaced in the script, for one log line.
        set_aside: what was given for another mode, for one log line.
        notes: accepted RayFed arguments that have no effect here, one line each.
    """

    settings: table.Settings
    sources: Mapping[str, str]
    replaced: tuple[Replaced, ...]
    set_aside: tuple[SetAside, ...]
    notes: tuple[str, ...]

    def source_of(self, name: str) -> str:
        """Where a setting was given: `fed.init`, `FED_SEED`, `federation.yaml:3`, `default`.

        Raises:
            KeyError: there is no such setting.
        """
        if name not in table.FIELDS:
            raise KeyError(name)
        return self.sources.get(name, _DEFAULT)


def settle(
    *,
    run: layers.Layer = _EMPTY,
    init: layers.Layer = _EMPTY,
    environ: layers.Layer = _EMPTY,
    federation: layers.Layer = _EMPTY,
    recorded: layers.Layer = _EMPTY,
) -> Settled:
    """The settings in effect.

    A federation.yaml may carry settings of other modes, since one file serves all three. The
    script may, if its mode is named elsewhere, and the environment, if the command or the script
    names the mode: those are set aside and listed. Otherwise a setting that does not apply in the
    mode is an error, and so is any `rayfed run` option that does not.

    Args:
        run: options of `rayfed run`.
        init: arguments of `fed.init`.
        environ: `FED_*`.
        federation: federation.yaml.
        recorded: what the cluster at `address` recorded.

    Raises:
        ConfigError: the mode contradicts the cluster's; a setting does not apply; parties and
            addresses disagree; what multi-controller needs is missing or unsafe.
    """
    return _Settling(run, init, environ, federation, recorded).settled()


def first(name: str, *stack: layers.Layer) -> layers.Entry | None:
    """The entry of a setting in the first layer that has it.

    For what is needed before the settings can be settled: the `address` of the cluster whose record
    is one of the layers.
    """
    for layer in stack:
        entry = layer.entries.get(name)
        if entry is not None:
            return entry
    return None


class _Settling:
    def __init__(self, *stack: layers.Layer) -> None:
        self._stack = stack
        self._run, self._init, self._environ, self._federation, self._recorded = stack
        self._chosen: dict[str, layers.Entry] = {}
        self._set_aside: list[SetAside] = []

    def settled(self) -> Settled:
        self._mode, self._mode_source, self._mode_rank = self._choose_mode()
        for name in table.FIELDS:
            if name not in {"mode", "parties", "addresses", "party"}:
                self._choose(name, self._stack)
        self._choose_party()
        if self._mode is Mode.MULTI_CONTROLLER:
            self._choose_own()
        self._check_applicable()
        values: dict[str, Any] = {
            name: entry.value
            for name, entry in self._chosen.items()
            if self._mode in table.FIELDS[name].modes
        }
        values["mode"] = self._mode
        values.update(self._parties())
        if self._mode is Mode.MULTI_CONTROLLER:
            self._settle_compute(values)
        result = table.Settings(**values)
        if self._mode is Mode.MULTI_CONTROLLER:
            peers.check(result, self._chosen)
        sources = {name: entry.where for name, entry in self._chosen.items() if name in values}
        sources["mode"] = self._mode_source
        return Settled(
            settings=result,
            sources=sources,
            replaced=self._replaced(),
            set_aside=tuple(self._set_aside),
            notes=tuple(note for layer in self._stack for note in layer.notes),
        )

    # What wins.

    def _choose(self, name: str, stack: tuple[layers.Layer, ...]) -> layers.Entry | None:
        entry = first(name, *stack)
        if entry is not None:
            self._chosen[name] = entry
        return entry

    def _rank(self, name: str) -> int:
        """Which layer gives a setting, 0 the strongest; beyond the last if none does."""
        for rank, layer in enumerate(self._stack):
            if name in layer.entries:
                return rank
        return len(self._stack)

    def _choose_mode(self) -> tuple[Mode, str, int]:
        entry = first("mode", *self._stack)
        if entry is not None:
            recorded = self._recorded.entries.get("mode")
            if recorded is not None and recorded.value is not entry.value:
                raise entry.error(
                    f"the mode is {entry.value}, but {recorded.source} was started for "
                    f"{recorded.value}",
                    fix="Leave the mode out, or start the cluster with "
                    f"rayfed start --head --mode={entry.value}",
                )
            return entry.value, entry.where, self._rank("mode")
        for name in ("addresses", "address"):
            entry = first(name, *self._stack)
            if entry is not None:
                return (
                    Mode.MULTI_CONTROLLER,
                    f"{_DEFAULT} ({name} given: {entry.where})",
                    len(self._stack),
                )
        return Mode.SIMULATION, _DEFAULT, len(self._stack)

    def _choose_party(self) -> None:
        order = (self._init, self._run, self._environ, self._federation, self._recorded)
        entry = self._choose("party", order)
        option = self._run.entries.get("party")
        if (
            self._mode is Mode.MULTI_CONTROLLER
            and entry is not None
            and option is not None
            and option.value != entry.value
        ):
            self._aside("party", option, f"fed.init(party={entry.value!r}) comes before it")

    def _choose_own(self) -> None:
        """Take in what the layers say of this party alone, such as its `listen`."""
        party = self._chosen.get("party")
        if party is None:
            return
        found: dict[str, layers.Entry] = {}
        for layer in self._stack:
            for name, entry in layer.of_party.get(party.value, {}).items():
                general = layer.entries.get(name)
                if general is not None:
                    raise entry.error(
                        f"{general.key or name} says it too, in the same place",
                        fix="Leave one out",
                    )
                found.setdefault(name, entry)
        for name, entry in found.items():
            rank = next(
                rank
                for rank, layer in enumerate(self._stack)
                if layer.of_party.get(party.value, {}).get(name) is entry
            )
            if rank < self._rank(name):
                self._chosen[name] = entry

    def _replaced(self) -> tuple[Replaced, ...]:
        found = []
        for name, option in self._run.entries.items():
            script = self._init.entries.get(name)
            if script is not None and name != "party" and script.value != option.value:
                found.append(Replaced(name=name, run=option.value, script=script.value))
            elif script is None and name == "parties" and "addresses" in self._init.entries:
                keys = declared.Parties.parse(list(self._init.entries["addresses"].value))
                if keys != option.value:
                    found.append(Replaced(name=name, run=option.value, script=keys))
        return tuple(found)

    # What does not apply.

    def _check_applicable(self) -> None:
        named_by = self._mode_rank
        run, init, environ, federation, recorded = range(len(self._stack))
        for rank, layer in enumerate(self._stack):
            tolerated = (
                rank in (federation, recorded)
                or (rank == init and named_by != init and named_by < len(self._stack))
                or (rank == environ and named_by in (run, init))
            )
            for name, entry in layer.entries.items():
                self._apply_rule(name, entry, is_tolerated=tolerated)
            if self._mode is not Mode.MULTI_CONTROLLER:
                for own in layer.of_party.values():
                    for name, entry in own.items():
                        self._apply_rule(name, entry, is_tolerated=tolerated)

    def _apply_rule(self, name: str, entry: layers.Entry, *, is_tolerated: bool) -> None:
        modes = table.FIELDS[name].modes
        if self._mode in modes:
            return
        if not is_tolerated:
            said = "" if self._mode_rank < len(self._stack) else f", by {self._mode_source}"
            raise entry.error(
                f"{name} applies in {table.in_words(modes)}, and the mode is {self._mode}{said}",
                fix=f"Leave it out, or set the mode to {table.in_words(modes, ' or ')}",
            )
        self._aside(name, entry, f"it does not apply in {self._mode}")

    def _aside(self, name: str, entry: layers.Entry, why: str) -> None:
        self._set_aside.append(SetAside(name=name, where=entry.where, why=why))

    # Parties and addresses.

    def _parties(self) -> dict[str, Any]:
        parties_rank, addresses_rank = self._rank("parties"), self._rank("addresses")
        parties = first("parties", *self._stack)
        addresses = first("addresses", *self._stack)
        if parties is not None and addresses is not None and parties_rank > addresses_rank:
            parties = None  # the stronger place says who takes part
        if addresses is None:
            if self._mode is Mode.MULTI_CONTROLLER:
                raise self._no_addresses(parties)
            if parties is None:
                return {}
            self._chosen["parties"] = parties
            return {"parties": parties.value}
        known: Mapping[names.PartyId, str | None] = addresses.value
        is_multi = self._mode is Mode.MULTI_CONTROLLER
        self._chosen["addresses"] = addresses
        if parties is None or (is_multi and not parties.value.is_declared):
            self._chosen["parties"] = addresses
            selected = declared.Parties.parse(list(known))
        else:
            self._chosen["parties"] = parties
            selected = parties.value
            if is_multi or (parties_rank == addresses_rank and selected.is_declared):
                _check_subset(selected, known, parties=parties, addresses=addresses)
        if not is_multi:
            return {"parties": selected}
        return {"parties": selected, "addresses": {name: known[name] for name in selected}}

    def _no_addresses(self, parties: layers.Entry | None) -> errors.ConfigError:
        fix = (
            "Give addresses={'ALICE': 'host:port', ...} to fed.init, FED_ADDRESSES, or "
            "addresses in federation.yaml"
        )
        problem = "multi-controller needs the addresses of the parties"
        if parties is not None:
            return parties.error(problem, fix=fix)
        return errors.ConfigError(problem=problem, fix=fix, key="addresses")

    # What multi-controller needs.

    def _settle_compute(self, values: dict[str, Any]) -> None:
        compute = values.get("compute", choices.Compute.AUTO)
        address = self._chosen.get("address")
        if compute is choices.Compute.EMBEDDED and address is not None:
            if self._rank("address") <= self._rank("compute"):
                raise address.error(
                    "it names a Ray cluster, and compute is embedded "
                    f"({self._chosen['compute'].where})",
                    fix="Leave one out",
                )
            del values["address"]
            self._aside("address", address, "compute is embedded")
            address = None
        cpus = self._chosen.get("num_cpus")
        if cpus is not None and (compute is choices.Compute.RAY or address is not None):
            raise cpus.error(
                "num_cpus is for embedded compute, and Ray runs this party's calls",
                fix="Leave it out; a Ray node's CPUs are set when it is started",
            )


def _check_subset(
    selected: declared.Parties,
    known: Mapping[names.PartyId, str | None],
    *,
    parties: layers.Entry,
    addresses: layers.Entry,
) -> None:
    """Refuse parties that have no entry in `addresses`.

    Looks at no more names than addresses has, plus one.
    """
    for name in selected:
        if name not in known:
            raise parties.error(
                f"party {name!r} has no address ({addresses.where})"
                f"{names.did_you_mean(name, known)}",
                fix="parties selects some of the keys of addresses; add it there, or leave it out",
            )
