"""What a settled run gave, in the caller's granularity; or the error it ended with."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pydantic_core import from_json

from tenxgraph.core.exceptions import (
    EffectLostError,
    GraphRecursionError,
    InvalidInputError,
    NodeError,
    NodeTimeoutError,
    RunCancelledError,
    RunTimeoutError,
    TenxGraphError,
)
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import ItemLog, StateImage
from tenxgraph.core.state.message import Message, TokenUsages
from tenxgraph.core.state.trim import CONTEXT
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.views import run_state
from tenxgraph.store.base import Interrupt, RunView, Store
from tenxgraph.utils.constants import ResponseGranularity
from tenxgraph.wire import Base, Checkpointed, Failure, Frontier

_KINDS = {kind.__name__: kind for kind in (NodeTimeoutError, EffectLostError)}
_BATCH = 50
_GOOD = frozenset({RunStatus.COMPLETED, RunStatus.WAITING, RunStatus.STOPPED})


def build_result(runtime: Runtime[Any], store: Store, run: RunView, granularity: str) -> dict[str, Any]:
    """Return the result of a completed, waiting or stopped run."""
    image = _image(store, run)
    messages = _messages(runtime, store, run, image)
    result: dict[str, Any] = {
        "messages": messages,
        "token_usage": total_usage(messages),
        "status": run.status,
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "interrupts": open_interrupts(run.interrupts),
    }
    if granularity == ResponseGranularity.LOW:
        return result
    state = run_state(runtime, image, run, last_nodes(store, run))
    if granularity == ResponseGranularity.PARTIAL:
        return {**result, "context": list(state.context), "summary": state.context_summary}
    return {**result, "state": state}


def _image(store: Store, run: RunView) -> StateImage:
    # An older state is folded from the checkpoints; the newest one is there as it is, and mostly it is this one.
    newest = store.image(run.thread_id)
    if newest.version.number == run.version:
        return newest
    try:
        return store.image(run.thread_id, run.version)
    except KeyError:
        raise InvalidInputError(
            f"The result of run {run.run_id!r} is not kept any more: checkpoint {run.version} of thread "
            f"{run.thread_id!r} was dropped; raise TENXGRAPH_CHECKPOINTS_KEEP_LAST or TENXGRAPH_CHECKPOINTS_KEEP_S.",
            error_code="NO_CHECKPOINT",
            context={"run_id": run.run_id, "thread_id": run.thread_id, "checkpoint": run.version},
        ) from None


def last_nodes(store: Store, run: RunView) -> tuple[str, ...]:
    """Nodes of the step that wrote the run's newest version."""
    point = store.checkpoint(run.thread_id, run.version)
    return Checkpointed.from_json(point.meta).ran if point and point.meta else ()


def open_interrupts(interrupts: Sequence[Interrupt]) -> list[dict[str, Any]]:
    """The questions that wait, as callers see them."""
    return [{"id": asked.id, **from_json(asked.body)} for asked in interrupts if asked.answer is None]


def total_usage(messages: Sequence[Message]) -> TokenUsages | None:
    """The sum of the messages' token usage; None when none has any."""
    used = [message.usages for message in messages if message.usages is not None]
    if not used:
        return None
    return TokenUsages(**{name: sum(getattr(usage, name) or 0 for usage in used) for name in TokenUsages.model_fields})


def _messages(runtime: Runtime[Any], store: Store, run: RunView, image: StateImage) -> list[Message]:
    """The last user message, and what the run added behind it, whatever of it was trimmed since."""
    context = runtime.codec.log(image, CONTEXT)
    base = Frontier.from_json(run.plan).base
    if base is None:
        return []
    decode = partial(runtime.codec.decode_item, CONTEXT)
    try:
        before, added = _split(store, run, context, base)
    except KeyError:  # where it began was dropped: what stands behind the last user message is the run's
        before, added = _split_at_user(context, decode)
    asked = next((message for message in map(decode, before) if message.role == "user"), None)
    new = [decode(item) for item in added]
    return [asked, *new] if asked is not None else new


def _split(store: Store, run: RunView, context: ItemLog, base: Base) -> tuple[Iterator[bytes], Sequence[bytes]]:
    """What was there when the run began, backwards, and what it added."""
    if context.gen == base.gen:
        return reversed(context[: base.length]), context[base.length :]
    if context.origin.home != base.home:  # it was written anew, elsewhere
        old = store.image(run.thread_id, base.version).lists.get(CONTEXT, ItemLog())
        return reversed(old[:]), [item for item in context if item not in set(old)]
    read = partial(store.log, run.thread_id, CONTEXT, home=base.home)
    return _backwards(read, base.end), read(offset=base.end, limit=context.end - base.end)


def _split_at_user(context: ItemLog, decode: Callable[[bytes], Message]) -> tuple[Iterator[bytes], Sequence[bytes]]:
    items = context[:]
    asked = next((place for place in reversed(range(len(items))) if decode(items[place]).role == "user"), -1)
    return reversed(items[: asked + 1]), items[asked + 1 :]


def _backwards(read: Callable[..., Sequence[bytes]], end: int) -> Iterator[bytes]:
    for stop in range(end, 0, -_BATCH):
        first = max(stop - _BATCH, 0)
        yield from reversed(read(offset=first, limit=stop - first))


def raise_for(run: RunView, cause: BaseException | None) -> None:
    """Raise what a run that ended badly ended with.

    Args:
        run: As settled.
        cause: What user code raised, where this process knows it.
    """
    if run.status in _GOOD:
        return
    raise _error(run) from cause


def _error(run: RunView) -> TenxGraphError:
    where = {"run_id": run.run_id, "thread_id": run.thread_id}
    if run.status is RunStatus.CANCELLED:
        by = Failure.from_json(run.error).context.get("by", "") if run.error else ""
        said = f"{f' by {by}' if by else ''}: {run.reason or 'no reason given'}"
        context = {**where, "reason": run.reason, "by": by}
        return RunCancelledError(f"Run {run.run_id!r} was cancelled{said}.", context=context)
    if run.status is RunStatus.TIMED_OUT:
        return RunTimeoutError(
            f"Run {run.run_id!r} on thread {run.thread_id!r} took longer than its timeout_s: raise it in the config.",
            context=where,
        )
    if not run.error:
        return NodeError(f"Run {run.run_id!r} is {run.status}: {run.reason}.", context=where)
    return _from_failure(Failure.from_json(run.error), where)


def _from_failure(failure: Failure, where: dict[str, str]) -> TenxGraphError:
    context = {**failure.context, **where, "cause": failure.cause, "traceback": failure.traceback}
    if failure.error == GraphRecursionError.__name__:
        return GraphRecursionError(failure.message, error_code=failure.code, context=context)
    kind = _KINDS.get(failure.error, NodeError)
    return kind(failure.message, node=failure.node, attempt=failure.attempt, error_code=failure.code, context=context)
