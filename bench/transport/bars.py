"""The project's bars, and which of them the figures meet."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.transport import codec_alone, pair

LINK: Final = "link"
RAYFED: Final = "unary"
COPY: Final = "copy"
MB: Final = 1e6

#: Rounds by (payload, way).
Rounds = Mapping[tuple[str, str], Sequence[pair.Spent]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One line: what was measured, and what it is held to.

    Attributes:
        what: for the table.
        value: measured.
        limit: the bar.
        is_least: the value is to be at least the limit; else at most.
        unit: behind both.
    """

    what: str
    value: float
    limit: float
    is_least: bool = True
    unit: str = ""

    @property
    def is_met(self) -> bool:
        """True if the value is on the right side of the bar."""
        held: Callable[[float, float], bool] = operator.ge if self.is_least else operator.le
        return held(self.value, self.limit)

    @property
    def shown(self) -> str:
        """The bar in words."""
        return f"{'>=' if self.is_least else '<='} {self.limit:g}{self.unit}"


#: By payload: how many times less time and CPU than RayFed's way; share of the copy's efficiency.
_RATIOS: Final = {
    "scalar": (4.0, 4.0, None),
    "scalar-chained": (4.0, 4.0, None),
    "kilobyte": (8.0, None, None),
    "kilobyte-1000": (8.0, None, None),
    "dicts": (0.8, None, None),
    "arrays-10": (3.0, 3.0, 0.6),
    "arrays-100": (5.0, 4.0, 0.6),
    "state-dict": (5.0, 4.0, 0.6),
}


def time_s(rounds: Sequence[pair.Spent]) -> float:
    """The median over the rounds."""
    return statistics.median(one.time_s for one in rounds)


def cpu_s(rounds: Sequence[pair.Spent]) -> float:
    """The median over the rounds, of both sides together."""
    return statistics.median(one.cpu_s for one in rounds)


def of_rounds(rounds: Rounds, titles: Mapping[str, str]) -> Iterator[Bar]:
    """The bars that are ratios between ways; those whose ways did not run are left out."""
    for name, (less_time, less_cpu, share) in _RATIOS.items():
        mine = rounds.get((name, LINK))
        theirs = rounds.get((name, RAYFED))
        copy = rounds.get((name, COPY))
        title = titles[name]
        if mine and theirs:
            ratio = time_s(theirs) / time_s(mine)
            yield Bar(what=f"{title}: faster than RayFed's way", value=ratio, limit=less_time)
        if mine and theirs and less_cpu:
            ratio = cpu_s(theirs) / cpu_s(mine)
            yield Bar(what=f"{title}: less CPU than RayFed's way", value=ratio, limit=less_cpu)
        if mine and copy and share:
            ratio = cpu_s(copy) / cpu_s(mine)
            what = f"{title}: share of the C copy's CPU efficiency"
            yield Bar(what=what, value=ratio, limit=share)


def of_peaks(peaks: Sequence[tuple[int, int]], size_bytes: int) -> Iterator[Bar]:
    """Peaks of memory of (sender, receiver) above what it had before, in all rounds."""
    send, receive = (max(one[side] for one in peaks) / MB for side in (0, 1))
    yield Bar(
        what="1 GB value: receiver's peak", value=receive, limit=1.05 * size_bytes / MB + 64,
        is_least=False, unit=" MB",
    )  # fmt: skip
    yield Bar(
        what="1 GB value: sender's peak over the value", value=send, limit=64, is_least=False,
        unit=" MB",
    )  # fmt: skip


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least that share of them does not pass."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def of_beside(latencies_s: Sequence[float]) -> Iterator[Bar]:
    """Scalars sent while a large value was on its way."""
    yield Bar(
        what="scalar while 1 GB flows: p99", value=percentile(latencies_s, 0.99) * 1e3, limit=20,
        is_least=False, unit=" ms",
    )  # fmt: skip


def of_codec(found: codec_alone.Found) -> Iterator[Bar]:
    """The codec by itself."""
    yield Bar(
        what="codec, 100 MB: encode and decode", value=(found.encode_s + found.decode_s) * 1e3,
        limit=1, is_least=False, unit=" ms",
    )  # fmt: skip
    for what, holds in (
        ("zero-copy both ways", found.is_zero_copy), ("body freed with the value", found.is_freed)
    ):  # fmt: skip
        yield Bar(what=f"codec, 100 MB: {what}", value=float(holds), limit=1)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, words: int) -> str:
    """A Markdown table with columns of even width; all but the first `words` to the right."""
    widths = [max(len(row[n]) for row in [heads, *rows]) for n in range(len(heads))]
    rule = ["-" * width if n < words else "-" * (width - 1) + ":" for n, width in enumerate(widths)]

    def line(cells: Sequence[str]) -> str:
        sides = ["<" if n < words else ">" for n in range(len(cells))]
        shown = map("{0:{1}{2}}".format, cells, sides, widths)
        return f"| {' | '.join(shown)} |"

    return "\n".join([line(heads), line(rule), *map(line, rows)])
