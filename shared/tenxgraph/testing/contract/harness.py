"""What the contract needs of the store under test, and the moves that its tests are told in."""

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any, Protocol, TypeVar

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch
from tenxgraph.store.base import (
    Admission,
    AdmissionOutcome,
    Advance,
    Advanced,
    Claim,
    Committed,
    Dispatch,
    DueThread,
    Emission,
    InputKind,
    Interrupt,
    NewRun,
    Recovery,
    RecoveryRules,
    Refusal,
    Resume,
    Resumed,
    RunView,
    Settled,
    Settlement,
    StopAnswer,
    Store,
    TaskRef,
    TaskSpec,
    TaskStatus,
    TaskView,
    ThreadView,
)
from tenxgraph.store.memory import MemoryStore

LONG_MS = 600_000
"""A lease, grace or delay that ends in no test."""

SHORT_MS = 40
"""One that a test waits for."""

RULES = RecoveryRules(grace_ms=LONG_MS, max_deliveries=3)

_T = TypeVar("_T")


class StoreHarness(Protocol):
    """A fresh store and its time.

    Attributes:
        store: Empty at the start of each test.
        watch_ms: What the store was made with; at most a few hundred, for tests wait for it.
    """

    @property
    def store(self) -> Store:
        """See above."""
        ...

    @property
    def watch_ms(self) -> int:
        """See above."""
        ...

    def sleep_ms(self, ms: int) -> None:
        """Let the store's time pass."""
        ...


