"""Do something outside of the graph, and do not do it again."""

import inspect
import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar, overload

from tenxgraph.core.exceptions import InvalidInputError, SerializationError
from tenxgraph.utils.journal import EffectKey, effect_name
from tenxgraph.utils.task_context import TaskContext, current_task

T = TypeVar("T")


@overload
def effect(
    key: str, fn: Callable[..., Coroutine[Any, Any, T]], *args: Any, at_most_once: bool = False, **kwargs: Any
) -> Coroutine[Any, Any, T]: ...


@overload
def effect(key: str, fn: Callable[..., T], *args: Any, at_most_once: bool = False, **kwargs: Any) -> T: ...


def effect(key: str, fn: Callable[..., Any], *args: Any, at_most_once: bool = False, **kwargs: Any) -> Any:
    """Call ``fn(*args, **kwargs)`` and record what it returned; a recorded result is returned instead of calling again.

    Call it inside a node or a tool; await it where ``fn`` is a coroutine function. The effect is reserved before the
    call and done after it. Another attempt at the same task (after a crash, a lost lease, a retry, or when the run is
    continued) finds the result, or waits while the first is still at it. Where the first died in the call, ``fn`` is
    called again: it may have happened twice. Where ``fn`` raised, the next attempt calls it again.

    Args:
        key: Names the effect within its task, or within its tool call; other tasks, also of the same node in a later
            step, have effects of their own.
        fn: A function or a coroutine function.
        *args: Its arguments.
        at_most_once: Raise `EffectLostError`, instead of calling ``fn``, once a call was begun that gave no result.
        **kwargs: Its arguments by name.

    Returns:
        What ``fn`` returned, as JSON restores it.

    Raises:
        EffectLostError: With ``at_most_once``: it may have happened, and nobody can tell. No retry follows.
        SerializationError: ``fn`` returned something that JSON does not restore exactly (a tuple, a date, NaN). It
            counts as done: it is not called again, and the result is lost.
        InvalidInputError: ``key`` is no text, or ``fn`` returned an awaitable: pass the coroutine function itself.
        GraphError: ``NO_TASK`` when no node runs here.
    """
    context = current_task("effect")
    if not isinstance(key, str) or not key:
        raise InvalidInputError(f"effect() in node {context.node!r} is named by a text that is not empty, not {key!r}.")
    name = effect_name("effect", context.idempotency_key, context.tool_call_id, key)
    named = EffectKey(name, f"effect({key!r})", at_most_once)
    call = partial(fn, *args, **kwargs)
    if _is_async(fn):
        return _acall(context, named, call)
    return _value(context, named, context.journal.once(named, partial(_made, context, named, call)))


async def _acall(context: TaskContext, named: EffectKey, call: Callable[[], Any]) -> Any:
    async def make() -> bytes:
        return _encode(await call())

    return _value(context, named, await context.journal.aonce(named, make))


def _is_async(fn: Callable[..., Any]) -> bool:
    while isinstance(fn, partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004 - asked for what it is


def _made(context: TaskContext, named: EffectKey, call: Callable[[], Any]) -> bytes:
    value = call()
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise InvalidInputError(
            f"{named.title} in node {context.node!r} called a function that returns an awaitable: pass the coroutine "
            "function and its arguments, as in `await effect(key, fn, *args)`."
        )
    return _encode(value)


def _encode(value: Any) -> bytes:
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        fault = _fault("the result", value, json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        text, fault = "null", str(error)
    return f'{{"value":{text}}}'.encode() if fault is None else json.dumps({"fault": fault}).encode()


def _fault(place: str, value: Any, restored: Any) -> str | None:
    if type(value) is not type(restored):
        return f"{place} is a {type(value).__name__}"
    if isinstance(value, dict):
        others = [key for key in value if type(key) is not str]
        if others:
            return f"{place} has the key {others[0]!r}"
        parts = [(f"{place}[{key!r}]", value[key], restored[key]) for key in value]
    elif isinstance(value, list):
        parts = [(f"{place}[{at}]", *pair) for at, pair in enumerate(zip(value, restored, strict=True))]
    else:
        return None
    return next(filter(None, (_fault(*part) for part in parts)), None)


def _value(context: TaskContext, named: EffectKey, recorded: bytes) -> Any:
    found = json.loads(recorded)
    if "fault" not in found:
        return found["value"]
    raise SerializationError(
        f"{named.title} in node {context.node!r} was made, but JSON does not restore what it returned: "
        f"{found['fault']}. Return plain dicts, lists, texts and numbers. It counts as done and is not made again.",
        context={"node": context.node, "effect": named.title},
    )
