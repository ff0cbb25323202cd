"""How far a run is: samples of its counters turned into lines, some times a second."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from fed.observe import memory, quantities

log = logging.getLogger(__name__)

#: Time between two looks at the counters.
POLL_S: Final = 0.25

#: The speed shown is that of the last seconds.
_WINDOW_S: Final = 3.0

#: A run that is over sooner shows no progress.
_QUIET_S: Final = 0.5

#: Without a terminal: a line at least this often, and for a new round at most this often.
_PLAIN_EVERY_S: Final = 10.0
_PLAIN_ROUND_S: Final = 2.0

#: How long the end waits for the thread, which never holds anything longer than one look.
_JOIN_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The counters of a session at one moment.

    Attributes:
        calls: numbers taken.
        parties: parties seen; None where the engine does not count them.
        done: rounds that are over, as the script says by `fed.progress`; None if it did not.
        total: of how many; None if the script does not say.
    """

    calls: int
    parties: int | None = None
    done: int | None = None
    total: int | None = None


class Meter:
    """Calls a second over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now_s: float, calls: int) -> float:
        """Take in the counter at a time; the speed since some three seconds before it.

        A counter that fell belongs to a new session: the measure starts again.
        """
        if self._seen and calls < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now_s, calls))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= _WINDOW_S:
            self._seen.popleft()
        first_s, first = self._seen[0]
        return (calls - first) / (now_s - first_s) if now_s > first_s else 0.0


def line(sample: Sample, *, rate: float, memory_bytes: int, elapsed_s: float) -> str:
    """`round 3 of 10 | 12,345 calls | 4,010/s | 1,001 parties | 96.0 MiB | 12.3 s`."""
    parts = []
    if sample.done is not None:
        of = f" of {sample.total:,}" if sample.total is not None else ""
        parts.append(f"round {sample.done:,}{of}")
    parts.append(quantities.count(sample.calls, "call"))
    parts.append(f"{quantities.rate(rate)}/s")
    if sample.parties is not None:
        parts.append("1 party" if sample.parties == 1 else f"{sample.parties:,} parties")
    parts.append(quantities.size(memory_bytes))
    parts.append(quantities.duration(elapsed_s))
    return " | ".join(parts)


class Cadence:
    """When a plain line is due."""

    def __init__(self, started_s: float) -> None:
        self._last_s = started_s
        self._round: tuple[int | None, int | None] = (None, None)

    def is_due(self, now_s: float, sample: Sample) -> bool:
        """True every 10 s, and for a new round if the last line is 2 s old."""
        waited_s = now_s - self._last_s
        here = (sample.done, sample.total)
        is_new_round = sample.done is not None and here != self._round
        if waited_s < (_PLAIN_ROUND_S if is_new_round else _PLAIN_EVERY_S):
            return False
        self._last_s, self._round = now_s, here
        return True


class Line(Protocol):
    """Where the live line is drawn."""

    def draw(self, text: str) -> None:
        """Show `text` in place of the line before."""


class Watcher:
    """A daemon thread that looks at the counters and shows them; the run itself does nothing."""

    def __init__(self, sample: Callable[[], Sample | None], live: Line | None) -> None:
        """A watcher that is not started.

        Args:
            sample: the counters now; None while there is no session. Called in the thread.
            live: where to draw; None for plain lines in the log.
        """
        self._sample = sample
        self._live = live
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fed-progress", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; the thread has ended, or ends at its next step."""
        self._over.set()
        self._thread.join(_JOIN_S)

    def _watch(self) -> None:
        try:
            self._show()
        except Exception:
            log.exception("progress is no longer shown")

    def _show(self) -> None:
        started_s = time.monotonic()
        meter, cadence = Meter(), Cadence(started_s)
        shown = -1
        while not self._over.wait(POLL_S):
            now_s = time.monotonic()
            sample = self._sample()
            if sample is None:
                continue
            rate = meter.rate(now_s, sample.calls)
            if now_s - started_s < _QUIET_S:
                continue
            # Where nothing moves nothing is drawn: the script may wait at a prompt of its own.
            if not (sample.calls != shown if self._live else cadence.is_due(now_s, sample)):
                continue
            shown = sample.calls
            text = line(
                sample,
                rate=rate,
                memory_bytes=memory.resident_bytes(),
                elapsed_s=now_s - started_s,
            )
            if self._live is not None:
                self._live.draw(text)
            else:
                log.info("%s", text)
