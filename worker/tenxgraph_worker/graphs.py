"""The graphs that a worker serves."""

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.compiled_graph import CompiledGraph
from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.graph.state_graph import StateGraph
from tenxgraph.engine.runtime import Runtime
from tenxgraph.settings import Settings

_INTERRUPTS = ("interrupt_before", "interrupt_after")

GraphSource = str | CompiledGraph[Any] | StateGraph[Any]
"""A graph, or where to import it from: ``MODULE:ATTR``."""


def load_graph(source: GraphSource) -> GraphDefinition[Any]:
    """Return a graph's definition; a module is also looked for in the current folder.

    Raises:
        GraphError: ``GRAPH_PATH``; the text is no ``MODULE:ATTR``, or leads to no graph.
    """
    found = _imported(source) if isinstance(source, str) else source
    if isinstance(found, StateGraph):
        return found.define()
    if isinstance(found, CompiledGraph):
        definition: GraphDefinition[Any] = found.definition
        return definition
    raise _wrong(source, f"is a {type(found).__name__}, not a graph: name a StateGraph, or what its compile() returned")


def _imported(path: str) -> Any:
    module, colon, attribute = path.partition(":")
    if not (module and colon and attribute):
        raise _wrong(path, "is no MODULE:ATTR: write it like my_package.my_module:graph")
    _look_in_current_folder()
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # what a module raises while it is imported is anybody's guess
        raise _wrong(path, f"cannot be imported: {type(error).__name__}: {error}") from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise _wrong(path, f"does not exist: {module!r} has no {attribute!r}")
        found = getattr(found, name)
    return found


def _look_in_current_folder() -> None:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _wrong(source: object, what: str) -> GraphError:
    return GraphError(f"Graph {source!r} {what}.", error_code="GRAPH_PATH", context={"graph": str(source)})


class GraphSet:
    """Graphs by name.

    Args:
        sources: The graphs; the same one twice is fine.
        settings: Defaults of nodes.

    Raises:
        GraphError: ``NO_GRAPHS``, ``SAME_NAME`` for two different graphs of one name, ``GRAPH_PATH``.
    """

    def __init__(self, sources: Iterable[GraphSource], settings: Settings) -> None:
        self._runtimes: dict[str, Runtime[Any]] = {}
        self._default_queue = settings.default_queue
        for source in sources:
            self._add(load_graph(source), settings)
        if not self._runtimes:
            raise GraphError(
                "A worker needs at least one graph: name it as MODULE:ATTR, such as my_package.my_module:graph.",
                error_code="NO_GRAPHS",
            )

    def _add(self, definition: GraphDefinition[Any], settings: Settings) -> None:
        known = self._runtimes.get(definition.name)
        if known is None:
            self._runtimes[definition.name] = Runtime(
                definition,
                default_timeout_s=settings.node_timeout_s,
                default_queue=settings.default_queue,
                inline_media_bytes=settings.inline_media_bytes,
            )
        elif _differs(known.definition, definition):
            raise GraphError(
                f"Two different graphs are named {definition.name!r}: give each its own name in StateGraph(name=…), "
                "or serve one of them.",
                error_code="SAME_NAME",
                context={"graph": definition.name, "versions": [known.version, definition.fingerprint]},
            )

    def find(self, name: str, version: str) -> Runtime[Any] | None:
        """Return a graph of exactly this version, if it is served here."""
        runtime = self._runtimes.get(name)
        return runtime if runtime is not None and runtime.version == version else None

    @property
    def names(self) -> tuple[str, ...]:
        """The graphs' names."""
        return tuple(self._runtimes)

    @property
    def queues(self) -> tuple[str, ...]:
        """The default queue and all that nodes and tools name."""
        own = [queue for runtime in self._runtimes.values() for queue in runtime.queues]
        return tuple(dict.fromkeys([self._default_queue, *own]))


def _differs(one: GraphDefinition[Any], other: GraphDefinition[Any]) -> bool:
    """Whether it matters which is run. A builder and what its compile() made are alike but for the interrupts."""
    return any(getattr(one, what) != getattr(other, what) for what in ("fingerprint", *_INTERRUPTS))
