"""``tenxgraph dev``: everything in one terminal."""

from typing import TYPE_CHECKING, Annotated

import typer

from tenxgraph_worker.cli.options import Concurrency, Graphs, Pool, RedisUrl

if TYPE_CHECKING:
    from tenxgraph_worker.crew import Crew

Workers = Annotated[int, typer.Option("--workers", "-w", min=1, max=64, help="Worker processes.")]
NoFlower = Annotated[bool, typer.Option("--no-flower", help="Without the monitor.")]
FlowerPort = Annotated[
    int | None,
    typer.Option("--flower-port", min=1, max=65535, help="Default: 5555, or a free one.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("dev")(dev)


def dev(
    graphs: Graphs = None,
    workers: Workers = 1,
    pool: Pool = "threads",
    concurrency: Concurrency = None,
    no_flower: NoFlower = False,
    flower_port: FlowerPort = None,
    redis_url: RedisUrl = None,
) -> None:
    """Run store, scheduler, workers and Flower in this terminal. Ctrl-C ends them all; the data stays in .tenxgraph."""
    from pathlib import Path

    from tenxgraph_worker.cli.loading import load_graphs
    from tenxgraph_worker.cli.terminal import exit_on_sigterm, lines_to_terminal
    from tenxgraph_worker.cli.worker import refuse_unknown_pool
    from tenxgraph_worker.crew import Crew

    refuse_unknown_pool(pool)
    # Here rather than in the workers: nothing starts for a graph that is none.
    load_graphs(graphs)
    if flower_port is not None:
        from tenxgraph_worker.cli.monitor import refuse_taken_port

        refuse_taken_port("127.0.0.1", flower_port)
    exit_on_sigterm()
    crew = Crew(
        graphs or (),
        folder=Path.cwd(),
        redis_url=redis_url,
        workers=workers,
        pool=pool,
        concurrency=concurrency,
        flower=not no_flower,
        flower_port=flower_port,
        hear=lines_to_terminal(),
    )
    with crew:
        _welcome(crew)
        crew.wait()


def _welcome(crew: "Crew") -> None:
    from tenxgraph_worker.embedded.check import shown

    how = "" if crew.server is None else ", joined" if crew.server.joined else ", data in .tenxgraph"
    said = [
        f"store   {shown(crew.redis_url or '')}{how}",
        f"flower  {crew.flower_url}" if crew.flower_url else "",
        f"try     tenxgraph run {crew.graphs[0]} 'Hello' --stream   (in another terminal, in this folder)",
        "Ctrl-C ends all.",
    ]
    print("\n".join(["", *filter(None, said), ""]), flush=True)
