"""A node: a function under a name, with what holds for its tasks."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from injectq import InjectQ

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.annotations import command_targets, qualified_name, read_hints
from tenxgraph.core.graph.call_plan import CallPlan, plan_call
from tenxgraph.core.graph.retry_policy import RetryPolicy
from tenxgraph.utils.constants import END, START

Join = Literal["once", "each"]

_TOP_PRIORITY = 9
_UNSAFE = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class NodePolicies:
    """What holds for every task of a node; None means as configured.

    Attributes:
        retry: When a failed attempt is tried again.
        timeout_s: Longest time of one attempt, in seconds.
        queue: Name of the queue its tasks go to.
        priority: 0 to 9, higher first.
        on_error: The node (or END) that takes over when it fails for good.
        join: ``once`` merges arrivals of several branches, ``each`` runs once per arrival.
        at_most_once: Fail with `EffectLostError` instead of beginning a second time; no retry follows a failure.
    """

    retry: RetryPolicy | None = None
    timeout_s: float | None = None
    queue: str | None = None
    priority: int | None = None
    on_error: str | None = None
    join: Join = "once"
    at_most_once: bool = False

    def over(self, defaults: NodePolicies, node: str) -> NodePolicies:
        """Return these policies of ``node``, with a graph's defaults where it names none of its own."""
        chosen = {
            name: getattr(defaults, name)
            for name in ("retry", "timeout_s", "queue", "priority", "on_error")
            if getattr(self, name) is None
        }
        if chosen.get("on_error") == node:  # a node cannot take over from itself
            del chosen["on_error"]
        return replace(self, **chosen)

    def check(self, node: str) -> None:
        """Raise ``INVALID_POLICY`` naming the node and the first policy that makes no sense."""
        wrong = next(((name, wanted) for name, wanted, fine in self._rules() if not fine), None)
        if wrong is not None:
            name, wanted = wrong
            raise GraphError(
                f"Node {node!r}: {name} must be {wanted}, not {getattr(self, name)!r}.",
                error_code="INVALID_POLICY",
                context={"node": node, "policy": name},
            )

    def _rules(self) -> list[tuple[str, str, bool]]:
        return [
            ("retry", "a RetryPolicy", self.retry is None or isinstance(self.retry, RetryPolicy)),
            ("timeout_s", "a number of seconds above 0", self.timeout_s is None or is_time(self.timeout_s)),
            ("queue", "the name of a queue", self.queue is None or is_name(self.queue)),
            ("priority", "a whole number from 0 to 9", self.priority is None or _is_priority(self.priority)),
            ("on_error", "the name of a node", self.on_error is None or is_name(self.on_error)),
            ("join", " or ".join(map(repr, get_args(Join))), self.join in get_args(Join)),
            ("at_most_once", "True or False", type(self.at_most_once) is bool),
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One node of a graph, ready to be called.

    Attributes:
        name: Its name in the graph.
        policies: What holds for its tasks.
        call: How to call it.
        goto_targets: Where its ``Command[Literal[…]]`` annotation says that it may go, None without a Command.
        goto_open: Whether its annotation names a Command without saying where to.
    """

    name: str
    policies: NodePolicies
    call: CallPlan
    goto_targets: tuple[str, ...] | None
    goto_open: bool

    @property
    def fn(self) -> Callable[..., Any]:
        """What is called."""
        return self.call.fn

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine function, or an object whose ``__call__`` is one."""
        return self.call.is_async

    @property
    def takes_config(self) -> bool:
        """Whether it is called with the config too."""
        return self.call.takes_config

    def call_args(
        self, state: Any, config: Mapping[str, Any], container: InjectQ | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return ``(args, kwargs)`` for ``fn``; see `CallPlan.call_args`."""
        return self.call.call_args(state, config, container)

    async def acall_args(
        self, state: Any, config: Mapping[str, Any], container: InjectQ | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return ``(args, kwargs)`` for ``fn``, with async dependencies awaited."""
        return await self.call.acall_args(state, config, container)


def build_node(name: str, fn: Callable[..., Any], policies: NodePolicies) -> Node:
    """Check name, policies and signature, and read what the annotations declare.

    Raises:
        GraphError: Naming the node and what is wrong with it.
    """
    check_name(name)
    policies.check(name)
    call = plan_call(fn, f"Node {name!r}")
    targets, is_open = command_targets(read_hints(call.fn).get("return"))
    return Node(name=name, policies=policies, call=call, goto_targets=targets, goto_open=is_open)


def name_of(fn: Any) -> str:
    """Return the name that a node gets from its function.

    Raises:
        GraphError: ``INVALID_NAME`` for a lambda, which has none.
    """
    name = qualified_name(fn).rpartition(".")[2] if callable(fn) else ""
    if not name.isidentifier():
        raise GraphError(
            f"{fn!r} has no name to go by: add_node(name, node).",
            error_code="INVALID_NAME",
            context={"node": repr(fn)},
        )
    return name


def check_name(name: object, what: str = "a node") -> None:
    """Raise ``INVALID_NAME`` for what cannot be the name of a node (or of ``what``)."""
    if name in (START, END):
        problem = "START and END are there already"
    elif not isinstance(name, str) or not name.strip():
        problem = "it has to be a text that is not empty"
    elif not is_name(name):
        problem = "control characters and surrogates cannot be shown or sent"
    else:
        return
    raise GraphError(
        f"{name!r} cannot be the name of {what}: {problem}.", error_code="INVALID_NAME", context={"name": repr(name)}
    )


def is_name(name: object) -> bool:
    """Tell whether a value can name a node or a queue."""
    return isinstance(name, str) and bool(name) and not any(unicodedata.category(char) in _UNSAFE for char in name)


def is_time(value: object) -> bool:
    """Tell whether a value is a number of seconds above 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _is_priority(value: object) -> bool:
    return type(value) is int and 0 <= value <= _TOP_PRIORITY
