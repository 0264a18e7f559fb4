"""The store of many processes: threads in Redis, moved by scripts. A method is a script; lua/ has the rules."""

# Over 300 lines of code: a method a script: parting them would part the port.

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.retry
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.graph.multitask import VERDICTS
from tenxgraph.core.graph.run_status import MOVES, RunStatus
from tenxgraph.core.state.image import Patch, StateImage, Version
from tenxgraph.settings import Settings
from tenxgraph.store import redis_replies as replies
from tenxgraph.store.base import (
    Admission,
    AdmissionOutcome,
    Advance,
    Advanced,
    Checkpoint,
    Claim,
    Committed,
    DueThread,
    Edit,
    Edited,
    EditOutcome,
    Emission,
    InputKind,
    NewRun,
    NewThread,
    Overdue,
    QueueMessage,
    Recovery,
    RecoveryRules,
    Refusal,
    Renewal,
    Reservation,
    Resume,
    Resumed,
    ResumeView,
    Retention,
    RetentionRules,
    RunView,
    Settled,
    Settlement,
    StopAnswer,
    StoredEvents,
    TaskRef,
    TaskSpec,
    TaskStatus,
    TaskView,
    ThreadView,
)
from tenxgraph.store.keys import Keys, key_of
from tenxgraph.store.redis_events import AsyncFollower, follow
from tenxgraph.store.redis_history import HeldImages, History, known_args
from tenxgraph.store.redis_scripts import Command, Scripts
from tenxgraph.store.sentinel import async_redis_client, redis_client

_TAKEN_IN = frozenset({AdmissionOutcome.STARTED, AdmissionOutcome.QUEUED, AdmissionOutcome.KNOWN})
_MAX_CONNECTIONS = 10_000
_OWN_RUNS = 1024

_MOVES = ",>queued," + "".join(f"{before}>{after}," for before, ends in MOVES.items() for after in sorted(ends))
_VERDICTS = "," + "".join(f"{'/'.join(row)}={verdict}," for row, verdict in VERDICTS.items())

Arg = str | bytes | int


def redis_store(url: str, settings: Settings) -> "RedisStore":
    """Return the store at a URL (``redis://``, ``rediss://``, ``unix://``, ``sentinel://``). It connects when used."""
    backoff, retries = ExponentialBackoff(cap=1, base=0.05), 3
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_connect_timeout": 5,
        "socket_timeout": 10,
        "health_check_interval": 30,
        "max_connections": _MAX_CONNECTIONS,
    }
    return RedisStore(
        redis_url=url,
        client=redis_client(url, retry=Retry(backoff, retries), **options),
        key_prefix=settings.key_prefix,
        watch_ms=int(settings.lease_s * 1000),
        stream_max_len=settings.stream_max_len,
        stream_keep_ms=settings.stream_keep_s * 1000,
        async_client=lambda: async_redis_client(url, retry=redis.asyncio.retry.Retry(backoff, retries), **options),
    )


