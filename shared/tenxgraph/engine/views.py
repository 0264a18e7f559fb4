"""What user code sees of the state: an own copy for each call, with the runtime's notes about the run."""

from collections.abc import Callable
from typing import TypeVar

from pydantic_core import from_json

from tenxgraph.core.graph.run_status import EXECUTION_STATUS, RunStatus
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.codec import EncodedUpdate
from tenxgraph.core.state.execution_state import ExecutionState, ExecutionStatus, StopRequestStatus
from tenxgraph.core.state.image import StateImage
from tenxgraph.engine.runtime import Runtime
from tenxgraph.store.base import RunView, WaitKind
from tenxgraph.wire import Failure

StateT = TypeVar("StateT", bound=AgentState)

_WAITS = {
    WaitKind.BEFORE: ExecutionStatus.INTERRUPTED_BEFORE,
    WaitKind.AFTER: ExecutionStatus.INTERRUPTED_AFTER,
    WaitKind.QUESTION: ExecutionStatus.INTERRUPTED,
}


def task_state(
    runtime: Runtime[StateT],
    image: StateImage,
    run: RunView,
    node: str,
    send: str | None,
    stop_probe: Callable[[], bool] | None = None,
) -> StateT:
    """The state that a node or a router gets."""
    meta = ExecutionState(current_node=node, step=run.step, thread_id=run.thread_id)
    meta.stop_current_execution = _stop(run.status)
    overlay = None if send is None else EncodedUpdate.from_json(send.encode())
    state: StateT = runtime.codec.build(image, overlay, meta)
    state._stop_probe = stop_probe
    return state


def run_state(runtime: Runtime[StateT], image: StateImage, run: RunView | None, nodes: tuple[str, ...]) -> StateT:
    """The state as a caller gets it: after the run's last step, with its status."""
    meta = ExecutionState()
    if run is not None:
        _describe(meta, run, nodes)
    state: StateT = runtime.codec.build(image, None, meta)
    return state


def _describe(meta: ExecutionState, run: RunView, nodes: tuple[str, ...]) -> None:
    meta.thread_id, meta.step = run.thread_id, run.step
    meta.status = EXECUTION_STATUS[run.status]
    meta.stop_current_execution = _stop(run.status)
    if nodes:
        meta.current_node = nodes[-1]
    if run.status is RunStatus.WAITING:
        meta.status = _WAITS[WaitKind(run.wait)]
        _describe_question(meta, run)
    if run.error:
        meta.internal_data["error"] = Failure.from_json(run.error).message


def _describe_question(meta: ExecutionState, run: RunView) -> None:
    open_questions = [asked for asked in run.interrupts if asked.answer is None]
    meta.interrupted_node = meta.current_node
    if open_questions:
        asked = from_json(open_questions[0].body)
        meta.interrupted_node, meta.interrupt_reason = asked["node"], asked["reason"]
        meta.interrupt_data = asked["value"]


def _stop(status: RunStatus) -> StopRequestStatus:
    if status is RunStatus.STOPPED:
        return StopRequestStatus.STOPPED
    return StopRequestStatus.STOP_REQUESTED if status is RunStatus.STOPPING else StopRequestStatus.NONE
