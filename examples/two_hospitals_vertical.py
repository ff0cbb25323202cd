"""Vertical logistic regression: two hospitals that measured different things of the same patients.

ALICE has texture and shape of each patient's tumour, and the diagnoses; BOB has the sizes. They
fit one logistic regression together, and no measurement, diagnosis or coefficient leaves its
hospital while it is fitted. In each round only two vectors cross, one number per patient each:

    BOB -> ALICE   partial scores: BOB's measurements times BOB's coefficients
    ALICE -> BOB   residuals: predicted probability minus diagnosis

    rayfed run examples/two_hospitals_vertical.py --plot hospitals.png
    python examples/two_hospitals_vertical.py --rounds 100

What crosses is less than the data, but it is not nothing: the sign of a residual tells BOB the
diagnosis, and many rounds of scores tell ALICE something of BOB's measurements. Hospitals that may
not learn that of each other encrypt or mask these vectors; the calls stay the same.

The data are the 569 patients of the Wisconsin breast cancer study that come with scikit-learn.
Both hospitals list them in the same order, as after a private set intersection.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import fed

Floats = NDArray[np.float64]

HELD_OUT = 114  # patients to test on, of 569
LEARNING_RATE = 1.0
MOMENTUM = 0.9

#: Who measured what; the data have mean, standard error and worst value of each.
MEASURED = {
    "ALICE": ("texture", "smoothness", "compactness", "symmetry", "fractal dimension"),
    "BOB": ("radius", "perimeter", "area", "concavity", "concave points"),
}


# --- The data. A real hospital would read its own table here. ----------------------------------


def columns(party: str) -> list[int]:
    """The columns of the study that this hospital has."""
    names = load_breast_cancer().feature_names
    return [i for i, name in enumerate(names) if any(word in name for word in MEASURED[party])]


def measurements(own: list[int], seed: int) -> tuple[Floats, Floats]:
    """These columns of the patients to learn from and to test on, in units of their spread."""
    table = load_breast_cancer().data[:, own]
    test, train = np.split(np.random.default_rng(seed).permutation(len(table)), [HELD_OUT])
    mean, spread = table[train].mean(axis=0), table[train].std(axis=0)
    return (table[train] - mean) / spread, (table[test] - mean) / spread


def diagnoses(seed: int) -> tuple[Floats, Floats]:
    """1 for malignant and 0 for benign, of the patients to learn from and to test on."""
    malignant = 1.0 - load_breast_cancer().target
    test, train = np.split(np.random.default_rng(seed).permutation(len(malignant)), [HELD_OUT])
    return malignant[train], malignant[test]


def probability(scores: Floats) -> Floats:
    """The logistic function, for scores of any size."""
    return 0.5 * (1.0 + np.tanh(0.5 * scores))


def log_loss(scores: Floats, truth: Floats) -> float:
    """The mean of -log(probability of what is true)."""
    return float(np.mean(np.logaddexp(0.0, scores) - truth * scores))


# --- What runs at the hospitals. ---------------------------------------------------------------


class Descent:
    """Gradient descent with momentum on some of the coefficients."""

    def __init__(self, count: int, penalty: float) -> None:
        self.values = np.zeros(count)
        self.velocity = np.zeros(count)
        self.penalty = penalty  # L2, per patient

    def step(self, gradient: Floats) -> None:
        """One step down the gradient of the loss, the penalty's part added here."""
        gradient = gradient + self.penalty * self.values
        self.velocity = MOMENTUM * self.velocity - LEARNING_RATE * gradient
        self.values = self.values + self.velocity


@fed.remote
class Measurements:
    """A hospital's own columns and their coefficients."""

    def __init__(self, party: str, seed: int) -> None:
        self.train, self.test = measurements(columns(party), seed)
        self.fit = Descent(self.train.shape[1], penalty=1.0 / len(self.train))

    def scores(self) -> Floats:
        """This hospital's part of each patient's score."""
        return self.train @ self.fit.values

    def step(self, residuals: Floats) -> None:
        """Improve the coefficients, given how far the predictions are off."""
        self.fit.step(self.train.T @ residuals / len(residuals))

    def test_scores(self) -> Floats:
        """The same as `scores`, for the patients to test on."""
        return self.test @ self.fit.values

    def coefficients(self) -> Floats:
        """The coefficients; asked for at the end, to compare."""
        return self.fit.values


@fed.remote
class Diagnoses:
    """What is known of each patient, and the intercept."""

    def __init__(self, seed: int) -> None:
        self.train, self.test = diagnoses(seed)
        self.intercept = Descent(1, penalty=0.0)
        self.losses: list[float] = []

    def residuals(self, *parts: Floats) -> Floats:
        """How far the predictions from all hospitals' scores are off, per patient."""
        scores = sum(parts) + self.intercept.values
        residuals = probability(scores) - self.train
        self.losses.append(log_loss(scores, self.train))
        self.intercept.step(residuals.mean(keepdims=True))
        return residuals

    def history(self) -> Floats:
        """The loss in each round."""
        return np.array(self.losses)

    def accuracy(self, *parts: Floats) -> float:
        """The part of the patients to test on that is diagnosed right."""
        scores = sum(parts) + self.intercept.values
        return float(np.mean((scores > 0) == (self.test > 0)))


@dataclass
class Pooled:
    """The yardstick: what one place that has all columns would find."""

    coefficients: Floats
    losses: Floats
    accuracy: float
    sklearn_coefficients: Floats
    sklearn_accuracy: float


