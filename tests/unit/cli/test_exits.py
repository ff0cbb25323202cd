from __future__ import annotations

import re
from pathlib import Path

import pytest

from fed import errors
from fed.cli import exits

PAGE = Path(__file__).resolve().parents[3] / "docs" / "errors.md"


def _made(cls: type[errors.FedError]) -> errors.FedError:
    return cls.__new__(cls)


def test_the_page_has_the_table_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    codes = {code: f"`{cls.__name__}`" for cls, code in exits.CODES.items()} | exits.OTHERS
    assert {int(code): text for code, text in rows} == codes
    assert [int(code) for code, _ in rows] == sorted(codes)


def test_the_page_names_every_class_with_those_above_it() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (`.*`) \| .+ \|$", PAGE.read_text(), re.MULTILINE)
    bases = {
        cls.__name__: ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
        for cls in errors.all_errors()
    }
    assert dict(rows) == bases


def test_no_two_ends_have_the_same_code() -> None:
    codes = [*exits.CODES.values(), *exits.OTHERS]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("cls", errors.all_errors(), ids=lambda cls: cls.__name__)
def test_every_error_has_the_code_of_the_nearest_listed_class(cls: type[errors.FedError]) -> None:
    nearest = next(base for base in cls.__mro__ if base in exits.CODES)
    assert exits.of_error(_made(cls)) == exits.CODES[nearest]
    assert exits.of_error(_made(cls)) not in exits.OTHERS


def test_the_users_own_subclass_has_its_base_classes_code() -> None:
    class Mine(errors.PartyLostError):
        pass

    assert exits.of_error(_made(Mine)) == exits.CODES[errors.PartyLostError]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError(), 1),
        (KeyboardInterrupt(), 130),
        (SystemExit(), 0),
        (SystemExit(0), 0),
        (SystemExit(9), 9),
        (SystemExit(True), 1),
        (SystemExit(-1), 255),
        (SystemExit(256 + 3), 3),
        (SystemExit("text"), 1),
        (TimeoutError(), 1),
    ],
    ids=repr,
)
def test_other_ends(error: BaseException, code: int) -> None:
    assert exits.of_error(error) == code
