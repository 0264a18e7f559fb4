"""Events of a run as its followers get them."""

import time
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, ValidationInfo
from pydantic_core import to_json

from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.media import EXACT_JSON
from tenxgraph.core.state.message import Message


class StreamEvent(StrEnum):
    """What happened."""

    RUN_START = "run_start"
    STEP_START = "step_start"
    TASK_START = "task_start"
    MESSAGE = "message"
    TOKEN = "token"
    CUSTOM = "custom"
    STATE = "state"
    INTERRUPT = "interrupt"
    TASK_RETRY = "task_retry"
    ATTEMPT_DISCARDED = "attempt_discarded"
    TASK_END = "task_end"
    STEP_END = "step_end"
    ERROR = "error"
    RUN_END = "run_end"


class _OpenState(AgentState):
    """A state whose class the reader does not know: further fields as JSON gave them."""

    model_config = ConfigDict(extra="allow")


def _as_state(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, dict):
        return value
    state_type: type[AgentState] = (info.context or {}).get("state_type", _OpenState)
    if info.mode != "json":
        return state_type.model_validate(value)
    # Only JSON mode reads bytes from base64.
    return state_type.model_validate_json(to_json(value, inf_nan_mode="constants"))


class StreamChunk(BaseModel):
    """One event.

    A state keeps the fields of its subclass. To read one back as that class, validate with
    ``context={"state_type": MyState}``; otherwise its further fields are plain JSON values.

    Attributes:
        id: Place in the stream; a follower goes on after it.
        event: What happened.
        run_id: The run.
        thread_id: Its thread.
        step: Number of the step, where the event belongs to one.
        node: Name of the node, where it belongs to one.
        task: Number of the task in the step.
        attempt: Number of the attempt, from 1.
        message: A message or, for ``token``, a delta.
        state: The state, for ``state``.
        data: Whatever else the event carries.
        timestamp: Unix time in seconds.
    """

    model_config = EXACT_JSON

    id: str = ""
    event: StreamEvent
    run_id: str = ""
    thread_id: str = ""
    step: int | None = None
    node: str | None = None
    task: int | str | None = None
    attempt: int | None = None
    message: SerializeAsAny[Message] | None = None
    state: Annotated[SerializeAsAny[AgentState] | None, BeforeValidator(_as_state)] = None
    data: Any = None
    timestamp: float = Field(default_factory=time.time)
