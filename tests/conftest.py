"""What every test gets."""

import os
import signal

import pytest


def pytest_configure() -> None:
    # A shell lets what it starts in the background ignore Ctrl-C, and processes that tests start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a developer's own TENXGRAPH_* variables out of the tests."""
    for name in [name for name in os.environ if name.startswith("TENXGRAPH_")]:
        monkeypatch.delenv(name)
