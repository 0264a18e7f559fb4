"""The store of a single process: threads in dictionaries under one lock."""

from tenxgraph.store.memory_admission import MemoryAdmission
from tenxgraph.store.memory_attempts import MemoryAttempts
from tenxgraph.store.memory_journal import MemoryJournal
from tenxgraph.store.memory_people import MemoryPeople
from tenxgraph.store.memory_reading import MemoryReading
from tenxgraph.store.memory_retention import MemoryRetention
from tenxgraph.store.memory_time import MemoryTime
from tenxgraph.store.memory_versions import MemoryVersions


class MemoryStore(
    MemoryAdmission,
    MemoryAttempts,
    MemoryJournal,
    MemoryPeople,
    MemoryTime,
    MemoryVersions,
    MemoryRetention,
    MemoryReading,
):
    """Threads of this process; they end with it.

    Args:
        watch_ms: How soon after an admission the reconciler looks at a thread.
        clock: Milliseconds since the epoch; tests put their own.
    """
