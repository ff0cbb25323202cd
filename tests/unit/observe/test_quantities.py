from __future__ import annotations

import pytest

from fed.observe import quantities


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (100 * 1024, "100 KiB"),
        (999 * 1024, "999 KiB"),
        (1000 * 1024, "1.0 MiB"),
        (2**30 * 3, "3.0 GiB"),
        (2**60, "1,024 PiB"),
    ],
)
def test_size(size_bytes: int, text: str) -> None:
    assert quantities.size(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 s"),
        (9.994, "9.99 s"),
        (12.34, "12.3 s"),
        (60, "1 min 00 s"),
        (185.4, "3 min 05 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert quantities.duration(seconds) == text


def test_counts_and_rates() -> None:
    assert quantities.count(1, "value") == "1 value"
    assert quantities.count(0, "value") == "0 values"
    assert quantities.count(12345, "value") == "12,345 values"
    assert [quantities.rate(rate) for rate in (0.44, 31, 99.96, 12345.6)] == [
        "0.4", "31.0", "100", "12,346",
    ]  # fmt: skip
