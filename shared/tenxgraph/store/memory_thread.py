"""A thread in memory, and the moves of its runs: the rules that the Redis store keeps in Lua."""

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tenxgraph.core.graph.run_status import RunStatus, check_move
from tenxgraph.core.state.image import ItemLog, Origin, Patch, StateImage, Version, apply
from tenxgraph.store.base import (
    PLAN,
    Advance,
    Checkpoint,
    Dispatch,
    InputKind,
    Interrupt,
    NewRun,
    ResumeView,
    RunView,
    StoredEvents,
    TaskRef,
    TaskSpec,
    TaskStatus,
    TaskView,
    ThreadView,
    WaitKind,
)
from tenxgraph.store.memory_effects import Effect

CONTINUABLE = frozenset({RunStatus.FAILED, RunStatus.STOPPED, RunStatus.DEAD})
_TO_QUEUE_AGAIN = frozenset({TaskStatus.FAILED, TaskStatus.PARKED})


@dataclass(slots=True)
class Task:
    """A task of the run's current step. ``until_ms`` is the end of its lease, or of its wait."""

    spec: TaskSpec
    status: TaskStatus = TaskStatus.QUEUED
    attempt: int = 1
    token: str = ""
    worker: str = ""
    until_ms: int = 0
    dispatched_ms: int = 0
    resends: int = 0
    deaths: int = 0
    lost: int = 0
    given_back: int = 0
    first_started_ms: int = 0
    error: bytes = b""
    leaving: bool = False
    emitted: int = 0

    def queue(self, now_ms: int, *, attempt: int | None = None) -> None:
        """Make the task ready for a worker."""
        self.status, self.dispatched_ms, self.resends = TaskStatus.QUEUED, now_ms, 0
        if attempt is not None:
            self.attempt = attempt

    def park(self) -> None:
        """Keep the task for a continuation; a running attempt is fenced."""
        self.status, self.token = TaskStatus.PARKED, ""


@dataclass(slots=True)
class Run:
    """A run and its current step."""

    new: NewRun
    created_ms: int
    status: RunStatus = RunStatus.QUEUED
    reason: str = ""
    step: int = 0
    first_step: int = 0
    version: int = 0
    base: int = 0
    superseded: str = ""
    journal: str = ""
    origin: str = ""
    continues: str = ""
    input: bytes = b""
    plan: bytes = b""
    error: bytes = b""
    wait: str = ""
    stop: str = ""
    deadline_ms: int = 0
    started_ms: int = 0
    ended_ms: int = 0
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    updates: dict[str, bytes] = field(default_factory=dict[str, bytes])
    interrupts: dict[str, Interrupt] = field(default_factory=dict[str, Interrupt])
    outcomes: dict[tuple[str, str], TaskStatus] = field(default_factory=dict[tuple[str, str], TaskStatus])
    died: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    handed_back: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    resumes: dict[str, ResumeView] = field(default_factory=dict[str, ResumeView])
    events: list[StoredEvents] = field(default_factory=list[StoredEvents])

    def move_to(self, status: RunStatus) -> None:
        """Change the status: the one place where that is done."""
        if status is not self.status or status.is_terminal:
            check_move(self.status, status)
            self.status = status

    @property
    def last_event(self) -> str:
        """Id of the newest event, or ""."""
        return self.events[-1].id if self.events else ""

    @property
    def node_tasks(self) -> dict[str, Task]:
        """The step's tasks that run nodes, in plan order."""
        return {name: task for name, task in self.tasks.items() if name != PLAN}

    def view(self) -> RunView:
        """The run as the port shows it."""
        new = self.new
        return RunView(
            thread_id=new.thread_id,
            run_id=new.run_id,
            graph=new.graph,
            graph_version=new.graph_version,
            user_id=new.user_id,
            status=self.status,
            reason=self.reason,
            step=self.step,
            first_step=self.first_step,
            version=self.version,
            origin=self.origin or new.run_id,
            continues=self.continues,
            request=new.request,
            input=self.input,
            plan=self.plan,
            error=self.error,
            wait=self.wait,
            interrupts=tuple(self._questions()),
            created_ms=self.created_ms,
            started_ms=self.started_ms,
            ended_ms=self.ended_ms,
            journal=self.journal,
        )

    def _questions(self) -> list[Interrupt]:
        # In plan order: which sibling asked first is chance.
        places = {name: place for place, name in enumerate(self.tasks)}
        return sorted(self.interrupts.values(), key=lambda asked: places[asked.task])

    def task_views(self) -> list[TaskView]:
        """The tasks as the port shows them."""
        return [
            TaskView(
                task=name,
                node=task.spec.node,
                queue=task.spec.queue,
                status=task.status,
                attempt=task.attempt,
                deaths=task.deaths,
                worker=task.worker,
                until_ms=task.until_ms,
                error=task.error,
                body=task.spec.body,
            )
            for name, task in self.tasks.items()
        ]


