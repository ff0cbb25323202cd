"""RayFed's arguments of `fed.init` as settings, or the text that says what to use instead.

A value that asks for what holds here anyway is accepted with a note for the log; a RayFed default
that is written out counts as not given. Everything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fed import errors, names

_SOURCE = "fed.init"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What becomes of one key of RayFed's configuration.

    Attributes:
        default: RayFed's default: written out, it counts as not given.
        setting: the setting that takes the value's place, if there is one.
        convert: the setting's value; raises `ConfigError`.
        holds: values that need no setting because what they ask for is always so, and the note
            that says so.
        instead: for every other value, what to do.
    """

    default: object = None
    setting: str | None = None
    convert: Callable[[Any], object] | None = None
    holds: Mapping[object, str] = field(default_factory=dict)
    instead: str = ""


def _seconds(milliseconds: object) -> object:
    if isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool):
        return milliseconds / 1000
    raise errors.ConfigError(problem=f"{milliseconds!r} is not a number of milliseconds")


def _unchanged(value: object) -> object:
    return value


def _detail(expose: object) -> object:
    if isinstance(expose, bool):
        return "traceback" if expose else "type"
    raise errors.ConfigError(problem=f"{expose!r} is not true or false")


def _allowed(listed: object) -> object:
    """RayFed's `{module: [names] or ["*"] or None}` as modules and classes."""
    if not isinstance(listed, Mapping):
        raise errors.ConfigError(problem=f"{listed!r} is not a mapping of modules to names")
    found: list[str] = []
    for module, members in listed.items():
        if module == "*":
            raise errors.ConfigError(
                problem="'*' accepts every pickle, and so runs whatever a peer sends",
                fix="Name the modules or classes (codec_pickle), or none: arrays, tables and "
                "dataclasses cross without pickle",
            )
        if members is None or "*" in members:
            found.append(str(module))
        else:
            found.extend(f"{module}.{member}" for member in members)
    return found


_GRPC = "The link between parties is not gRPC. Leave it out"

#: `config["cross_silo_comm"]`.
CROSS_SILO_COMM: Mapping[str, Rule] = {
    "timeout_in_ms": Rule(setting="peer_timeout_s", convert=_seconds),
    "messages_max_size_in_bytes": Rule(setting="max_value_bytes", convert=_unchanged),
    "exit_on_sending_failure": Rule(
        default=False,
        holds={True: "a value that can't be delivered always fails the job by name"},
    ),
    "continue_waiting_for_data_sending_on_error": Rule(
        default=False,
        holds={True: "fed.shutdown always waits for what is under way, for shutdown_timeout_s"},
    ),
    "expose_error_trace": Rule(setting="error_detail", convert=_detail),
    "serializing_allowed_list": Rule(setting="codec_pickle", convert=_allowed),
    "http_header": Rule(
        instead="There are no HTTP headers: a peer is known by its certificate. Leave it out and "
        "give tls (rayfed cert issue)",
    ),
    "max_concurrency": Rule(
        instead="There are no proxy actors, and one link carries any number of values at once. "
        "Leave it out",
    ),
    "send_resource_label": Rule(
        instead="There is no sender actor. Leave it out; the gateway runs where the listen address "
        "is (listen)",
    ),
    "recv_resource_label": Rule(
        instead="There is no receiver actor. Leave it out; the gateway runs where the listen "
        "address is (listen)",
    ),
    "proxy_max_restarts": Rule(
        instead="There are no proxy actors: a broken connection is resumed for peer_timeout_s. "
        "Leave it out",
    ),
    "use_global_proxy": Rule(
        default=True,
        holds={False: "several jobs always fit one cluster: no actor has a global name"},
    ),
    "grpc_channel_options": Rule(
        instead=f"{_GRPC}; the limits are max_value_bytes and receive_budget_bytes",
    ),
    "grpc_retry_policy": Rule(
        instead=f"{_GRPC}; a broken connection is resumed for peer_timeout_s",
    ),
}

#: `config` beside `cross_silo_comm`.
CONFIG: Mapping[str, Rule] = {
    "barrier_on_initializing": Rule(
        default=False,
        holds={True: "fed.init always waits for all parties, for start_timeout_s"},
    ),
}

