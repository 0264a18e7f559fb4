"""What every test gets."""

import os

import pytest


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a developer's own TENXGRAPH_* variables out of the tests."""
    for name in [name for name in os.environ if name.startswith("TENXGRAPH_")]:
        monkeypatch.delenv(name)
