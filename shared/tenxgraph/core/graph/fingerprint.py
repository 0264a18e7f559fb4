"""One digest for a graph, equal wherever the same code is read: on every Python version and hash seed."""

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from hashlib import sha256
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

from tenxgraph.core.graph.annotations import qualified_name
from tenxgraph.core.graph.node import Node, NodePolicies
from tenxgraph.core.graph.retry_policy import RetryPolicy
from tenxgraph.core.graph.router import Router
from tenxgraph.core.graph.tool_node import ToolNode
from tenxgraph.core.graph.topology import Link, Topology

_FORMAT = 1


def fingerprint(
    nodes: Mapping[str, Node],
    topology: Topology,
    routers: Sequence[Router],
    state_class: type[BaseModel],
    interrupts: Mapping[str, frozenset[str]],
) -> str:
    """Return the hex SHA-256 of names, edges, conditions, state schema, policies and pauses; bodies do not count."""
    facts = {
        "format": _FORMAT,
        "nodes": [_node(node) for node in nodes.values()],
        "links": _by_source(topology.links),
        "conditions": sorted(_condition(router) for router in routers),
        "state": _schema(state_class),
        "interrupts": {when: sorted(names) for when, names in interrupts.items() if names},
    }
    return sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _node(node: Node) -> list[Any]:
    facts = [node.name, _function(node.fn), _policies(node.policies)]
    if not isinstance(node.fn, ToolNode) or not node.fn.distribute:
        return facts
    # Its tasks are planned by one worker and run by another, which must know them for what they are.
    return [*facts, [[tool.name, tool.queue] for tool in node.fn.tools.values()]]


def canonical_type(hint: Any) -> str:
    """Write a type in one way, however it was spelled and whichever Python reads it."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return canonical_type(args[0])
    if origin in (Union, UnionType):
        return f"Union[{','.join(map(canonical_type, args))}]"
    if origin is Literal:
        return f"Literal[{','.join(map(_value, args))}]"
    if isinstance(hint, list | tuple):  # the parameters of a Callable
        return f"[{','.join(map(canonical_type, hint))}]"
    generic = getattr(hint, "__pydantic_generic_metadata__", None)
    if generic and generic["args"]:
        origin, args = generic["origin"], generic["args"]
    if origin is not None:
        return f"{_named(origin)}[{','.join(map(canonical_type, args))}]" if args else _named(origin)
    return _plain(hint)


def _plain(hint: Any) -> str:
    if hint is None or hint is NoneType:
        return "None"
    if hint is Ellipsis:
        return "..."
    if isinstance(hint, ForwardRef):
        return hint.__forward_arg__
    if isinstance(hint, str):
        return hint
    if isinstance(hint, TypeVar):
        return f"TypeVar:{hint.__name__}"
    return _named(hint)


def _named(item: Any) -> str:
    name = getattr(item, "__qualname__", None) or getattr(item, "__name__", None) or type(item).__qualname__
    module = _module(str(getattr(item, "__module__", "")))
    return str(name) if module in ("", "builtins") else f"{module}:{name}"


def _module(name: str) -> str:
    """Name a module as its importers do.

    The standard library moves classes between its private modules (``pathlib._local``), this library may too, and a
    script is ``__main__`` where it runs and something else where a worker imports it.
    """
    if name == "__main__":
        return _main_module()
    top = name.partition(".")[0]
    return top if top in sys.stdlib_module_names or top == "tenxgraph" else name


def _main_module() -> str:
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    return PurePath(getattr(main, "__file__", None) or "__main__").stem


def _function(fn: Callable[..., Any]) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    owner = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{_module(str(owner.__module__))}:{qualified_name(fn)}"


def _policies(policies: NodePolicies) -> list[Any]:
    time_s = None if policies.timeout_s is None else float(policies.timeout_s)
    retry = None if policies.retry is None else _retry(policies.retry)
    always = [retry, time_s, policies.queue, policies.priority, policies.on_error, policies.join]
    # A policy that came later counts where it is used: other graphs keep their version.
    return [*always, "at_most_once"] if policies.at_most_once else always


def _retry(retry: RetryPolicy) -> list[Any]:
    times = [float(retry.initial_s), float(retry.factor), float(retry.max_s)]
    return [retry.max_attempts, *times, retry.jitter, [_named(item) for item in retry.exceptions]]


def _by_source(links: Sequence[Link]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for link in links:
        grouped.setdefault(link.source, []).append([link.kind, list(link.targets), link.declared])
    return grouped


def _condition(router: Router) -> list[Any]:
    path_map = router.path_map
    mapped = [] if path_map is None else [[_value(key), target] for key, target in path_map.items()]
    return [router.source, _function(router.condition), mapped]


def _value(value: Any) -> str:
    """Write a constant; what is none is written as its type, since its repr may hold an address."""
    if isinstance(value, Enum):
        return f"{_named(type(value))}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return f"{type(value).__name__}:{value!r}"
    return _named(type(value))


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of the state, and of every model of the user's that a field mentions."""
    schema: dict[str, Any] = {"fields": _fields(model)}
    found = _models(model)
    while found:
        nested = found.pop()
        name = canonical_type(nested)
        if name not in schema:
            schema[name] = _fields(nested)
            found.extend(_models(nested))
    return schema


def _fields(model: type[BaseModel]) -> dict[str, list[Any]]:
    return {
        name: [canonical_type(info.annotation), [_function(item) for item in info.metadata if _is_reducer(item)]]
        for name, info in model.model_fields.items()
    }


def _is_reducer(item: Any) -> bool:
    return callable(item) and hasattr(item, "__qualname__") and not isinstance(item, type)


def _models(model: type[BaseModel]) -> list[type[BaseModel]]:
    found = [item for info in model.model_fields.values() for item in _mentioned(info.annotation)]
    return [item for item in found if _module(item.__module__) != "tenxgraph"]


def _mentioned(hint: Any) -> list[type[BaseModel]]:
    if isinstance(hint, list | tuple):
        return [item for part in hint for item in _mentioned(part)]
    if get_args(hint) and get_origin(hint) is not Literal:
        return _mentioned(get_args(hint))
    return [hint] if isinstance(hint, type) and issubclass(hint, BaseModel) else []
