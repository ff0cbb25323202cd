"""Start and end of a session: settles the settings, makes the engine, fills the slot."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fed import errors
from fed.model import engine as port

if TYPE_CHECKING:
    from fed.config import resolve
    from fed.observe import report

log = logging.getLogger("fed")


class _Held:
    """What this module holds beside the slot, under one lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.options: Mapping[str, Any] | None = None
        self.defaults: Mapping[str, Any] = {}
        self.script: Path | None = None
        self.summaries: list[report.Summary] = []
        self.at_exit = False


_held: Final = _Held()


def init(
    addresses: Mapping[str, Any] | None = None,
    party: str | None = None,
    *,
    mode: str | None = None,
    parties: Any = None,
    address: str | None = None,
    seed: int | None = None,
    isolation: str | None = None,
    job_name: str | None = None,
    config: Mapping[str, Any] | None = None,
    tls_config: Mapping[str, Any] | None = None,
    logging_level: str | None = None,
    sending_failure_handler: Any = None,
    **settings: Any,
) -> None:
    """Start the session of this process; the calling thread makes all calls from now on.

    What is not given comes from the options of `rayfed run`, the environment (`FED_*`),
    federation.yaml beside the script, what the cluster at `address` recorded, or the defaults;
    options of `rayfed run` win over arguments. docs/settings.md lists every setting.

    Args:
        addresses: address of each party, as the other parties reach it.
        party: the party of this process, in multi-controller mode.
        mode: `simulation`, `single-controller` or `multi-controller`.
        parties: names, counts (`{"server": 1, "client": 1000}`), or a number.
        address: a cluster's address.
        seed: of `fed.rng`; the same at every party.
        isolation: of simulation: `sealed`, `process`, `check` or `off`.
        job_name: of this job; the same at every party.
        config: RayFed's configuration; its keys are taken over or refused with what to use.
        tls_config: RayFed's paths of certificates.
        logging_level: RayFed's spelling of `log_level`.
        sending_failure_handler: RayFed's; called with the error when the session ends by one.
        **settings: any other setting by name.

    Raises:
        SessionError: if there is a session already.
        ConfigError: if a setting is unknown, wrong or contradicts another.
    """
    given = {
        "addresses": addresses,
        "party": party,
        "mode": mode,
        "parties": parties,
        "address": address,
        "seed": seed,
        "isolation": isolation,
        "job_name": job_name,
        "config": config,
        "tls_config": tls_config,
        "logging_level": logging_level,
        **settings,
    }
    with _held.lock:
        if port.slot.engine is not None:
            raise errors.SessionError(
                problem="fed.init: there is a session already",
                fix="Call fed.shutdown() first, or make one session for all",
            )
        settled = _settled(given)
        _tell(settled)
        port.slot.engine = _engine(settled)
        port.slot.was_used = True
        if not _held.at_exit:
            _held.at_exit = True
            atexit.register(_end_at_exit)
            os.register_at_fork(after_in_child=_forked)


def shutdown() -> None:
    """End the session: what is under way ends, errors that nobody read are logged.

    Does nothing where there is no session. Fed objects and actors of it are of no use afterwards.

    Raises:
        UsageError: inside a body or in another thread than the session's.
    """
    _end(None)


@contextlib.contextmanager
def launch(
    script: Path, options: Mapping[str, Any], *, defaults: Mapping[str, Any] | None = None
) -> Iterator[list[report.Summary]]:
    """Within the block, sessions are those of `script`, run with options of `rayfed run`.

    Errors that nobody read are in the summaries, and not logged.

    Args:
        script: its path; federation.yaml is looked for beside it.
        options: settings that stand above all others, by name; text is read.
        defaults: settings in place of the usual defaults, by name, typed.

    Yields:
        The list to which each session that ends adds its summary. A session that is open when
        the block is left is ended; one that can't be ended in this thread is given up.
    """
    with _held.lock:
        _held.script, _held.options, _held.summaries = script, options, []
        _held.defaults = defaults or {}
    try:
        yield _held.summaries
    except BaseException as error:
        _end_or_give_up(None if _is_orderly(error) else error)
        raise
    else:
        _end_or_give_up(None)
    finally:
        with _held.lock:
            _held.script = _held.options = None
            _held.defaults = {}


