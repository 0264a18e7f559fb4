"""A condition on a node's outgoing edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.annotations import qualified_name, read_hints, route_targets
from tenxgraph.core.graph.call_plan import CallPlan, plan_call


@dataclass(frozen=True, slots=True, eq=False)
class Router:
    """One condition, called once per decision.

    Attributes:
        source: The node (or START) after which it decides.
        name: The condition's qualified name, for messages.
        call: How to call it: ``call.call_args(state, config, container)``.
        path_map: What it returns → node or END; None if it returns names.
        targets: Where it may lead, None if nobody declared it.
    """

    source: str
    name: str
    call: CallPlan
    path_map: Mapping[Any, str] | None
    targets: tuple[str, ...] | None

    @property
    def condition(self) -> Callable[..., Any]:
        """What is called."""
        return self.call.fn

    @property
    def is_async(self) -> bool:
        """Whether the condition is a coroutine function."""
        return self.call.is_async


def build_router(
    source: str, condition: Callable[..., Any], path_map: Mapping[Any, str] | Sequence[str] | None
) -> Router:
    """Check the condition and read where it may lead.

    Raises:
        GraphError: ``INVALID_PATH_MAP``, or what `plan_call` finds.
    """
    call = plan_call(condition, f"The condition after {source!r}")
    name = qualified_name(call.fn)
    if path_map is None:
        return Router(source, name, call, None, route_targets(read_hints(call.fn).get("return")))
    mapped = _path_map(name, path_map)
    return Router(source, name, call, MappingProxyType(mapped), tuple(dict.fromkeys(mapped.values())))


def _path_map(name: str, given: Mapping[Any, str] | Sequence[str]) -> dict[Any, str]:
    mapped = dict(given) if isinstance(given, Mapping) else _by_name(name, given)
    wrong = [target for target in mapped.values() if not _is_text(target)]
    if wrong or not mapped:
        raise _invalid_path_map(name, wrong[0] if wrong else given)
    return mapped


def _by_name(name: str, given: Any) -> dict[Any, str]:
    if not isinstance(given, list | tuple) or not all(isinstance(target, str) for target in given):
        raise _invalid_path_map(name, given)
    return {target: target for target in given}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _invalid_path_map(name: str, found: object) -> GraphError:
    return GraphError(
        f"The path_map of condition {name!r} must be a dict of returned value to node name, "
        f"or a list of node names; it has {found!r}.",
        error_code="INVALID_PATH_MAP",
        context={"condition": name},
    )
