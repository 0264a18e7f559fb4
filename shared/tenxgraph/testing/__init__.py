"""What graphs are tested with."""

from typing import TYPE_CHECKING

from tenxgraph._lazy import lazy

if TYPE_CHECKING:
    from tenxgraph.testing.faults import (
        Delay,
        Drop,
        Duplicate,
        FaultReport,
        Kill,
        KillPoint,
        LoseReply,
        PauseWorker,
        Reorder,
        RestartStore,
        run_under_faults,
    )
    from tenxgraph.testing.test_agent import TestAgent

__all__ = [
    "Delay",
    "Drop",
    "Duplicate",
    "FaultReport",
    "Kill",
    "KillPoint",
    "LoseReply",
    "PauseWorker",
    "Reorder",
    "RestartStore",
    "TestAgent",
    "run_under_faults",
]

# Hidden from type checkers, which would take any name for granted beside a module's own __getattr__.
if not TYPE_CHECKING:
    _homes = dict.fromkeys(__all__, "tenxgraph.testing.faults") | {"TestAgent": "tenxgraph.testing.test_agent"}
    __getattr__, __dir__ = lazy(__name__, _homes)
