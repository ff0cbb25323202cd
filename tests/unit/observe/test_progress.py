from __future__ import annotations

from fed.observe import progress


def test_the_speed_is_that_of_the_last_seconds() -> None:
    meter = progress.Meter()
    assert meter.rate(0.0, 0) == 0.0
    assert meter.rate(1.0, 100) == 100.0
    for quarter in range(5, 41):  # nothing happens for nine seconds
        meter.rate(quarter / 4, 100)
    assert meter.rate(10.25, 100) == 0.0
    assert meter.rate(10.5, 400) > 90.0


def test_a_new_session_starts_the_measure_again() -> None:
    meter = progress.Meter()
    meter.rate(0.0, 1000)
    meter.rate(1.0, 2000)
    assert meter.rate(2.0, 10) == 0.0
    assert meter.rate(3.0, 60) == 50.0


def test_the_line() -> None:
    sample = progress.Sample(calls=12345, parties=1001, done=3, total=10)
    assert progress.line(sample, rate=4010.2, memory_bytes=96 * 2**20, elapsed_s=12.34) == (
        "round 3 of 10 | 12,345 calls | 4,010/s | 1,001 parties | 96.0 MiB | 12.3 s"
    )
    bare = progress.Sample(calls=1)
    assert (
        progress.line(bare, rate=0, memory_bytes=0, elapsed_s=0) == "1 call | 0.0/s | 0 B | 0.00 s"
    )
    rounds = progress.Sample(calls=0, done=3, parties=1)
    assert progress.line(rounds, rate=0, memory_bytes=0, elapsed_s=0).startswith(
        "round 3 | 0 calls | 0.0/s | 1 party |"
    )


def test_a_plain_line_is_due_every_ten_seconds() -> None:
    cadence = progress.Cadence(0.0)
    due = [t / 4 for t in range(1, 101) if cadence.is_due(t / 4, progress.Sample(calls=t))]
    assert due == [10.0, 20.0]


def test_a_new_round_is_told_after_two_seconds_at_most_every_two() -> None:
    cadence = progress.Cadence(0.0)
    due = [
        t / 4
        for t in range(1, 41)
        if cadence.is_due(t / 4, progress.Sample(calls=t, done=t, total=40))
    ]
    assert due == [2.0, 4.0, 6.0, 8.0, 10.0]


def test_an_old_round_is_not_told_again_before_ten_seconds() -> None:
    cadence = progress.Cadence(0.0)
    sample = progress.Sample(calls=1, done=1, total=2)
    assert [t for t in range(1, 26) if cadence.is_due(float(t), sample)] == [2, 12, 22]
