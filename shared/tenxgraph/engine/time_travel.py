"""What is done to a thread beside its runs: another state, or a thread that begins with an old one. Writes nothing."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.codec import EncodedUpdate
from tenxgraph.core.state.image import ItemLog, Patch, StateImage, Version
from tenxgraph.core.state.trim import CONTEXT
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.step import AdvanceError, plan_edit
from tenxgraph.engine.user_call import Steps
from tenxgraph.store.base import Advance, Checkpoint, Edit, NewThread, RunView, ThreadView, WaitKind
from tenxgraph.utils.constants import START
from tenxgraph.wire import Base, Checkpointed, Frontier, RunConfig, TaskUpdate

_MEDIA_ID: Final = re.compile(rb"sha256:[0-9a-f]{64}")

UPDATED, FORKED, RETURNED = "update", "fork", "checkpoint"
"""What wrote a checkpoint that no step did."""


def checked_update(runtime: Runtime[Any], values: Any, as_node: str | None) -> EncodedUpdate:
    """Check and encode what a person changes.

    Raises:
        InvalidInputError: Naming the field, the type or the node that is wrong.
    """
    if not isinstance(values, Mapping):
        kind = type(values).__name__
        raise InvalidInputError(f"update_state takes a dict of field to update, not a {kind}; nothing was changed.")
    if as_node is not None and as_node not in (*runtime.definition.nodes, START):
        raise InvalidInputError(
            f"as_node is {as_node!r}: graph {runtime.name!r} has the nodes "
            f"{', '.join(map(repr, runtime.definition.nodes))}; nothing was changed.",
            context={"node": as_node},
        )
    return runtime.codec.validate_update(values, place="update_state")


def planned_edit(
    runtime: Runtime[Any],
    thread: ThreadView,
    run: RunView | None,
    point: Checkpoint | None,
    image: StateImage,
    update: EncodedUpdate,
    as_node: str | None,
) -> Steps[Edit]:
    """Merge an update by the reducers and, with ``as_node``, choose what comes next as behind that node.

    Args:
        runtime: The graph.
        thread: As it stands.
        run: The run that waits on it, if one does.
        point: The newest checkpoint.
        image: The state there.
        update: Right operands of the reducers.
        as_node: The node that is to have made it.
    """
    base = point or Checkpoint(Version.ZERO, "", 0, RunStatus.COMPLETED, b"", 0)
    advance = yield from _advance(runtime, thread, base, image, update, as_node)
    noted = Checkpointed.from_json(base.meta) if base.meta else Checkpointed()
    edit = Edit(
        thread_id=thread.thread_id,
        run_id=thread.active,
        base=image.version,
        nonce=advance.nonce,
        patch=advance.patch,
        step=base.step,
        status=base.status,
        meta=replace(noted, source=UPDATED, by=thread.user_id).to_json(),
        tasks=base.tasks,
        plan=base.plan,
        wait=base.wait,
    )
    return edit if as_node is None else _replanned(edit, advance, run)


def _advance(
    runtime: Runtime[Any],
    thread: ThreadView,
    base: Checkpoint,
    image: StateImage,
    update: EncodedUpdate,
    as_node: str | None,
) -> Steps[Advance]:
    try:
        view = _stand_in(runtime, thread, base)
        return (yield from plan_edit(runtime, view, image, TaskUpdate(update), as_node))
    except AdvanceError as error:
        raise InvalidInputError(
            f"update_state failed at {error.place!r}: {error.__cause__!r}; nothing was changed.",
            context={"place": error.place},
        ) from error.__cause__


def _stand_in(runtime: Runtime[Any], thread: ThreadView, base: Checkpoint) -> RunView:
    """Routing and merging are written for runs; this one is nobody's."""
    config = RunConfig(thread.thread_id, "", thread.user_id, recursion_limit=2**31)
    return RunView(
        thread_id=thread.thread_id,
        run_id=thread.active or thread.last,
        graph=runtime.name,
        graph_version=runtime.version,
        user_id=thread.user_id,
        status=RunStatus.RUNNING,
        reason="",
        step=base.step,
        first_step=base.step,
        version=base.version.number,
        origin="",
        continues="",
        request=config.to_json(),
        input=b"",
        plan=base.plan,
        error=b"",
        wait="",
        interrupts=(),
        created_ms=0,
        started_ms=0,
        ended_ms=0,
    )


def _replanned(edit: Edit, advance: Advance, run: RunView | None) -> Edit:
    noted = replace(Checkpointed.from_json(advance.meta), source=UPDATED, by=Checkpointed.from_json(edit.meta).by)
    ends = RunStatus.STOPPED if advance.tasks else RunStatus.COMPLETED
    return replace(
        edit,
        replans=True,
        step=advance.step,
        status=ends if run is None else RunStatus.WAITING,
        meta=noted.to_json(),
        tasks=advance.tasks,
        plan=advance.plan,
        # A run that waits for nothing else goes on when it is told to; without tasks it then ends.
        wait="" if run is None else WaitKind.BEFORE if advance.tasks else WaitKind.AFTER,
    )


def media_in(image: StateImage) -> set[str]:
    """Return the ids of the media that a state may refer to."""
    parts = chain(image.values.values(), *image.lists.values())
    return {found.decode() for part in parts for found in _MEDIA_ID.findall(part)}


def planned_fork(
    thread: ThreadView, point: Checkpoint, image: StateImage, media: Mapping[str, bytes], thread_id: str
) -> NewThread:
    """Return a thread that begins at a checkpoint of another; it takes no code of the graph."""
    noted = Checkpointed.from_json(point.meta)
    return NewThread(
        thread_id=thread_id,
        graph=thread.graph,
        graph_version=thread.graph_version,
        user_id=thread.user_id,
        nonce=secrets.token_hex(8),
        patch=Patch(dict(image.values), {name: tuple(log) for name, log in image.lists.items()}),
        step=point.step,
        status=RunStatus.STOPPED if comes_next(point) else RunStatus.COMPLETED,
        meta=replace(noted, source=FORKED, by=thread.user_id).to_json(),
        tasks=point.tasks,
        plan=_rebased(point, image).to_json(),
        wait=point.wait,
        media=media,
    )


def comes_next(point: Checkpoint) -> bool:
    """Whether a run can go on from a checkpoint."""
    frontier = Frontier.from_json(point.plan)
    return bool(point.tasks or frontier.finished or frontier.waiting)


def _rebased(point: Checkpoint, image: StateImage) -> Frontier:
    """The frontier for lists that begin anew: what its run added counts on, if it only added."""
    frontier, context = Frontier.from_json(point.plan), image.lists.get(CONTEXT, ItemLog())
    if frontier.base is None:
        return frontier
    length = frontier.base.length if frontier.base.gen == context.gen else context.length
    return replace(frontier, base=Base(1, length, 1, home=1, end=length))