def _is_orderly(error: BaseException) -> bool:
    """True for `sys.exit()` and `sys.exit(0)`, by which many scripts end that went well."""
    return isinstance(error, SystemExit) and not error.code


def _end_or_give_up(error: BaseException | None) -> None:
    """End the session as far as this thread can.

    It can't where another thread made the session.
    """
    with _held.lock:
        engine = port.slot.engine
        if engine is None:
            return
        try:
            engine.check_end()
        except errors.UsageError as refused:
            port.slot.engine = None
            _held.summaries.append(engine.summary())
            log.warning("the session was given up: %s", refused)
            return
        _end(error)


def _settled(given: Mapping[str, Any]) -> resolve.Settled:
    from fed.config import federation, layers, resolve

    folder = _script_folder()
    path = federation.find(folder) if folder is not None else None
    settled = resolve.settle(
        run=layers.from_run(_held.options or {}),
        init=layers.from_init(given),
        environ=layers.from_environ(os.environ),
        federation=federation.read(path) if path is not None else layers.Layer(),
    )
    defaults = {
        name: value for name, value in _held.defaults.items() if name not in settled.sources
    }
    return dataclasses.replace(settled, settings=dataclasses.replace(settled.settings, **defaults))


def _script_folder() -> Path | None:
    """The folder of the main script, the working directory where there is none (a shell)."""
    if _held.script is not None:
        return _held.script.resolve().parent
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).resolve().parent if file else Path.cwd()


def _tell(settled: resolve.Settled) -> None:
    log.setLevel(settled.settings.log_level.upper())
    if settled.replaced:
        texts = ", ".join(
            f"{item.name}: {_shown(item.run)} instead of {_shown(item.script)}"
            for item in settled.replaced
        )
        log.info("rayfed run replaces settings of the script: %s", texts)
    for item in settled.set_aside:
        log.info("setting %s from %s has no effect: %s", item.name, item.where, item.why)
    for note in settled.notes:
        log.info("%s", note)


def _shown(value: object) -> str:
    """A setting's value for a log line."""
    from fed.config import parties

    return f"{len(value):,} parties" if isinstance(value, parties.Parties) else str(value)


def _engine(settled: resolve.Settled) -> port.Engine:
    from fed.config import choices

    settings = settled.settings
    if settings.mode is not choices.Mode.SIMULATION:
        raise errors.ConfigError(
            problem=f"{settings.mode} is not there yet in this version",
            fix="Run in simulation: fed.init(mode='simulation'), or rayfed run --mode simulation",
            key="mode",
            source=settled.source_of("mode"),
        )
    from fed.engines.simulation import factory

    return factory.engine(settings, script_folder=_script_folder())


def _end(error: BaseException | None) -> None:
    with _held.lock:
        engine = port.slot.engine
        if engine is None:
            return
        engine.check_end()
        try:
            engine.shutdown(error=error)
        finally:
            port.slot.engine = None
            summary = engine.summary()
            _held.summaries.append(summary)
        is_launched = _held.options is not None
    if summary.unread_count and not is_launched:
        log.error("%d error(s) that nobody read:", summary.unread_count)
        for object_id, text in list(summary.unread.items())[:_SHOWN_ERRORS]:
            log.error("%s: %s", object_id, text)
        if summary.unread_count > _SHOWN_ERRORS:
            log.error("... and %d more", summary.unread_count - _SHOWN_ERRORS)


#: More would hide the first ones, which are the likely causes; the run report has up to 1,000.
_SHOWN_ERRORS: Final = 10


def _forked() -> None:
    """A child process has no part in the session; its end does not end it either."""
    engine = port.slot.engine
    if engine is not None:
        engine.forked()
        port.slot.engine = None
    # Another thread may have held it at the fork, and is not there to let it go.
    _held.lock = threading.RLock()


def _end_at_exit() -> None:
    # The interpreter leaves the uncaught exception here, by which the script ended.
    _end_or_give_up(getattr(sys, "last_value", None))
