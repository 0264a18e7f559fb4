"""What keeps a tool call that finished from being made again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol

from pydantic_core import from_json, to_json

from tenxgraph.core.exceptions import InvalidInputError, SerializationError
from tenxgraph.core.state.codec import EncodedUpdate, StateCodec
from tenxgraph.utils.journal import EffectKey, Journal, effect_name

_REFUSALS: Final = (InvalidInputError, SerializationError)


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


class RunToolJournal:
    """Remembers in the store, for as long as the thread is kept: whatever dies, and for every process.

    Args:
        journal: Of the task that makes the calls.
        codec: Of the graph's state.
    """

    def __init__(self, journal: Journal, codec: StateCodec) -> None:
        self._journal = journal
        self._codec = codec

    async def once(self, key: CallKey, make: Callable[[], Awaitable[ToolOutcome]]) -> ToolOutcome:
        """See :meth:`ToolJournal.once`.

        Raises:
            InvalidInputError: The call was made, and wants a change of the state that its class does not take.
            SerializationError: The same with a value that would not be read back equal.
        """
        title = f"tool call {key.call_id!r}"
        named = EffectKey(effect_name("tool", key.message_id, key.call_id), title)

        async def made() -> bytes:
            return self._encode(await make(), title)

        return self._decode(await self._journal.aonce(named, made))

    def _encode(self, outcome: ToolOutcome, title: str) -> bytes:
        record: dict[str, Any] = {"output": outcome.output, "is_error": outcome.is_error}
        try:
            if outcome.state is not None:
                record["state"] = self._codec.validate_update(outcome.state, place=title).to_json().decode()
        except _REFUSALS as error:  # the call was made, and must not be made again to hear the same
            record["refused"] = [type(error).__name__, error.message, error.error_code, error.context]
        return to_json(record, inf_nan_mode="constants")

    def _decode(self, recorded: bytes) -> ToolOutcome:
        record = from_json(recorded)
        if "refused" in record:
            name, message, code, context = record["refused"]
            kind = next(each for each in _REFUSALS if each.__name__ == name)
            raise kind(message, error_code=code, context=context)
        return ToolOutcome(record["output"], record["is_error"], self._decoded_state(record.get("state")))

    def _decoded_state(self, text: str | None) -> dict[str, Any] | None:
        if text is None:
            return None
        update = EncodedUpdate.from_json(text.encode())
        return {name: self._codec.spec(name).right.decode_operand(value) for name, value in update.fields.items()}


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
