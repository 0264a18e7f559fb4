"""Beside 10xgraph nothing starts."""

from pathlib import Path

import pytest

from tenxgraph.core.exceptions import TenxGraphError
from tenxgraph.guard import refuse_beside_10xgraph


def test_without_the_rival_everything_may_start() -> None:
    refuse_beside_10xgraph()


def test_beside_the_rival_the_error_says_what_to_uninstall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "10xgraph-0.9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: 10xgraph\nVersion: 0.9.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(TenxGraphError, match=r"\[ENVIRONMENT\] '10xgraph' 0\.9\.1 .*pip uninstall 10xgraph"):
        refuse_beside_10xgraph()
