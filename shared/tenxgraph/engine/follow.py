"""Follow a run: its events in order, each once, until it ends or waits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tenxgraph.core.graph.ports import SubmittedRun
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.stream_chunk import StreamChunk, StreamEvent
from tenxgraph.engine.chunks import events_gone, just_before, order, read_chunks, run_end
from tenxgraph.store.base import RunView, StoredEvents
from tenxgraph.utils.constants import ResponseGranularity

_LOW = frozenset(
    {StreamEvent.MESSAGE, StreamEvent.TOKEN, StreamEvent.ATTEMPT_DISCARDED, StreamEvent.ERROR, StreamEvent.RUN_END}
)
_PARTS = {
    ResponseGranularity.LOW: _LOW,
    ResponseGranularity.PARTIAL: frozenset(StreamEvent) - {StreamEvent.STATE},
    ResponseGranularity.FULL: frozenset(StreamEvent),
}


@dataclass(slots=True)
class Follower:
    """Where a follower of one run stands. It does no I/O: feed it what the store has behind ``position``.

    Attributes:
        position: Store id behind which to read next.
        view: The run as the store has it.
        is_over: The run ended, or waits.
        may_wait: Whether the next read may wait for events; at first what is there will do.
    """

    run: SubmittedRun
    granularity: str
    state_type: type[AgentState]
    view: Callable[[], RunView]
    position: str = ""
    is_over: bool = False
    may_wait: bool = False
    _resumed: bool = False
    _seen: tuple[int, int, int] = (-1, 0, 0)
    _has_read_end: bool = False
    _settled: RunView | None = None

    def __post_init__(self) -> None:
        self._seen = order(self.run.after)
        self._resumed = bool(self.run.after)
        self.position = just_before(self.run.after)

    def may_miss(self, batch: Sequence[StoredEvents]) -> bool:
        """Tell whether it is to be looked up that ``position`` is kept: only of many events behind it are any gone."""
        return bool(self.position) and not self._resumed and len(batch) > 1

    def feed(self, batch: Sequence[StoredEvents], *, is_kept: bool = True) -> Iterator[StreamChunk]:
        """Yield what is new and of the granularity.

        Args:
            batch: What the store has behind ``position``.
            is_kept: Whether it still has what stands there.
        """
        if batch:
            # The append of the last chunk that was seen is read again: it may have more.
            if not is_kept or (self._resumed and batch[0].id != self.run.after.rpartition(".")[0]):
                yield self._gone(batch[0].id)
            self._settled, self._resumed = None, False
        for stored in batch:
            chunks = read_chunks(
                stored, thread_id=self.run.thread_id, run_id=self.run.run_id, state_type=self.state_type
            )
            for chunk in chunks:
                self._has_read_end = chunk.event is StreamEvent.RUN_END
                if order(chunk.id) > self._seen:
                    self._seen = order(chunk.id)
                    yield from self._take(chunk)
                    if self.is_over:
                        return
            self.position = stored.id
        self.may_wait = True
        if not batch:
            yield from self._look()

    def _take(self, chunk: StreamChunk) -> Iterator[StreamChunk]:
        if chunk.event is StreamEvent.RUN_END:
            self.is_over = self._is_last(RunStatus(chunk.data["status"]))
            if not self.is_over:
                return
        if chunk.event in _PARTS[ResponseGranularity(self.granularity)]:
            yield chunk

    def _is_last(self, status: RunStatus) -> bool:
        # A run that waited may have been resumed since: then its stream goes on.
        return status.is_terminal or self.view().status is RunStatus.WAITING

    def _look(self) -> Iterator[StreamChunk]:
        """Nothing came: perhaps the run ended, and its end was seen by an earlier follower, or is kept no more."""
        if self._settled is None:
            run = self.view()
            if run.status.is_settled:  # what it did between the last read and this look is read first
                self._settled, self.may_wait = run, False
            return
        self.is_over = True
        end = run_end(self._settled)
        if not self._has_read_end and order(end.id) > self._seen:
            if self._resumed and self._seen[0] < self._settled.ended_ms:
                yield self._gone(end.id.rpartition(".")[0])
            self._seen = order(end.id)
            yield end

    def _gone(self, before: str) -> StreamChunk:
        return events_gone(self.run, self.run.after if self._resumed else self.position, before)
