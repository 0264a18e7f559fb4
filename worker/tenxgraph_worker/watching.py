"""Lets each process of a worker that runs tasks watch whether the worker stalls."""

import os
from functools import partial
from typing import Any

from celery import Celery, signals
from celery.concurrency import prefork, solo, thread

from tenxgraph.settings import Settings
from tenxgraph_scheduler.broker import TASK_NAME
from tenxgraph_worker.leaving import end_stalled_worker
from tenxgraph_worker.queue_heads import QueueHeads
from tenxgraph_worker.shutdown import Shutdown
from tenxgraph_worker.stall import Slots, StallWatch, patience_of

_IN_THE_MAIN_PROCESS = frozenset({solo.__name__, thread.__name__})


def watch_for_stalls(app: Celery, settings: Settings, shutdown: Shutdown) -> None:
    """End the app's worker when it stalls, for its supervisor to start it anew.

    A prefork child that idles sees it as well as the main process would, which has no thread of ours: it forks.
    """
    slots = Slots()

    def note_worker(instance: Any, **_: Any) -> None:
        if instance.app is not app:
            return
        pool = instance.pool_cls.__module__
        if pool == prefork.__name__:
            signals.worker_process_init.connect(watch_in_child, weak=False, dispatch_uid=uid)
        elif pool in _IN_THE_MAIN_PROCESS:
            slots.size = 1 if pool == solo.__name__ else instance.concurrency
            signals.worker_ready.connect(watch_here, weak=False, dispatch_uid=uid)

    def watch(main: int) -> None:
        end = partial(end_stalled_worker, main, shutdown)
        StallWatch(QueueHeads(app), slots, shutdown, end, patience_of(settings)).start()

    def watch_in_child(**_: Any) -> None:
        watch(os.getppid())

    def watch_here(**_: Any) -> None:
        watch(os.getpid())

    def begin(**_: Any) -> None:
        slots.begin()

    def end(**_: Any) -> None:
        slots.end()

    uid = f"{TASK_NAME}:stalls:{id(app)}"
    signals.celeryd_after_setup.connect(note_worker, weak=False, dispatch_uid=uid)
    signals.task_prerun.connect(begin, weak=False, dispatch_uid=uid)
    signals.task_postrun.connect(end, weak=False, dispatch_uid=uid)
