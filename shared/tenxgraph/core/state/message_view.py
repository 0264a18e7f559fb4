"""What a follower shows of a run: its messages, also those that are still being written."""

from tenxgraph.core.state.blocks import TextBlock
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.stream_chunk import StreamChunk, StreamEvent


class MessageView:
    """Puts the chunks of one run together to messages.

    A message that is still being written has ``delta=True``; it goes with its attempt: when that is discarded, when the
    next one speaks, and when the run ends.
    """

    def __init__(self) -> None:
        self._done: dict[str | int, Message] = {}
        self._attempts: dict[int | str | None, int] = {}
        self._written: dict[int | str | None, dict[str | int, Message]] = {}

    @property
    def messages(self) -> list[Message]:
        """The messages that are done, then those that are being written."""
        return [*self._done.values(), *(message for of in self._written.values() for message in of.values())]

    def feed(self, chunk: StreamChunk) -> None:
        """Take the next chunk; those that were seen before do no harm."""
        if chunk.event is StreamEvent.TOKEN and chunk.message is not None:
            self._write(chunk, chunk.message)
        elif chunk.event is StreamEvent.MESSAGE and chunk.message is not None:
            self._done.setdefault(chunk.message.message_id, chunk.message)
            for of in self._written.values():
                of.pop(chunk.message.message_id, None)
        elif chunk.event is StreamEvent.ATTEMPT_DISCARDED:
            self._drop(chunk)
        elif chunk.event in (StreamEvent.STEP_END, StreamEvent.RUN_END):
            self._written, self._attempts = {}, {}

    def _drop(self, chunk: StreamChunk) -> None:
        if self._attempts.get(chunk.task, 0) <= (chunk.attempt or 0):
            self._written.pop(chunk.task, None)

    def _write(self, chunk: StreamChunk, delta: Message) -> None:
        attempt = chunk.attempt or 0
        if attempt != self._attempts.get(chunk.task, attempt):
            self._written.pop(chunk.task, None)
        self._attempts[chunk.task] = attempt
        of = self._written.setdefault(chunk.task, {})
        before = of.get(delta.message_id)
        of[delta.message_id] = delta.model_copy(deep=True) if before is None else _added(before, delta)


def _added(before: Message, delta: Message) -> Message:
    for block in delta.content:
        last = before.content[-1] if before.content else None
        if isinstance(block, TextBlock) and isinstance(last, TextBlock):
            last.text += block.text
        else:
            before.content.append(block.model_copy())
    if delta.reasoning:
        before.reasoning = (before.reasoning or "") + delta.reasoning
    return before
