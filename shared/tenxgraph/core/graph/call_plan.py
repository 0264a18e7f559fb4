"""How a function of the user is called: with the state, the config if it takes it, and what injectq supplies."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union, cast, get_args, get_origin

from injectq import Inject, InjectQ

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.annotations import plain_function, read_hints

_EMPTY = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True, eq=False)
class Dependency:
    """A parameter that the container supplies.

    Attributes:
        parameter: Its name.
        key: The class (or name) under which the container knows it.
        marked: Whether an ``Inject[…]`` says so; otherwise only its annotation does.
        optional: Whether the function can do without.
        by_name: Whether the container is asked for the parameter's name first, as ``@inject`` does.
    """

    parameter: str
    key: Any
    marked: bool
    optional: bool
    by_name: bool

    def known_as(self, container: InjectQ) -> Any | None:
        """Return the key to ask ``container`` for, None if it knows none."""
        if self.by_name and container.has(self.parameter):
            return self.parameter
        return self.key if self.marked or container.has(self.key) else None


@dataclass(frozen=True, slots=True, eq=False)
class CallPlan:
    """Binds state, config and dependencies to the parameters of one function.

    Attributes:
        fn: What to call; a function is taken out of injectq's ``@inject``, so that its errors arrive as raised.
        is_async: Whether calling it gives an awaitable by declaration.
        takes_config: Whether it has a parameter ``config``.
        dependencies: What the container supplies.
        container: The container that ``@inject(container=…)`` names, before the graph's.
    """

    fn: Callable[..., Any]
    is_async: bool
    takes_config: bool
    dependencies: tuple[Dependency, ...]
    container: InjectQ | None
    _signature: inspect.Signature = field(repr=False)
    _state: str = field(repr=False)
    _config: str = field(repr=False)

    def call_args(
        self, state: Any, config: Mapping[str, Any], container: InjectQ | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return ``(args, kwargs)`` for a call.

        Args:
            state: The state to pass.
            config: Passed as it is, if the function takes it.
            container: The graph's container; None asks ``InjectQ.get_instance()``.

        Raises:
            GraphError: ``ASYNC_DEPENDENCY`` if a dependency comes from an async factory: use `acall_args`.
        """
        supplied = dict(self._supplied(container))
        for name, value in supplied.items():
            if inspect.isawaitable(value):
                _discard(value)
                raise GraphError(
                    f"The dependency {name!r} comes from an async factory, which only an async call can await.",
                    error_code="ASYNC_DEPENDENCY",
                    context={"parameter": name},
                )
        return self._bind(state, config, supplied)

    async def acall_args(
        self, state: Any, config: Mapping[str, Any], container: InjectQ | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return ``(args, kwargs)`` for a call, with async dependencies awaited."""
        supplied: dict[str, Any] = {}
        for name, value in self._supplied(container):
            supplied[name] = await value if inspect.isawaitable(value) else value
        return self._bind(state, config, supplied)

    def missing(self, container: InjectQ | None) -> tuple[str, ...]:
        """Return the parameters that nobody can supply with this container."""
        if not self.dependencies:
            return ()
        chosen = self._choose(container)
        return tuple(
            need.parameter for need in self.dependencies if not need.optional and need.known_as(chosen) is None
        )

    def _choose(self, container: InjectQ | None) -> InjectQ:
        for chosen in (self.container, container):
            if chosen is not None:
                return chosen
        return InjectQ.get_instance()

    def _supplied(self, container: InjectQ | None) -> Iterator[tuple[str, Any]]:
        if not self.dependencies:
            return
        chosen = self._choose(container)
        for need in self.dependencies:
            key = need.known_as(chosen)
            if key is not None:
                # `aget` forgets singletons and shares one stack between tasks (a false circle): `get`, then await.
                yield need.parameter, chosen.get(key)

    def _bind(
        self, state: Any, config: Mapping[str, Any], supplied: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = {**supplied, self._state: state}
        if self.takes_config:
            values[self._config] = config
        if self._signature.parameters[self._state].kind is inspect.Parameter.VAR_POSITIONAL:
            values[self._state] = (state,)
        bound = inspect.BoundArguments(self._signature, values)
        return bound.args, bound.kwargs


def plan_call(fn: Callable[..., Any], what: str) -> CallPlan:
    """Read the signature of ``fn`` once.

    Args:
        fn: A function, or an object with ``__call__``.
        what: How an error names it, as ``node 'plan'``.

    Raises:
        GraphError: ``NOT_CALLABLE``, ``GENERATOR_NODE`` or ``UNCALLABLE_NODE``, naming it and the parameter.
    """
    _refuse_wrong_kinds(fn, what)
    container, called = _without_inject(fn)
    signature = _signature(called, what)
    bound = called.keywords if isinstance(called, functools.partial) else {}
    parameters = {name: item for name, item in signature.parameters.items() if name not in bound}
    config = next((name for name, item in parameters.items() if _is_config(item)), "")
    state = _state_parameter(parameters, config, what)
    rest = [item for name, item in parameters.items() if name not in (state, config) and item.kind not in _VARIADIC]
    hints = read_hints(called) if rest else {}
    needs = (_dependency(item, hints.get(item.name), what, by_name=called is not fn) for item in rest)
    return CallPlan(
        fn=called,
        is_async=inspect.iscoroutinefunction(plain_function(called)),
        takes_config=bool(config),
        dependencies=tuple(need for need in needs if need is not None),
        container=container,
        _signature=signature,
        _state=state,
        _config=config,
    )


def _refuse_wrong_kinds(fn: Any, what: str) -> None:
    if not callable(fn) or inspect.isclass(fn):
        hint = "pass an instance of it" if inspect.isclass(fn) else "pass a function or an object with __call__"
        raise GraphError(f"{what} is {fn!r}: {hint}.", error_code="NOT_CALLABLE", context={"what": what})
    function = plain_function(fn)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise GraphError(
            f"{what} is a generator, and a node returns its update once: return it instead of yielding, "
            "and send what comes before with emit().",
            error_code="GENERATOR_NODE",
            context={"what": what},
        )


def _without_inject(fn: Callable[..., Any]) -> tuple[InjectQ | None, Callable[..., Any]]:
    """Take a function out of injectq's ``@inject``, which would wrap each of its errors in one of injectq's."""
    inner = getattr(fn, "__wrapped__", None)
    if inner is None or not inspect.isfunction(fn) or not str(fn.__globals__.get("__name__")).startswith("injectq."):
        return None, fn
    return cast("InjectQ | None", inspect.getclosurevars(fn).nonlocals.get("container")), inner


def _signature(fn: Callable[..., Any], what: str) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"{what} shows no signature ({error}): wrap it in a function that takes the state.",
            error_code="UNCALLABLE_NODE",
            context={"what": what},
        ) from error


def _state_parameter(parameters: Mapping[str, inspect.Parameter], config: str, what: str) -> str:
    named = [name for name, item in parameters.items() if _bare(item) == "state" and item.kind not in _VARIADIC]
    positional = [name for name, item in parameters.items() if name != config and _can_be_state(item)]
    for name in (*named, *positional):
        return name
    raise GraphError(
        f"{what} takes no state: give it a first parameter for the state.",
        error_code="UNCALLABLE_NODE",
        context={"what": what},
    )


def _can_be_state(item: inspect.Parameter) -> bool:
    by_keyword = item.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return not by_keyword and not _is_marker(item.default)


def _bare(item: inspect.Parameter) -> str:
    return item.name.strip("_")


def _is_config(item: inspect.Parameter) -> bool:
    return _bare(item) == "config" and item.kind not in _VARIADIC


def _is_marker(default: object) -> bool:
    return isinstance(default, Inject)


def _dependency(item: inspect.Parameter, hint: Any, what: str, *, by_name: bool) -> Dependency | None:
    if _is_marker(item.default):
        return Dependency(item.name, item.default.service_type, marked=True, optional=False, by_name=False)
    key = _injectable(hint)
    optional = item.default is not _EMPTY
    if key is not None or by_name:
        return Dependency(item.name, key or item.name, marked=False, optional=optional, by_name=by_name)
    if optional:
        return None
    raise GraphError(
        f"{what} needs {item.name!r}, which nobody supplies: give the parameter a default, "
        "a class that the container knows, or `= Inject[…]`.",
        error_code="UNCALLABLE_NODE",
        context={"what": what, "parameter": item.name},
    )


def _injectable(hint: Any) -> type[Any] | None:
    """Return the class to look for; never a built-in: a container knows ``str`` as soon as it holds any text."""
    if get_origin(hint) is Union or type(hint).__name__ == "UnionType":
        return next((found for found in map(_injectable, get_args(hint)) if found is not None), None)
    return hint if isinstance(hint, type) and hint.__module__ != "builtins" and get_origin(hint) is None else None


def _discard(value: Awaitable[Any]) -> None:
    if inspect.iscoroutine(value):
        value.close()
