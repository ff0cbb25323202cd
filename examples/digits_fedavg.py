"""Federated averaging on handwritten digits: 1,000 parties with an image or two each.

A server and many clients learn to read digits together. A client's images never leave it: each
round the server sends its model to some of the clients, each of these improves the model on its
own images, and the server averages what comes back, weighted by how many images stand behind it.

    rayfed run examples/digits_fedavg.py --plot digits.png
    rayfed run --parties server=1,client=20 examples/digits_fedavg.py --rounds 10
    python examples/digits_fedavg.py --parties 100

The clients differ as phones do: a client's few images show mostly one or two of the ten digits
(Dirichlet label skew). The model is a softmax regression in numpy; the same model, trained on all
images in one place, is the yardstick that a real federation would not have.

References: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017 (federated averaging); Hsu, Qi and Brown, "Measuring the Effects of
Non-Identical Data Distribution for Federated Visual Classification", 2019 (the label skew, and
the server's momentum, without which a round's random choice of digits shakes the model).
"""

from __future__ import annotations

import argparse
import functools
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import fed

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DIGITS = 10
HELD_OUT = 360  # images that nobody trains on
SHARED_OUT = 1797 - HELD_OUT  # the others: at least one for each client
SKEW = 0.3  # Dirichlet concentration: small means few different digits per client
LOCAL_EPOCHS = 2
LEARNING_RATE = 0.3
MOMENTUM = 0.9


# --- The data. A client of a real federation would open its own file here. ---------------------


@functools.cache
def digits(seed: int) -> tuple[Floats, Integers]:
    """All images, shuffled: rows of 64 pixels around 0 and a constant 1, and their digits."""
    pixels, labels = load_digits(return_X_y=True)  # 0 (white) to 16 (black), 4.9 on average
    order = np.random.default_rng(seed).permutation(len(labels))
    images = np.column_stack([pixels / 8 - 0.6, np.ones(len(pixels))])
    return images[order], labels[order].astype(np.int64)


def held_out(seed: int) -> tuple[Floats, Integers]:
    """The test images, which no client has."""
    images, labels = digits(seed)
    return images[:HELD_OUT], labels[:HELD_OUT]


def training(seed: int) -> tuple[Floats, Integers]:
    """The images of all clients together."""
    images, labels = digits(seed)
    return images[HELD_OUT:], labels[HELD_OUT:]


@functools.cache
def owners(clients: int, seed: int) -> Integers:
    """Which client has each training image; every client has at least one.

    Each client draws its taste for the ten digits from a Dirichlet distribution; then the images
    are dealt out, each to a client that has room, by taste.
    """
    _, labels = training(seed)
    rng = np.random.default_rng([seed, clients])
    taste = rng.dirichlet([SKEW] * DIGITS, size=clients) + 1e-9
    room = 1 + rng.multinomial(len(labels) - clients, np.full(clients, 1 / clients))
    owner = np.empty(len(labels), dtype=np.int64)
    for image, label in enumerate(labels):
        weight = taste[:, label] * room
        owner[image] = rng.choice(clients, p=weight / weight.sum())
        room[owner[image]] -= 1
    return owner


# --- The model: softmax regression, 65 weights for each of the ten digits. ---------------------


def descend(
    weights: Floats,
    images: Floats,
    labels: Integers,
    *,
    epochs: int,
    rate: float,
    rng: np.random.Generator,
) -> Floats:
    """The weights after stochastic gradient descent, one image at a time, in random order."""
    weights = weights.copy()  # what comes as an argument is read-only
    for _ in range(epochs):
        for i in rng.permutation(len(labels)):
            scores = images[i] @ weights
            error = np.exp(scores - scores.max())
            error /= error.sum()
            error[labels[i]] -= 1.0
            weights -= rate * np.outer(images[i], error)
    return weights


def accuracy(weights: Floats, images: Floats, labels: Integers) -> float:
    """The part of the images that is read right."""
    return float(np.mean((images @ weights).argmax(axis=1) == labels))


# --- What runs at the parties. -----------------------------------------------------------------


@dataclass
class Update:
    """What a client sends, or several together: their weighted models' sum, and the weight."""

    weighted: Floats
    images: int


def add(a: Update, b: Update) -> Update:
    """Two updates as one. `fed.reduce` folds with it, so the server never holds them all."""
    return Update(a.weighted + b.weighted, a.images + b.images)


@fed.remote
class Client:
    """A party with a few images of its own, which its methods alone see."""

    def __init__(self, index: int, clients: int, seed: int) -> None:
        images, labels = training(seed)
        mine = owners(clients, seed) == index
        self.images, self.labels = images[mine], labels[mine]

    def train(self, weights: Floats, rate: float) -> Update:
        """The model after some passes over this client's images, times their number."""
        trained = descend(
            weights, self.images, self.labels, epochs=LOCAL_EPOCHS, rate=rate, rng=fed.rng()
        )
        return Update(trained * len(self.labels), len(self.labels))


@fed.remote
class Server:
    """The party that averages and tests."""

    def __init__(self, seed: int) -> None:
        self.test = held_out(seed)
        self.velocity: Floats | float = 0.0

    def step(self, weights: Floats, total: Update) -> Floats:
        """The next model: towards the clients' average, with momentum."""
        average = total.weighted / total.images
        self.velocity = MOMENTUM * self.velocity + (average - weights)
        return weights + self.velocity

    def accuracy(self, weights: Floats) -> float:
        """The accuracy on the held-out images."""
        return accuracy(weights, *self.test)


