"""Every setting once: its name, type, default, the modes it applies to, and what it does.

`docs/settings.md`, the environment's names, the keys of federation.yaml and the checks are all
made from this table (`scripts/render_settings.py` writes the page).
"""

# `_setting` is `dataclasses.field` with the table's columns: it is meant to run in the class body.
# ruff: noqa: RUF009

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fed import names
from fed.config import choices, kinds, policies
from fed.config import parties as declared  # `Settings.parties` has the plain name

SIMULATION = frozenset({choices.Mode.SIMULATION})
MULTI = frozenset({choices.Mode.MULTI_CONTROLLER})
RAY_CLUSTERS = frozenset({choices.Mode.SINGLE_CONTROLLER, choices.Mode.MULTI_CONTROLLER})
EVERY = frozenset(choices.Mode)

#: The keys of federation.yaml that group settings: `codec.modules` is the setting `codec_modules`.
GROUPS = ("codec", "tls")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What is known of one setting.

    Attributes:
        name: the argument of `fed.init` and the attribute of `Settings`.
        section: heading of the documentation under which it stands.
        kind: what it accepts.
        modes: where it applies.
        doc: what it does, in sentences.
        default: the default in words, for the documentation.
        must_agree: True if all parties of a job have to set the same (checked at the handshake).
    """

    name: str
    section: str
    kind: kinds.Kind
    modes: frozenset[choices.Mode]
    doc: str
    default: str
    must_agree: bool

    @property
    def key(self) -> str:
        """The key in federation.yaml, dots between: `codec.modules`, `peer_timeout_s`."""
        group, _, rest = self.name.partition("_")
        return f"{group}.{rest}" if group in GROUPS else self.name

    @property
    def variable(self) -> str:
        """The environment variable: `FED_PEER_TIMEOUT_S`."""
        return f"FED_{self.name.upper()}"

    @property
    def option(self) -> str:
        """The option of `rayfed run`, where it has one: `--peer-timeout-s`."""
        return f"--{self.name.replace('_', '-')}"


def _setting(
    kind: kinds.Kind,
    default: object = None,
    *,
    section: str,
    modes: frozenset[choices.Mode],
    doc: str,
    default_doc: str = "",
    make: Callable[[], object] | None = None,
    must_agree: bool = False,
) -> Any:
    about = {
        "section": section,
        "kind": kind,
        "modes": modes,
        "doc": doc,
        "default": default_doc or _in_words(default),
        "must_agree": must_agree,
    }
    if make is not None:
        return dataclasses.field(default_factory=make, metadata=about)
    return dataclasses.field(default=default, metadata=about)


def _in_words(default: object) -> str:
    if default is None:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


_JOB = "The job"
_PARTIES = "Parties and addresses"
_VALUES = "Values"
_WAITS = "Time-outs"
_MEMORY = "Memory and disk"
_SECURITY = "Security"
_COMPUTE = "What runs the calls"
_SIMULATION = "Simulation"
_OUTPUT = "Output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one job, settled: typed, checked, and consistent with one another.

    What does not apply in `mode` has its default. Attributes: the table in `docs/settings.md`.
    """

    mode: choices.Mode = _setting(
        kinds.choice(choices.Mode),
        choices.Mode.SIMULATION,
        section=_JOB,
        modes=EVERY,
        must_agree=True,
        default_doc="what the cluster at `address` recorded; else multi-controller if `addresses` "
        "or `address` is given; else simulation",
        doc="Who runs the script and where the parties are. Case and underscores do not matter; "
        "`multiple-controller` is accepted too.",
    )
    job_name: str = _setting(
        kinds.JOB,
        "job",
        section=_JOB,
        modes=EVERY,
        must_agree=True,
        doc="Name of the job. A party answers only to peers of the same job.",
    )
    federation: str = _setting(
        kinds.DOMAIN,
        "federation",
        section=_JOB,
        modes=MULTI,
        must_agree=True,
        doc="Name of the federation, as it stands in the parties' certificates: "
        "`spiffe://<federation>/party/<name>`.",
    )
    seed: int = _setting(
        kinds.whole(0, kinds.MAX_SEED),
        0,
        section=_JOB,
        modes=EVERY,
        must_agree=True,
        doc="What `fed.rng()` is keyed by. Every peer knows it: never a source of secrets.",
    )
    strict: bool = _setting(
        kinds.FLAG,
        False,
        section=_JOB,
        modes=EVERY,
        must_agree=True,
        doc="Makes `parties=` mandatory in `fed.get`, so that no value goes to all by default.",
    )
    error_detail: choices.ErrorDetail = _setting(
        kinds.choice(choices.ErrorDetail),
        choices.ErrorDetail.TYPE,
        section=_JOB,
        modes=EVERY,
        doc="What this party lets out about an error raised by its bodies: the exception's type, "
        "its message too, or the whole traceback. Messages can hold data.",
    )

    parties: declared.Parties = _setting(
        kinds.PARTIES,
        section=_PARTIES,
        modes=EVERY,
        must_agree=True,
        make=lambda: declared.Parties.parse(None),
        default_doc="the keys of `addresses`; else, in simulation, any name as it appears, and in "
        "single-controller the parties of the cluster at the start",
        doc="The parties, in order: a list of names, a mapping of names to counts "
        "(`{server: 1, client: 1000}`) or to addresses, or a number. In multi-controller it "
        "selects from `addresses`. `open`: not declared.",
    )
    party: names.PartyId | None = _setting(
        kinds.NAME,
        section=_PARTIES,
        modes=MULTI,
        default_doc="the party of the cluster at `address`",
        doc="The party that this process acts for. An argument of `fed.init` wins over "
        "`rayfed run --party`.",
    )
    addresses: Mapping[names.PartyId, str | None] = _setting(
        kinds.ADDRESSES,
        section=_PARTIES,
        modes=EVERY,
        make=dict,
        doc="Where each party is dialled by the others: `host:port`, or nothing for one party that "
        "opens no port and dials all others. In simulation and single-controller only the names "
        "count.",
    )
    listen: str | None = _setting(
        kinds.LISTEN,
        section=_PARTIES,
        modes=MULTI,
        default_doc="this party's address",
        doc="Where this party listens, if not at the address that the others dial: "
        "`0.0.0.0:9000` behind a port mapping.",
    )
    address: str | None = _setting(
        kinds.CLUSTER,
        section=_PARTIES,
        modes=RAY_CLUSTERS,
        doc="The Ray cluster to run on: `host:port` of its head, or `auto` for one that runs on "
        "this machine.",
    )

    max_value_bytes: int = _setting(
        kinds.BYTES,
        16 * 2**30,
        section=_VALUES,
        modes=EVERY,
        default_doc="16 GiB",
        doc="The largest value that may cross to another party.",
    )
    codec_modules: tuple[str, ...] | None = _setting(
        kinds.DOTTED,
        section=_VALUES,
        modes=EVERY,
        default_doc="the main script and the modules in its folder",
        doc="Modules whose dataclasses, namedtuples, enums and msgspec Structs may cross. The list "
        "replaces the default; `__main__` is the script.",
    )
    codec_pickle: tuple[str, ...] = _setting(
        kinds.DOTTED,
        (),
        section=_VALUES,
        modes=EVERY,
        default_doc="off",
        doc="Modules or classes that may cross as pickles. Unpickling runs code: a class crosses "
        "only if both sides name it or its module.",
    )
    compression: choices.Compression = _setting(
        kinds.choice(choices.Compression),
        choices.Compression.OFF,
        section=_VALUES,
        modes=MULTI,
        doc="Compression of values on their way to other parties.",
    )
    max_pending_calls: int = _setting(
        kinds.whole(1, 10**9),
        10_000,
        section=_VALUES,
        modes=RAY_CLUSTERS,
        default_doc="10000",
        doc="Calls that may be submitted and not finished; `.remote()` waits above it.",
    )

    start_timeout_s: float = _setting(
        kinds.SECONDS,
        60.0,
        section=_WAITS,
        modes=MULTI,
        doc="How long the start waits for all other parties.",
    )
    peer_timeout_s: float = _setting(
        kinds.SECONDS,
        30.0,
        section=_WAITS,
        modes=MULTI,
        doc="How long a connection to a peer may be broken before the peer counts as lost.",
    )
    stall_timeout_s: float = _setting(
        kinds.SECONDS,
        600.0,
        section=_WAITS,
        modes=MULTI,
        doc="How long a peer whose connection lives may not answer before it counts as stalled.",
    )
    place_timeout_s: float = _setting(
        kinds.SECONDS,
        60.0,
        section=_WAITS,
        modes=RAY_CLUSTERS,
        doc="How long a call waits for a node of its party.",
    )
    shutdown_timeout_s: float = _setting(
        kinds.SECONDS,
        60.0,
        section=_WAITS,
        modes=EVERY,
        doc="How long `fed.shutdown` waits for what is still under way.",
    )

    receive_budget_bytes: int | None = _setting(
        kinds.BYTES,
        section=_MEMORY,
        modes=MULTI,
        default_doc="25 % of the memory",
        doc="Memory for values that arrived and were not yet used; senders wait above it.",
    )
    memory_budget_bytes: int | None = _setting(
        kinds.BYTES,
        section=_MEMORY,
        modes=SIMULATION,
        default_doc="half of the memory",
        doc="Memory for results; those above it spill to disk.",
    )
    spill_dir: Path | None = _setting(
        kinds.PATH,
        section=_MEMORY,
        modes=SIMULATION | MULTI,
        default_doc="the system's folder for temporary files",
        doc="Folder for values that spill to disk.",
    )
    spill_quota_bytes: int | None = _setting(
        kinds.BYTES,
        section=_MEMORY,
        modes=SIMULATION | MULTI,
        default_doc="80 % of the free space of `spill_dir` at the start",
        doc="The most disk that spilled values may take; above it the job fails by name.",
    )

    tls_ca_cert: Path | None = _setting(
        kinds.PATH,
        section=_SECURITY,
        modes=MULTI,
        doc="Certificate of the authority that vouches for the peers (PEM), where they share one.",
    )
    tls_cert: Path | None = _setting(
        kinds.PATH,
        section=_SECURITY,
        modes=MULTI,
        doc="This party's certificate (PEM), from `rayfed cert issue`.",
    )
    tls_key: Path | None = _setting(
        kinds.PATH,
        section=_SECURITY,
        modes=MULTI,
        doc="This party's private key (PEM).",
    )
    tls_pins: Mapping[names.PartyId, Path] = _setting(
        kinds.PATHS,
        section=_SECURITY,
        modes=MULTI,
        make=dict,
        doc="Per peer, the one authority or public key (PEM) that vouches for it, in place of "
        "`tls.ca_cert`.",
    )
    insecure: bool = _setting(
        kinds.FLAG,
        False,
        section=_SECURITY,
        modes=MULTI,
        doc="Allows addresses beyond this machine without TLS. Everyone on the way can read and "
        "alter what crosses.",
    )
    audit: Path | None = _setting(
        kinds.PATH,
        section=_SECURITY,
        modes=MULTI,
        default_doc="no record is kept",
        doc="File to which a line is appended for every value that leaves or enters: peer, call, "
        "type, shape, bytes and digest, chained by hashes (`rayfed audit`). What can't be recorded "
        "does not cross.",
    )
    audit_sync: bool = _setting(
        kinds.FLAG,
        False,
        section=_SECURITY,
        modes=MULTI,
        doc="Waits until each line of `audit` is on the disk before its value leaves, so that a "
        "power failure loses none. Else they are written to the disk once a second; a process that "
        "dies loses none either way.",
    )
    policy: policies.Policy = _setting(
        policies.KIND,
        section=_SECURITY,
        modes=MULTI,
        make=policies.Policy,
        default_doc="no limits beyond the other settings",
        doc="Which types, calls and sizes may leave this party (`send`) and enter it (`receive`), "
        "and how much in a minute, for all peers and for each. What breaks it is refused by name "
        "at both ends.",
    )

    compute: choices.Compute = _setting(
        kinds.choice(choices.Compute),
        choices.Compute.AUTO,
        section=_COMPUTE,
        modes=MULTI,
        doc="What runs this party's own calls: threads of this process (`embedded`) or Ray. `auto` "
        "is Ray if `address` is given or Ray is already initialised in this process.",
    )
    num_cpus: int | None = _setting(
        kinds.whole(1, 100_000),
        section=_COMPUTE,
        modes=MULTI,
        default_doc="the CPUs of this machine",
        doc="CPUs that embedded compute uses.",
    )

    isolation: choices.Isolation = _setting(
        kinds.choice(choices.Isolation),
        choices.Isolation.SEALED,
        section=_SIMULATION,
        modes=SIMULATION,
        doc="How far parties are kept apart: `sealed` (values are snapshots), `process` (classes, "
        "module globals and random state are private to each party too; up to some 10,000 "
        "parties), `check` (names the call that changed what was not its own), `off` (for "
        "benchmarks).",
    )
    fail_fast: bool = _setting(
        kinds.FLAG,
        False,
        section=_SIMULATION,
        modes=SIMULATION,
        doc="A failing body raises at `.remote()`, not at `get`.",
    )

    log_level: choices.LogLevel = _setting(
        kinds.choice(choices.LogLevel),
        choices.LogLevel.INFO,
        section=_OUTPUT,
        modes=EVERY,
        doc="The least level that the logger `fed` lets through.",
    )
    values_digest: bool = _setting(
        kinds.FLAG,
        False,
        section=_OUTPUT,
        modes=EVERY,
        default_doc="false (`rayfed run`: true)",
        doc="Keeps a digest over the encoded results of `get`, for the run report.",
    )

    @property
    def has_tls(self) -> bool:
        """True if this party has a certificate, and so speaks TLS to the others."""
        return self.tls_cert is not None

    def agreed(self) -> dict[str, object]:
        """What all parties of the job must have set alike, as plain data by setting, for the wire.

        The parties are listed by name, so this is for jobs with tens of parties, not millions.
        """
        found: dict[str, object] = {}
        for field in FIELDS.values():
            if field.must_agree:
                value = getattr(self, field.name)
                found[field.name] = (
                    list(value) if isinstance(value, declared.Parties) else _plain(value)
                )
        return found


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value


#: Every setting by its name, in the order of the documentation.
FIELDS: Mapping[str, Field] = {
    field.name: Field(name=field.name, **field.metadata) for field in dataclasses.fields(Settings)
}

#: Every setting by its key in federation.yaml.
BY_KEY: Mapping[str, Field] = {field.key: field for field in FIELDS.values()}

#: Every setting by its environment variable.
BY_VARIABLE: Mapping[str, Field] = {field.variable: field for field in FIELDS.values()}


def in_words(modes: Iterable[choices.Mode], joint: str = " and ") -> str:
    """`simulation and multi-controller`, in the order of the documentation."""
    chosen = set(modes)
    return joint.join(mode for mode in choices.Mode if mode in chosen)
