"""The node that makes the tool calls which a model asked for."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from injectq import InjectQ
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from tenxgraph.core.exceptions import EffectLostError, GraphError, TenxGraphError
from tenxgraph.core.graph.tool_calls import ToolCall, open_calls
from tenxgraph.core.graph.tool_journal import CallKey, MemoryToolJournal, ToolJournal, ToolOutcome
from tenxgraph.core.graph.tool_schema import Tool, argument_faults, build_tool
from tenxgraph.core.graph.tool_updates import fold_updates
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.blocks import ToolResultBlock
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.tool_result import ToolResult
from tenxgraph.utils.emit import emit
from tenxgraph.utils.ids import generate_id
from tenxgraph.utils.interrupt import Interrupted
from tenxgraph.utils.journal import idempotency_key
from tenxgraph.utils.task_context import TaskContext, find_task, task_scope

_logger = logging.getLogger(__name__)

_MAX_ERROR_CHARS: Final = 2000
_FAULTS: Final = (Exception, SystemExit, KeyboardInterrupt)


@dataclass(frozen=True, slots=True)
class _Round:
    """The calls of one message."""

    message_id: str | int
    thread_id: str
    state: AgentState
    config: Mapping[str, Any]
    task: TaskContext | None

    @property
    def container(self) -> InjectQ:
        given = None if self.task is None else self.task.container
        return InjectQ.get_instance() if given is None else given

    def key(self, call: ToolCall) -> CallKey:
        return CallKey(self.thread_id, self.message_id, call.id)


class ToolNode:
    """Makes the tool calls of the last assistant message side by side, and answers each with a tool message.

    A call that fails, is unknown or malformed is answered with a failed result, which the model sees; the others go on.
    Only an `EffectLostError` is for people, and fails the node.
    A tool that asks a person (``interrupt()``) makes the run wait when all other calls are through; a call that
    finished is not made again, however often the node runs.

    A tool's parameters ``state``, ``config``, ``tool_call_id`` and ``emit``, and what injectq supplies, are given by
    the runtime and hidden from the model. The state is shared between the calls of a message: a tool changes it by
    returning a ``ToolResult``.

    Args:
        tools: Functions, sync (each call has a thread of its own) or async; name and describe them with ``@tool``.
        journal: Remembers how calls ended; by default the thread's own, in the store, and the memory of this node
            where no graph runs it.

    Raises:
        GraphError: ``INVALID_TOOL`` naming the tool that cannot be described to a model; ``DUPLICATE_TOOL``.
    """

    def __init__(self, tools: Sequence[Callable[..., Any]], *, journal: ToolJournal | None = None) -> None:
        if callable(tools) or isinstance(tools, str):
            raise GraphError("ToolNode takes a list of functions: ToolNode([…]).", error_code="INVALID_TOOL")
        self._tools = _by_name([build_tool(fn) for fn in tools])
        self._own_journal = journal
        self._memory = MemoryToolJournal()

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Name → tool, in the order given."""
        return MappingProxyType(self._tools)

    def schemas(self, tags: Collection[str] | None = None) -> list[dict[str, Any]]:
        """Return what models are told: ``{name, description, parameters}`` of each tool.

        Args:
            tags: Only tools that have one of these tags.
        """
        return [each.schema() for each in self._tools.values() if tags is None or not each.tags.isdisjoint(tags)]

    async def __call__(self, state: AgentState, config: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Answer the open calls of the last assistant message.

        Returns:
            ``{"context": [one tool message per call, in call order], field: update, …}``; None without a call.

        Raises:
            GraphError: ``MISSING_DEPENDENCY`` before any call; ``MERGE_CONFLICT`` or ``REDUCER`` when two tools wrote
                one field and the state does not say how to merge that.
        """
        message, calls = open_calls(state.context)
        if message is None or not calls:
            return None
        task = find_task()
        thread_id = str((config or {}).get("thread_id", "")) if task is None else task.thread_id
        current = _Round(message.message_id, thread_id, state, dict(config or {}), task)
        self._check_dependencies(calls, current.container)
        ids = [generate_id() for _ in calls]  # before the calls, which may take ids in any order
        outcomes = await self._settle(calls, current)
        updates = [
            (f"{call.name!r} (call {call.id})", outcome.state)
            for call, outcome in zip(calls, outcomes, strict=True)
            if outcome.state
        ]
        messages = [_answer(*each) for each in zip(ids, calls, outcomes, strict=True)]
        return {"context": messages, **fold_updates(state, updates)}

    def _check_dependencies(self, calls: Sequence[ToolCall], container: InjectQ) -> None:
        for tool in filter(None, (self._tools.get(call.name) for call in calls)):
            missing = tool.missing(container)
            if missing:
                raise GraphError(
                    f"Tool {tool.name!r} needs {', '.join(missing)}, which the graph's container does not know: "
                    "bind it there, or give the parameter a default.",
                    error_code="MISSING_DEPENDENCY",
                    context={"tool": tool.name, "parameters": list(missing)},
                )

    async def _settle(self, calls: Sequence[ToolCall], current: _Round) -> list[ToolOutcome]:
        """Make all calls; none is given up because another one failed or asks."""
        tasks = [asyncio.create_task(self._once(call, current)) for call in calls]
        for task in tasks:
            task.add_done_callback(_look_at)
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            self._cancel(calls, tasks)
            raise
        return _outcomes(tasks)

    def _cancel(self, calls: Sequence[ToolCall], tasks: Sequence[asyncio.Task[ToolOutcome]]) -> None:
        # A thread cannot be stopped: its call goes on, and is noted when it ends; a retry then does not make it again.
        for call, task in zip(calls, tasks, strict=True):
            tool = self._tools.get(call.name)
            if tool is None or tool.is_async:
                task.cancel()

    async def _once(self, call: ToolCall, current: _Round) -> ToolOutcome:
        return await self._journal(current.task).once(current.key(call), partial(self._make, call, current))

    def _journal(self, task: TaskContext | None) -> ToolJournal:
        of_run = None if task is None else task.tool_journal
        return self._own_journal or of_run or self._memory

    async def _make(self, call: ToolCall, current: _Round) -> ToolOutcome:
        tool = self._tools.get(call.name)
        if call.fault is not None:
            return _failed(call.fault)
        if tool is None:
            return _failed(f"There is no tool {call.name!r}. {self._offer()}")
        try:
            values = tool.validate(call.args)
        except ValidationError as error:
            return _failed(f"The call of {tool.name!r} does not fit its arguments: {argument_faults(error)}.")
        except Exception as error:  # noqa: BLE001 - validators of the user's types may raise anything
            return _failed(f"The arguments of {tool.name!r} could not be checked: {_said(error)}")
        scope = nullcontext() if current.task is None else task_scope(current.task.of_tool_call(call.id))
        with scope:
            return await _outcome(tool, values, call, current)

    def _offer(self) -> str:
        return f"The tools are: {', '.join(self._tools)}." if self._tools else "There are no tools."


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in named:
            raise GraphError(
                f"Two tools are named {tool.name!r}: give one another name with @tool(name=…).",
                error_code="DUPLICATE_TOOL",
                context={"tool": tool.name},
            )
        named[tool.name] = tool
    return named


def _look_at(task: asyncio.Task[ToolOutcome]) -> None:
    """Take notice of what a call raised, since nobody does if the node was cancelled meanwhile."""
    if not task.cancelled():
        task.exception()


def _outcomes(tasks: Sequence[asyncio.Task[ToolOutcome]]) -> list[ToolOutcome]:
    errors = [error for task in tasks if (error := task.exception()) is not None]
    asked = [error for error in errors if isinstance(error, Interrupted)]
    for error in errors:
        if not isinstance(error, Interrupted):
            raise error
    if asked:
        raise Interrupted(*(question for each in asked for question in each.questions))
    return [task.result() for task in tasks]


async def _outcome(tool: Tool, values: Mapping[str, Any], call: ToolCall, current: _Round) -> ToolOutcome:
    try:
        given = await _given(tool, call, current)
        args, kwargs = tool.bind({**values, **given})
        returned = await (tool.fn(*args, **kwargs) if tool.is_async else _in_thread(partial(tool.fn, *args, **kwargs)))
        return _read(tool, await returned if inspect.isawaitable(returned) else returned)
    except asyncio.CancelledError:
        if (running := asyncio.current_task()) is not None and running.cancelling():
            raise
        return _failed(f"Tool {tool.name!r} gave up: it was cancelled.")
    except EffectLostError:  # a model that were told would call again: this is for people
        raise
    except _FAULTS as error:
        _logger.warning("tool %r failed in call %s", tool.name, call.id, exc_info=error)
        return _failed(f"Tool {tool.name!r} failed: {_said(error)}")


async def _given(tool: Tool, call: ToolCall, current: _Round) -> dict[str, Any]:
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
    result = returned if isinstance(returned, ToolResult) else ToolResult(returned)
    try:
        # Written and read at once: what the model sees now is what a later prompt is made of.
        output = from_json(to_json(result.message, bytes_mode="base64", inf_nan_mode="constants"))
    except Exception as error:  # noqa: BLE001 - serialisers of the user's classes may raise anything
        kind = type(result.message).__name__
        return _failed(f"Tool {tool.name!r} ran, but returned a {kind} that JSON cannot hold: {_said(error)}")
    return ToolOutcome(output, result.is_error, result.state)


def _failed(message: str) -> ToolOutcome:
    return ToolOutcome(message, is_error=True)


def _said(error: BaseException) -> str:
    text = error.message if isinstance(error, TenxGraphError) else f"{type(error).__name__}: {error}".removesuffix(": ")
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]}…"


def _answer(message_id: str | int, call: ToolCall, outcome: ToolOutcome) -> Message:
    block = ToolResultBlock(
        call_id=call.id,
        output=outcome.output,
        is_error=outcome.is_error,
        status="failed" if outcome.is_error else "completed",
    )
    return Message.tool_message([block], message_id=message_id)
