"""Messages made before the write that dispatches their tasks, so that the store can put them on their queues."""

from collections.abc import Sequence
from typing import Protocol

from tenxgraph.core.state.image import StateImage, Version
from tenxgraph.store.base import Advance, Dispatch, NewRun, QueueMessage, RunView, TaskRef


class Prepare(Protocol):
    """Makes the messages of a step's tasks."""

    def __call__(self, dispatches: Sequence[Dispatch], image: StateImage | None) -> tuple[QueueMessage, ...]:
        """Return a message for each task, or none at all where the store is not the broker.

        Args:
            dispatches: As they will be if all goes as planned.
            image: The state before the step; None where it is not known.
        """
        ...


def no_messages(dispatches: Sequence[Dispatch], image: StateImage | None) -> tuple[QueueMessage, ...]:
    """Leave all to the dispatcher."""
    del dispatches, image
    return ()


def upcoming(run: RunView, advance: Advance) -> list[Dispatch]:
    """Return what is dispatched if the run goes on as an advance plans it."""
    version = Version(advance.base.number + 1, advance.nonce)
    where = (run.graph, run.graph_version, version)
    return [
        Dispatch(
            TaskRef(run.thread_id, run.run_id, advance.step, task.task, 1), task.node, task.queue, task.priority, *where
        )
        for task in advance.tasks
    ]


def starting(run: NewRun) -> list[Dispatch]:
    """Return what is dispatched if a run with a message starts at once."""
    task, where = run.start, (run.graph, run.graph_version, Version.ZERO)
    return [Dispatch(TaskRef(run.thread_id, run.run_id, 0, task.task, 1), task.node, task.queue, task.priority, *where)]
