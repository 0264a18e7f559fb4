"""``tenxgraph run``: run a graph and show what it says."""

from typing import Annotated

import typer

from tenxgraph_worker.cli.options import Graph, Json, RedisUrl

Input = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help='A message; JSON such as {"messages": ["Hi"], "state": {…}}; or @FILE with one of these.',
        show_default=False,
    ),
]
Stream = Annotated[bool, typer.Option("--stream", "-s", help="Show the run's progress, step by step.")]
Thread = Annotated[str | None, typer.Option("--thread", "-t", help="Go on with this thread. Default: a new one.")]
User = Annotated[str | None, typer.Option("--user", help="Whose thread it is.")]
Background = Annotated[bool, typer.Option("--background", "-b", help="Print the run's id and leave it to the workers.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Stop waiting; the run goes on.")
]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        help="Where a run is active on the thread: enqueue (default), reject, interrupt or rollback.",
        show_default=False,
    ),
]
InProcess = Annotated[bool, typer.Option("--in-process", help="Run here, without store and workers; nothing is kept.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(
    graph: Graph,
    input_text: Input,
    stream: Stream = False,
    thread: Thread = None,
    user: User = None,
    strategy: Strategy = None,
    background: Background = False,
    timeout: Timeout = None,
    in_process: InProcess = False,
    redis_url: RedisUrl = None,
    as_json: Json = False,
) -> None:
    """Run a graph on the workers that have it, and print what it says."""
    import asyncio
    import logging

    from tenxgraph.core.exceptions import InvalidInputError
    from tenxgraph_worker.cli.connect import check_store, forget_store, hand_on, load_settings
    from tenxgraph_worker.cli.inputs import read_input
    from tenxgraph_worker.cli.loading import load_graph
    from tenxgraph_worker.cli.running import RunCommand

    if in_process and (background or redis_url):
        raise InvalidInputError(
            "--in-process keeps nothing: leave out --background and --redis-url.", error_code="USAGE"
        )
    given = read_input(input_text)
    if in_process:
        # What fails is reported once, by us.
        logging.getLogger("tenxgraph").addHandler(logging.NullHandler())
        forget_store()
    else:
        settings = load_settings(redis_url)
        check_store(settings)
        hand_on(settings)
    named = {"thread_id": thread, "user_id": user, "multitask_strategy": strategy}
    config = {name: value for name, value in named.items() if value is not None}
    command = RunCommand(load_graph(graph), given, config, is_streaming=stream, as_json=as_json, timeout_s=timeout)
    asyncio.run(command.submit() if background else command.follow())
