"""A simulation engine made from settings."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fed import errors
from fed.codec import types
from fed.engines.simulation import engine as simulation
from fed.engines.simulation import store

if TYPE_CHECKING:
    from fed.codec import pickle_optin
    from fed.config import settings as table
    from fed.engines.simulation import isolation

#: Large results may take this share of the memory; bodies and the script need the rest.
_BUDGET_SHARE: Final = 0.5

#: Spilled values may take this share of the free space of their disk; others write there too.
_QUOTA_SHARE: Final = 0.8


def engine(settings: table.Settings, *, script_folder: Path | None) -> simulation.SimulationEngine:
    """The engine of one session; the calling thread is the one that may make calls."""
    user_types = types.UserTypes(
        settings.codec_modules,
        str(script_folder) if script_folder is not None else None,
        pickled=_pickled(settings),
    )
    budget_bytes = settings.memory_budget_bytes
    if budget_bytes is None:
        budget_bytes = int(_memory_bytes() * _BUDGET_SHARE)
    folder = settings.spill_dir
    if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise errors.ConfigError(
            problem=f"results can't be spilled to {str(folder)!r}: it is no folder that this user "
            "may write to",
            fix="Make it, or name another one",
            key="spill_dir",
        )
    quota_bytes = settings.spill_quota_bytes
    if quota_bytes is None:
        quota_bytes = spill_quota_bytes(settings.spill_dir)
    kept = store.Store(
        budget_bytes=budget_bytes,
        folder=str(settings.spill_dir) if settings.spill_dir is not None else None,
        quota_bytes=quota_bytes,
    )
    return simulation.SimulationEngine(
        parties=settings.parties,
        seed=settings.seed,
        level=settings.isolation.value,
        fail_fast=settings.fail_fast,
        error_detail=settings.error_detail.value,
        strict=settings.strict,
        max_value_bytes=settings.max_value_bytes,
        user_types=user_types,
        kept=kept,
        guard=_guard(settings, script_folder),
        digests_values=settings.values_digest,
        shutdown_timeout_s=settings.shutdown_timeout_s,
    )


def _pickled(settings: table.Settings) -> pickle_optin.Accepted | None:
    if not settings.codec_pickle:
        return None
    from fed.codec import pickle_optin

    return pickle_optin.Accepted(settings.codec_pickle)


def _guard(settings: table.Settings, script_folder: Path | None) -> isolation.Guard | None:
    level = settings.isolation.value
    if level not in ("check", "process"):
        return None
    from fed.engines.simulation import usercode

    code = usercode.UserCode(settings.codec_modules, script_folder)
    if level == "check":
        from fed.engines.simulation import check

        return check.Checker(code)
    from fed.engines.simulation import worlds

    return worlds.Worlds(code, seed=settings.seed)


def spill_quota_bytes(folder: Path | None) -> int | None:
    """The disk that spilled values may take: 80 % of what is free in the folder now.

    None if the folder can't be asked: should a value have to go there, its error says why.
    """
    try:
        free = shutil.disk_usage(tempfile.gettempdir() if folder is None else folder).free
    except OSError:
        return None
    return int(free * _QUOTA_SHARE)


def _memory_bytes() -> int:
    """The memory that this process may use: the machine's, or its control group's if less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return min(total, int(text))
    return total
