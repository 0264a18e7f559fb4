"""One attempt at one task: claim, run, commit, advance, dispatch."""

# Over 300 lines of code: one attempt from claim to dispatch, in the order in which it happens.

import contextvars
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from tenxgraph.core.exceptions import EffectLostError, GraphError, NodeError, StorageError
from tenxgraph.core.graph.node import Node
from tenxgraph.core.graph.node_return import normalise
from tenxgraph.core.graph.planner import resolve_targets
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.graph.tool_journal import RunToolJournal
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.blocks import DataBlock
from tenxgraph.core.state.codec import EncodedUpdate
from tenxgraph.core.state.image import StateImage, Version, apply
from tenxgraph.core.state.kept_media import data_of, move_media, no_media
from tenxgraph.core.state.media import MediaRef
from tenxgraph.core.state.trim import trim_of
from tenxgraph.engine.chunks import chunk, lines
from tenxgraph.engine.emitter import Emitter, send_at_once
from tenxgraph.engine.failures import WAITS, as_timeout, failed, failed_before, failure_of, noted
from tenxgraph.engine.grip import Grip, Hold, Keep, hold_by_asking
from tenxgraph.engine.journal import StoreJournal
from tenxgraph.engine.log import log_fields
from tenxgraph.engine.patience import Insist, once
from tenxgraph.engine.prepare import Prepare, no_messages, upcoming
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.state_cache import StateCache
from tenxgraph.engine.step import (
    PLAN_ADVANCE,
    PLAN_RESUME,
    PLAN_START,
    AdvanceError,
    plan_advance,
    plan_resume,
    plan_start,
    to_target,
)
from tenxgraph.engine.stint import Stint
from tenxgraph.engine.suspects import Suspects
from tenxgraph.engine.user_call import USER_FAULTS, CallTimedOutError, Steps, UserCall, drive
from tenxgraph.engine.views import task_state
from tenxgraph.store.base import (
    PLAN,
    Advance,
    Claim,
    Dispatch,
    Interrupt,
    NextClaim,
    Refusal,
    Settlement,
    Store,
    TaskRef,
    TaskStatus,
)
from tenxgraph.utils.container_scope import container_scope
from tenxgraph.utils.ids import DerivedIds, id_source_scope
from tenxgraph.utils.interrupt import Interrupted
from tenxgraph.utils.journal import AttemptOver, EffectKey, effect_name, idempotency_key
from tenxgraph.utils.retry_later import RetryLater
from tenxgraph.utils.task_context import TaskContext, task_scope
from tenxgraph.wire import Arrival, Failure, Target, TaskUpdate, read_run_config

_logger = logging.getLogger(__name__)

Done = str | Claim
"""What became of an attempt, or the next one that it began."""

_Scope = Callable[[], AbstractContextManager[None]]
_PLANS = {PLAN_START: plan_start, PLAN_RESUME: plan_resume}


@contextmanager
def _task_scope(task: TaskContext, ids: DerivedIds) -> Iterator[None]:
    with task_scope(task), id_source_scope(ids), container_scope(task.container):
        yield


def _no_note(run_id: str, error: BaseException) -> None:
    """Nobody wants to know."""


T = TypeVar("T")


