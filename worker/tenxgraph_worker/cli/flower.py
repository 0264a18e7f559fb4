"""``tenxgraph flower``: the monitor."""

from typing import Annotated

import typer

from tenxgraph_worker.cli.options import RedisUrl

Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="Where it listens.")]
Address = Annotated[str, typer.Option("--address", help="On which address; beyond this machine only with a password.")]
BasicAuth = Annotated[
    str | None,
    typer.Option("--basic-auth", metavar="USER:PASSWORD", envvar="FLOWER_BASIC_AUTH", help="Who may look, and act."),
]
MaxTasks = Annotated[int, typer.Option("--max-tasks", min=1, help="Tasks kept in its memory.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("flower")(flower)


def flower(
    port: Port = 5555,
    address: Address = "127.0.0.1",
    basic_auth: BasicAuth = None,
    max_tasks: MaxTasks = 10_000,
    redis_url: RedisUrl = None,
) -> None:
    """Show workers and tasks, by graph/node, in a browser. Without a password nobody can change anything there."""
    from tenxgraph_worker.cli.connect import check_store, load_settings
    from tenxgraph_worker.cli.monitor import run_flower

    settings = load_settings(redis_url)
    check_store(settings)
    run_flower(settings, address=address, port=port, basic_auth=basic_auth, max_tasks=max_tasks)
