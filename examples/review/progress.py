"""Show a run while it goes on."""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tenxgraph.core.state import StreamChunk, StreamEvent

_STEPS = {
    "list_documents": "Looking for documents",
    "review_document": "Reviewing",
    "write_report": "Writing the report",
}


class ReviewProgress:
    """A line for each finished document above a bar for each step; a context manager, alive while entered.

    Args:
        console: Where to show it; without a terminal the lines remain and the bars are left out.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description:<22}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._steps: dict[int, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def follow(self, chunks: Iterable[StreamChunk]) -> None:
        """Show the events until they end."""
        for chunk in chunks:
            self.show(chunk)

    def show(self, chunk: StreamChunk) -> None:
        """Show one event; those that say nothing to people are passed over."""
        match chunk.event:
            case StreamEvent.STEP_START:
                self._begin(chunk.step or 0, chunk.data["nodes"])
            case StreamEvent.TASK_END:
                self._advance(chunk.step or 0)
            case StreamEvent.TASK_RETRY:
                self._console.print(f"[yellow]↻[/] task {chunk.task}: attempt {chunk.attempt} failed")
            case StreamEvent.ATTEMPT_DISCARDED:
                self._console.print(f"[yellow]↻[/] task {chunk.task}: attempt {chunk.attempt} was lost")
            case StreamEvent.CUSTOM:
                self._tell(chunk.data)

    def _begin(self, step: int, nodes: list[str]) -> None:
        title = _STEPS.get(nodes[0], nodes[0])
        self._steps[step] = self._bars.add_task(title, total=len(nodes))
        if not self._console.is_terminal:
            self._console.print(title)

    def _advance(self, step: int) -> None:
        # A follower that came late has not seen the step begin.
        if step in self._steps:
            self._bars.advance(self._steps[step])

    def _tell(self, data: dict[str, Any]) -> None:
        if "found" in data:
            self._console.print(f"{data['found']} documents in {escape(data['folder'])}")
        elif data.get("problem"):
            self._console.print(f"[yellow]–[/] {escape(data['document'])}: {data['problem']}")
        elif "summarised" in data:
            self._console.print(f"[green]✓[/] {escape(data['summarised'])}: summarized")
        elif "document" in data:
            name = escape(data["document"])
            self._console.print(f"[green]✓[/] {name}: {data['words']:,} words, {data['rules']:,} rules")
