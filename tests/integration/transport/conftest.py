"""Certificates for the parties of these tests, made once."""

from __future__ import annotations

import pytest
from tests.integration.transport import ends


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    return ends.make_certificates(tmp_path_factory.mktemp("certificates"))
