"""``tenxgraph graph``: look at a graph."""

import typer

from tenxgraph_worker.cli.options import Graph, Json


def make_app() -> typer.Typer:
    """Return the noun with its verbs."""
    app = typer.Typer(name="graph", help="Look at a graph.", no_args_is_help=True)
    # A callback keeps Typer from making the only verb the noun itself.
    app.callback()(lambda: None)
    app.command("draw")(draw)
    return app


def draw(graph: Graph, as_json: Json = False) -> None:
    """Print a graph as a Mermaid flowchart."""
    from tenxgraph_worker.cli.loading import load_graph
    from tenxgraph_worker.cli.output import print_json

    loaded = load_graph(graph)
    mermaid = loaded.get_graph().draw_mermaid()
    if as_json:
        nodes = list(loaded.definition.nodes)
        print_json({"name": loaded.name, "version": loaded.definition.fingerprint, "nodes": nodes, "mermaid": mermaid})
    else:
        print(mermaid)
