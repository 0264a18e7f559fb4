"""One call of a tool: made, and brought into what a model sees."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from injectq import InjectQ
from pydantic_core import from_json, to_json

from tenxgraph.core.exceptions import EffectLostError, TenxGraphError
from tenxgraph.core.graph.tool_calls import ToolCall
from tenxgraph.core.graph.tool_journal import CallKey, ToolOutcome
from tenxgraph.core.graph.tool_schema import Tool
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.tool_result import ToolResult
from tenxgraph.utils.emit import emit
from tenxgraph.utils.journal import idempotency_key
from tenxgraph.utils.task_context import TaskContext

_logger = logging.getLogger(__name__)

_MAX_ERROR_CHARS: Final = 2000
_FAULTS: Final = (Exception, SystemExit, KeyboardInterrupt)


@dataclass(frozen=True, slots=True)
class Round:
    """The calls of one message: what each of them is given.

    Attributes:
        message_id: Of the message that asks for them.
        task: What the runtime tells of the task that makes them; None where no graph runs the node.
    """

    message_id: str | int
    thread_id: str
    state: AgentState
    config: Mapping[str, Any]
    task: TaskContext | None

    @property
    def container(self) -> InjectQ:
        """What supplies the tools' dependencies."""
        given = None if self.task is None else self.task.container
        return InjectQ.get_instance() if given is None else given

    def key(self, call: ToolCall) -> CallKey:
        """Name a call for good."""
        return CallKey(self.thread_id, self.message_id, call.id)


async def outcome_of(tool: Tool, values: Mapping[str, Any], call: ToolCall, current: Round) -> ToolOutcome:
    """Make a call; a fault of the tool is an outcome, too.

    Raises:
        EffectLostError: An effect of the tool may have happened, and is not to happen twice.
    """
    limit = asyncio.timeout(tool.timeout_s)
    try:
        async with limit:
            returned = await _called(tool, values, call, current)
        return _read(tool, returned)
    except asyncio.CancelledError:
        if (running := asyncio.current_task()) is not None and running.cancelling():
            raise
        return failed(f"Tool {tool.name!r} gave up: it was cancelled.")
    except EffectLostError:  # a model that were told would call again: this is for people
        raise
    except _FAULTS as error:
        if limit.expired():
            return _late(tool, call)
        _logger.warning("tool %r failed in call %s", tool.name, call.id, exc_info=error)
        return failed(f"Tool {tool.name!r} failed: {said(error)}")


async def _called(tool: Tool, values: Mapping[str, Any], call: ToolCall, current: Round) -> Any:
    given = await _given(tool, call, current)
    args, kwargs = tool.bind({**values, **given})
    returned = await (tool.fn(*args, **kwargs) if tool.is_async else _in_thread(partial(tool.fn, *args, **kwargs)))
    return await returned if inspect.isawaitable(returned) else returned


def _late(tool: Tool, call: ToolCall) -> ToolOutcome:
    rest = "" if tool.is_async else "; its thread runs on, and what it returns is dropped"
    _logger.warning("tool %r took longer than %g s in call %s%s", tool.name, tool.timeout_s, call.id, rest)
    return failed(f"Tool {tool.name!r} did not end within {tool.timeout_s:g} s. It may have done part of its work.")


async def _given(tool: Tool, call: ToolCall, current: Round) -> dict[str, Any]:
    config = {**current.config, "idempotency_key": idempotency_key("tool", *current.key(call))}
    runtime = {"state": current.state, "config": config, "tool_call_id": call.id, "emit": emit}
    given = {name: value for name, value in runtime.items() if name in tool.injected}
    for need in tool.dependencies:
        key = need.known_as(current.container)
        if key is not None:
            value = current.container.get(key)
            given[need.parameter] = await value if inspect.isawaitable(value) else value
    return given


async def _in_thread(fn: Callable[[], Any]) -> Any:
    """Call ``fn`` in a thread of its own, with this context's variables: a slow tool takes no other's place."""
    future: Future[Any] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(fn))
        except StopIteration as error:  # it cannot be thrown into a coroutine
            future.set_exception(RuntimeError(f"it raised StopIteration({error})"))
        except BaseException as error:  # noqa: BLE001 - handed over whole to whoever waits
            future.set_exception(error)

    future.set_running_or_notify_cancel()
    threading.Thread(target=work, name="tenxgraph-tool", daemon=True).start()
    return await asyncio.wrap_future(future)


def _read(tool: Tool, returned: Any) -> ToolOutcome:
    result = _checked(returned) if isinstance(returned, ToolResult) else ToolResult(returned)
    try:
        # Written and read at once: what the model sees now is what a later prompt is made of.
        output = from_json(to_json(result.message, bytes_mode="base64", inf_nan_mode="constants"))
    except Exception as error:  # noqa: BLE001 - serialisers of the user's classes may raise anything
        kind = type(result.message).__name__
        return failed(f"Tool {tool.name!r} ran, but returned a {kind} that JSON cannot hold: {said(error)}")
    return ToolOutcome(output, result.is_error, result.state)


def _checked(result: ToolResult) -> ToolResult:
    """Check again what may have been put into it since it was made."""
    return ToolResult(result.message, result.state, result.is_error)


def failed(message: str) -> ToolOutcome:
    """Return the outcome of a call that failed, as the model reads it."""
    return ToolOutcome(message, is_error=True)


def said(error: BaseException) -> str:
    """Say what an error says, in a length that a prompt can bear."""
    text = error.message if isinstance(error, TenxGraphError) else f"{type(error).__name__}: {error}".removesuffix(": ")
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]}…"
