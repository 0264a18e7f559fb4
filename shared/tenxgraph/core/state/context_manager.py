"""Context managers: what becomes of a conversation that grows too long for a model."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable, iscoroutinefunction
from typing import TypeAlias, TypeVar

from tenxgraph.core.exceptions import GraphError, InvalidInputError
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.model_summary import MISSING_EXTRA, summarize_with
from tenxgraph.core.state.tool_sequence import calls_answered_by
from tenxgraph.utils.awaiting import wait_for

StateT = TypeVar("StateT", bound=AgentState)
Summarize: TypeAlias = Callable[[Sequence[Message], str | None], str | Awaitable[str]]
"""(messages to sum up, summary so far) → new summary; sync or async."""

_logger = logging.getLogger(__name__)


class BaseContextManager(ABC):
    """Shortens a state's ``context`` before a model is called."""

    @abstractmethod
    def trim_context(self, state: StateT) -> StateT:
        """Return a state whose context fits; the one given stays as it is."""

    async def atrim_context(self, state: StateT) -> StateT:
        """Do the same where a loop runs."""
        return self.trim_context(state)


class MessageContextManager(BaseContextManager):
    """Keeps the first message, all system messages and the last user turns, and whole tool sequences."""

    def __init__(self, max_messages: int = 10) -> None:
        """Take how many user messages stay, each with what follows it."""
        self.max_messages: int = _checked_count(max_messages)

    def trim_context(self, state: StateT) -> StateT:
        """Return a state with the older turns taken out of ``context``, or the same where there is nothing to do."""
        kept = _kept(state.context, self.max_messages, keep_first=True)
        if len(kept) == len(state.context):
            return state
        return state.model_copy(update={"context": [state.context[at] for at in sorted(kept)]})


class SummaryContextManager(BaseContextManager):
    """Sums up what is older than the last user turns in ``context_summary``; keeps the rest word for word.

    A summary that fails, or is empty, leaves everything as it was, with a warning in the log.
    """

    def __init__(self, max_messages: int = 10, summarize: Summarize | None = None, model: str | None = None) -> None:
        """Take how many user turns stay, and who writes the summary.

        Args:
            max_messages: How many user messages stay, each with what follows it.
            summarize: Called with the messages that go and the summary so far; returns the new summary. May be async.
            model: Name of a model to ask instead; needs the ``llm`` extra when it is called.

        Raises:
            InvalidInputError: Neither or both of ``summarize`` and ``model`` are given, or ``max_messages`` is below 1.
        """
        if (summarize is None) == (model is None):
            raise InvalidInputError("SummaryContextManager takes either summarize or model: give exactly one")
        self.max_messages: int = _checked_count(max_messages)
        self.model = model
        self._summarize: Summarize = summarize or summarize_with(str(model))

    def trim_context(self, state: StateT) -> StateT:
        """Return a state with the older turns summed up; waits for an async ``summarize``."""
        return wait_for(self.atrim_context(state))

    async def atrim_context(self, state: StateT) -> StateT:
        """Return a state with the older turns summed up, or the same where there is nothing to do.

        Raises:
            GraphError: A model is to be asked and the ``llm`` extra is not installed.
        """
        kept = _kept(state.context, self.max_messages, keep_first=False)
        if len(kept) == len(state.context):
            return state
        summary = await self._summary([m for at, m in enumerate(state.context) if at not in kept], state)
        if summary is None:
            return state
        recent = [state.context[at] for at in sorted(kept)]
        return state.model_copy(update={"context": recent, "context_summary": summary})

    async def _summary(self, old: list[Message], state: AgentState) -> str | None:
        try:
            summary = await self._ask(old, state.context_summary)
        except Exception as error:
            if isinstance(error, GraphError) and error.error_code == MISSING_EXTRA:
                raise
            _logger.warning("summary of %d messages failed: the context stays as it is", len(old), exc_info=True)
            return None
        if not isinstance(summary, str) or not summary.strip():
            _logger.warning("summary of %d messages is empty: the context stays as it is", len(old))
            return None
        return summary

    async def _ask(self, old: list[Message], so_far: str | None) -> object:
        if iscoroutinefunction(self._summarize):
            return await self._summarize(old, so_far)
        given = await asyncio.to_thread(self._summarize, old, so_far)
        return await given if isawaitable(given) else given


def _checked_count(max_messages: int) -> int:
    if isinstance(max_messages, bool) or not isinstance(max_messages, int) or max_messages < 1:
        raise InvalidInputError(f"max_messages is {max_messages!r}: give a whole number from 1 up")
    return max_messages


def _kept(messages: Sequence[Message], turns: int, *, keep_first: bool) -> set[int]:
    users = [at for at, message in enumerate(messages) if message.role == "user"]
    if len(users) <= turns:
        return set(range(len(messages)))
    kept = set(range(users[-turns], len(messages)))
    kept |= {at for at, message in enumerate(messages) if message.role == "system"}
    if keep_first:
        kept.add(0)
    return _with_whole_sequences(messages, kept)


def _with_whole_sequences(messages: Sequence[Message], kept: set[int]) -> set[int]:
    answers = calls_answered_by(messages)
    calls = {call for result, call in answers.items() if result in kept or call in kept}
    return kept | calls | {result for result, call in answers.items() if call in calls}