class FakeClock:
    """Milliseconds since the epoch that pass when told to."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now_ms: int = now_ms

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ms

    def sleep_ms(self, ms: int) -> None:
        """Let time pass."""
        self.now_ms += ms


class MemoryHarness:
    """A memory store, or a subclass of it, under a fake clock."""

    def __init__(self, make: Callable[..., Store] = MemoryStore, *, watch_ms: int = 100) -> None:
        self.clock: FakeClock = FakeClock()
        self.watch_ms: int = watch_ms
        self.store: Store = make(watch_ms=watch_ms, clock=self.clock)

    def sleep_ms(self, ms: int) -> None:
        """See :meth:`StoreHarness.sleep_ms`."""
        self.clock.sleep_ms(ms)


def plan_spec(what: str) -> TaskSpec:
    """Return a plan task."""
    return TaskSpec("plan", what, body=what.encode())


def node_specs(nodes: Sequence[str]) -> tuple[TaskSpec, ...]:
    """Return one task for each node, named by its position."""
    return tuple(TaskSpec(str(i), node, body=f"body of {node}".encode()) for i, node in enumerate(nodes))


def a_run(run_id: str = "r1", thread_id: str = "t1", **changes: Any) -> NewRun:
    """Return a run as a caller would submit it."""
    run = NewRun(
        thread_id=thread_id,
        run_id=run_id,
        graph="graph",
        graph_version="v1",
        user_id="anna",
        kind=InputKind.MESSAGE,
        digest=f"digest of {run_id}",
        request=f"request of {run_id}".encode(),
        input=f"input of {run_id}".encode(),
        start=plan_spec("start"),
        resume=plan_spec("resume"),
        advance=plan_spec("advance"),
    )
    return replace(run, **changes)


def at_once(calls: Sequence[Callable[[], _T]]) -> list[_T]:
    """Make the calls in threads that start together; return their answers in order."""
    barrier = Barrier(len(calls))

    def wait_and(call: Callable[[], _T]) -> _T:
        barrier.wait(10)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(wait_and, calls))


class StoreMoves:
    """The moves of clients, workers and schedulers, with what a test does not care for filled in."""

    harness: StoreHarness

    @property
    def store(self) -> Store:
        """The store under test."""
        return self.harness.store

    # -- clients

    def admit(self, run_id: str = "r1", thread_id: str = "t1", **changes: Any) -> Admission:
        """Submit a run."""
        return self.store.admit(a_run(run_id, thread_id, **changes))

    def go_on(self, run_id: str, thread_id: str = "t1", **changes: Any) -> Admission:
        """Submit a continuation."""
        return self.admit(run_id, thread_id, kind=InputKind.CONTINUE, **changes)

    def stop(self, run_id: str = "r1", thread_id: str = "t1") -> StopAnswer:
        """Stop a run."""
        return self.store.stop(thread_id, run_id, events=b'{"event":"stop"}')

    def cancel(self, run_id: str = "r1", thread_id: str = "t1") -> StopAnswer:
        """Cancel a run."""
        return self.store.cancel(thread_id, run_id, reason="enough", error=b"cancelled", events=b'{"event":"cancel"}')

    def resume(self, answers: dict[str, bytes] | None = None, resume_id: str = "", **changes: Any) -> Resumed:
        """Answer the run ``r1``."""
        resume = Resume("t1", "r1", resume_id or secrets.token_hex(8), answers or {})
        return self.store.resume(replace(resume, **changes))

    # -- workers

    def claim(self, of: Dispatch | TaskRef, *, nonce: str = "", lease_ms: int = LONG_MS, worker: str = "w1") -> Claim:
        """Claim a task that is there to be claimed."""
        claim = self.try_claim(of, nonce=nonce, lease_ms=lease_ms, worker=worker)
        assert isinstance(claim, Claim), claim
        return claim

    def try_claim(
        self,
        of: Dispatch | TaskRef,
        *,
        nonce: str = "",
        lease_ms: int = LONG_MS,
        worker: str = "w1",
        events: bytes = b"",
    ) -> Claim | Refusal:
        """Claim a task."""
        ref = of.ref if isinstance(of, Dispatch) else of
        nonce = nonce or secrets.token_hex(8)
        return self.store.claim(ref, nonce, worker=worker, lease_ms=lease_ms, known=None, events=events)

    def commit(
        self, claim: Claim, update: bytes = b"update", events: bytes = b"", lease_ms: int = LONG_MS
    ) -> Committed:
        """Hand in an update."""
        return self.store.commit(claim.ref, claim.token, update, lease_ms=lease_ms, events=events)

    def settle(self, claim: Claim, status: TaskStatus, **changes: Any) -> Settled:
        """End an attempt without an update."""
        return self.store.settle(claim.ref, claim.token, replace(Settlement(status), **changes))

    def ask(self, claim: Claim, *ids: str) -> Settled:
        """End an attempt with questions."""
        questions = tuple(Interrupt(i, claim.ref.task, f"what is {i}?".encode()) for i in ids)
        return self.settle(claim, TaskStatus.WAITING, interrupts=questions)

    def fail(self, claim: Claim, error: bytes = b"boom") -> Settled:
        """End an attempt for good."""
        return self.settle(claim, TaskStatus.FAILED, error=error)

    def retry_later(self, claim: Claim, delay_ms: int = SHORT_MS) -> Settled:
        """End an attempt for now."""
        return self.settle(claim, TaskStatus.RETRY_WAIT, error=b"boom", delay_ms=delay_ms, reason="retry_wait")

    def next_step(self, claim: Claim, *nodes: str, **changes: Any) -> Advance:
        """Return the advance from the claimed step to one with these nodes."""
        advance = Advance(
            base=claim.image.version,
            nonce=secrets.token_hex(8),
            patch=Patch(),
            step=claim.ref.step + 1,
            status=RunStatus.RUNNING,
            tasks=node_specs(nodes),
        )
        return replace(advance, **changes)

    def advance(self, claim: Claim, *nodes: str, **changes: Any) -> Advanced:
        """Write a step and plan the next one."""
        return self.store.advance(claim.ref, claim.token, self.next_step(claim, *nodes, **changes))

    def finish(self, claim: Claim, status: RunStatus = RunStatus.COMPLETED, **changes: Any) -> Advanced:
        """Write a run's last step."""
        return self.advance(claim, status=status, **changes)

    def start(self, run_id: str = "r1", thread_id: str = "t1", **changes: Any) -> Claim:
        """Submit a run to a free thread and claim its start."""
        admission = self.admit(run_id, thread_id, **changes)
        assert admission.outcome is AdmissionOutcome.STARTED, admission
        return self.claim(admission.dispatch[0])

    def begin(self, *nodes: str, run_id: str = "r1", thread_id: str = "t1", **changes: Any) -> tuple[Dispatch, ...]:
        """Submit a run to a free thread and plan its step 1."""
        return self.advance(self.start(run_id, thread_id, **changes), *nodes).dispatch

    def begin_and_claim(self, *nodes: str, **changes: Any) -> list[Claim]:
        """Claim all tasks of a step 1."""
        return [self.claim(message) for message in self.begin(*nodes, **changes)]

    def commit_all(self, claims: Sequence[Claim]) -> Claim:
        """Hand in an update for each; return the claim of the advance."""
        answers = [self.commit(claim, f"update of {claim.spec.node}".encode()) for claim in claims]
        plan = answers[-1].plan
        assert plan is not None
        return plan

    def pause_bounds_ms(self, put_aside: Callable[[], object]) -> tuple[int, int]:
        """Put the run's only task aside; return the least and the most that its pause can be, however slow the call."""
        before_ms = self.store.now_ms()
        put_aside()
        until_ms = self.task("0").until_ms
        return until_ms - self.store.now_ms(), until_ms - before_ms

    def pause(self, *nodes: str, wait: str = "before", **changes: Any) -> Advanced:
        """Let the run ``r1`` pause before the nodes of its step 1."""
        return self.advance(self.start(**changes), *nodes, status=RunStatus.WAITING, wait=wait)

    # -- schedulers

    def recover(self, thread_id: str = "t1", rules: RecoveryRules = RULES) -> Recovery:
        """Do what time asks for."""
        return self.store.recover(thread_id, rules)

    def recover_after(self, ms: int, thread_id: str = "t1", rules: RecoveryRules = RULES) -> Recovery:
        """The same, some time later."""
        self.harness.sleep_ms(ms)
        return self.recover(thread_id, rules)

    def wait_for_due(self, thread_id: str = "t1", within_ms: int = 2_000) -> DueThread:
        """Wait until a thread is due."""
        for _ in range(0, within_ms, 5):
            for due in self.store.due(1_000):
                if due.thread_id == thread_id:
                    return due
            self.harness.sleep_ms(5)
        raise AssertionError(f"Thread {thread_id!r} was not due within {within_ms} ms.")

    def forget(self, thread_id: str = "t1") -> None:
        """Wait until a thread is due and take it off the list."""
        self.store.settle_due(self.wait_for_due(thread_id), None)

    # -- looking

    def view(self, run_id: str = "r1") -> RunView:
        """Return a run's record."""
        view = self.store.run(run_id)
        assert view is not None, f"no run {run_id!r}"
        return view

    def status(self, run_id: str = "r1") -> RunStatus:
        """Return a run's status."""
        return self.view(run_id).status

    def thread(self, thread_id: str = "t1") -> ThreadView:
        """Return a thread's record."""
        view = self.store.thread(thread_id)
        assert view is not None, f"no thread {thread_id!r}"
        return view

    def task(self, name: str, run_id: str = "r1") -> TaskView:
        """Return a task's record."""
        return {view.task: view for view in self.store.tasks(run_id)}[name]

    def task_statuses(self, run_id: str = "r1") -> dict[str, TaskStatus]:
        """Return where the tasks of a run stand."""
        return {view.task: view.status for view in self.store.tasks(run_id)}

    def tell(self, claim: Claim, events: bytes, number: int = 1) -> bool:
        """Emit events of an attempt."""
        (accepted,) = self.store.emit([Emission(claim.ref, claim.token, number, events)])
        assert isinstance(accepted, bool)
        return accepted

    def bodies(self, run_id: str = "r1", thread_id: str = "t1") -> list[bytes]:
        """Return what was appended to a run's events."""
        return [stored.body for stored in self.store.events(thread_id, run_id, "", timeout_s=0)]
