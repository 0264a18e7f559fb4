"""A run as it happens, on stderr: bars in a terminal, lines elsewhere."""

from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from tenxgraph.core.state.stream_chunk import StreamChunk, StreamEvent


class RunProgress:
    """Shows the chunks that it is fed.

    Args:
        console: Where to; by default stderr.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self._steps: dict[int, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bars.stop()

    def show(self, chunk: StreamChunk) -> None:
        """Show one event."""
        shown = _SHOWN.get(chunk.event)
        if shown is not None:
            shown(self, chunk)

    def _say(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style), soft_wrap=True)

    def _step_start(self, chunk: StreamChunk) -> None:
        nodes = _names(chunk.data["nodes"])
        description = f"step {chunk.step}  {nodes}"
        if chunk.step is not None:
            self._steps[chunk.step] = self._bars.add_task(description, total=len(chunk.data["nodes"]))
        if not self.console.is_terminal:
            self._say(description)

    def _task_end(self, chunk: StreamChunk) -> None:
        if chunk.step in self._steps:
            self._bars.advance(self._steps[chunk.step])

    def _retry(self, chunk: StreamChunk) -> None:
        what = "failed" if chunk.data.get("reason", "retry_wait") == "retry_wait" else "waits"
        self._say(f"step {chunk.step}  {chunk.node}: attempt {chunk.attempt} {what}, {chunk.data['message']}", "yellow")

    def _discarded(self, chunk: StreamChunk) -> None:
        if chunk.data is None:  # else what follows says why
            self._say(f"task {chunk.task}: attempt {chunk.attempt} was lost", "yellow")

    def _error(self, chunk: StreamChunk) -> None:
        place = "" if chunk.step is None else f"step {chunk.step}  {chunk.node}: "
        self._say(f"{place}{chunk.data['message']}", "red")

    def _custom(self, chunk: StreamChunk) -> None:
        self._say(f"step {chunk.step}  {chunk.node}: {_short(chunk.data)}", "dim")

    def _run_end(self, chunk: StreamChunk) -> None:
        self._say(f"run {chunk.run_id} is {chunk.data['status']}", "bold")


_SHOWN = {
    StreamEvent.STEP_START: RunProgress._step_start,
    StreamEvent.TASK_END: RunProgress._task_end,
    StreamEvent.TASK_RETRY: RunProgress._retry,
    StreamEvent.ATTEMPT_DISCARDED: RunProgress._discarded,
    StreamEvent.ERROR: RunProgress._error,
    StreamEvent.CUSTOM: RunProgress._custom,
    StreamEvent.RUN_END: RunProgress._run_end,
}


def _names(nodes: Sequence[str]) -> str:
    return ", ".join(name if times == 1 else f"{name} × {times}" for name, times in Counter(nodes).items())


def _short(data: Any) -> str:
    text = data if isinstance(data, str) else repr(data)
    return text if len(text) <= 200 else f"{text[:199]}…"
