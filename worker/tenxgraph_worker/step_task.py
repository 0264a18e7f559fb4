"""The one Celery task that all nodes of all graphs travel as."""

from typing import Any

from celery import Celery
from celery.exceptions import Reject

from tenxgraph.wire import TaskMessage
from tenxgraph_scheduler.broker import TASK_NAME
from tenxgraph_worker.node_process import NodeProcesses
from tenxgraph_worker.shutdown import Shutdown


def register_step_task(app: Celery, processes: NodeProcesses, shutdown: Shutdown) -> None:
    """Make an app take our messages.

    Correctness rests on no acknowledgement: the store refuses what was done, and a lost message is sent again. It comes
    late because a message that is taken off its queue then runs at once: acknowledged early, as many again would lie in
    the worker's memory, look lost to the scheduler and be sent twice. A killed child's message is not put back: its
    lease decides when the task is tried again, and how often.
    """

    @app.task(
        name=TASK_NAME,
        bind=True,
        shared=False,
        ignore_result=True,
        serializer="json",
        acks_late=True,
        acks_on_failure_or_timeout=True,
        reject_on_worker_lost=False,
    )
    def step(self: Any, /, **kwargs: Any) -> dict[str, Any]:
        if shutdown.has_begun:  # an app that we joined may have taken more messages than it has slots
            raise Reject("the worker ends before this begins", requeue=True)
        return processes.here(self.request.hostname or "worker").perform(TaskMessage.from_kwargs(kwargs))