class RedisStore:
    """Threads in one Redis (7 or newer) or Valkey (8 or newer), without modules.

    Args:
        client: Made with ``decode_responses=False``. It may repeat commands: every script is known by its caller's ids.
        key_prefix: First part of every key.
        watch_ms: How soon after an admission the reconciler looks at a thread.
        stream_max_len: Events kept for a run; the oldest go first.
        stream_keep_ms: How long the events of a finished run can still be read.
        redis_url: Where the server is; a graph compiled with this store sends its tasks there.
        async_client: Makes a client to the same server for an event loop; without it ``aevents`` waits in a thread.

    Raises (every method):
        StorageError: The server is away or refuses; what was asked may have happened, and may be asked again.
    """

    def __init__(
        self,
        client: redis.Redis,
        *,
        key_prefix: str = "tg",
        watch_ms: int = 15_000,
        stream_max_len: int = 10_000,
        stream_keep_ms: int = 86_400_000,
        async_client: Callable[[], redis.asyncio.Redis] | None = None,
        redis_url: str | None = None,
    ) -> None:
        self.redis_url: str | None = redis_url
        self._keys = Keys(key_prefix)
        self._watch_ms = watch_ms
        constants: dict[str, int | str] = {"STREAM_MAX_LEN": stream_max_len, "STREAM_KEEP_MS": stream_keep_ms}
        constants |= {"MOVES": _MOVES, "VERDICTS": _VERDICTS}
        self._scripts = Scripts(client, constants)
        self._history = History(self._scripts)
        self._held = HeldImages()
        self._own_runs: dict[str, str] = {}
        self._follower = AsyncFollower(async_client, self._scripts.place) if async_client else None

    def _on(self, thread_id: str, script: str, *args: Arg, lists: Sequence[str] = ()) -> Command:
        return self._scripts.script(script, [self._keys.base(thread_id), *lists], *args)

    def _watch(self, thread_id: str, delay_ms: int, *from_ms: int) -> Command:
        return self._scripts.script("watch", self._keys.due, thread_id, delay_ms, *from_ms)

    def _run(self, *commands: Command) -> Any:
        """Send commands in one trip; return the reply of the last."""
        return self._scripts.run(*commands)[-1]

    # -- admission

    def admit(self, run: NewRun) -> Admission:
        """See :meth:`Store.admit`."""
        registered, asked_ms = self._run(self._registry("register_run", run))
        owner = replies.text(registered)
        if owner != run.thread_id:
            return Admission(AdmissionOutcome.RUN_ID_TAKEN, holder=owner)
        admission = replies.admission(run.thread_id, self._run(*self._admission(run, int(asked_ms))))
        if admission.outcome not in _TAKEN_IN or admission.holder:  # no run has this id: it is refused, or an answer's
            self._run(self._registry("release_run", run))
        else:
            self._note_own(run)
        return admission

    def _note_own(self, run: NewRun) -> None:
        """Whoever submitted a run asks for it next: where it is need not be looked up."""
        if len(self._own_runs) >= _OWN_RUNS:
            self._own_runs.clear()
        self._own_runs[run.run_id] = run.thread_id

    def _registry(self, script: str, run: NewRun) -> Command:
        return self._scripts.script(script, [self._keys.runs], run.run_id, run.thread_id)

    def _admission(self, run: NewRun, asked_ms: int) -> Iterator[Command]:
        first_look_ms = run.delay_ms or min(self._watch_ms, run.timeout_ms or self._watch_ms)
        yield self._watch(run.thread_id, first_look_ms, asked_ms)
        if run.kind is InputKind.MESSAGE:  # what can be continued is listed already
            yield self._list_thread(run.thread_id, "NX")
        lists, messages = _message_args(run.messages)
        yield self._on(
            run.thread_id,
            "admit",
            *(run.run_id, run.user_id, run.graph, run.graph_version, run.kind, run.digest, run.strategy),
            *(run.delay_ms, run.timeout_ms, run.request, run.input, run.events, asked_ms, run.nonce),
            *(run.checkpoint, run.meta),
            *(part for spec in (run.start, run.resume, run.advance) for part in _spec_args(spec)[1:]),
            *messages,
            lists=lists,
        )

    def _list_thread(self, thread_id: str, how: str) -> Command:
        return self._scripts.script("list_thread", [self._keys.threads], thread_id, how)

    # -- a task's attempt

    def claim(
        self,
        ref: TaskRef,
        nonce: str,
        *,
        worker: str,
        lease_ms: int,
        known: StateImage | None,
        events: bytes,
        suspect_pause_ms: int = 0,
    ) -> Claim | Refusal:
        """See :meth:`Store.claim`."""
        who = (nonce, worker, lease_ms, events, suspect_pause_ms)
        claimed = self._on(ref.thread_id, "claim", *_ref_args(ref), ref.attempt, *who, *known_args(known))
        watch = (self._watch(ref.thread_id, suspect_pause_ms),) if suspect_pause_ms else ()
        reply = self._run(*watch, claimed)
        if isinstance(reply, bytes):
            return Refusal(replies.text(reply))
        try:
            claim = self._claim(ref, reply, known)
        except KeyError:
            return Refusal("the thread is gone")
        self._held.hold(nonce, claim.image)
        return claim

    def _claim(self, ref: TaskRef, reply: Sequence[Any], known: StateImage | None) -> Claim:
        base = self._keys.base(ref.thread_id)
        return replies.claim(ref, reply, known, partial(self._history.items, base))

    def renew(self, ref: TaskRef, token: str, *, lease_ms: int, leaving: bool = False) -> Renewal:
        """See :meth:`Store.renew`."""
        args = (*_ref_args(ref), token, lease_ms, int(leaving))
        alive, *stop = self._run(self._on(ref.thread_id, "renew", *args))
        return Renewal(bool(alive), replies.text(stop[0]) if stop else "")

    def commit(self, ref: TaskRef, token: str, update: bytes, *, lease_ms: int, events: bytes) -> Committed:
        """See :meth:`Store.commit`."""
        known = self._held.get(token)
        args = (*_ref_args(ref), token, lease_ms, update, events, *known_args(known))
        accepted, *rest = self._run(self._on(ref.thread_id, "commit", *args))
        if not accepted:
            return Committed(accepted=False)
        if len(rest) == 2:
            return Committed(True, self._claim(ref, rest[1], known))
        return Committed(True, dispatch=replies.dispatches(ref.thread_id, rest[0]))

    def advance(self, ref: TaskRef, token: str, advance: Advance) -> Advanced:
        """See :meth:`Store.advance`."""
        lists, messages = _message_args(advance.messages)
        args = (*_ref_args(ref), token, *_advance_args(advance), *messages)
        written = self._on(ref.thread_id, "advance", *args, lists=lists)
        # A thread is listed by its last change; where its steps follow at once, the last of them says so.
        listed = () if advance.claim else (self._list_thread(ref.thread_id, "XX"),)
        accepted, *rest = self._scripts.run(written, *listed)[0]
        self._held.drop(token)
        if not accepted:
            return Advanced(accepted=False)
        number, nonce, status, ready, taken = rest
        if advance.claim and not taken:
            self._run(self._list_thread(ref.thread_id, "XX"))
        version = Version(int(number), replies.text(nonce))
        dispatch = replies.dispatches(ref.thread_id, ready)
        return Advanced(True, version, RunStatus(replies.text(status)), dispatch, self._next_claim(ref, advance, taken))

    def _next_claim(self, ref: TaskRef, advance: Advance, reply: Any) -> Claim | None:
        if not reply or advance.claim is None:
            return None
        claim = self._claim(TaskRef(ref.thread_id, ref.run_id, advance.step, ref.task, 1), reply, advance.claim.image)
        self._held.hold(claim.token, claim.image)
        return claim

    def settle(self, ref: TaskRef, token: str, settlement: Settlement) -> Settled:
        """See :meth:`Store.settle`."""
        questions = [part for asked in settlement.interrupts for part in (asked.id, asked.task, asked.body)]
        what = (settlement.status, settlement.delay_ms, settlement.reason, settlement.error, settlement.events)
        settled = self._on(ref.thread_id, "settle", *_ref_args(ref), token, *what, *questions)
        is_retry = settlement.status is TaskStatus.RETRY_WAIT
        watch = (self._watch(ref.thread_id, settlement.delay_ms),) if is_retry else ()
        accepted, *ready = self._run(*watch, settled)
        self._held.drop(token)
        return Settled(bool(accepted), replies.dispatches(ref.thread_id, ready[0]) if ready else ())

    def give_back(self, ref: TaskRef, *, reason: str, pause_ms: int) -> bool:
        """See :meth:`Store.give_back`."""
        given = self._on(ref.thread_id, "give_back", *_ref_args(ref), ref.attempt, reason, pause_ms)
        return bool(self._run(self._watch(ref.thread_id, pause_ms), given))

    def hand_back(self, ref: TaskRef, token: str) -> Settled:
        """See :meth:`Store.hand_back`."""
        accepted, *ready = self._run(self._on(ref.thread_id, "hand_back", *_ref_args(ref), token))
        self._held.drop(token)
        return Settled(bool(accepted), replies.dispatches(ref.thread_id, ready[0]) if ready else ())

    def emit(self, emissions: Sequence[Emission]) -> Sequence[bool | StorageError]:
        """See :meth:`Store.emit`."""
        found = self._scripts.run_each(*map(self._emission, emissions))
        return [reply if isinstance(reply, StorageError) else bool(reply) for reply in found]

    def _emission(self, told: Emission) -> Command:
        return self._on(told.ref.thread_id, "emit", *_ref_args(told.ref), told.token, told.number, told.events)

    # -- effects

    def reserve(
        self, ref: TaskRef, token: str, key: str, nonce: str, *, lease_ms: int, at_most_once: bool
    ) -> Reservation:
        """See :meth:`Store.reserve`."""
        args = (*_ref_args(ref), token, key, nonce, lease_ms, int(at_most_once))
        return replies.reservation(self._run(self._on(ref.thread_id, "reserve", *args)))

    def renew_effect(self, thread_id: str, key: str, nonce: str, *, lease_ms: int) -> bool:
        """See :meth:`Store.renew_effect`."""
        return bool(self._run(self._on(thread_id, "renew_effect", key, nonce, lease_ms)))

    def release_effect(self, thread_id: str, key: str, nonce: str) -> bool:
        """See :meth:`Store.release_effect`."""
        return bool(self._run(self._on(thread_id, "release_effect", key, nonce)))

    def record(self, thread_id: str, key: str, nonce: str, result: bytes) -> bool:
        """See :meth:`Store.record`."""
        return bool(self._run(self._on(thread_id, "record", key, nonce, result)))

    def turn(self, what: str, nonce: str, *, limit: int, period_ms: int) -> int:
        """See :meth:`Store.turn`."""
        return int(self._run(self._scripts.script("turn", [self._keys.line(what)], nonce, limit, period_ms)))

    # -- media

    def put_media(self, ref: TaskRef, token: str, media_id: str, data: bytes) -> bool:
        """See :meth:`Store.put_media`."""
        return bool(self._run(self._on(ref.thread_id, "put_media", *_ref_args(ref), token, media_id, data)))

    def media(self, thread_id: str, media_id: str) -> bytes | None:
        """See :meth:`Store.media`."""
        data: bytes | None = self._run(("HGET", key_of(self._keys.base(thread_id), "media"), media_id))
        return data

    # -- people

    def resume(self, resume: Resume) -> Resumed:
        """See :meth:`Store.resume`."""
        answers = [part for answer in resume.answers.items() for part in answer]
        args = (resume.run_id, resume.resume_id, resume.digest, resume.input, resume.events, *answers)
        watch = self._watch(resume.thread_id, self._watch_ms)
        accepted, missing, *rest = self._run(watch, self._on(resume.thread_id, "resume", *args))
        if not accepted:
            return Resumed(False, tuple(map(replies.text, missing)))
        after, ready = rest
        return Resumed(True, (), replies.text(after), replies.dispatches(resume.thread_id, ready))

    def resumed(self, thread_id: str, resume_id: str) -> ResumeView | None:
        """See :meth:`Store.resumed`."""
        return replies.resumption(self._run(self._on(thread_id, "resumed", resume_id)))

    def stop(self, thread_id: str, run_id: str, *, events: bytes) -> StopAnswer:
        """See :meth:`Store.stop`."""
        return self._end(thread_id, "stop", run_id, events)

    def cancel(self, thread_id: str, run_id: str, *, reason: str, error: bytes, events: bytes) -> StopAnswer:
        """See :meth:`Store.cancel`."""
        return self._end(thread_id, "cancel", run_id, reason, error, events)

    def _end(self, thread_id: str, script: str, *args: Arg) -> StopAnswer:
        # The run may have waited, unwatched, for a person: the one that starts in its place must not.
        status, ready = self._run(self._watch(thread_id, self._watch_ms), self._on(thread_id, script, *args))
        known = RunStatus(replies.text(status)) if status else None
        return StopAnswer(known, replies.dispatches(thread_id, ready))

    # -- a thread beside its runs

    def fork(self, thread: NewThread) -> bool:
        """See :meth:`Store.fork`."""
        whose = (thread.graph, thread.graph_version, thread.user_id)
        media = [part for pair in thread.media.items() for part in pair]
        args = (*whose, thread.nonce, *_point_args(thread), *media)
        listed = self._list_thread(thread.thread_id, "NX")
        watch = self._watch(thread.thread_id, self._watch_ms)
        return bool(self._run(watch, listed, self._on(thread.thread_id, "fork", *args)))

    def edit(self, edit: Edit) -> Edited:
        """See :meth:`Store.edit`."""
        args = (edit.run_id, edit.base.number, edit.base.nonce, edit.nonce, int(edit.replans), *_point_args(edit))
        edited = self._on(edit.thread_id, "edit", *args)
        outcome, holder = self._scripts.run(edited, self._list_thread(edit.thread_id, "XX"))[0]
        return Edited(EditOutcome(replies.text(outcome)), replies.text(holder))

    # -- time

    def due(self, limit: int, put_off_ms: int = 0) -> Sequence[DueThread]:
        """See :meth:`Store.due`."""
        flat = self._run(self._scripts.script("due", self._keys.due, limit, put_off_ms))
        return [DueThread(replies.text(thread), int(touch)) for thread, touch in replies.pairs(flat)]

    def recover(self, thread_id: str, rules: RecoveryRules) -> Recovery:
        """See :meth:`Store.recover`."""
        args = (rules.grace_ms, rules.max_deliveries, int(rules.forgive_leases), rules.max_lost_leases)
        return replies.recovery(thread_id, self._run(self._on(thread_id, "recover", *args)))

    def retain(self, thread_id: str, rules: RetentionRules) -> Retention:
        """See :meth:`Store.retain`."""
        args = (rules.keep_last, rules.keep_ms, rules.grace_ms, rules.thread_keep_ms)
        dropped, next_due, is_over = self._run(self._on(thread_id, "retain", *args))
        return Retention(dropped, int(next_due) if next_due else None, bool(is_over))

    def mark_resent(self, overdue: Overdue) -> bool:
        """See :meth:`Store.mark_resent`."""
        ref = overdue.dispatch.ref
        args = (*_ref_args(ref), ref.attempt, overdue.dispatched_ms)
        return bool(self._run(self._on(ref.thread_id, "mark_resent", *args)))

    def settle_due(self, due: DueThread, next_due_ms: int | None) -> None:
        """See :meth:`Store.settle_due`."""
        moment = "" if next_due_ms is None else next_due_ms
        self._run(self._scripts.script("settle_due", self._keys.due, due.thread_id, due.touch, moment))

    def next_due_ms(self) -> int | None:
        """See :meth:`Store.next_due_ms`."""
        first = self._run(("ZRANGE", self._keys.due[0], 0, 0))
        score = self._run(("ZSCORE", self._keys.due[0], first[0])) if first else None
        return None if score is None else int(score)

    def now_ms(self) -> int:
        """See :meth:`Store.now_ms`."""
        seconds, microseconds = self._run(("TIME",))
        return int(seconds) * 1000 + int(microseconds) // 1000

    # -- reading

    def thread(self, thread_id: str) -> ThreadView | None:
        """See :meth:`Store.thread`."""
        return self._threads([thread_id])[0]

    def _threads(self, thread_ids: Sequence[str]) -> list[ThreadView | None]:
        commands: list[Command] = []
        for base in map(self._keys.base, thread_ids):
            commands.append(("HGETALL", key_of(base, "thread")))
            commands.append(("LRANGE", key_of(base, "inbox"), 0, -1))
            commands.append(("ZRANGE", key_of(base, "delayed"), 0, -1))
        found = iter(self._scripts.run(*commands)) if commands else iter(())
        rows = zip(thread_ids, found, found, found, strict=False)
        return [replies.thread_view(*row) if row[1] else None for row in rows]

    def threads(self, *, limit: int, offset: int = 0) -> Sequence[ThreadView]:
        """See :meth:`Store.threads`."""
        ids = self._run(("ZREVRANGE", self._keys.threads, offset, offset + limit - 1)) if limit > 0 else []
        return [view for view in self._threads([replies.text(thread_id) for thread_id in ids]) if view]

    def run(self, run_id: str) -> RunView | None:
        """See :meth:`Store.run`."""
        mine = self._own_runs.get(run_id)
        if mine is not None and (found := self._runs(mine, [run_id])):
            return found[0]
        thread_id = self._thread_of(run_id)
        return next(iter(self._runs(thread_id, [run_id])), None) if thread_id is not None else None

    def _thread_of(self, run_id: str) -> str | None:
        registered = self._run(("HGET", self._keys.runs, run_id))
        return None if registered is None else replies.text(registered).partition(":")[2]

    def _runs(self, thread_id: str, run_ids: Sequence[str]) -> list[RunView]:
        base = self._keys.base(thread_id)
        keys = [key_of(base, noun, run_id) for run_id in run_ids for noun in ("run", "interrupts")]
        flat = self._run(self._scripts.script("read_hashes", keys)) if keys else []
        found = iter([dict(replies.pairs(fields)) for fields in flat])
        rows = zip(run_ids, found, found, strict=False)
        return [replies.run_view(thread_id, *row) for row in rows if row[1]]

    def runs(self, thread_id: str) -> Sequence[RunView]:
        """See :meth:`Store.runs`."""
        ids = self._run(("LRANGE", key_of(self._keys.base(thread_id), "runs"), 0, -1))
        return self._runs(thread_id, [replies.text(run_id) for run_id in ids])

    def tasks(self, run_id: str) -> Sequence[TaskView]:
        """See :meth:`Store.tasks`."""
        thread_id = self._thread_of(run_id)
        if thread_id is None:
            return []
        return replies.task_views(self._run(("HGETALL", key_of(self._keys.base(thread_id), "tasks", run_id))))

    def image(self, thread_id: str, version: int | None = None, known: StateImage | None = None) -> StateImage:
        """See :meth:`Store.image`."""
        base = self._keys.base(thread_id)
        return self._history.newest(base, known) if version is None else self._history.at(base, version)

    def log(self, thread_id: str, name: str, *, offset: int, limit: int, home: int | None = None) -> Sequence[bytes]:
        """See :meth:`Store.log`."""
        base = self._keys.base(thread_id)
        homes = self._history.homes(base, name) if home is None else [home]
        return self._history.log(base, name, homes, offset, limit)

    def checkpoint(self, thread_id: str, version: int | None = None) -> Checkpoint | None:
        """See :meth:`Store.checkpoint`."""
        found = self.checkpoints(thread_id, limit=1, before=None if version is None else version + 1)
        return found[0] if found and version in (None, found[0].version.number) else None

    def checkpoints(self, thread_id: str, *, limit: int, before: int | None = None) -> Sequence[Checkpoint]:
        """See :meth:`Store.checkpoints`."""
        return self._history.checkpoints(self._keys.base(thread_id), limit=limit, before=before)

    def events(self, thread_id: str, run_id: str, after: str, *, timeout_s: float) -> Sequence[StoredEvents]:
        """See :meth:`Store.events`. At most 1,000 at a time."""
        return follow(self._scripts, key_of(self._keys.base(thread_id), "events", run_id), after, timeout_s)

    async def aevents(self, thread_id: str, run_id: str, after: str, *, timeout_s: float) -> Sequence[StoredEvents]:
        """See :meth:`Store.aevents`. At most 1,000 at a time."""
        if self._follower is None:
            return await asyncio.to_thread(self.events, thread_id, run_id, after, timeout_s=timeout_s)
        key = key_of(self._keys.base(thread_id), "events", run_id)
        return await self._follower.follow(key, after, timeout_s)

    def keeps_event(self, thread_id: str, run_id: str, event_id: str) -> bool:
        """See :meth:`Store.keeps_event`."""
        key = key_of(self._keys.base(thread_id), "events", run_id)
        return bool(self._scripts.run(("XRANGE", key, event_id, event_id))[0])

    def delete_thread(self, thread_id: str, *, rested_ms: int = 0) -> bool:
        """See :meth:`Store.delete_thread`."""
        deleted = self._on(thread_id, "delete_thread", rested_ms)
        touch, reply = self._scripts.run(("HGET", self._keys.due[1], thread_id), deleted)
        existed, run_ids = reply or (0, ())
        if not existed and not run_ids:
            return False
        # A run that is admitted meanwhile touches the thread, and keeps it due.
        runs_key = key_of(self._keys.base(thread_id), "runs")
        self._scripts.run(
            self._scripts.script("settle_due", self._keys.due, thread_id, touch or "", ""),
            ("ZREM", self._keys.threads, thread_id),
            *(("HDEL", self._keys.runs, run_id) for run_id in run_ids),
            *(("LREM", runs_key, 1, run_id) for run_id in run_ids),
        )
        return True

    def close(self) -> None:
        """See :meth:`Store.close`."""
        self._scripts.client.close()
        if self._follower is not None:
            self._follower.close()


