"""The end of a step: merge its updates, choose its routes, plan what runs next. Writes nothing itself."""

import contextvars
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tenxgraph.core.exceptions import GraphRecursionError, TenxGraphError
from tenxgraph.core.graph.merge import merge
from tenxgraph.core.graph.planner import Plan, Planned, exceeds, plan_next, resolve_targets
from tenxgraph.core.graph.router import Router
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.codec import EncodedUpdate
from tenxgraph.core.state.image import Patch, StateImage, Version, apply
from tenxgraph.core.state.trim import CONTEXT, Trim, chosen_trim
from tenxgraph.engine.chunks import chunk, lines
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.tool_tasks import Part, distributing, has_calls, parts_of, whole
from tenxgraph.engine.tool_tasks import finished as finished_of
from tenxgraph.engine.user_call import USER_FAULTS, Steps, UserCall
from tenxgraph.engine.views import task_state
from tenxgraph.store.base import PLAN, Advance, Claim, RunView, TaskRef, TaskSpec, WaitKind
from tenxgraph.utils.command import Send
from tenxgraph.utils.constants import START
from tenxgraph.utils.container_scope import container_scope
from tenxgraph.wire import Arrival, Base, Checkpointed, Failure, Finished, Frontier, Target, TaskUpdate, read_run_config

PLAN_START = "start"
PLAN_RESUME = "resume"
PLAN_ADVANCE = "advance"


class AdvanceError(Exception):
    """Merging or routing failed. The cause is what user code raised; ``place`` is the field or the router."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place: str = place


@dataclass(frozen=True, slots=True)
class _Ended:
    """A step whose updates are merged."""

    claim: Claim
    image: StateImage
    after: StateImage
    patch: Patch
    frontier: Frontier
    events: tuple[bytes, ...]
    nodes: tuple[str, ...]

    @property
    def run(self) -> RunView:
        return self.claim.run


def to_target(runtime: Runtime[Any], place: str, target: str | Send) -> Target:
    """Encode where a task leads; the fields of a Send are checked like an update's."""
    if isinstance(target, str):
        return Target(target)
    encoded = runtime.codec.validate_overlay(target.fields, place=f"{place}, Send to {target.node!r}")
    return Target(target.node, encoded.to_json().decode())


def plan_start(runtime: Runtime[Any], claim: Claim) -> Steps[Advance]:
    """Merge the input and route from START."""
    taken = TaskUpdate.from_json(claim.run.input)
    ended = _merged(runtime, claim, [("input", taken)], (START,))
    context = runtime.codec.log(ended.after, CONTEXT)
    frontier = Frontier(Base(context.gen, context.length, ended.after.version.number, context.origin.home, context.end))
    ended = replace(ended, frontier=frontier, events=())
    return (yield from _go_on(runtime, ended, (Finished(START),)))


def plan_advance(runtime: Runtime[Any], claim: Claim, updates: Mapping[str, TaskUpdate]) -> Steps[Advance]:
    """Merge the updates of a step's tasks and route from each of them.

    Args:
        runtime: The graph.
        claim: Of the plan task that advances, or of the step's only task.
        updates: Task → update, of all tasks of the step.
    """
    specs = claim.specs or (claim.spec,)
    counted = Counter(spec.node for spec in specs)
    labelled = [(_label(spec, counted), updates[spec.task]) for spec in specs]
    ended = _merged(runtime, claim, labelled, tuple(spec.node for spec in specs))
    arrivals = [Arrival.from_json(spec.body) for spec in specs]
    finished = tuple(finished_of(zip(arrivals, (updates[spec.task].targets for spec in specs), strict=True)))
    if runtime.definition.interrupt_after.intersection(ended.nodes):
        return _pause_after(ended, finished)
    return (yield from _go_on(runtime, ended, finished))


def plan_resume(runtime: Runtime[Any], claim: Claim) -> Steps[Advance]:
    """Take a run up where it was paused or stopped, with what came along as input."""
    updates = [("input", TaskUpdate.from_json(claim.run.input))] if claim.run.input else []
    ended = _merged(runtime, claim, updates, ())
    if claim.specs:
        tasks = _planned_again(runtime, ended, claim.specs)
        return _advance(ended, RunStatus.RUNNING, claim.run.step, tasks, ended.frontier)
    return (yield from _go_on(runtime, ended, ended.frontier.finished))


def plan_edit(
    runtime: Runtime[Any], run: RunView, image: StateImage, update: TaskUpdate, as_node: str | None
) -> Steps[Advance]:
    """Merge what a person changes; with ``as_node`` route from there, beside what waits for a join.

    Args:
        runtime: The graph.
        run: Where it stands: step and plan.
        image: The state before.
        update: The change.
        as_node: The node that is to have made it.
    """
    claim = Claim(TaskRef(run.thread_id, run.run_id, run.step, PLAN, 1), "", TaskSpec(PLAN, "edit"), True, run, image)
    ended = _merged(runtime, claim, [("update_state", update)], (as_node,) if as_node else ())
    if as_node is None:
        return _advance(ended, RunStatus.RUNNING, run.step, (), ended.frontier)
    ended = replace(ended, frontier=replace(ended.frontier, finished=()))
    return (yield from _go_on(runtime, ended, (Finished(as_node),)))


