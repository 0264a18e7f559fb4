"""What benchmarks of workers share: a crew on a store of its own, and what its processes hold in memory."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from tenxgraph_worker.crew import Crew
from tenxgraph_worker.crew_member import Member
from tenxgraph_worker.embedded.server import EmbeddedServer

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def own_crew(*graphs: str, **options: Any) -> Iterator[Crew]:
    """Run scheduler and workers, without Flower; options are `Crew`'s.

    Without a ``redis_url`` there is a store too, in a folder that goes with them.
    """
    with ExitStack() as stack:
        if "redis_url" not in options:
            folder = stack.enter_context(TemporaryDirectory())
            options["redis_url"] = stack.enter_context(EmbeddedServer(Path(folder))).url
        yield stack.enter_context(Crew(graphs, folder=ROOT, flower=False, **options))


def workers_of(crew: Crew) -> list[Member]:
    """Return the crew's workers."""
    return [member for member in crew.members if member.job.name.startswith("worker")]


def pss_bytes(member: Member) -> int:
    """Return what a process and its children hold, pages that several share counted once (PSS; Linux only)."""
    assert member.pid is not None
    process = psutil.Process(member.pid)
    return sum(int(each.memory_full_info().pss) for each in [process, *process.children(recursive=True)])
