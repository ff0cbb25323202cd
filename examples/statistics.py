"""Federated statistics: 10,000 clinics, each tells a small summary of its patients and no more.

Counts, means, standard deviations, histograms, and from the histograms any quantile, of all
patients of all clinics. A clinic's rows stay at the clinic; what crosses is one summary of fixed
size, and the server folds the summaries two at a time as they come, so its memory stays the same
whatever the number of clinics.

    rayfed run examples/statistics.py --plot statistics.png
    rayfed run --parties server=1,clinic=500 examples/statistics.py
    python examples/statistics.py --parties 100000

Each clinic's patients are drawn, with repetition, from the 442 of the diabetes study that comes
with scikit-learn. At the end the same is computed from all rows in one place, to compare: counts
and histograms are equal to the last one, means and deviations to rounding, and quantiles to a part
of the width of a bin.

A clinic's summary says less than its rows, but of a clinic with one patient it says everything:
real federations set a least number of patients, or add noise.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes

import fed

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BINS = 30

#: What is asked: the study's column, and the range of the histogram. All parties know this.
COLUMNS = {
    "age": ("age", 15, 90),
    "body mass index": ("bmi", 15, 45),
    "blood pressure": ("bp", 60, 135),
    "blood sugar": ("s6", 55, 130),
}
QUANTILES = {"median": 0.5, "95 % quantile": 0.95}


def edges(name: str) -> Floats:
    """The borders of this column's bins."""
    _, low, high = COLUMNS[name]
    return np.linspace(low, high, BINS + 1)


@functools.cache
def study() -> Floats:
    """The study's patients, one column for each of `COLUMNS`. Read once in a process."""
    table = load_diabetes(scaled=False)
    wanted = [table.feature_names.index(column) for column, _, _ in COLUMNS.values()]
    patients: Floats = table.data[:, wanted]
    return patients


# --- What crosses, and how two of it become one. -----------------------------------------------


@dataclass
class Summary:
    """What is told of some patients, for C columns.

    Attributes:
        count: how many patients.
        mean: C means.
        squares: C sums of squared differences from the mean.
        histogram: C x BINS counts.
    """

    count: int
    mean: Floats
    squares: Floats
    histogram: Integers

    def deviation(self) -> Floats:
        """C standard deviations, of a sample."""
        return np.sqrt(self.squares / (self.count - 1))

    def quantiles(self, q: float) -> Floats:
        """C quantiles, at most the width of a bin from the exact ones."""
        below = np.cumsum(self.histogram, axis=1)
        return np.array(
            [
                np.interp(q * self.count, [0, *counts], edges(name))
                for name, counts in zip(COLUMNS, below, strict=True)
            ]
        )


def summarise(rows: Floats) -> Summary:
    """The summary of these patients."""
    mean = rows.mean(axis=0)
    histograms = [
        np.histogram(column, edges(name))[0] for name, column in zip(COLUMNS, rows.T, strict=True)
    ]
    return Summary(len(rows), mean, ((rows - mean) ** 2).sum(axis=0), np.stack(histograms))


def merge(a: Summary, b: Summary) -> Summary:
    """The summary of both together, without the large sums that would cost digits.

    Source: Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
    Sample Variances", 1979.
    """
    count = a.count + b.count
    apart = b.mean - a.mean
    return Summary(
        count=count,
        mean=a.mean + apart * (b.count / count),
        squares=a.squares + b.squares + apart**2 * (a.count * b.count / count),
        histogram=a.histogram + b.histogram,
    )


# --- What runs at the parties. -----------------------------------------------------------------


@fed.remote
class Clinic:
    """A party with 5 to 59 patients. A real one would read its own table here."""

    def __init__(self) -> None:
        rng = fed.rng()
        patients = rng.integers(len(study()), size=rng.integers(5, 60))
        self.rows = study()[patients]

    def summary(self) -> Summary:
        """What this clinic tells."""
        return summarise(self.rows)

    def all_rows(self) -> Floats:
        """What it would not tell: for the comparison alone."""
        return self.rows


