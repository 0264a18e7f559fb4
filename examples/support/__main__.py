"""``python -m examples.support``: a customer writes to the support of a shop; a person approves the refund."""

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from examples.support.graph import MODEL_VARIABLE, ROOT, build
from examples.support.play import Decide, play
from examples.support.script import CUSTOMER
from tenxgraph.core.exceptions import TenxGraphError
from tenxgraph.store.memory import MemoryStore

GRAPH = "examples.support.graph:app"


def ask(question: Mapping[str, Any]) -> dict[str, Any]:
    """Let whoever sits at the terminal decide."""
    return {"approved": typer.confirm(f"Refund {question['amount']}?")}


def converse(database: Path, decide: Decide, workers: int) -> None:
    """Play the conversation in this process, or on workers that are started for it and ended after it.

    Raises:
        CrewError: A process that it needs does not come up.
    """
    graph = build(os.environ.get(MODEL_VARIABLE))
    if not workers:
        for line in play(graph.compile(checkpointer=MemoryStore()), CUSTOMER, database, decide):
            print(line)
        return
    from tenxgraph_worker.crew import Crew

    with (
        Crew([GRAPH], folder=ROOT, workers=workers, flower=False) as crew,
        closing(graph.compile(redis_url=crew.redis_url)) as app,
    ):
        for line in play(app, CUSTOMER, database, decide):
            print(line, flush=True)


def main(
    approve: Annotated[bool, typer.Option("--approve/--decline", help="How the person answers.")] = True,
    interactive: Annotated[bool, typer.Option("--ask", help="Decide yourself.")] = False,
    workers: Annotated[int, typer.Option(min=0, help="Worker processes to start; 0 runs all in this process.")] = 2,
    database: Annotated[Path | None, typer.Option(help="The shop; by default one that is thrown away.")] = None,
) -> None:
    """Play a conversation with the support of a shop."""

    def decide(_: Mapping[str, Any]) -> dict[str, Any]:
        return {"approved": approve}

    try:
        with TemporaryDirectory(prefix="tenxgraph-support-") as folder:
            converse(database or Path(folder, "shop.sqlite"), ask if interactive else decide, workers)
    except TenxGraphError as error:
        typer.echo(f"The conversation failed: {error.message}", err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    typer.run(main)