@dataclass(frozen=True)
class AttemptRunner:
    """Performs attempts at tasks of one graph against one store.

    Attributes:
        dispatch: Puts messages of next tasks where workers find them.
        prepare: Makes messages for the store to put there, see :class:`Advance`; of tasks on top of a state.
        worker: Names this process in the store.
        lease_ms: Of a claim.
        note_failure: Told of the exception that fails a run, by run id.
        insist: Makes those calls of the store on which a result in hand depends.
        suspects: One for all graphs of a process.
        wake: Has what nodes tell sent; at once, if nobody sees to it.
        hold: Keeps a claim alive while user code runs; None where claims cannot end apart from this process.
        keep: Keeps reservations of effects alive while those are made; None where the store is this process's own.
        budget_s: How long one message may keep a worker busy with step after step.
        is_leaving: Whether this process is to end, and begins nothing more.
        stint: How far the attempt at hand may go on; None if its steps end with it.
    """

    runtime: Runtime[Any]
    store: Store
    dispatch: Callable[[Sequence[Dispatch]], None]
    worker: str
    lease_ms: int
    cache: StateCache = field(default_factory=StateCache)
    note_failure: Callable[[str, BaseException], None] = _no_note
    watch_retry: Callable[[int], None] = lambda _delay_ms: None
    insist: Insist = once
    suspects: Suspects = field(default_factory=Suspects)
    wake: Callable[[Emitter], None] = send_at_once
    prepare: Prepare = no_messages
    hold: Hold | None = None
    keep: Keep | None = None
    budget_s: float = 0.0
    is_leaving: Callable[[], bool] = lambda: False
    stint: Stint | None = None

    @cached_property
    def _hold(self) -> Hold:
        return self.hold or hold_by_asking(self.store, self.lease_ms)

    def perform(self, ref: TaskRef, node: str | None = None) -> Steps[str]:
        """Do what a message asks for, if the store confirms it, and go on as far as a stint goes.

        Args:
            ref: What the message names.
            node: The node's name as the message has it, for the ``task_start`` event.

        Returns:
            One word for the log: what became of the attempt, the last one if there were several.
        """
        with self.suspects.place_for(ref) as place:
            claim = self._claim(ref, secrets.token_hex(8), node, place.pause_ms)
            if isinstance(claim, Refusal):
                _logger.debug("refused: %s", claim.reason, extra=log_fields(ref))
                return "refused"
            place.keep_for(claim)
            goer = replace(self, stint=Stint(claim.spec.queue, time.monotonic() + self.budget_s))
            done = yield from goer._perform(claim)
        while isinstance(done, Claim):
            done = yield from goer._perform(done)
        return done

    def _perform(self, claim: Claim) -> Steps[Done]:
        ref = claim.ref
        self.cache.put(ref.thread_id, claim.image)
        if claim.spec.node in (PLAN_START, PLAN_RESUME, PLAN_ADVANCE) and ref.task == PLAN:
            return (yield from self._perform_plan(claim))
        return (yield from self._perform_node(claim))

    def _claim(self, ref: TaskRef, nonce: str, node: str | None, pause_ms: int) -> Claim | Refusal:
        started = chunk("task_start", step=ref.step, node=node, task=ref.task, attempt=ref.attempt)
        known = self.cache.get(ref.thread_id)
        claim = partial(self.store.claim, ref, nonce, worker=self.worker, lease_ms=self.lease_ms)
        events = b"" if ref.task == PLAN else started
        return self.insist(lambda: claim(known=known, events=events, suspect_pause_ms=pause_ms))

    # -- nodes

    def _perform_node(self, claim: Claim) -> Steps[Done]:
        node = self.runtime.definition.nodes.get(claim.spec.node)
        if node is None:
            return self._fail_without_node(claim)
        arrival = Arrival.from_json(claim.spec.body)
        emitter = Emitter(claim, self.store, self.insist, self.wake)
        task = self._task(claim, node, arrival, emitter)
        scope = self._scope(claim, task)
        expire = partial(self._expire, claim, node, emitter)
        try:
            with self._hold(claim, self.runtime.timeout_s(node.name), expire) as grip:
                if node.policies.at_most_once:
                    self._journal(claim).begin(_beginning_of(task))
                returned = yield self._node_call(node, arrival, claim, task, scope, grip)
                with scope():
                    update = self._update(node, claim, arrival, returned)
                update = self._with_media_kept(claim, update)
        except Interrupted as asked:
            return self._ask(claim, asked, emitter.close())
        except RetryLater as later:
            return self._wait(claim, later, emitter.close())
        except AttemptOver as over:
            return _broken_off(claim, over)
        except USER_FAULTS as error:
            return (yield from self._fail(claim, node, error, emitter.close()))
        return (yield from self._commit(claim, update, emitter.close()))

    def _expire(self, claim: Claim, node: Node, emitter: Emitter) -> object:
        # On the heartbeat's thread, which runs no nodes.
        return drive(replace(self, stint=None)._fail(claim, node, CallTimedOutError(), emitter.close()))

    def _journal(self, claim: Claim) -> StoreJournal:
        return StoreJournal(self.store, claim, self.lease_ms, self.insist, self.keep)

    def _task(self, claim: Claim, node: Node, arrival: Arrival, emitter: Emitter) -> TaskContext:
        ref, journal = claim.ref, self._journal(claim)
        answers = {
            asked.id: asked.answer
            for asked in claim.run.interrupts
            if asked.task == ref.task and asked.answer is not None
        }
        return TaskContext(
            thread_id=ref.thread_id,
            run_id=ref.run_id,
            origin=claim.run.origin,
            step=ref.step,
            task=ref.task,
            attempt=ref.attempt,
            node=node.name,
            answers=answers,
            emit=emitter.tell,
            idempotency_key=idempotency_key(ref.thread_id, claim.run.origin, ref.step, node.name, ref.task),
            journal=journal,
            load_media=partial(self._load_media, ref.thread_id),
            context_manager=self.runtime.definition.context_manager,
            container=self.runtime.definition.container,
            tool_journal=RunToolJournal(journal, self.runtime.codec),
            only_call=arrival.call,
            follows_tokens=read_run_config(claim.run.request).stream_tokens,
            may_begin_again=_may_begin_again(node),
            note=noted(claim),
            turn=journal.turn_s,
        )

    def _scope(self, claim: Claim, task: TaskContext) -> _Scope:
        graph = self.runtime.definition
        ids = DerivedIds(claim.run.origin, task.step, task.task, graph.container, graph.id_generator)
        return partial(_task_scope, task, ids)

    def _node_call(
        self, node: Node, arrival: Arrival, claim: Claim, task: TaskContext, scope: _Scope, grip: Grip
    ) -> UserCall:
        state: AgentState = task_state(
            self.runtime, claim.image, claim.run, node.name, arrival.send, grip.stop_requested
        )
        seen = read_run_config(claim.run.request).seen_by_nodes()
        config = {**seen, "idempotency_key": task.idempotency_key}
        container = self.runtime.definition.container

        async def call() -> Any:
            with scope():
                args, kwargs = await node.acall_args(state, config, container)
                return await node.fn(*args, **kwargs)

        def call_here() -> Any:
            with scope():
                args, kwargs = node.call_args(state, config, container)
                return node.fn(*args, **kwargs)

        fn = call if node.is_async else call_here
        context, timeout_s = contextvars.copy_context(), self.runtime.timeout_s(node.name)
        return UserCall(fn, node.is_async, context, timeout_s, grip.started)

    def _update(self, node: Node, claim: Claim, arrival: Arrival, returned: Any) -> TaskUpdate:
        place = f"node {node.name!r}"
        result = normalise(returned)
        codec = self.runtime.codec
        fields = result.fields
        if result.state is not None:
            fields = codec.diff(claim.image, _overlay(arrival), result.state)
        encoded = codec.validate_update(fields, place=place)
        if result.trimmed is not None:
            return TaskUpdate(
                encoded, None, trim_of(codec, claim.image, _overlay(arrival), result.trimmed, place=place)
            )
        if not result.targets:
            return TaskUpdate(encoded)
        known = self.runtime.definition.nodes
        chosen = resolve_targets(list(result.targets), None, known, condition=f"the goto of {place}")
        return TaskUpdate(encoded, tuple(to_target(self.runtime, place, target) for target in chosen))

    def _commit(self, claim: Claim, update: TaskUpdate, told: bytes) -> Steps[Done]:
        if not claim.alone or claim.ref.attempt > 1:
            return (yield from self._commit_then_advance(claim, update, told))
        try:
            advance = yield from self._held(claim, plan_advance(self.runtime, claim, {claim.ref.task: update}))
        except AdvanceError as error:
            return self._commit_then_fail(claim, update, told, error)
        return self._write(claim, advance, told, _task_end(claim))

    def _commit_then_advance(self, claim: Claim, update: TaskUpdate, told: bytes) -> Steps[Done]:
        plan = self._hand_in(claim, update, told)
        return "committed" if plan is None else (yield from self._perform_plan(plan))

    def _commit_then_fail(self, claim: Claim, update: TaskUpdate, told: bytes, error: AdvanceError) -> str:
        plan = self._hand_in(claim, update, told)
        return "fenced" if plan is None else self._fail_plan(plan, error)

    def _hand_in(self, claim: Claim, update: TaskUpdate, told: bytes) -> Claim | None:
        commit, events = partial(self.store.commit, claim.ref, claim.token), lines([told, _task_end(claim)])
        committed = self.insist(lambda: commit(update.to_json(), lease_ms=self.lease_ms, events=events))
        self.dispatch(committed.dispatch)
        if not committed.accepted:
            _logger.info("fenced before commit", extra=log_fields(claim.ref))
        return committed.plan

    # -- plans

    def _perform_plan(self, claim: Claim) -> Steps[Done]:
        try:
            if claim.spec.node == PLAN_ADVANCE:
                updates = {task: TaskUpdate.from_json(update) for task, update in claim.updates.items()}
                planned = plan_advance(self.runtime, claim, updates)
            else:
                planned = _PLANS[claim.spec.node](self.runtime, self._with_input_kept(claim))
            advance = yield from self._held(claim, planned)
        except AttemptOver as over:
            return _broken_off(claim, over)
        except AdvanceError as error:
            return self._fail_plan(claim, error)
        return self._write(claim, advance)

    def _held(self, claim: Claim, planned: Steps[Advance]) -> Steps[Advance]:
        """Routers and reducers are user code: they may take their time."""
        expire = partial(self._expire_plan, claim)
        with self._hold(claim, self.runtime.default_timeout_s, expire):
            try:
                return (yield from planned)
            except AdvanceError:
                raise
            except Exception as error:  # a fault of our own fails the run too: nobody would end it otherwise
                raise AdvanceError("engine") from error

    def _expire_plan(self, claim: Claim) -> str:
        error = AdvanceError("routing")
        error.__cause__ = CallTimedOutError("a condition or a reducer does not return")
        return self._fail_plan(claim, error)

    def _write(self, claim: Claim, advance: Advance, *before: bytes) -> Done:
        after = apply(claim.image, advance.patch, Version(advance.base.number + 1, advance.nonce))
        further: dict[str, Any] = {}
        if self.stint is not None and self.stint.may_go_on(claim, advance) and not self.is_leaving():
            further["claim"] = self._next_claim(advance, after)
        elif advance.status is RunStatus.RUNNING:
            further["messages"] = self.prepare(upcoming(claim.run, advance), after)
        advance = replace(advance, events=lines([*before, advance.events]), **further)
        advanced = self.insist(lambda: self.store.advance(claim.ref, claim.token, advance))
        if not advanced.accepted:
            _logger.info("fenced before advance", extra=log_fields(claim.ref))
            return "fenced"
        self.cache.put(claim.ref.thread_id, after)
        self.dispatch(advanced.dispatch)
        return advanced.claim or "advanced"

    def _next_claim(self, advance: Advance, after: StateImage) -> NextClaim:
        (task,) = advance.tasks
        started = chunk("task_start", step=advance.step, node=task.node, task=task.task, attempt=1)
        return NextClaim(secrets.token_hex(8), self.worker, self.lease_ms, after, started)

    def _fail_plan(self, claim: Claim, error: AdvanceError) -> str:
        cause = error.__cause__ or error
        place = f"advance:{error.place}"
        failure = failure_of(place, claim.ref.attempt, cause, f"{place} failed after step {claim.ref.step}: ")
        self.note_failure(claim.ref.run_id, cause)
        return self._settle(claim, failed(failure, claim), "failed")

    # -- media

    def _insist_for_node(self, call: Callable[[], T]) -> T:
        """Make a call in the middle of a node, which is not to blame for a store that is away."""
        try:
            return self.insist(call)
        except StorageError as error:
            raise AttemptOver(error) from error

    def _with_media_kept(self, claim: Claim, update: TaskUpdate) -> TaskUpdate:
        """Move what is large to the store. An attempt that is fenced meanwhile learns it at its commit."""

        def keep(media: str, data: bytes) -> None:
            self._insist_for_node(partial(self.store.put_media, claim.ref, claim.token, media, data))

        moved = move_media(update.fields, self.runtime.inline_media_bytes, keep)
        return update if moved is update.fields else replace(update, fields=moved)

    def _with_input_kept(self, claim: Claim) -> Claim:
        if len(claim.run.input) <= self.runtime.inline_media_bytes:
            return claim
        update = self._with_media_kept(claim, TaskUpdate.from_json(claim.run.input))
        return replace(claim, run=replace(claim.run, input=update.to_json()))

    def _load_media(self, thread_id: str, media: MediaRef | DataBlock | str) -> bytes:
        def load(file_id: str) -> bytes:
            data = self._insist_for_node(partial(self.store.media, thread_id, file_id))
            if data is None:
                raise no_media(thread_id, file_id)
            return data

        return data_of(media, load)

    # -- what is no update

    def _settle(self, claim: Claim, settlement: Settlement, outcome: str) -> str:
        settled = self.insist(lambda: self.store.settle(claim.ref, claim.token, settlement))
        self.dispatch(settled.dispatch)
        return outcome if settled.accepted else "fenced"

    def _ask(self, claim: Claim, asked: Interrupted, told: bytes) -> str:
        interrupts = tuple(Interrupt(question.id, claim.ref.task, question.body) for question in asked.questions)
        events = [_of_attempt("interrupt", claim, data={"id": question.id}) for question in asked.questions]
        settlement = Settlement(TaskStatus.WAITING, interrupts=interrupts, events=lines([told, *events]))
        return self._settle(claim, settlement, "waiting")

    def _fail(self, claim: Claim, node: Node, error: BaseException, told: bytes) -> Steps[Done]:
        told = lines([told, _discarded(claim)])
        error = as_timeout(error, claim, self.runtime.timeout_s(node.name))
        failure = failure_of(node.name, claim.ref.attempt, error, f"node {node.name!r} failed: ")
        # Attempts that died or asked a person are no failures: they use up no retry.
        retry, tries = node.policies.retry, failed_before(claim) + 1
        may_repeat = not (node.policies.at_most_once or isinstance(error, EffectLostError))
        if retry is not None and may_repeat and retry.retries(error, tries):
            failure, delay_s = replace(failure, tries=tries), retry.delay_s(tries, claim.token)
            return self._try_later(claim, failure, delay_s, told, "retry_wait")
        if node.policies.on_error is not None:
            handled = TaskUpdate(EncodedUpdate({}), (Target(node.policies.on_error),))
            return (yield from self._commit(claim, handled, told))
        self.note_failure(claim.ref.run_id, error)
        _logger.warning("failed: %s", failure.message, extra=log_fields(claim.ref))
        end = failed(failure, claim)
        return self._settle(claim, replace(end, events=lines([told, end.events])), "failed")

    def _fail_without_node(self, claim: Claim) -> str:
        """A run that continues another in a newer version of its graph may come upon a node that is no more."""
        name, graph = claim.spec.node, self.runtime.name
        message = f"graph {graph!r} has no such node in this version: continue in the run's own, or send a new message"
        failure = failure_of(
            name, claim.ref.attempt, GraphError(message, error_code="NO_NODE"), f"node {name!r} failed: "
        )
        return self._settle(claim, failed(failure, claim), "failed")

    def _wait(self, claim: Claim, later: RetryLater, told: bytes) -> str:
        context = {"note": dict(later.note)}
        failure = Failure(
            NodeError.__name__,
            later.message,
            WAITS,
            claim.spec.node,
            claim.ref.attempt,
            tries=failed_before(claim),
            context=context,
        )
        return self._try_later(claim, failure, later.delay_s, lines([told, _discarded(claim)]), later.reason)

    def _try_later(self, claim: Claim, failure: Failure, delay_s: float, told: bytes, reason: str) -> str:
        delay_ms = math.ceil(delay_s * 1000)
        event = _of_attempt(
            "task_retry", claim, data={"delay_s": delay_s, "reason": reason, "message": failure.message}
        )
        events = lines([told, event])
        settlement = Settlement(TaskStatus.RETRY_WAIT, delay_ms, reason, failure.to_json(), events=events)
        outcome = self._settle(claim, settlement, reason)
        self.watch_retry(delay_ms)
        return outcome


def _beginning_of(task: TaskContext) -> EffectKey:
    # A node that asked a person begins again with each answer; that is no repetition.
    name = effect_name("node", task.idempotency_key, len(task.answers))
    return EffectKey(name, "The work", at_most_once=True)


def _may_begin_again(node: Node) -> bool:
    owner = getattr(node.fn, "__self__", node.fn)
    return not node.policies.at_most_once and bool(getattr(owner, "may_begin_again", False))


def _broken_off(claim: Claim, over: AttemptOver) -> str:
    if over.error is not None:
        raise over.error
    _logger.info("fenced before an effect", extra=log_fields(claim.ref))
    return "fenced"


def _overlay(arrival: Arrival) -> EncodedUpdate | None:
    return None if arrival.send is None else EncodedUpdate.from_json(arrival.send.encode())


def _task_end(claim: Claim) -> bytes:
    return _of_attempt("task_end", claim)


def _discarded(claim: Claim) -> bytes:
    return _of_attempt("attempt_discarded", claim, data={"reason": "ended without an update"})


def _of_attempt(event: str, claim: Claim, **more: Any) -> bytes:
    ref = claim.ref
    return chunk(event, step=ref.step, node=claim.spec.node, task=ref.task, attempt=ref.attempt, **more)
