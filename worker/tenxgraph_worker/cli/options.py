"""Arguments and options that several commands take."""

from typing import Annotated

import typer

Graph = Annotated[
    str,
    typer.Argument(metavar="MODULE:ATTR", help="Where the graph is, seen from the current folder.", show_default=False),
]
Graphs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODULE:ATTR…", help="Where the graphs are, seen from the current folder.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis-url",
        metavar="URL",
        help="The store. Default: TENXGRAPH_REDIS_URL, else the one of 'dev' in this folder.",
    ),
]
Pool = Annotated[
    str, typer.Option("--pool", metavar="KIND", help="prefork: CPU work. threads: waiting. solo: one by one.")
]
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", "-c", min=1, help="Tasks at once in a worker.", show_default=False)
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.", show_default=False)]
RunIdOrMany = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]", help="Id of the run; or choose many by --thread, --graph, --status.", show_default=False
    ),
]
ThreadId = Annotated[str, typer.Argument(metavar="THREAD", help="Id of the thread.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many.")]