@dataclass(slots=True)
class Thread:
    """A thread: its versions, its active run and those that wait for it."""

    thread_id: str
    graph: str
    graph_version: str
    user_id: str
    created_ms: int
    changed_ms: int
    active: str = ""
    continuable: str = ""
    last: str = ""
    ready: int = 0
    journal: str = ""
    idle_ms: int = 0
    inbox: deque[str] = field(default_factory=deque[str])
    delayed: dict[str, int] = field(default_factory=dict[str, int])
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    images: dict[int, StateImage] = field(default_factory=lambda: {0: StateImage()})
    logs: dict[str, dict[int, list[bytes]]] = field(default_factory=dict[str, dict[int, list[bytes]]])
    media: dict[str, bytes] = field(default_factory=dict[str, bytes])
    checkpoints: list[Checkpoint] = field(default_factory=list[Checkpoint])
    effects: dict[str, Effect] = field(default_factory=dict[str, Effect])

    @property
    def image(self) -> StateImage:
        """The newest state."""
        return self.images[next(reversed(self.images))]

    @property
    def version(self) -> Version:
        """The newest version."""
        return self.image.version

    @property
    def active_run(self) -> Run | None:
        """The run that owns the thread."""
        return self.runs.get(self.active)

    @property
    def is_at_rest(self) -> bool:
        """Whether no run is active, queued or delayed."""
        return not (self.active or self.inbox or self.delayed)

    @property
    def rested_since_ms(self) -> int:
        """Since when nothing happened on the thread."""
        return max(self.idle_ms, self.changed_ms)

    def has(self, version: Version) -> bool:
        """Tell whether this version was written."""
        return version.number in self.images and self.images[version.number].version == version

    def view(self) -> ThreadView:
        """The thread as the port shows it."""
        return ThreadView(
            self.thread_id,
            self.graph,
            self.graph_version,
            self.user_id,
            self.version,
            self.active,
            self.continuable,
            self.last,
            (*self.inbox, *self.delayed),
            self.created_ms,
            self.changed_ms,
            bool(self.ready),
        )

    def dispatch(self, names: Iterator[str] | None = None) -> tuple[Dispatch, ...]:
        """Messages for the active run's queued tasks (all of them, or those named)."""
        run = self.active_run
        if run is None:
            return ()
        chosen = list(run.tasks) if names is None else list(names)
        return tuple(self.dispatch_of(run, name) for name in chosen if run.tasks[name].status is TaskStatus.QUEUED)

    def freed_by(self, run_id: str) -> tuple[Dispatch, ...]:
        """Messages of the run that started when this one ended."""
        return self.dispatch() if self.last == run_id and self.active != run_id else ()

    def dispatch_of(self, run: Run, name: str) -> Dispatch:
        """The message of one task."""
        task, new = run.tasks[name], run.new
        ref = TaskRef(self.thread_id, new.run_id, run.step, name, task.attempt)
        return Dispatch(
            ref, task.spec.node, task.spec.queue, task.spec.priority, new.graph, new.graph_version, self.version
        )

    def add_events(self, run: Run, now_ms: int, body: bytes) -> None:
        """Append to the run's stream under the next id."""
        if body:
            run.events.append(StoredEvents(f"{len(run.events) + 1}-0", now_ms, body))

    def _add_run_end(self, run: Run, now_ms: int) -> None:
        body = f'{{"event":"run_end","step":{run.step},"data":{{"status":"{run.status}"}}}}'
        self.add_events(run, now_ms, body.encode())

    def start(self, run: Run, now_ms: int) -> None:
        """Give the thread to a run; one that finds nothing left to continue fails at once."""
        if run.new.kind is InputKind.CONTINUE and not (self.continuable or self.ready):
            run.reason = "nothing to continue"
            self.end_waiting(run, RunStatus.FAILED, now_ms)
            self._start_next(now_ms)
            return
        self.active = run.new.run_id
        self.graph_version = run.new.graph_version
        run.version, run.journal = self.version.number, self.journal
        run.base = run.base or self.version.number  # one that goes back began before it did
        run.deadline_ms = now_ms + run.new.timeout_ms if run.new.timeout_ms else 0
        self.add_events(run, now_ms, run.new.events)
        if run.new.kind is InputKind.CONTINUE and self.continuable:
            self._take_over(run, self.runs[self.continuable], now_ms)
        elif run.new.kind is InputKind.CONTINUE:
            self._take_checkpoint(run, self.point(self.ready), now_ms)
        else:
            run.tasks = {PLAN: Task(run.new.start, dispatched_ms=now_ms)}
            self.drop_parked()
        self.continuable, self.ready = "", 0

    def drop_parked(self) -> None:
        """A new message drops what a failed or stopped run left behind."""
        if old := self.runs.get(self.continuable):
            old.tasks, old.updates, old.interrupts = {}, {}, {}

    def _take_checkpoint(self, run: Run, point: Checkpoint, now_ms: int) -> None:
        """Begin where a checkpoint stands, with an attempt of its own at each of the next tasks."""
        run.step = run.first_step = point.step
        run.plan, run.wait = point.plan, point.wait
        run.tasks = {spec.task: Task(spec, dispatched_ms=now_ms) for spec in point.tasks}
        if not run.tasks:
            run.tasks[PLAN] = Task(run.new.resume, dispatched_ms=now_ms)

    def _take_over(self, run: Run, old: Run, now_ms: int) -> None:
        run.continues, run.origin = old.new.run_id, old.origin or old.new.run_id
        run.step = run.first_step = old.step
        run.plan, run.wait, run.input = old.plan, old.wait, old.input
        run.tasks, run.updates, run.interrupts = old.tasks, old.updates, old.interrupts
        old.tasks, old.updates, old.interrupts = {}, {}, {}
        # Beside a plan task all others are committed, or parked until it has planned them anew.
        again = [run.tasks[PLAN]] if PLAN in run.tasks else list(run.tasks.values())
        for task in again:
            if task.status in _TO_QUEUE_AGAIN:
                task.deaths = task.lost = task.given_back = task.first_started_ms = 0
                task.queue(now_ms, attempt=1)
        if not any(task.status is TaskStatus.QUEUED for task in run.tasks.values()):
            self._take_up(run, now_ms)

    def _take_up(self, run: Run, now_ms: int) -> None:
        """Nothing of the old step is left to run: ask on, advance, or take up a pause."""
        if any(task.status is TaskStatus.WAITING for task in run.tasks.values()):
            self.wait(run, WaitKind.QUESTION, now_ms)
        else:
            spec = run.new.advance if run.node_tasks else run.new.resume
            run.tasks[PLAN] = Task(spec, dispatched_ms=now_ms)

    def end(self, run: Run, status: RunStatus, now_ms: int, error: bytes = b"") -> None:
        """End the active run, fence its step, and start the next one."""
        run.move_to(status)
        run.error, run.ended_ms = error or run.error, now_ms
        if status is RunStatus.STOPPED and run.superseded:
            run.reason = f"superseded by {run.superseded}"
        self.active, self.last, self.idle_ms = "", run.new.run_id, now_ms
        if status in CONTINUABLE:
            self.continuable = run.new.run_id
            for task in run.tasks.values():
                if not task.status.is_settled:
                    task.park()
        else:
            run.tasks, run.updates, run.interrupts = {}, {}, {}
        self._add_run_end(run, now_ms)
        self._start_next(now_ms)

    def _start_next(self, now_ms: int) -> None:
        if self.inbox:
            self.start(self.runs[self.inbox.popleft()], now_ms)

    def end_waiting(self, run: Run, status: RunStatus, now_ms: int, error: bytes = b"") -> None:
        """End a run that still waits for the thread."""
        if run.new.run_id in self.inbox:
            self.inbox.remove(run.new.run_id)
        self.delayed.pop(run.new.run_id, None)
        run.move_to(status)
        run.error, run.ended_ms = error, now_ms
        self._add_run_end(run, now_ms)

    def wait(self, run: Run, kind: str, now_ms: int) -> None:
        """Let the run wait for a person."""
        run.move_to(RunStatus.WAITING)
        run.wait = kind
        self._add_run_end(run, now_ms)

    def stop(self, run: Run, now_ms: int) -> None:
        """Let the active run's step in flight commit and plan no further; end the run at once when none is."""
        run.stop = "stop"
        in_flight = {TaskStatus.CLAIMED, TaskStatus.COMMITTED}
        if run.status is RunStatus.WAITING or not any(t.status in in_flight for t in run.tasks.values()):
            self.end(run, RunStatus.STOPPED, now_ms)
            return
        run.move_to(RunStatus.STOPPING)
        for task in run.tasks.values():
            if task.status is TaskStatus.RETRY_WAIT:
                task.status = TaskStatus.PARKED
        self.close_step(run, now_ms)

    def close_step(self, run: Run, now_ms: int) -> None:
        """End or pause the run when its step has nothing left to run and cannot advance."""
        tasks = run.tasks.values()
        if any(not task.status.is_settled for task in tasks):
            return
        failed = [task for task in tasks if task.status is TaskStatus.FAILED]
        if failed:
            self.end(run, RunStatus.FAILED, now_ms, failed[0].error)
        elif run.stop and any(task.status is not TaskStatus.COMMITTED for task in tasks):
            self.end(run, RunStatus.STOPPED, now_ms)
        elif any(task.status is TaskStatus.WAITING for task in tasks):
            self.wait(run, WaitKind.QUESTION, now_ms)

    def discard(self, run: Run, task: Task, now_ms: int) -> None:
        """End a claimed attempt without its worker's word."""
        node = json.dumps(task.spec.node, ensure_ascii=False)
        where = f'"step":{run.step},"node":{node},"task":"{task.spec.task}","attempt":{task.attempt}'
        self.add_events(run, now_ms, f'{{"event":"attempt_discarded",{where}}}'.encode())
        task.token = ""

    def try_again(self, run: Run, task: Task, now_ms: int) -> None:
        """Let the next attempt begin, unless the run is to stop."""
        if run.stop and task.spec.task != PLAN:
            task.park()
            self.close_step(run, now_ms)
        else:
            task.queue(now_ms, attempt=task.attempt + 1)

    def take(self, run: Run, task: Task, nonce: str, worker: str, until_ms: int, now_ms: int, events: bytes) -> None:
        """Give the task to a worker; its nonce becomes the token."""
        task.status, task.token, task.worker, task.until_ms = TaskStatus.CLAIMED, nonce, worker, until_ms
        task.first_started_ms, task.leaving, task.emitted = task.first_started_ms or now_ms, False, 0
        run.started_ms = run.started_ms or now_ms
        if run.status is RunStatus.QUEUED:
            run.move_to(RunStatus.RUNNING)
        run.reason = ""
        self.add_events(run, now_ms, events)

    def put_aside(self, run: Run, task: Task, reason: str, pause_ms: int, now_ms: int) -> None:
        """Let a ready task wait, unless the run is to stop."""
        task.status = TaskStatus.PARKED if run.stop else TaskStatus.RETRY_WAIT
        task.until_ms = now_ms + pause_ms
        task.given_back += 1
        run.reason = reason
        self.close_step(run, now_ms)

    def write_step(self, run: Run, advance: Advance, now_ms: int) -> None:
        """Write what a step changed."""
        version = Version(advance.base.number + 1, advance.nonce)
        self.write(advance.patch, version)
        self.changed_ms = now_ms
        self.add_events(run, now_ms, advance.events)
        run.version, run.step, run.plan, run.reason = version.number, advance.step, advance.plan, advance.reason
        run.input, run.wait, run.updates, run.interrupts = b"", "", {}, {}
        run.tasks = {spec.task: Task(spec, TaskStatus.PARKED) for spec in advance.tasks}
        self._go_on(run, advance, now_ms)
        comes_next = (advance.tasks, advance.plan, advance.wait)
        point = Checkpoint(version, run.new.run_id, advance.step, run.status, advance.meta, now_ms, *comes_next)
        self.checkpoints.append(point)

    def point(self, number: int) -> Checkpoint:
        """The record of a version that is kept."""
        return next(point for point in self.checkpoints if point.version.number == number)

    def go_back(self, run: Run, now_ms: int) -> None:
        """Let a run that begins go back to a checkpoint first; without effect where the thread stands there."""
        new = run.new
        stands_there, continues = new.checkpoint == self.version.number, new.kind is InputKind.CONTINUE
        if stands_there and (self.continuable or self.ready or not continues):
            return
        self.drop_parked()
        run.base, was = self.version.number, self.point(new.checkpoint)
        if not stands_there:
            run.step = was.step
            self.return_to(new.checkpoint, new.nonce, run, RunStatus.RUNNING, new.meta, now_ms)
            comes_next = (was.tasks, was.plan, was.wait) if continues else ((), b"", "")
            tasks, plan, wait = comes_next
            self.checkpoints[-1] = replace(self.checkpoints[-1], tasks=tasks, plan=plan, wait=wait)
            run.step = 0
        self.continuable, self.ready, self.journal = "", new.checkpoint if continues else 0, new.run_id

    def return_to(self, number: int, nonce: str, run: Run, status: RunStatus, meta: bytes, now_ms: int) -> None:
        """Write the next version with all that the thread held at an older one."""
        version, old, new = Version(self.version.number + 1, nonce), self.images[number], self.image
        lists = {
            name: log if _same_place(log, new.lists.get(name)) else self._cut_back(name, log, version.number)
            for name, log in old.lists.items()
        }
        self.images[version.number] = StateImage(version, old.values, lists)
        self.changed_ms = now_ms
        self.checkpoints.append(Checkpoint(version, run.new.run_id, run.step, status, meta, now_ms))

    def _cut_back(self, name: str, log: ItemLog, gen: int) -> ItemLog:
        """What the list held then, where its items lie; what was appended since stays in between."""
        home = log.origin.home
        return ItemLog(list(log), gen, Origin(home, len(self.logs[name][home]), log.origin.places(0, log.length)))

    def write(self, patch: Patch, version: Version) -> None:
        """Write the next version."""
        self.images[version.number] = apply(self.image, patch, version)
        self._note_items(patch)

    def _note_items(self, patch: Patch) -> None:
        cut = ((name, each.items) for name, each in patch.cuts.items())
        for name, items in (*patch.appends.items(), *patch.rewrites.items(), *cut):
            homes = self.logs.setdefault(name, {})
            homes.setdefault(self.image.lists[name].origin.home, []).extend(items)

    def _go_on(self, run: Run, advance: Advance, now_ms: int) -> None:
        if advance.status is RunStatus.FAILED:
            self.end(run, RunStatus.FAILED, now_ms, advance.error)
        elif run.stop:
            run.wait = advance.wait
            self.end(run, RunStatus.STOPPED, now_ms)
        elif advance.status is RunStatus.WAITING:
            self.wait(run, advance.wait, now_ms)
        elif advance.status is RunStatus.RUNNING:
            for task in run.tasks.values():
                task.queue(now_ms)
        else:
            self.end(run, advance.status, now_ms, advance.error)

    def ask(self, run: Run, task: Task, interrupts: tuple[Interrupt, ...], now_ms: int) -> None:
        """Record a task's questions. One that was answered meanwhile lets the task run again at once."""
        for asked in interrupts:
            known = run.interrupts.get(asked.id)
            run.interrupts[asked.id] = replace(asked, answer=known.answer) if known else asked
        if any(run.interrupts[asked.id].answer is not None for asked in interrupts):
            task.queue(now_ms, attempt=task.attempt + 1)
        else:
            task.status = TaskStatus.WAITING


def _same_place(old: ItemLog, new: ItemLog | None) -> bool:
    return new is not None and (old.gen, old.length) == (new.gen, new.length)