@fed.remote
def pool(tables: list[Floats]) -> tuple[Summary, list[Floats]]:
    """The yardstick: summary and exact quantiles of all rows in one place."""
    rows = np.concatenate(tables)
    return summarise(rows), [np.quantile(rows, q, axis=0) for q in QUANTILES.values()]


# --- The script: every party of a federation runs all of it, so it makes the same calls there. -


def main() -> None:
    """Ask, compare, plot."""
    args = arguments()
    fed.init(parties={"server": 1, "clinic": args.parties}, seed=args.seed)
    clinics = [Clinic.party(name).remote() for name in fed.parties("clinic*")]

    def summaries() -> Iterator[fed.FedObject[Summary]]:
        for done, clinic in enumerate(clinics, start=1):
            yield clinic.summary.remote()
            fed.progress(done, len(clinics))

    # Given a generator, `fed.reduce` makes a call, folds its value in and drops it.
    federated = fed.get(fed.reduce(merge, summaries(), party="server"))
    pooled, exact = fed.get(
        pool.party("server").remote([clinic.all_rows.remote() for clinic in clinics])
    )
    fed.shutdown()

    print(f"clinics: {len(clinics):,}, patients: {federated.count:,}")
    print(f"{'':35}{'federated':>11}{'pooled':>11}{'difference':>12}")
    compared = {
        "mean": (federated.mean, pooled.mean),
        "standard deviation": (federated.deviation(), pooled.deviation()),
        **{
            name: (federated.quantiles(q), values)
            for (name, q), values in zip(QUANTILES.items(), exact, strict=True)
        },
    }
    for column, name in enumerate(COLUMNS):
        for statistic, (ours, theirs) in compared.items():
            a, b = ours[column], theirs[column]
            print(f"{name:15}  {statistic:18}{a:11.4f}{b:11.4f}{abs(a - b):12.1e}")
    same_count = federated.count == pooled.count
    same_histograms = np.array_equal(federated.histogram, pooled.histogram)
    print(f"counts equal: {'yes' if same_count else 'NO'}")
    print(f"histograms equal, bin for bin: {'yes' if same_histograms else 'NO'}")
    if args.plot:
        plot(args.plot, federated, pooled, len(clinics))


def arguments() -> argparse.Namespace:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parties", type=int, default=10_000, help="clinics, at least 1")
    parser.add_argument("--seed", type=int, default=0, help="of who has which patients")
    parser.add_argument("--plot", type=picture, metavar="FILE.png", help="write a picture")
    return parser.parse_args()


def picture(text: str) -> Path:
    """The path of a picture that can be written: asked before the work, not after it."""
    path = Path(text)
    if path.suffix != ".png" or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no .png file in a folder that exists")
    return path


def plot(path: Path, federated: Summary, pooled: Summary, clinics: int) -> None:
    """Write the picture: the histogram of each column, both ways, and its quantiles."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7), dpi=110, layout="constrained")
    figure.suptitle(
        f"{federated.count:,} patients of {clinics:,} clinics", fontweight="bold", x=0.01, ha="left"
    )
    grid = figure.subplots(2, 2).flat
    for column, (axes, name) in enumerate(zip(grid, COLUMNS, strict=True)):
        bins = edges(name)
        axes.stairs(
            federated.histogram[column], bins, fill=True, color="#9ec5e8", label="federated"
        )
        axes.stairs(pooled.histogram[column], bins, color="k", linewidth=1.2, label="pooled")
        for style, (label, q) in zip(("-", ":"), QUANTILES.items(), strict=True):
            value = federated.quantiles(q)[column]
            axes.axvline(value, color="C3", linestyle=style, label=f"{label} {value:.1f}")
        axes.set_title(
            f"{name}: {federated.mean[column]:.1f} ± {federated.deviation()[column]:.1f}",
            loc="left",
        )
        axes.set_xlim(bins[0], bins[-1])
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.legend(framealpha=0.9, edgecolor="none", fontsize=9)
    figure.savefig(path)


if __name__ == "__main__":
    main()