@fed.remote
def fit_pooled(rounds: int, seed: int) -> Pooled:
    """Fit all columns together, by the same optimiser and by scikit-learn's."""
    own = [column for party in MEASURED for column in columns(party)]
    (train, test), (truth, test_truth) = measurements(own, seed), diagnoses(seed)

    fit, intercept, losses = Descent(len(own), 1.0 / len(train)), Descent(1, 0.0), []
    for _ in range(rounds):
        scores = train @ fit.values + intercept.values
        residuals = probability(scores) - truth
        losses.append(log_loss(scores, truth))
        fit.step(train.T @ residuals / len(residuals))
        intercept.step(residuals.mean(keepdims=True))
    found = test @ fit.values + intercept.values > 0

    reference = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(train, truth)
    return Pooled(
        coefficients=fit.values,
        losses=np.array(losses),
        accuracy=float(np.mean(found == (test_truth > 0))),
        sklearn_coefficients=reference.coef_[0],
        sklearn_accuracy=float(reference.score(test, test_truth)),
    )


# --- The script: both hospitals run all of it, and make the same calls. ------------------------


def train(parties: list[str], rounds: int, seed: int) -> dict[str, Any]:
    """Fit the columns of these hospitals to ALICE's diagnoses; fed objects of what came out."""
    hospitals = [Measurements.party(party).remote(party, seed) for party in parties]
    known = Diagnoses.party("ALICE").remote(seed)
    for done in range(rounds):
        residuals = known.residuals.remote(*[hospital.scores.remote() for hospital in hospitals])
        for hospital in hospitals:
            hospital.step.remote(residuals)
        fed.progress(done + 1, rounds)
    return {
        "accuracy": known.accuracy.remote(*[h.test_scores.remote() for h in hospitals]),
        "losses": known.history.remote(),
        "coefficients": [hospital.coefficients.remote() for hospital in hospitals],
    }


def main() -> None:
    """Fit, compare, plot."""
    args = arguments()
    fed.init(parties=["ALICE", "BOB"])

    # A container of fed objects is got as the same container of their values.
    alone = fed.get([train([party], args.rounds, args.seed) for party in MEASURED])
    both = fed.get(train(list(MEASURED), args.rounds, args.seed))
    pooled = fed.get(fit_pooled.party("ALICE").remote(args.rounds, args.seed))
    fed.shutdown()

    coefficients = np.concatenate(both["coefficients"])
    from_pooled = np.abs(coefficients - pooled.coefficients).max()
    from_sklearn = np.abs(coefficients - pooled.sklearn_coefficients).max()

    print(f"accuracy on {HELD_OUT} held-out patients, after {args.rounds:,} rounds")
    print(f"  ALICE's columns alone          {alone[0]['accuracy']:.3f}")
    print(f"  BOB's columns alone            {alone[1]['accuracy']:.3f}")
    print(f"  both, federated                {both['accuracy']:.3f}")
    print(f"  both, pooled, same optimiser   {pooled.accuracy:.3f}")
    print(f"  both, pooled, scikit-learn     {pooled.sklearn_accuracy:.3f}")
    print(f"largest difference of one of the {len(coefficients)} federated coefficients")
    print(f"  from pooled, same optimiser    {from_pooled:.1e}")
    print(f"  from pooled, scikit-learn      {from_sklearn:.1e}")
    if args.plot:
        plot(args.plot, alone, both, pooled)


def arguments() -> argparse.Namespace:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=400, help="of gradient descent, at least 1")
    parser.add_argument("--seed", type=int, default=0, help="of who is held out")
    parser.add_argument("--plot", type=picture, metavar="FILE.png", help="write a picture")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds is at least 1")
    return args


def picture(text: str) -> Path:
    """The path of a picture that can be written: asked before the work, not after it."""
    path = Path(text)
    if path.suffix != ".png" or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no .png file in a folder that exists")
    return path


def plot(path: Path, alone: list[dict[str, Any]], both: dict[str, Any], pooled: Pooled) -> None:
    """Write the picture: the loss by round, and each coefficient beside scikit-learn's."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2)
    bold = {"loc": "left", "fontweight": "bold"}

    rounds = np.arange(1, len(pooled.losses) + 1)
    for color, party, fitted in zip(("C0", "C1"), MEASURED, alone, strict=True):
        label = f"{party}'s columns alone ({fitted['accuracy']:.3f})"
        left.semilogx(rounds, fitted["losses"], color=color, label=label)
    label = f"both, federated ({both['accuracy']:.3f})"
    left.semilogx(rounds, both["losses"], color="C2", linewidth=5, alpha=0.5, label=label)
    label = f"both, pooled ({pooled.accuracy:.3f})"
    left.semilogx(rounds, pooled.losses, color="k", linestyle="--", linewidth=1, label=label)
    left.set_title("Log-loss while fitting (in brackets: held-out accuracy)", **bold)
    left.set_xlabel("round")
    left.set_ylim(0)
    left.grid(alpha=0.3)
    left.legend(frameon=False)

    names = load_breast_cancer().feature_names
    ticks = [str(names[column]) for party in MEASURED for column in columns(party)]
    place = np.arange(len(ticks))
    start = 0
    for color, party, values in zip(("C0", "C1"), MEASURED, both["coefficients"], strict=True):
        right.barh(place[start : start + len(values)], values, color=color, label=f"at {party}")
        start += len(values)
    right.plot(pooled.sklearn_coefficients, place, "k|", markersize=9, label="scikit-learn, pooled")
    right.set_title("Coefficients (towards malignant)", **bold)
    right.set_yticks(place, ticks, fontsize=8)
    right.invert_yaxis()
    right.grid(alpha=0.3, axis="x")
    right.legend(frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    main()
