"""``tenxgraph worker``: a process that runs nodes."""

from typing import Annotated

import typer

from tenxgraph_worker.cli.options import Concurrency, Graphs, Pool, RedisUrl

Queues = Annotated[
    str | None,
    typer.Option("--queues", "-Q", metavar="A,B", help="Which queues it serves. Default: those of its graphs."),
]
Name = Annotated[str | None, typer.Option("--name", "-n", help="Its name, one for each worker of a machine.")]
Events = Annotated[bool, typer.Option("--events", help="Tell Flower of tasks from the first on. Costs throughput.")]
POOLS = ("prefork", "threads", "solo")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("worker")(worker)


def worker(
    graphs: Graphs = None,
    pool: Pool = "prefork",
    concurrency: Concurrency = None,
    queues: Queues = None,
    name: Name = None,
    events: Events = False,
    redis_url: RedisUrl = None,
) -> None:
    """Run the nodes of graphs."""
    from tenxgraph_worker.cli.connect import check_store, hand_on, load_settings
    from tenxgraph_worker.cli.loading import load_graphs
    from tenxgraph_worker.cli.serving import serve

    refuse_unknown_pool(pool)
    loaded = load_graphs(graphs)
    settings = load_settings(redis_url)
    check_store(settings)
    hand_on(settings)
    serve(loaded, settings, pool=pool, concurrency=concurrency, queues=queues, name=name, events=events)


def refuse_unknown_pool(pool: str) -> None:
    """Check the name of a pool.

    Raises:
        InvalidInputError: There is no such pool.
    """
    from tenxgraph.core.exceptions import InvalidInputError

    if pool not in POOLS:
        raise InvalidInputError(f"There is no pool {pool!r}: choose one of {', '.join(POOLS)}.", error_code="USAGE")
