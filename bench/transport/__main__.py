"""The link between two processes with mutual TLS, in turns with four other ways to do the same.

python -m bench.transport                         all of it, some minutes
python -m bench.transport --payloads scalar dicts --ways link unary --rounds 6
python -m bench.transport --bars                  exit code 1 if a bar is missed

Ways: `link`, the product; `unary`, RayFed's way (cloudpickle in a unary gRPC call); `stream`, the
product's codec over a gRPC stream; `flight`, the same over Arrow Flight; `copy`, a copy over TLS in
C. Each payload is sent in rounds, every way in each round, so that a slow spell of the machine
hits all of them; a first round warms up and does not count. A value has been sent when the
receiver has it decoded, has read from it, and the sender knows. Prints one JSON line per payload
and way, then two tables: the figures, and the project's bars beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench import timing
from bench.transport import bars, c_copy, codec_alone, keys, pair, payloads
from fed.codec import types, wire

#: Ways whose processes are there, and the library that each needs beside this package.
_WAYS: Final = {"link": None, "unary": "grpc", "stream": "grpc", "flight": "pyarrow"}
_TITLES: Final = {
    "link": "the link",
    "unary": "RayFed's way: unary gRPC + cloudpickle",
    "stream": "codec + gRPC stream",
    "flight": "codec + Arrow Flight",
    "copy": "C copy over TLS",
}
_ALONE: Final = ("gigabyte", "beside", "codec")
#: A gigabyte takes the other ways seconds and gigabytes: they do it in so many rounds only.
_FEW_ROUNDS: Final = 2
#: Scalars go beside a large value where messages share a connection.
_BESIDE: Final = ("link", "unary")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@dataclass(slots=True)
class _Bench:
    """One run, and what it has found."""

    folder: Path
    ways: Sequence[str]
    rounds: int
    copy: Path | None
    spent: dict[tuple[str, str], list[pair.Spent]] = field(
        default_factory=lambda: defaultdict(list)
    )
    sizes: dict[str, int] = field(default_factory=dict)
    bars: list[bars.Bar] = field(default_factory=list)

    def in_turns(self, names: Sequence[str]) -> None:
        """All ways with each of the payloads."""
        with contextlib.ExitStack() as stack:
            pairs = {way: stack.enter_context(pair.Pair(way, self.folder)) for way in self.ways}
            for name in names:
                _say(f"{name} ...")
                self._payload(name, pairs)

    def _payload(self, name: str, pairs: dict[str, pair.Pair]) -> None:
        payload = payloads.PAYLOADS[name]
        size = self.sizes[name] = _size_bytes(payload)
        runs: dict[str, Callable[[], pair.Spent]] = {}
        for way, one in pairs.items():
            one.prepare(name)
            runs[way] = functools.partial(one.send, payload)
        program = self.copy
        if program is not None and payload.beside_copy:
            runs["copy"] = lambda: c_copy.run(program, self.folder, size)
        for number in range(self.rounds + 1):
            for way, run in runs.items():
                found = run()
                if number:
                    self.spent[name, way].append(found)
        for way in runs:
            self._report(name, way)

    def _report(self, name: str, way: str) -> None:
        rounds = self.spent[name, way]
        median = bars.time_s(rounds)
        timing.report(
            name,
            way=way,
            bytes=self.sizes[name],
            rounds=len(rounds),
            median_ms=median * 1e3,
            best_ms=min(one.time_s for one in rounds) * 1e3,
            send_cpu_ms=statistics.median(one.send_cpu_s for one in rounds) * 1e3,
            receive_cpu_ms=statistics.median(one.receive_cpu_s for one in rounds) * 1e3,
            per_s=1 / median,
            mb_per_s=self.sizes[name] / median / 1e6,
        )

    def gigabyte(self) -> None:
        """Peaks of memory of both sides, in processes made for each measurement."""
        size = _size_bytes(payloads.GIGABYTE)
        peaks = defaultdict(list)
        for number in range(self.rounds):
            for way in self.ways:
                if way != "link" and number >= _FEW_ROUNDS:
                    continue
                with pair.Pair(way, self.folder) as one:
                    one.prepare("scalar")
                    one.send(payloads.PAYLOADS["scalar"])
                    one.prepare("gigabyte")
                    peaks[way].append(one.peaks())
        for way, found in peaks.items():
            send, receive = (max(one[side] for one in found) / bars.MB for side in (0, 1))
            timing.report(
                "gigabyte", way=way, bytes=size, rounds=len(found), send_peak_mb=send,
                receive_peak_mb=receive,
            )  # fmt: skip
        if "link" in peaks:
            self.bars += bars.of_peaks(peaks["link"], size)

    def beside(self) -> None:
        """Scalars, one at a time, while a gigabyte is on its way."""
        with contextlib.ExitStack() as stack:
            pairs = {
                way: stack.enter_context(pair.Pair(way, self.folder))
                for way in self.ways
                if way in _BESIDE
            }
            found: dict[str, list[float]] = defaultdict(list)
            for one in pairs.values():
                one.prepare("gigabyte")
            for number in range(self.rounds):
                for way, one in pairs.items():
                    if way == "link" or number < _FEW_ROUNDS:
                        found[way] += one.send_beside()
        for way, latencies_s in found.items():
            timing.report(
                "scalar while a gigabyte flows",
                way=way,
                scalars=len(latencies_s),
                median_ms=statistics.median(latencies_s) * 1e3,
                p99_ms=bars.percentile(latencies_s, 0.99) * 1e3,
                max_ms=max(latencies_s) * 1e3,
            )
        if "link" in found:
            self.bars += bars.of_beside(found["link"])

    def codec(self) -> None:
        """The codec by itself."""
        found = codec_alone.measure()
        timing.report(
            "codec, 100 MB of arrays",
            encode_cpu_ms=found.encode_s * 1e3,
            decode_cpu_ms=found.decode_s * 1e3,
            zero_copy=found.is_zero_copy,
            freed_by_reference_count=found.is_freed,
        )
        self.bars += bars.of_codec(found)

    def tables(self) -> str:
        """The figures, and the bars."""
        rows = []
        for (name, way), rounds in self.spent.items():
            median = bars.time_s(rounds)
            send = statistics.median(one.send_cpu_s for one in rounds)
            receive = statistics.median(one.receive_cpu_s for one in rounds)
            theirs = self.spent.get((name, bars.RAYFED))
            copy = self.spent.get((name, bars.COPY))
            rows.append(
                (
                    payloads.PAYLOADS[name].title,
                    _TITLES[way],
                    f"{median * 1e3:.4g}",
                    f"{min(one.time_s for one in rounds) * 1e3:.4g}",
                    f"{send * 1e3:.3g} + {receive * 1e3:.3g}",
                    f"{bars.time_s(theirs) / median:.2f}" if theirs else "",
                    f"{bars.cpu_s(theirs) / bars.cpu_s(rounds):.2f}" if theirs else "",
                    f"{bars.cpu_s(copy) / bars.cpu_s(rounds):.2f}" if copy else "",
                )
            )
        heads = (
            "payload", "way", "ms, median", "best", "CPU ms, both sides", "times faster",
            "times less CPU", "of the C copy",
        )  # fmt: skip
        titles = {name: payload.title for name, payload in payloads.PAYLOADS.items()}
        held = [*bars.of_rounds(self.spent, titles), *self.bars]
        self.bars = held
        lines = [
            (bar.what, f"{bar.value:.3g}{bar.unit}", bar.shown, "met" if bar.is_met else "MISSED")
            for bar in held
        ]
        return "\n\n".join(
            [
                bars.table(heads, rows, words=2),
                bars.table(("held to", "measured", "bar", ""), lines, words=1),
            ]
        )


def _size_bytes(payload: payloads.Payload) -> int:
    return wire.size(payload.make(), types=types.UserTypes([], None))


def _runnable(ways: Sequence[str]) -> list[str]:
    """Those whose library is there; of the others a line says so."""
    found = []
    for way in ways:
        library = _WAYS.get(way)
        if library is not None and importlib.util.find_spec(library) is None:
            _say(
                f"skipped: {_TITLES[way]} ({library} is not installed; see `make bench-transport`)"
            )
        else:
            found.append(way)
    return found


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.transport", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    rows = [name for name in payloads.PAYLOADS if name not in _ALONE]
    parser.add_argument("--payloads", nargs="+", choices=[*rows, *_ALONE], default=[*rows, *_ALONE])
    parser.add_argument("--ways", nargs="+", choices=_TITLES, default=list(_TITLES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bars", action="store_true", help="exit code 1 if a bar is missed")
    given = parser.parse_args()
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    with tempfile.TemporaryDirectory(prefix="rayfed-bench-") as name:
        folder = Path(name)
        keys.make(folder)
        program = c_copy.build(folder) if "copy" in given.ways else None
        if "copy" in given.ways and program is None:
            _say(f"skipped: {_TITLES['copy']} (needs a C compiler and OpenSSL's headers)")
        ways = _runnable([way for way in given.ways if way != "copy"])
        bench = _Bench(folder, ways, given.rounds, program)
        bench.in_turns([name for name in given.payloads if name in rows])
        for part in _ALONE:
            if part in given.payloads:
                _say(f"{part} ...")
                getattr(bench, part)()
        sys.stdout.write(f"\n{bench.tables()}\n")
    if given.bars and not all(bar.is_met for bar in bench.bars):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
