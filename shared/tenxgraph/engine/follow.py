"""Follow a run: its events in order, each once, until it ends or waits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tenxgraph.core.graph.ports import SubmittedRun
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.stream_chunk import StreamChunk, StreamEvent
from tenxgraph.engine.chunks import just_before, order, read_chunks, run_end
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
    _seen: tuple[int, int, int] = (-1, 0, 0)
    _has_read_end: bool = False
    _settled: RunView | None = None

    def __post_init__(self) -> None:
        self._seen = order(self.run.after)
        self.position = just_before(self.run.after)

    def feed(self, batch: Sequence[StoredEvents]) -> Iterator[StreamChunk]:
        """Yield what is new and of the granularity."""
        if batch:
            self._settled = None
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
            self._seen = order(end.id)
            yield end
