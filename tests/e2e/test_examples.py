"""The examples as a user types them, and that what they claim is so."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
RUN = ("-m", "fed.cli", "run")

#: Each example with arguments that make it short.
SHORT = {
    "digits_fedavg.py": ("--parties", "30", "--rounds", "4"),
    "two_hospitals_vertical.py": ("--rounds", "15"),
    "statistics.py": ("--parties", "60"),
}
each_example = pytest.mark.parametrize("script", SHORT)

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sklearn", "matplotlib")),
    reason="needs the extra `examples`: scikit-learn and matplotlib",
)


def python(*args: object, hash_seed: int = 0, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run this interpreter on `args`; it must end with the exit code `code`."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("FED_")}
    environ |= {"PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=100,
        env=environ,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def reported(
    folder: Path, script: str, *args: object, options: tuple[object, ...] = (), hash_seed: int = 0
) -> tuple[str, dict[str, Any]]:
    """What `rayfed run` printed of the script, and its report of the only session."""
    report = folder / "report.json"
    done = python(*RUN, "--report", report, *options, EXAMPLES / script, *args, hash_seed=hash_seed)
    (session,) = json.loads(report.read_text())["sessions"]
    assert session["unread_count"] == 0
    return done.stdout, session


def loaded(script: str) -> ModuleType:
    """The example as a module, without running it."""
    name = f"example_{script.removesuffix('.py')}"
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def number(text: str, label: str) -> float:
    """The number that follows the label in what was printed."""
    found = re.search(rf"{re.escape(label)}\s+([-+.e\d]+)", text)
    assert found, f"{label!r} is not in:\n{text}"
    return float(found[1].rstrip(".,"))


def check_png(path: Path) -> None:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert b"IEND" in data[-12:]
    width, height = struct.unpack(">II", data[16:24])
    assert width >= 1000
    assert height >= 500
    assert len(data) > 20_000  # an empty figure of this size has some 5 kB


# --- What all of them promise. ------------------------------------------------------------------


@each_example
def test_same_seed_same_bits_however_it_is_run(script: str, tmp_path: Path) -> None:
    # Few runs for many claims, as each of them loads scikit-learn anew. The second run differs
    # from the first by the hash seed, by the plot (a party that wants one must make the same calls
    # as one that does not) and by the level that finds bodies that change what others see.
    picture = tmp_path / "picture.png"
    first = reported(tmp_path, script, *SHORT[script], "--plot", picture, hash_seed=1)
    second = reported(
        tmp_path, script, *SHORT[script], options=("--isolation", "check"), hash_seed=4242
    )
    assert first == second
    assert len(first[0].splitlines()) > 5
    check_png(picture)

    other_text, other = reported(tmp_path, script, *SHORT[script], "--seed", 5)
    assert other_text != first[0]
    assert other["values_digest"] != first[1]["values_digest"]


@each_example
def test_plain_python_prints_the_same_and_loads_no_matplotlib(script: str, tmp_path: Path) -> None:
    run, _ = reported(tmp_path, script, *SHORT[script])
    plain = python("-X", "importtime", EXAMPLES / script, *SHORT[script])
    assert plain.stdout == run
    assert "sklearn" in plain.stderr  # each module that is loaded is listed there
    assert "matplotlib" not in plain.stderr


@pytest.mark.parametrize("script", ["digits_fedavg.py", "two_hospitals_vertical.py"])
def test_no_rounds_are_refused(script: str) -> None:
    assert "at least 1" in python(EXAMPLES / script, "--rounds", "0", code=2).stderr


# --- Federated averaging. -----------------------------------------------------------------------


def check_learned(text: str) -> None:
    federated, pooled = number(text, "\nfederated"), number(text, ", pooled")
    assert federated > 0.90
    assert federated >= pooled - 0.03
    assert pooled > 0.93


def test_a_thousand_parties_learn_as_well_as_the_pooled_model(tmp_path: Path) -> None:
    text, session = reported(tmp_path, "digits_fedavg.py")
    check_learned(text)
    rounds = re.findall(r"^ +(\d+) +(0\.\d{3}) +(0\.\d{3})$", text, re.MULTILINE)
    assert [int(done) for done, _, _ in rounds] == list(range(1, 51))
    assert number(text, "\nfederated") == float(rounds[-1][1])
    assert float(rounds[0][1]) < 0.8  # it learns, and does not start with the answer
    assert session["parties"] == 1001
    # Models to clients and updates back: no image crosses.
    assert session["crossed_values"] == 2 * 50 * 200


def test_fewer_parties_learn_too(tmp_path: Path) -> None:
    check_learned(reported(tmp_path, "digits_fedavg.py", "--parties", 100)[0])


@pytest.mark.soak
@pytest.mark.parametrize("start", range(1, 13))
def test_other_seeds_learn_too(start: int, tmp_path: Path) -> None:
    check_learned(reported(tmp_path, "digits_fedavg.py", "--seed", start)[0])


def test_parties_of_the_command_line_replace_those_of_the_script(tmp_path: Path) -> None:
    text, session = reported(
        tmp_path, "digits_fedavg.py", "--rounds", 2, options=("--parties", "server,client")
    )
    assert "clients: 1," in text
    assert session["parties"] == 2


def test_more_clients_than_images_are_refused() -> None:
    done = python(EXAMPLES / "digits_fedavg.py", "--parties", 1438, code=1)
    assert "1438 clients, but only 1437 images" in done.stderr


@pytest.mark.parametrize("clients", [1, 7, 1000, 1437])
def test_every_image_has_one_owner_and_every_client_an_image(clients: int) -> None:
    example = loaded("digits_fedavg.py")
    owner = example.owners(clients, 3)
    assert owner.shape == (1437,)
    assert set(owner.tolist()) == set(range(clients))


def test_clients_have_few_images_and_few_digits() -> None:
    example = loaded("digits_fedavg.py")
    owner, (_, labels) = example.owners(100, 0), example.training(0)
    most = [
        np.bincount(labels[owner == client]).max() / np.sum(owner == client)
        for client in range(100)
    ]
    assert np.mean(most) > 0.4  # of equal shares it would be some 0.22
    assert np.bincount(example.owners(1000, 0)).max() <= 6


def test_the_average_is_weighted_by_images() -> None:
    example = loaded("digits_fedavg.py")
    start, one, three = np.zeros((65, 10)), np.full((65, 10), 1.0), np.full((65, 10), 5.0)
    total = example.add(example.Update(one * 1, 1), example.Update(three * 3, 3))
    server = example.Server.__wrapped__(seed=0)
    assert np.array_equal(server.step(start, total), np.full((65, 10), 4.0))


# --- Vertical regression. -----------------------------------------------------------------------


def test_two_hospitals_find_what_the_pooled_fit_finds(tmp_path: Path) -> None:
    text, _ = reported(tmp_path, "two_hospitals_vertical.py")
    federated = number(text, "both, federated")
    assert federated == number(text, "both, pooled, same optimiser")
    assert abs(federated - number(text, "both, pooled, scikit-learn")) <= 1 / 114 + 1e-9
    assert federated > number(text, "ALICE's columns alone")
    assert federated > number(text, "BOB's columns alone")
    assert number(text, "from pooled, same optimiser") < 1e-9
    assert number(text, "from pooled, scikit-learn") < 1e-4


def test_two_vectors_cross_in_a_round_and_nothing_else(tmp_path: Path) -> None:
    _, few = reported(tmp_path, "two_hospitals_vertical.py", "--rounds", 10)
    _, more = reported(tmp_path, "two_hospitals_vertical.py", "--rounds", 20)
    # Scores to ALICE and residuals to BOB, in the two fits that BOB takes part in.
    assert more["crossed_values"] - few["crossed_values"] == 2 * 2 * 10
    per_round = (more["crossed_bytes"] - few["crossed_bytes"]) / 10
    vectors = 2 * 2 * 455 * 8
    assert vectors <= per_round < 1.1 * vectors


def test_hospitals_share_the_columns_and_no_patient_is_on_both_sides() -> None:
    example = loaded("two_hospitals_vertical.py")
    columns = example.columns("ALICE") + example.columns("BOB")
    assert sorted(columns) == list(range(30))
    train, test = example.measurements(columns, 1)
    assert train.shape == (455, 30)
    assert test.shape == (114, 30)
    assert np.allclose(train.mean(axis=0), 0)
    assert np.allclose(train.std(axis=0), 1)


# --- Statistics. --------------------------------------------------------------------------------


def test_ten_thousand_clinics_count_what_is_counted_in_one_place(tmp_path: Path) -> None:
    text, session = reported(tmp_path, "statistics.py")
    assert session["parties"] == 10_001
    assert "clinics: 10,000," in text
    assert "counts equal: yes" in text
    assert "histograms equal, bin for bin: yes" in text
    widths = {"age": 2.5, "body mass index": 1.0, "blood pressure": 2.5, "blood sugar": 2.5}
    for name, width in widths.items():
        for statistic, bound in (
            ("mean", 1e-9),
            ("standard deviation", 1e-9),
            ("median", width),
            ("95 % quantile", width),
        ):
            found = re.search(rf"^{name} +{statistic} +(\S+) +(\S+) +(\S+)$", text, re.MULTILINE)
            assert found, text
            federated, pooled, difference = map(float, found.groups())
            assert abs(federated - pooled) <= bound + 1e-4  # as printed
            assert difference <= bound


@pytest.mark.parametrize("seed", range(3))
def test_merged_summaries_are_those_of_all_rows(seed: int) -> None:
    example = loaded("statistics.py")
    rng = np.random.default_rng(seed)
    rows = example.study()[rng.integers(442, size=500)]
    cuts = np.sort(rng.choice(np.arange(1, 500), size=9, replace=False))
    parts = [example.summarise(part) for part in np.split(rows, cuts)]
    total = parts[0]
    for part in parts[1:]:
        total = example.merge(total, part)

    assert total.count == 500
    np.testing.assert_allclose(total.mean, rows.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(total.deviation(), rows.std(axis=0, ddof=1), rtol=1e-13)
    for column, name in enumerate(example.COLUMNS):
        counts, _ = np.histogram(rows[:, column], example.edges(name))
        assert np.array_equal(total.histogram[column], counts)
        assert counts.sum() == 500  # nobody is out of range
        for q in (0.05, 0.5, 0.95):
            width = np.diff(example.edges(name))[0]
            exact = np.quantile(rows[:, column], q)
            assert abs(total.quantiles(q)[column] - exact) <= width
