"""How far a worker goes on with a run under one message."""

import time
from dataclasses import dataclass

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.engine.step import PLAN_RESUME, PLAN_START
from tenxgraph.store.base import PLAN, Advance, Claim
from tenxgraph.wire import read_run_config

_BEFORE_NODES = (PLAN_START, PLAN_RESUME)


@dataclass(frozen=True, slots=True)
class Stint:
    """What a worker may do under one message, beyond the task that the message names.

    Attributes:
        queue: Of the message: tasks of other queues are for other workers.
        deadline_s: Of the monotonic clock: after it others have their turn.
    """

    queue: str
    deadline_s: float

    def may_go_on(self, claim: Claim, advance: Advance) -> bool:
        """Whether the worker that ends a step begins the next one, too.

        It does so in a run of sticky steps; and in any run behind a plan task, which ran no node. So that a message is
        a task of a node, be it the first.
        """
        return (
            advance.status is RunStatus.RUNNING
            and len(advance.tasks) == 1
            and advance.tasks[0].queue == self.queue
            and (_ran_no_node(claim) or read_run_config(claim.run.request).steps == "sticky")
            and time.monotonic() < self.deadline_s
        )


def _ran_no_node(claim: Claim) -> bool:
    return claim.ref.task == PLAN and claim.spec.node in _BEFORE_NODES