#: Arguments of RayFed's `fed.init` that are refused.
_PROXY = "Transports can't be plugged in by class. Leave it out; the link needs no proxy actors"
ARGUMENTS: Mapping[str, Rule] = {
    "sender_proxy_cls": Rule(instead=_PROXY),
    "receiver_proxy_cls": Rule(instead=_PROXY),
    "receiver_sender_proxy_cls": Rule(instead=_PROXY),
}

#: Keys of `tls_config`, which is our group `tls`.
TLS_KEYS = ("ca_cert", "cert", "key")


def translate(arguments: Mapping[str, object]) -> tuple[dict[str, object], tuple[str, ...]]:
    """`fed.init`'s arguments with RayFed's in terms of settings, and notes for the log.

    Args:
        arguments: keyword arguments, ours and RayFed's; not changed.

    Returns:
        The arguments without `config`, `tls_config`, `logging_level` and the proxy classes, with
        the settings that stand for them; and one line for each key that has no effect here.

    Raises:
        ConfigError: a key is unknown (names the nearest), refused (says what to use), or says what
            another argument says too.
    """
    ours: dict[str, object] = {}
    notes: list[str] = []
    for name, value in arguments.items():
        if value is None or name in {"config", "tls_config", "logging_level"}:
            continue
        rule = ARGUMENTS.get(name)
        if rule is None:
            ours[name] = value
        else:
            _apply(rule, value, name, ours, notes)
    config = _mapping(arguments.get("config"), "config")
    comm = _mapping(config.get("cross_silo_comm"), "config.cross_silo_comm")
    for key, value in config.items():
        if key != "cross_silo_comm":
            rule = _rule(CONFIG, key, "config", also="cross_silo_comm")
            _apply(rule, value, f"config.{key}", ours, notes)
    for key, value in comm.items():
        rule = _rule(CROSS_SILO_COMM, key, "config.cross_silo_comm")
        _apply(rule, value, f"config.cross_silo_comm.{key}", ours, notes)
    tls = _mapping(arguments.get("tls_config"), "tls_config")
    for key in tls:
        if key not in TLS_KEYS:
            raise _unknown(str(key), "tls_config", TLS_KEYS)
    if tls:
        _give(ours, "tls", dict(tls), "tls_config")
    if arguments.get("logging_level") is not None:
        _give(ours, "log_level", arguments["logging_level"], "logging_level")
    return ours, tuple(notes)


def _apply(rule: Rule, value: object, key: str, ours: dict[str, object], notes: list[str]) -> None:
    if value is None or (type(value) is type(rule.default) and value == rule.default):
        return
    if rule.setting is not None and rule.convert is not None:
        try:
            converted = rule.convert(value)
        except errors.ConfigError as error:
            error.source, error.key = _SOURCE, key
            error.fix = error.fix or f"Give {rule.setting} to fed.init"
            raise
        _give(ours, rule.setting, converted, key)
    elif isinstance(value, bool) and value in rule.holds:
        notes.append(f"{key} has no effect: {rule.holds[value]}")
    elif rule.instead:
        raise errors.ConfigError(
            problem="it has no meaning here", fix=rule.instead, source=_SOURCE, key=key
        )
    else:
        raise errors.ConfigError(problem=f"{value!r} is not true or false", source=_SOURCE, key=key)


def _give(ours: dict[str, object], setting: str, value: object, key: str) -> None:
    if setting in ours:
        raise errors.ConfigError(
            problem=f"it is given twice: {setting} says it too",
            fix=f"Leave {key} out",
            source=_SOURCE,
            key=key,
        )
    ours[setting] = value


def _rule(table: Mapping[str, Rule], name: object, around: str, *, also: str = "") -> Rule:
    rule = table.get(str(name))
    if rule is None:
        raise _unknown(str(name), around, (*table, *([also] if also else [])))
    return rule


def _unknown(name: str, around: str, known: tuple[str, ...]) -> errors.ConfigError:
    return errors.ConfigError(
        problem=f"there is no such key{names.did_you_mean(name, known)}",
        fix=f"Leave it out; known are {', '.join(known)}",
        source=_SOURCE,
        key=f"{around}.{name}",
    )


def _mapping(value: object, key: str) -> Mapping[object, object]:
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    raise errors.ConfigError(
        problem=f"{type(value).__name__} is no mapping", source=_SOURCE, key=key
    )
