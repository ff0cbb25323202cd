"""The table of settings: defaults, names, and the page made from it."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path

import pytest

from fed.config import choices, settings

ROOT = Path(__file__).resolve().parents[3]


def test_the_defaults_of_the_design():
    defaults = settings.Settings()
    assert defaults.mode == "simulation"
    assert (defaults.start_timeout_s, defaults.peer_timeout_s) == (60.0, 30.0)
    assert (defaults.stall_timeout_s, defaults.place_timeout_s) == (600.0, 60.0)
    assert defaults.shutdown_timeout_s == 60.0
    assert defaults.max_pending_calls == 10_000
    assert defaults.max_value_bytes == 16 * 2**30
    assert defaults.receive_budget_bytes is None
    assert defaults.seed == 0
    assert defaults.isolation == "sealed"
    assert defaults.error_detail == "type"
    assert defaults.codec_pickle == ()
    assert not defaults.parties.is_declared
    flags = (defaults.strict, defaults.fail_fast, defaults.insecure, defaults.has_tls)
    assert not any(flags)


def test_open_parties_are_not_shared_between_settings():
    first, second = settings.Settings(), settings.Settings()
    first.parties.index("ALICE")
    assert len(second.parties) == 0


def test_settings_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.Settings().seed = 1  # type: ignore[misc]


@pytest.mark.parametrize("field", settings.FIELDS.values(), ids=lambda field: field.name)
def test_every_default_is_what_its_own_kind_accepts(field):
    default = getattr(settings.Settings(), field.name)
    if default is None or default == {}:
        return
    assert field.kind.check(default) == default


def test_names_of_keys_and_variables():
    modules = settings.FIELDS["codec_modules"]
    assert (modules.key, modules.variable) == ("codec.modules", "FED_CODEC_MODULES")
    timeout = settings.FIELDS["peer_timeout_s"]
    assert (timeout.key, timeout.variable) == ("peer_timeout_s", "FED_PEER_TIMEOUT_S")
    assert timeout.option == "--peer-timeout-s"
    assert settings.BY_KEY["tls.ca_cert"].name == "tls_ca_cert"


def test_every_quantity_carries_its_unit():
    for name, field in settings.FIELDS.items():
        assert (field.kind is settings.kinds.SECONDS) == name.endswith("_s"), name
        assert (field.kind is settings.kinds.BYTES) == name.endswith("_bytes"), name


def test_what_must_agree_is_plain_data():
    agreed = settings.Settings(mode=choices.Mode.MULTI_CONTROLLER, seed=7).agreed()
    assert agreed == {
        "mode": "multi-controller",
        "job_name": "job",
        "federation": "federation",
        "seed": 7,
        "strict": False,
        "parties": [],
    }
    assert all(type(value) in {str, int, bool, list} for value in agreed.values())


def test_the_page_is_current():
    script = runpy.run_path(str(ROOT / "scripts" / "render_settings.py"))
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == script["render"](), "run python scripts/render_settings.py"
    for field in settings.FIELDS.values():
        assert f"### `{field.key}`" in page
        assert field.doc.rstrip(".") in page
