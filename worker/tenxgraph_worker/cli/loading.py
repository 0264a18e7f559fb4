"""From ``MODULE:ATTR`` to a graph."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph import CompiledGraph, StateGraph
from tenxgraph.settings import Settings
from tenxgraph_worker.graphs import GraphSet


def load_graph(reference: str) -> CompiledGraph[Any]:
    """Import a graph; a ``StateGraph`` is compiled.

    Raises:
        InvalidInputError: ``GRAPH_REFERENCE``: it leads to no graph; the message says what to write instead.
    """
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute or not _is_dotted(module_name):
        raise _fault(reference, f"is not MODULE:ATTR: {_hint(reference)}")
    found = _attribute(reference, _import(reference, module_name), attribute)
    if isinstance(found, StateGraph):
        return found.compile()
    if not isinstance(found, CompiledGraph):
        raise _fault(reference, f"is a {type(found).__name__}, not a graph: name what StateGraph.compile() returned.")
    return found


def load_graphs(references: Sequence[str] | None) -> list[CompiledGraph[Any]]:
    """Import the graphs of a worker.

    Raises:
        InvalidInputError: One cannot be had.
        GraphError: There is none, or two different ones have one name.
    """
    graphs = [load_graph(reference) for reference in references or ()]
    GraphSet(graphs, Settings.load())
    return graphs


def _import(reference: str, module_name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise _fault(
                reference, f"names a module {error.name!r} that is neither in {folder} nor installed: check the name."
            ) from error
        raise _broken(reference, module_name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(reference, module_name, error) from error


def _broken(reference: str, module_name: str, error: BaseException) -> InvalidInputError:
    said = f"{type(error).__name__}: {error}".removesuffix(".")
    return _fault(reference, f"cannot be imported, {module_name} raises {said}. --debug shows where.")


def _attribute(reference: str, module: ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        graphs = [at for at, value in vars(module).items() if isinstance(value, CompiledGraph | StateGraph)]
        known = f"its graphs are {', '.join(sorted(graphs))}" if graphs else "it has no graph at all"
        raise _fault(reference, f"names {name!r}, which module {module.__name__} does not have; {known}.") from None


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _hint(reference: str) -> str:
    path, _, attribute = reference.partition(":")
    module = path.removesuffix(".py").strip("./").replace("/", ".")
    if _is_dotted(module) and module != path:
        return f"try {module}:{attribute or 'app'}."
    return "write the module, a colon and the graph's name in it, like review.graph:app."


def _fault(reference: str, rest: str) -> InvalidInputError:
    return InvalidInputError(f"{reference!r} {rest}", error_code="GRAPH_REFERENCE", context={"reference": reference})
