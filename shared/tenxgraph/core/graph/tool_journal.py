"""What keeps a tool call that finished from being made again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple, Protocol


class CallKey(NamedTuple):
    """Names one tool call for good.

    Attributes:
        thread_id: The thread.
        message_id: The assistant message that asks for it.
        call_id: The call's id in that message.
    """

    thread_id: str
    message_id: str | int
    call_id: str


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """How a call ended.

    Attributes:
        output: What the model sees: a JSON value.
        is_error: Whether it failed.
        state: Field names and updates that the tool asks for.
    """

    output: Any
    is_error: bool = False
    state: Mapping[str, Any] | None = None


class ToolJournal(Protocol):
    """Remembers how calls ended."""

    async def once(self, key: CallKey, make: Callable[[], Awaitable[ToolOutcome]]) -> ToolOutcome:
        """Return how the call ended; make it if it did not end yet.

        Who asks while it is being made waits for that. If ``make`` raises, as it does where a tool asks a person, the
        call did not end: the next who asks makes it.
        """
        ...


class _NotEndedError(Exception):
    """Whoever made the call gave up."""


class MemoryToolJournal:
    """Remembers in this process, for as long as it lives.

    Args:
        max_messages: Of how many assistant messages; those that nobody asked about for the longest time go first.
    """

    def __init__(self, max_messages: int = 10_000) -> None:
        self._max_messages = max_messages
        self._lock = Lock()
        self._rounds: OrderedDict[tuple[str, str | int], dict[str, Future[ToolOutcome]]] = OrderedDict()

    async def once(self, key: CallKey, make: Callable[[], Awaitable[ToolOutcome]]) -> ToolOutcome:
        """See :meth:`ToolJournal.once`."""
        own: Future[ToolOutcome] = Future()
        while (found := self._entry(key, own)) is not own:
            try:
                # Shielded: a cancelled wait would else cancel the entry for everybody.
                return await asyncio.shield(asyncio.wrap_future(found))
            except _NotEndedError:
                continue
        try:
            outcome = await make()
        except BaseException:
            self._drop(key)
            own.set_exception(_NotEndedError())
            raise
        own.set_result(outcome)
        return outcome

    def _entry(self, key: CallKey, own: Future[ToolOutcome]) -> Future[ToolOutcome]:
        with self._lock:
            calls = self._rounds.setdefault((key.thread_id, key.message_id), {})
            self._rounds.move_to_end((key.thread_id, key.message_id))
            while len(self._rounds) > self._max_messages:
                self._rounds.popitem(last=False)
            return calls.setdefault(key.call_id, own)

    def _drop(self, key: CallKey) -> None:
        with self._lock:
            self._rounds.get((key.thread_id, key.message_id), {}).pop(key.call_id, None)