def _ref_args(ref: TaskRef) -> tuple[Arg, Arg, Arg]:
    return ref.run_id, ref.step, ref.task


def _spec_args(spec: TaskSpec) -> tuple[Arg, ...]:
    return spec.task, spec.node, spec.queue, spec.priority, spec.body


def _advance_args(advance: Advance) -> list[Arg]:
    base, patch, taker = advance.base, advance.patch, advance.claim
    return [
        *(base.number, base.nonce, advance.nonce, advance.step, advance.status, advance.plan, advance.reason),
        *(advance.wait, advance.error, advance.meta, advance.events),
        *(len(patch.values), len(patch.appends) + len(patch.rewrites) + len(patch.cuts), len(advance.tasks)),
        *(("", "", 0, "") if taker is None else (taker.nonce, taker.worker, taker.lease_ms, taker.events)),
        *_patch_args(patch),
        *(part for spec in advance.tasks for part in _spec_args(spec)),
    ]


def _message_args(messages: Sequence[QueueMessage]) -> tuple[list[str], list[Arg]]:
    """Return the lists of the broker, and for each of them how many messages follow, and these."""
    by_list: dict[str, list[str]] = {}
    for message in messages:
        by_list.setdefault(message.key, []).append(message.payload)
    args: list[Arg] = []
    for payloads in by_list.values():
        args += (len(payloads), *payloads)
    return list(by_list), args


def _point_args(point: NewThread | Edit) -> list[Arg]:
    patch = point.patch
    return [
        *(point.step, point.status, point.wait, point.plan, point.meta),
        *(len(patch.values), len(patch.appends) + len(patch.rewrites) + len(patch.cuts), len(point.tasks)),
        *_patch_args(patch),
        *(part for spec in point.tasks for part in _spec_args(spec)),
    ]


def _patch_args(patch: Patch) -> Iterator[Arg]:
    for name, value in patch.values.items():
        yield from (name, value)
    for how, lists in (("append", patch.appends), ("rewrite", patch.rewrites)):
        for name, items in lists.items():
            yield from (name, how, len(items))
            yield from items
    for name, cut in patch.cuts.items():
        yield from (name, "cut", len(cut.items), cut.origin.to_text())
        yield from cut.items