def _label(spec: TaskSpec, counted: Mapping[str, int]) -> str:
    if counted[spec.node] == 1:
        return spec.node
    call = Arrival.from_json(spec.body).call
    return f"{spec.node} (task {spec.task})" if call is None else f"{spec.node} (call {call})"


def _merged(
    runtime: Runtime[Any], claim: Claim, updates: Sequence[tuple[str, TaskUpdate]], nodes: tuple[str, ...]
) -> _Ended:
    image, first = claim.image, Patch()
    version = Version(image.version.number + 1, secrets.token_hex(8))
    if image.version == Version.ZERO:
        first = runtime.codec.initial_patch()
        image = apply(image, first, version)
    try:
        patch = merge(runtime.codec, image, *_operands(runtime, image, updates))
    except TenxGraphError as error:
        raise AdvanceError(str(error.context.get("field", "merge"))) from error
    after = apply(image, patch, version)
    authors = nodes or tuple(label for label, _ in updates)
    events = tuple(_message_events(claim.run.step, patch, authors, [update for _, update in updates]))
    frontier = Frontier.from_json(claim.run.plan)
    return _Ended(claim, image, after, _behind(first, patch), frontier, events, nodes)


def _operands(
    runtime: Runtime[Any], image: StateImage, updates: Sequence[tuple[str, TaskUpdate]]
) -> tuple[list[tuple[str, EncodedUpdate]], Trim | None]:
    trim = chosen_trim(runtime.codec, image, [(update.fields, update.trim) for _, update in updates])
    fields = [
        (label, part)
        for label, update in updates
        for part in ((update.fields, trim.fields) if trim is not None and update.trim is trim else (update.fields,))
    ]
    return fields, trim


def _behind(first: Patch, patch: Patch) -> Patch:
    """The patch that does both, ``first`` first."""
    appends = {
        name: (*first.appends.get(name, ()), *patch.appends.get(name, ())) for name in first.appends | patch.appends
    }
    kept = {name: items for name, items in appends.items() if name not in patch.rewrites}
    return Patch(first.values | patch.values, kept, patch.rewrites, patch.cuts)


def _message_events(step: int, patch: Patch, authors: Sequence[str], updates: Sequence[TaskUpdate]) -> list[bytes]:
    added = patch.cuts[CONTEXT].items if CONTEXT in patch.cuts else patch.appends.get(CONTEXT, ())
    # Backwards, so that of two tasks with the same message the first is its author, as it is when they merge.
    written = reversed(list(zip(authors, updates, strict=True)))
    author = {item: name for name, update in written for item in update.fields.fields.get(CONTEXT, ())}
    return [chunk("message", step=step, node=author.get(item), message=item) for item in added]


def _go_on(runtime: Runtime[Any], ended: _Ended, finished: Sequence[Finished]) -> Steps[Advance]:
    arrivals: list[Planned] = []
    for task in finished:
        arrivals += yield from _route(runtime, ended, task)
    waiting = [_planned(arrival) for arrival in ended.frontier.waiting]
    plan = plan_next(runtime.definition.topology, waiting, arrivals)
    return _planned_step(runtime, ended, plan)


def _planned(arrival: Arrival) -> Planned:
    return Planned(arrival.node, None if arrival.send is None else {"json": arrival.send}, arrival.each)


def _arrival(planned: Planned) -> Arrival:
    return Arrival(planned.node, None if planned.send is None else planned.send["json"], planned.each)


def _route(runtime: Runtime[Any], ended: _Ended, task: Finished) -> Steps[list[Planned]]:
    if task.targets is not None:
        return [_arrive(runtime, target) for target in task.targets]
    targets = [Target(node) for node in runtime.definition.topology.static_targets(task.node)]
    for router in runtime.definition.routers.get(task.node, ()):
        targets += yield from _decide(runtime, ended, task, router)
    return [_arrive(runtime, target) for target in targets]


def _arrive(runtime: Runtime[Any], target: Target) -> Planned:
    node = runtime.definition.nodes.get(target.node)
    each = node is not None and node.policies.join == "each"
    return _planned(Arrival(target.node, target.send, each))


def _decide(runtime: Runtime[Any], ended: _Ended, task: Finished, router: Router) -> Steps[list[Target]]:
    place = f"condition {router.name!r} after {task.node!r}"
    try:
        decision = yield _router_call(runtime, ended, task, router)
        chosen = resolve_targets(decision, router.path_map, runtime.definition.nodes, condition=place)
        return [to_target(runtime, place, target) for target in chosen]
    except USER_FAULTS as error:
        raise AdvanceError(router.name) from error