@fed.remote
def train_pooled(seed: int) -> Floats:
    """The yardstick: the same model, trained on all clients' images in one place."""
    images, labels = training(seed)
    start = np.zeros((images.shape[1], DIGITS))
    return descend(start, images, labels, epochs=15, rate=LEARNING_RATE / 20, rng=fed.rng())


# --- The script: every party of a federation runs all of it, so it makes the same calls there. -


def main() -> None:
    """Train, print, plot."""
    args = arguments()
    fed.init(parties={"server": 1, "client": args.parties}, seed=args.seed)

    names = fed.parties("client*")
    if len(names) > SHARED_OUT:
        raise SystemExit(f"{len(names)} clients, but only {SHARED_OUT} images to share out")
    clients = [
        Client.party(name).remote(index, len(names), args.seed) for index, name in enumerate(names)
    ]
    server = Server.party("server").remote(args.seed)
    pooled_model = train_pooled.party("server").remote(args.seed)
    pooled = fed.get(server.accuracy.remote(pooled_model))

    per_round = min(len(clients), max(10, len(clients) // 5))
    print(f"clients: {len(clients):,}, in each round {per_round:,}; accuracy on held-out images:")
    print("round  federated  pooled")

    sampling = random.Random(args.seed)
    model = fed.put(np.zeros((65, DIGITS)), party="server")
    history = []
    for done in range(args.rounds):
        rate = LEARNING_RATE * (1 - done / args.rounds)
        chosen = sampling.sample(clients, per_round)
        total = fed.reduce(add, (c.train.remote(model, rate) for c in chosen), party="server")
        model = server.step.remote(model, total)
        history.append(fed.get(server.accuracy.remote(model)))
        print(f"{done + 1:5}  {history[-1]:9.3f}  {pooled:6.3f}")
        fed.progress(done + 1, args.rounds)

    weights, pooled_weights = fed.get([model, pooled_model])
    fed.shutdown()

    points = 100 * (history[-1] - pooled)
    print(f"\nfederated {history[-1]:.3f}, pooled {pooled:.3f}: {points:+.1f} points")
    if args.plot:
        plot(args.plot, history, pooled, [weights, pooled_weights], len(names), args.seed)


def arguments() -> argparse.Namespace:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parties", type=int, default=1000, help="clients, 1 to 1,437")
    parser.add_argument("--rounds", type=int, default=50, help="of training, at least 1")
    parser.add_argument("--seed", type=int, default=0, help="of everything random")
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


def plot(
    path: Path,
    history: list[float],
    pooled: float,
    models: list[Floats],
    clients: int,
    seed: int,
) -> None:
    """Write the picture: accuracy by round, who has which digits, and what was learned."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.4), dpi=110, layout="constrained")
    left, right = figure.subfigures(1, 2, wspace=0.03)
    bold = {"loc": "left", "fontweight": "bold"}

    axes = left.subplots()
    rounds = np.arange(1, len(history) + 1)
    axes.axhspan(pooled - 0.03, pooled, color="0.9", label="within 3 points of it")
    axes.axhline(pooled, color="0.3", linestyle="--", label=f"pooled images: {pooled:.3f}")
    axes.plot(rounds, history, color="C0", linewidth=2, label=f"federated: {history[-1]:.3f}")
    axes.set_title(f"Accuracy on held-out digits, {clients:,} clients", **bold)
    axes.set_xlabel("round")
    axes.set_xlim(0, len(history) + 1)
    axes.set_ylim(0, 1)
    axes.grid(alpha=0.3)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="lower right", frameon=False)

    # These data are public. Of a real federation nobody could draw who has which digits.
    upper, lower = right.subfigures(2, 1, height_ratios=[1.25, 1])
    _, labels = training(seed)
    shown = np.arange(min(clients, 40))
    bottom = np.zeros(len(shown))
    axes = upper.subplots()
    for digit in range(DIGITS):
        held = np.bincount(owners(clients, seed)[labels == digit], minlength=clients)[shown]
        axes.bar(shown, held, bottom=bottom, width=0.85, color=f"C{digit}", label=str(digit))
        bottom += held
    axes.set_title(f"Training images of {len(shown)} clients, by digit", **bold)
    axes.set_xlabel("client")
    axes.set_xlim(-1, len(shown))
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, reverse=True, fontsize=8)

    grid = lower.subplots(2, DIGITS)
    lower.suptitle(
        "Learned weights (blue: ink counts for the digit)", x=0.01, ha="left", fontweight="bold"
    )
    for row, (name, weights) in enumerate(zip(("federated", "pooled"), models, strict=True)):
        bound = np.abs(weights[:-1]).max()
        for digit in range(DIGITS):
            axes = grid[row, digit]
            pixels = weights[:-1, digit].reshape(8, 8)
            axes.imshow(pixels, cmap="RdBu", vmin=-bound, vmax=bound)
            axes.set(xticks=[], yticks=[])
            if row == 0:
                axes.set_title(str(digit), fontsize=10)
        grid[row, 0].set_ylabel(name)
    figure.savefig(path)


if __name__ == "__main__":
    main()
