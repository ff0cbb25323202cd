"""How much memory this process has and had."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_bytes() -> int:
    """The most memory that this process ever had resident, in bytes.

    On Linux the high-water mark of the address space (`VmHWM`): `ru_maxrss` begins there with what
    the parent process had when it started this one.
    """
    found = _status("VmHWM")
    if found is not None:
        return found
    # POSIX leaves the unit open: bytes on macOS, KiB elsewhere.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def resident_bytes() -> int:
    """The memory that this process has resident now; where that is not told, its peak."""
    found = _status("VmRSS")
    return peak_bytes() if found is None else found


def _status(name: str) -> int | None:
    """A size out of Linux's `/proc/self/status` (man 5 proc), in bytes."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return None
