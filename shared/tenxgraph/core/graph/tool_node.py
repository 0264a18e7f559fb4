"""The node that makes the tool calls which a model asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any

from injectq import InjectQ
from pydantic import ValidationError

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.tool_calls import ToolCall, open_calls
from tenxgraph.core.graph.tool_journal import MemoryToolJournal, ToolJournal, ToolOutcome
from tenxgraph.core.graph.tool_outcome import Round, failed, outcome_of, said
from tenxgraph.core.graph.tool_schema import Tool, argument_faults, build_tool
from tenxgraph.core.graph.tool_updates import fold_updates
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.blocks import ToolResultBlock
from tenxgraph.core.state.message import Message
from tenxgraph.utils.ids import generate_id
from tenxgraph.utils.interrupt import Interrupted
from tenxgraph.utils.task_context import TaskContext, find_task, task_scope


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
        distribute: Make each call a task of its own, on the queue that its ``@tool`` names: ten slow calls then use ten
            workers. What follows the node still runs once, when all calls are through.
        journal: Remembers how calls ended; by default the thread's own, in the store, and the memory of this node
            where no graph runs it.

    Raises:
        GraphError: ``INVALID_TOOL`` naming the tool that cannot be described to a model, or that names a queue where
            nothing is distributed; ``DUPLICATE_TOOL``.
    """

    def __init__(
        self, tools: Sequence[Callable[..., Any]], *, distribute: bool = False, journal: ToolJournal | None = None
    ) -> None:
        if callable(tools) or isinstance(tools, str):
            raise GraphError("ToolNode takes a list of functions: ToolNode([…]).", error_code="INVALID_TOOL")
        self._tools = _by_name([build_tool(fn) for fn in tools])
        self._distribute = distribute
        self._check_queues()
        self._own_journal = journal
        self._memory = MemoryToolJournal()

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Name → tool, in the order given."""
        return MappingProxyType(self._tools)

    @property
    def distribute(self) -> bool:
        """Whether each call is a task of its own."""
        return self._distribute

    def queue_of(self, call: ToolCall) -> str | None:
        """Return the queue that the tool of a call names, if it does."""
        tool = self._tools.get(call.name)
        return None if tool is None else tool.queue

    def schemas(self, tags: Collection[str] | None = None) -> list[dict[str, Any]]:
        """Return what models are told: ``{name, description, parameters}`` of each tool.

        Args:
            tags: Only tools that have one of these tags.
        """
        return [each.schema() for each in self._tools.values() if tags is None or not each.tags.isdisjoint(tags)]

    async def __call__(self, state: AgentState, config: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Answer the open calls of the last assistant message; in a task that is there for one of them, that one.

        Returns:
            ``{"context": [one tool message per call, in call order], field: update, …}``; None without a call.

        Raises:
            GraphError: ``MISSING_DEPENDENCY`` before any call; ``MERGE_CONFLICT`` or ``REDUCER`` when two tools wrote
                one field and the state does not say how to merge that.
        """
        task = find_task()
        message, calls = open_calls(state.context)
        if task is not None and task.only_call is not None:
            calls = [call for call in calls if call.id == task.only_call]
        if message is None or not calls:
            return None
        thread_id = str((config or {}).get("thread_id", "")) if task is None else task.thread_id
        current = Round(message.message_id, thread_id, state, dict(config or {}), task)
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

    def _check_queues(self) -> None:
        for tool in self._tools.values():
            if tool.queue is not None and not self._distribute:
                raise GraphError(
                    f"Tool {tool.name!r} names the queue {tool.queue!r}, but here all calls of a message are one task "
                    "on the node's queue: ToolNode(…, distribute=True), or leave the queue out.",
                    error_code="INVALID_TOOL",
                    context={"tool": tool.name, "queue": tool.queue},
                )

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

    async def _settle(self, calls: Sequence[ToolCall], current: Round) -> list[ToolOutcome]:
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

    async def _once(self, call: ToolCall, current: Round) -> ToolOutcome:
        return await self._journal(current.task).once(current.key(call), partial(self._make, call, current))

    def _journal(self, task: TaskContext | None) -> ToolJournal:
        of_run = None if task is None else task.tool_journal
        return self._own_journal or of_run or self._memory

    async def _make(self, call: ToolCall, current: Round) -> ToolOutcome:
        tool = self._tools.get(call.name)
        if call.fault is not None:
            return failed(call.fault)
        if tool is None:
            return failed(f"There is no tool {call.name!r}. {self._offer()}")
        try:
            values = tool.validate(call.args)
        except ValidationError as error:
            return failed(f"The call of {tool.name!r} does not fit its arguments: {argument_faults(error)}.")
        except Exception as error:  # noqa: BLE001 - validators of the user's types may raise anything
            return failed(f"The arguments of {tool.name!r} could not be checked: {said(error)}")
        scope = nullcontext() if current.task is None else task_scope(current.task.of_tool_call(call.id))
        with scope:
            return await outcome_of(tool, values, call, current)

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


def _answer(message_id: str | int, call: ToolCall, outcome: ToolOutcome) -> Message:
    block = ToolResultBlock(
        call_id=call.id,
        output=outcome.output,
        is_error=outcome.is_error,
        status="failed" if outcome.is_error else "completed",
    )
    return Message.tool_message([block], message_id=message_id)
