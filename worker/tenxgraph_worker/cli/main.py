"""The entry point: parse, call, and turn what is raised into a sentence and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from tenxgraph_worker.cli import dev, errors, flower, graph, run, runs, scheduler, threads, worker

HELP = "Graphs of agents and functions on Celery workers, with their state in Redis."


def make_app() -> typer.Typer:
    """Return the command with all its nouns."""
    app = typer.Typer(
        name="tenxgraph", help=HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    app.callback()(_options)
    for module in (dev, worker, scheduler, flower, run):
        module.register(app)
    for noun in (runs, threads, graph):
        app.add_typer(noun.make_app())
    return app


def _show_version(asked: bool) -> None:
    if asked:
        from tenxgraph import __version__

        typer.echo(f"tenxgraph {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere. Also TENXGRAPH_DEBUG=1.")
    ] = False,
) -> None:
    del version, debug


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0 done, 1 failure, 2 wrong usage, 3 the run failed, 4 time is over and the run goes on, 130 interrupted.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    options = _before_dashes(args)
    is_debugging = "--debug" in options or bool(os.environ.get("TENXGRAPH_DEBUG"))
    try:
        return _call([arg for at, arg in enumerate(args) if arg != "--debug" or at >= len(options)])
    except BaseException as error:
        if is_debugging:
            raise
        return errors.report(error, as_json="--json" in options)


def _before_dashes(args: list[str]) -> list[str]:
    return args[: args.index("--")] if "--" in args else args


def _call(args: list[str]) -> int:
    from tenxgraph.guard import refuse_beside_10xgraph

    refuse_beside_10xgraph()
    code = make_app()(args=args, prog_name="tenxgraph", standalone_mode=False)
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
