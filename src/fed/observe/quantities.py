"""Numbers as a person reads them."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size(size_bytes: int) -> str:
    """`812 B`, `1.4 MiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    amount = float(size_bytes)
    for unit in _UNITS:
        amount /= 1024
        if amount < 999.5 or unit == _UNITS[-1]:
            break
    return f"{amount:.1f} {unit}" if amount < 99.95 else f"{amount:,.0f} {unit}"


def duration(seconds: float) -> str:
    """`0.42 s`, `12.3 s`, `4 min 05 s`, `2 h 04 min`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def count(number: int, noun: str) -> str:
    """`1 value`, `12,345 values`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def rate(per_s: float) -> str:
    """`0.4`, `31.0`, `12,345`: whole from 100 on."""
    return f"{per_s:,.0f}" if per_s >= 99.95 else f"{per_s:.1f}"
