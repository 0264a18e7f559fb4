"""Versions that no step writes, in memory."""

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Version
from tenxgraph.store.base import Checkpoint, Edit, Edited, EditOutcome, NewThread, TaskStatus
from tenxgraph.store.memory_base import MemoryBase
from tenxgraph.store.memory_thread import Run, Task, Thread


class MemoryVersions(MemoryBase):
    """Forks threads and edits them."""

    def fork(self, thread: NewThread) -> bool:
        """See :meth:`Store.fork`."""
        with self._changed:
            first = Version(1, thread.nonce)
            if known := self._threads.get(thread.thread_id):
                return known.has(first)
            now_ms = self._clock()
            whose = (thread.graph, thread.graph_version, thread.user_id)
            new = Thread(thread.thread_id, *whose, now_ms, now_ms, idle_ms=now_ms)
            new.ready = int(thread.status is not RunStatus.COMPLETED)
            new.media.update(thread.media)
            _write(new, thread, first, "", now_ms)
            self._threads[thread.thread_id] = new
            self._watch(thread.thread_id, now_ms + self._watch_ms)
            return True

    def edit(self, edit: Edit) -> Edited:
        """See :meth:`Store.edit`."""
        with self._changed:
            thread = self._threads.get(edit.thread_id)
            version = Version(edit.base.number + 1, edit.nonce)
            if thread is not None and thread.has(version):
                return Edited(EditOutcome.WRITTEN)
            run = thread.active_run if thread else None
            if run is not None and run.status is not RunStatus.WAITING:
                return Edited(EditOutcome.BUSY, run.new.run_id)
            if thread is None or thread.version != edit.base or thread.active != edit.run_id:
                return Edited(EditOutcome.STALE)
            if edit.replans:
                _replan(thread, run, edit)
            if run is not None:
                run.version = version.number
            thread.ready = version.number if thread.ready else 0
            _write(thread, edit, version, edit.run_id, self._clock())
            return Edited(EditOutcome.WRITTEN)


def _replan(thread: Thread, run: Run | None, edit: Edit) -> None:
    """What comes next takes the place of what the thread held."""
    if run is None:
        thread.drop_parked()
        thread.continuable, thread.ready = "", int(edit.status is not RunStatus.COMPLETED)
        return
    run.tasks = {spec.task: Task(spec, TaskStatus.PARKED) for spec in edit.tasks}
    run.updates, run.interrupts = {}, {}
    run.step, run.plan, run.wait = edit.step, edit.plan, edit.wait


def _write(thread: Thread, point: NewThread | Edit, version: Version, run_id: str, now_ms: int) -> None:
    thread.write(point.patch, version)
    thread.changed_ms = thread.idle_ms = now_ms
    what = (point.step, point.status, point.meta, now_ms, point.tasks, point.plan, point.wait)
    thread.checkpoints.append(Checkpoint(version, run_id, *what))
