"""The threat model names tests: those in this tree have to exist, and to run."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[3]
TEXT = (ROOT / "docs/security/threat-model.md").read_text()
CLAIMS = re.findall(r"^\| (T\d+) \|.*\| ([^|]*) \|$", TEXT, re.MULTILINE)


def test_claims_are_numbered_without_a_gap():
    assert [name for name, _ in CLAIMS] == [f"T{n}" for n in range(1, len(CLAIMS) + 1)]
    assert len(CLAIMS) > 20


def test_every_claim_names_a_test_and_those_of_this_tree_exist():
    for claim, shown in CLAIMS:
        named = re.findall(r"`(?:(tests/[\w/]+\.py))?::(test_\w+)`", shown)
        assert named, f"{claim} is backed by nothing"
        path = ""
        for own_path, test in named:
            path = own_path or path
            source = (ROOT / path).read_text()
            assert f"def {test}(" in source, f"{claim} names {path}::{test}"