def _router_call(runtime: Runtime[Any], ended: _Ended, task: Finished, router: Router) -> UserCall:
    state = task_state(runtime, ended.after, ended.run, task.node, task.send)
    config = read_run_config(ended.run.request).seen_by_nodes()
    container = runtime.definition.container

    async def ask() -> Any:
        with container_scope(container):
            args, kwargs = await router.call.acall_args(state, config, container)
            return await router.condition(*args, **kwargs)

    def ask_here() -> Any:
        with container_scope(container):
            args, kwargs = router.call.call_args(state, config, container)
            return router.condition(*args, **kwargs)

    fn = ask if router.is_async else ask_here
    return UserCall(partial(fn), router.is_async, contextvars.copy_context(), runtime.default_timeout_s)


def _planned_step(runtime: Runtime[Any], ended: _Ended, plan: Plan) -> Advance:
    frontier = Frontier(ended.frontier.base, tuple(_arrival(item) for item in plan.waiting))
    if not plan.ready:
        return _advance(ended, RunStatus.COMPLETED, ended.run.step, (), frontier)
    config = read_run_config(ended.run.request)
    tasks = _tasks(runtime, ended, [_arrival(item) for item in plan.ready])
    step = ended.run.step + 1
    if exceeds(step - max(ended.run.first_step - 1, 0), config.recursion_limit):
        return _too_deep(ended, step, config.recursion_limit, tasks, frontier)
    if runtime.definition.interrupt_before.intersection(item.node for item in plan.ready):
        paused = _advance(ended, RunStatus.WAITING, step, tasks, frontier)
        return replace(paused, wait=WaitKind.BEFORE)
    return _advance(ended, RunStatus.RUNNING, step, tasks, frontier)


def _tasks(runtime: Runtime[Any], ended: _Ended, arrivals: Sequence[Arrival]) -> tuple[TaskSpec, ...]:
    priority = read_run_config(ended.run.request).priority
    parts = [part for arrival in arrivals for part in _parts(runtime, ended, arrival)]
    return tuple(_spec(runtime, priority, position, part) for position, part in enumerate(parts))


def _parts(runtime: Runtime[Any], ended: _Ended, arrival: Arrival) -> list[Part]:
    tools = distributing(runtime, arrival.node)
    if tools is None:
        return [Part(arrival)]
    return parts_of(tools, arrival, task_state(runtime, ended.after, ended.run, arrival.node, arrival.send))


def _spec(runtime: Runtime[Any], priority: int | None, position: int, part: Part) -> TaskSpec:
    node = part.arrival.node
    return TaskSpec(str(position), node, body=part.arrival.to_json(), **runtime.routing(node, priority, part.queue))


def _planned_again(runtime: Runtime[Any], ended: _Ended, specs: tuple[TaskSpec, ...]) -> tuple[TaskSpec, ...]:
    """What came with the resume may have changed which calls are open."""
    if not has_calls(specs):
        return specs
    return _tasks(runtime, ended, whole(Arrival.from_json(spec.body) for spec in specs))


def _pause_after(ended: _Ended, finished: tuple[Finished, ...]) -> Advance:
    frontier = replace(ended.frontier, finished=finished)
    paused = _advance(ended, RunStatus.WAITING, ended.run.step, (), frontier)
    return replace(paused, wait=WaitKind.AFTER)


def _too_deep(ended: _Ended, step: int, limit: int, tasks: tuple[TaskSpec, ...], frontier: Frontier) -> Advance:
    nodes = ", ".join(repr(task.node) for task in tasks)
    failure = Failure(
        error=GraphRecursionError.__name__,
        code=GraphRecursionError.default_code,
        message=(
            f"Run {ended.run.run_id!r} on thread {ended.run.thread_id!r} took {limit} steps "
            f"and would go on to {nodes}: raise recursion_limit in the config, or mend the loop."
        ),
        context={"recursion_limit": limit, "next": [task.node for task in tasks]},
    )
    failed = _advance(ended, RunStatus.FAILED, step, tasks, frontier)
    return replace(failed, error=failure.to_json(), events=lines([failed.events, error_event(failure, None)]))


def error_event(failure: Failure, step: int | None) -> bytes:
    """The ``error`` event of a failure."""
    data = {"error": failure.error, "code": failure.code, "message": failure.message, "cause": failure.cause or None}
    return chunk("error", step=step, node=failure.node or None, attempt=failure.attempt, data=data)


def _advance(ended: _Ended, status: RunStatus, step: int, tasks: tuple[TaskSpec, ...], frontier: Frontier) -> Advance:
    upcoming = [task.node for task in tasks]
    meta = Checkpointed(ended.nodes, tuple(upcoming), tuple(item.node for item in frontier.waiting))
    ran = [chunk("step_end", step=ended.run.step, data={"nodes": list(ended.nodes)})] if ended.nodes else []
    state = [chunk("state", step=ended.run.step, data={"checkpoint": ended.after.version.number})]
    begins = [chunk("step_start", step=step, data={"nodes": upcoming})] if status is RunStatus.RUNNING else []
    return Advance(
        base=ended.claim.image.version,
        nonce=ended.after.version.nonce,
        patch=ended.patch,
        step=step,
        status=status,
        tasks=tasks,
        plan=frontier.to_json(),
        meta=meta.to_json(),
        events=lines([*ended.events, *ran, *state, *begins]),
    )
