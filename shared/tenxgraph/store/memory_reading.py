"""Reading the memory store, and deleting from it."""

import asyncio
from collections.abc import Iterable, Sequence

from tenxgraph.core.state.image import StateImage
from tenxgraph.store.base import (
    Checkpoint,
    RunView,
    StoredEvents,
    TaskView,
    ThreadView,
)
from tenxgraph.store.memory_base import MemoryBase


class MemoryReading(MemoryBase):
    """Shows what is kept."""

    def thread(self, thread_id: str) -> ThreadView | None:
        """See :meth:`Store.thread`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            return thread.view() if thread else None

    def run(self, run_id: str) -> RunView | None:
        """See :meth:`Store.run`."""
        with self._changed:
            run = self._run(run_id)
            return run.view() if run else None

    def tasks(self, run_id: str) -> Sequence[TaskView]:
        """See :meth:`Store.tasks`."""
        with self._changed:
            run = self._run(run_id)
            return run.task_views() if run else []

    def threads(self, *, limit: int, offset: int = 0) -> Sequence[ThreadView]:
        """See :meth:`Store.threads`."""
        with self._changed:
            newest_first = sorted(self._threads.values(), key=lambda t: t.changed_ms, reverse=True)
            return [thread.view() for thread in newest_first[offset : offset + limit]]

    def runs(self, thread_id: str) -> Sequence[RunView]:
        """See :meth:`Store.runs`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            return [run.view() for run in thread.runs.values()] if thread else []

    def image(self, thread_id: str, version: int | None = None, known: StateImage | None = None) -> StateImage:
        """See :meth:`Store.image`."""
        del known
        with self._changed:
            thread = self._threads[thread_id]
            if version is None:
                return thread.image
            return thread.images[version]

    def log(self, thread_id: str, name: str, *, offset: int, limit: int, home: int | None = None) -> Sequence[bytes]:
        """See :meth:`Store.log`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            homes = thread.logs.get(name, {}) if thread else {}
            items = [item for each in sorted(homes) if home in (None, each) for item in homes[each]]
            first = offset if offset >= 0 else max(len(items) + offset, 0)
            return items[first : first + max(limit, 0)]

    def media(self, thread_id: str, media_id: str) -> bytes | None:
        """See :meth:`Store.media`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            return thread.media.get(media_id) if thread else None

    def checkpoint(self, thread_id: str, version: int | None = None) -> Checkpoint | None:
        """See :meth:`Store.checkpoint`."""
        found = self.checkpoints(thread_id, limit=1, before=None if version is None else version + 1)
        return found[0] if found and version in (None, found[0].version.number) else None

    def checkpoints(self, thread_id: str, *, limit: int, before: int | None = None) -> Sequence[Checkpoint]:
        """See :meth:`Store.checkpoints`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            kept: Iterable[Checkpoint] = reversed(thread.checkpoints) if thread else ()
            older = (point for point in kept if before is None or point.version.number < before)
            return [point for point, _ in zip(older, range(limit), strict=False)]

    def _after(self, thread_id: str, run_id: str, after: str) -> list[StoredEvents]:
        thread = self._threads.get(thread_id)
        run = thread.runs.get(run_id) if thread else None
        return run.events[int(after.partition("-")[0] or 0) :] if run else []

    def events(self, thread_id: str, run_id: str, after: str, *, timeout_s: float) -> Sequence[StoredEvents]:
        """See :meth:`Store.events`."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._after(thread_id, run_id, after)), timeout_s)
            return self._after(thread_id, run_id, after)

    async def aevents(self, thread_id: str, run_id: str, after: str, *, timeout_s: float) -> Sequence[StoredEvents]:
        """See :meth:`Store.aevents`."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def listener() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        with self._changed:
            self._listeners.setdefault(run_id, []).append(listener)
            found = self._after(thread_id, run_id, after)
        try:
            if not found:
                async with asyncio.timeout(timeout_s):
                    await changed.wait()
        except TimeoutError:
            pass
        finally:
            with self._changed:
                self._listeners[run_id].remove(listener)
                if not self._listeners[run_id]:
                    del self._listeners[run_id]
        with self._changed:
            return self._after(thread_id, run_id, after)

    def keeps_event(self, thread_id: str, run_id: str, event_id: str) -> bool:
        """See :meth:`Store.keeps_event`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            run = thread.runs.get(run_id) if thread else None
            return run is not None and any(stored.id == event_id for stored in run.events)

    def delete_thread(self, thread_id: str, *, rested_ms: int = 0) -> bool:
        """See :meth:`Store.delete_thread`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            if thread is None or not thread.is_at_rest:
                return False
            if rested_ms and thread.rested_since_ms > self._clock() - rested_ms:
                return False
            for run_id in thread.runs:
                self._thread_of_run.pop(run_id, None)
            del self._threads[thread_id]
            self._due.pop(thread_id, None)
            return True

    def close(self) -> None:
        """See :meth:`Store.close`."""
