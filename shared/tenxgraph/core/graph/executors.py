"""Executors by name, found as entry points so that the library imports none of them."""

from importlib.metadata import entry_points
from typing import Any

from tenxgraph.core.exceptions import GraphError

GROUP = "tenxgraph.executors"
IN_PROCESS = "inprocess"
DISTRIBUTED = "distributed"


def executor_class(name: str) -> Any:
    """Return the executor class installed under ``name``.

    Raises:
        GraphError: ``NO_EXECUTOR`` when none is installed under it.
    """
    for entry in entry_points(group=GROUP, name=name):
        return entry.load()
    raise GraphError(
        f"No executor {name!r} is installed in the entry-point group {GROUP!r}: install the tenxgraph distribution "
        "(a source folder on PYTHONPATH alone does not declare entry points).",
        error_code="NO_EXECUTOR",
        context={"executor": name},
    )
