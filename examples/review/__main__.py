"""``python -m examples.review [FOLDER] [--out DIR] [--workers N]``: review a folder and show how it goes on."""

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from examples.review.graph import REPORT_DIR, ROOT, build, default_folder
from examples.review.progress import ReviewProgress
from examples.review.state import ReviewState
from tenxgraph.core.exceptions import TenxGraphError
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import Message
from tenxgraph.store.memory import MemoryStore

GRAPH = "examples.review.graph:app"


def review_folder(app: CompiledGraph[ReviewState], folder: Path, out: Path, console: Console) -> Path:
    """Run the review and show how it goes on.

    Args:
        app: The graph, in process or on workers.
        folder: Folder to review; workers must see it under the same path.
        out: Folder for the report, likewise.
        console: Where to show the progress.

    Returns:
        Path of the report.

    Raises:
        NodeError: A node failed.
        KeyboardInterrupt: Somebody pressed Ctrl-C; the run is cancelled.
    """
    where = {"folder": os.fspath(folder.absolute()), "report_dir": os.fspath(out.absolute())}
    request = {"messages": [Message.text_message(f"Review {folder}")], "state": where}
    handle = app.submit(request)
    try:
        with ReviewProgress(console) as progress:
            progress.follow(handle.stream(response_granularity="partial"))
    except KeyboardInterrupt:
        # Left alone it would go on as soon as workers watch this store again.
        handle.cancel("interrupted at the terminal")
        raise
    state: ReviewState = handle.result(response_granularity="full")["state"]
    return Path(state.report_path)


def review_here(folder: Path, out: Path, console: Console) -> Path:
    """Run the review in this process, whatever store is configured. See :func:`review_folder`."""
    return review_folder(build().compile(checkpointer=MemoryStore()), folder, out, console)


def review_on_workers(folder: Path, out: Path, console: Console, workers: int) -> Path:
    """Start a store, a scheduler, ``workers`` workers and Flower, run the review on them, and end them all.

    Raises:
        CrewError: One of them does not come up.
    """
    from tenxgraph_worker.crew import Crew

    def hear(name: str, line: str) -> None:
        if "starting it again" in line:
            console.print(f"{name} {line}", style="yellow", markup=False)

    with (
        console.status(f"Starting the store, a scheduler, {workers} workers and Flower") as status,
        Crew([GRAPH], folder=ROOT, workers=workers, pool="prefork", concurrency=2, hear=hear) as crew,
        closing(build().compile(redis_url=crew.redis_url)) as app,
    ):
        status.stop()
        console.print(f"Flower shows the tasks while they run: {crew.flower_url}", soft_wrap=True)
        report = review_folder(app, folder, out, console)
    console.print("Store, scheduler, workers and Flower have ended.")
    return report


def main(
    folder: Annotated[
        Path | None, typer.Argument(help="What to review; by default the licence texts of the system, else docs/.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = REPORT_DIR,
    workers: Annotated[int, typer.Option(min=0, help="Worker processes to start; 0 runs all in this process.")] = 0,
) -> None:
    """Review the text documents of a folder and write a report."""
    console = Console(highlight=False)
    folder = folder or default_folder()
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is no folder: name one that holds the documents to review.")
    try:
        report = review_on_workers(folder, out, console, workers) if workers else review_here(folder, out, console)
    except TenxGraphError as error:
        console.print(f"The review failed: {error.message}", style="red", markup=False)
        raise typer.Exit(1) from error
    console.print(f"The report: {report}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
