"""What is said of runs and threads, from the store alone; the runs are real ones, in process."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tenxgraph import AgentState, StateGraph
from tenxgraph.core.exceptions import InterruptConflictError, InvalidInputError, TenxGraphError, ThreadBusyError
from tenxgraph.core.graph import CompiledGraph, RetryPolicy, RunStatus, ToolNode
from tenxgraph.core.state import ImageBlock, MediaRef, Message, TextBlock, ToolCallBlock
from tenxgraph.engine.ending import PAGE, RunFilter
from tenxgraph.prebuilt import ReactAgent
from tenxgraph.store.base import RunView
from tenxgraph.store.memory import MemoryStore
from tenxgraph.testing import TestAgent
from tenxgraph.utils import interrupt
from tenxgraph.wire import Checkpointed
from tenxgraph_worker.cli import records
from tenxgraph_worker.cli.ending import canceller, choose, questions
from tenxgraph_worker.cli.lookup import current_version, find_run, find_thread, list_runs
from tenxgraph_worker.cli.resuming import resume_run, retry_run
from tenxgraph_worker.cli.why import explain

CONTINUABLE = {RunStatus.FAILED, RunStatus.STOPPED, RunStatus.DEAD}
HI = {"messages": [Message.text_message("Hi")]}


def hello(state: AgentState) -> str:
    return "Hello"


def ask(state: AgentState) -> str:
    return f"You said {interrupt('Sure?')}"


def fail(state: AgentState) -> str:
    raise RuntimeError("it broke")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


Build = Callable[..., CompiledGraph[Any]]


@pytest.fixture
def build(store: MemoryStore) -> Build:
    """Make a graph of one node on the store."""

    def make(node: Callable[..., Any], *, retry: RetryPolicy | None = None, **options: Any) -> CompiledGraph[Any]:
        graph = StateGraph(name=node.__name__).add_node(node.__name__, node, retry=retry)
        return graph.set_entry_point(node.__name__).compile(checkpointer=store, **options)

    return make


def run_of(store: MemoryStore, thread_id: str) -> RunView:
    return list_runs(store, thread=thread_id, status=None, limit=1)[0]


def why(store: MemoryStore, run: RunView) -> str:
    point = store.checkpoint(run.thread_id, run.version) if run.version else None
    noted = Checkpointed.from_json(point.meta) if point is not None and point.meta else Checkpointed()
    lines = explain(run, store.tasks(run.run_id), store.thread(run.thread_id), noted, store.now_ms())
    return "\n".join(lines)


def settle(app: CompiledGraph[Any], **config: Any) -> None:
    """Run until it ends, well or badly."""
    try:
        app.invoke(HI, {"thread_id": "t1", **config})
    except TenxGraphError:
        return


def test_a_record_of_a_run_is_json_with_stable_keys(store: MemoryStore, build: Build) -> None:
    settle(build(fail))
    run = run_of(store, "t1")

    record = json.loads(json.dumps(records.run_record(run, list(store.tasks(run.run_id)))))

    assert set(record) == {
        "run_id",
        "thread_id",
        "graph",
        "status",
        "reason",
        "step",
        "created_at",
        "started_at",
        "ended_at",
        "user_id",
        "graph_version",
        "checkpoint",
        "continues",
        "wait",
        "interrupts",
        "error",
        "traceback",
        "tasks",
        "waiting_nodes",
        "config",
    }
    assert record["error"]["message"] == "node 'fail' failed: RuntimeError: it broke"
    assert (record["error"]["node"], record["error"]["attempt"]) == ("fail", 1)
    assert record["error"]["cause"] == "builtins.RuntimeError"
    assert record["traceback"][-1] == "RuntimeError: it broke"
    assert any("in fail" in line for line in record["traceback"])
    assert len(record["traceback"]) < 30


def test_a_record_of_a_thread_holds_its_state(store: MemoryStore, build: Build) -> None:
    settle(build(hello))

    record = records.thread_record(find_thread(store, "t1"), store.image("t1"))

    assert [message["role"] for message in record["state"]["context"]] == ["user", "assistant"]
    assert records.for_people(record)["context"] == ["user: Hi", "assistant: Hello"]


def test_a_record_of_a_checkpoint_says_what_ran_and_what_runs_next(store: MemoryStore, build: Build) -> None:
    settle(build(hello))

    newest, first = map(records.checkpoint_record, store.checkpoints("t1", limit=5))

    assert (first["next"], newest["ran"], newest["next"]) == (["hello"], ["hello"], [])


def test_runs_are_listed_newest_first_and_by_status(store: MemoryStore, build: Build) -> None:
    build(hello).invoke(HI, {"thread_id": "good"})
    settle(build(fail))

    assert [run.thread_id for run in list_runs(store, thread=None, status=None, limit=10)] == ["t1", "good"]
    assert [run.thread_id for run in list_runs(store, thread=None, status="completed", limit=10)] == ["good"]
    assert len(list_runs(store, thread=None, status=None, limit=1)) == 1


def test_what_is_not_there_is_named(store: MemoryStore) -> None:
    with pytest.raises(InvalidInputError, match="no run 'r1' in this store"):
        find_run(store, "r1")
    with pytest.raises(InvalidInputError, match="no thread 't1' in this store"):
        find_thread(store, "t1")
    with pytest.raises(InvalidInputError, match="choose one of queued, running"):
        list_runs(store, thread=None, status="nope", limit=1)


def test_why_a_run_failed(store: MemoryStore, build: Build) -> None:
    settle(build(fail))
    run = run_of(store, "t1")

    assert why(store, run) == (
        "It ended as failed: node 'fail' failed: RuntimeError: it broke\n"
        f"To run again what failed: tenxgraph runs retry {run.run_id}"
    )


def test_why_a_run_waits_for_a_person(store: MemoryStore, build: Build) -> None:
    settle(build(ask))
    run = run_of(store, "t1")

    assert why(store, run).startswith(
        f"Node 'ask' asks 'Sure?': tenxgraph runs resume {run.run_id} ANSWER --interrupt "
    )


@pytest.mark.parametrize("where", ["before", "after"])
def test_why_a_run_is_paused(store: MemoryStore, build: Build, where: str) -> None:
    settle(build(hello, **{f"interrupt_{where}": ["hello"]}))
    run = run_of(store, "t1")

    assert why(store, run) == f"It is paused {where} hello: tenxgraph runs resume {run.run_id}"


def test_why_a_delayed_run_is_queued(store: MemoryStore, build: Build) -> None:
    late = build(hello).submit(HI, {"thread_id": "t1", "start_after_s": 100})

    assert why(store, find_run(store, late.run_id)) == "It waits for its moment to start (start_after_s)."


def test_why_a_run_is_queued_behind_another(store: MemoryStore, build: Build) -> None:
    go_on = threading.Event()

    def slow(state: AgentState) -> None:
        assert go_on.wait(10)

    app = build(slow)
    first, second, third = (app.submit(HI, {"thread_id": "t1"}) for _ in range(3))

    said = [why(store, find_run(store, run.run_id)) for run in (second, third)]
    go_on.set()
    third.result(timeout_s=10)

    assert said == [
        f"It is number {place} in the queue behind run {first.run_id} on the same thread." for place in (1, 2)
    ]


def test_why_a_run_is_queued_without_a_worker(store: MemoryStore, build: Build) -> None:
    settle(build(fail))
    run_id, _ = resume_run(store, run_of(store, "t1"), None, None, "q")

    assert "No worker has taken it yet" in why(store, find_run(store, run_id))
    assert "that has graph 'fail'" in why(store, find_run(store, run_id))


def test_why_a_run_is_between_two_attempts(store: MemoryStore, build: Build) -> None:
    app = build(fail, retry=RetryPolicy(max_attempts=3, initial_s=100, jitter=False))
    handle = app.submit(HI, {"thread_id": "t1"})
    for chunk in handle.stream():
        if chunk.event == "task_retry":
            break

    said = why(store, find_run(store, handle.run_id))

    assert "It is in step 1." in said
    assert "Task 0 (fail), attempt 2, waits " in said
    assert "It failed with: node 'fail' failed: RuntimeError: it broke" in said
    handle.cancel()


def test_why_names_the_call_of_a_tool_that_is_a_task_of_its_own(store: MemoryStore) -> None:
    def buy(what: str) -> str:
        return str(interrupt(f"Buy {what}?"))

    agent = TestAgent([[("buy", {"what": "lamp"}), ("buy", {"what": "bulb"})], "done"])
    handle = (
        ReactAgent(agent, ToolNode([buy], distribute=True), name="shop").compile(store).submit(HI, {"thread_id": "t"})
    )
    asked = handle.result()["interrupts"]
    run = find_run(store, handle.run_id)
    tasks = store.tasks(run.run_id)

    assert [task["call"] for task in records.run_record(run, list(tasks))["tasks"]] == ["call_0_0", "call_0_1"]
    running = replace(run, status=RunStatus.RUNNING)
    said = "\n".join(explain(running, tasks, store.thread("t"), Checkpointed(), store.now_ms()))
    assert "Task 1 (TOOL, call call_0_1), attempt 1, is waiting." in said
    assert len(asked) == 2


# -- many runs


def test_what_waits_is_listed_a_line_a_question_or_pause(store: MemoryStore, build: Build) -> None:
    asks, pauses = build(ask), build(hello, interrupt_before=["hello"])
    asked = asks.invoke(HI, {"thread_id": "t1"})
    paused = pauses.invoke(HI, {"thread_id": "t2"})
    settle(build(fail), thread_id="t3")

    rows = {row["run_id"]: row for row in questions(store, RunFilter(status="waiting"), 20)}

    assert set(rows) == {asked["run_id"], paused["run_id"]}
    assert rows[asked["run_id"]].items() >= {"node": "ask", "value": "Sure?", "wait": "question"}.items()
    assert rows[asked["run_id"]]["id"] == asked["interrupts"][0]["id"]
    assert rows[paused["run_id"]].items() >= {"node": "hello", "wait": "before", "graph": "hello"}.items()
    assert len(questions(store, RunFilter(status="waiting"), 1)) == 1
    assert [row["thread_id"] for row in questions(store, RunFilter(graph="ask", status="waiting"), 9)] == ["t1"]


def test_runs_are_found_on_threads_beyond_the_first_page(store: MemoryStore, build: Build) -> None:
    app = build(ask)
    for number in range(PAGE + 2):
        app.invoke(HI, {"thread_id": f"t{number}"})

    chosen, more = choose(store, None, RunFilter(status="waiting"), 1000)

    assert ({run.thread_id for run in chosen}, more) == ({f"t{number}" for number in range(PAGE + 2)}, False)
    assert choose(store, None, RunFilter(status="waiting"), 5)[1] is True


def test_to_end_runs_one_names_a_run_or_chooses_many(store: MemoryStore, build: Build) -> None:
    run_id = build(ask).invoke(HI, {"thread_id": "t1"})["run_id"]
    for named, which in ((None, RunFilter()), (run_id, RunFilter(status="waiting"))):
        with pytest.raises(InvalidInputError, match="Name a run, or choose many"):
            choose(store, named, which, 1)


def test_a_cancel_from_the_command_line_says_so(store: MemoryStore, build: Build, monkeypatch: Any) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    run_id = build(ask).invoke(HI, {"thread_id": "t1"})["run_id"]
    canceller("enough")(store, find_run(store, run_id))
    shown = records.run_record(find_run(store, run_id), [])

    assert (shown["status"], shown["reason"]) == ("cancelled", "enough")
    assert shown["error"]["message"] == "cancelled by root (command line): enough"
    assert "cancelled by root (command line): enough" in why(store, find_run(store, run_id))


# -- resume without the graph


def test_an_answer_reaches_the_run_that_asked(store: MemoryStore, build: Build) -> None:
    app = build(ask)
    settle(app)
    run = run_of(store, "t1")

    run_id, dispatch = resume_run(store, run, "yes", None, "q")

    assert run_id == run.run_id
    assert [item.node for item in dispatch] == ["ask"]
    assert find_run(store, run_id).interrupts[0].answer == b'"yes"'


def test_only_one_answer_counts(store: MemoryStore, build: Build) -> None:
    settle(build(ask))
    run = run_of(store, "t1")
    resume_run(store, run, "yes", None, "q")

    with pytest.raises(InterruptConflictError, match="somebody else answered it"):
        resume_run(store, run, "no", None, "q")


@pytest.mark.parametrize(
    ("answer", "question", "said"),
    [(None, None, "waits for an answer"), ("yes", "nope", "does not ask 'nope': it asks")],
    ids=["none", "unknown id"],
)
def test_an_answer_that_does_not_fit_is_refused(
    store: MemoryStore, build: Build, answer: str | None, question: str | None, said: str
) -> None:
    settle(build(ask))

    with pytest.raises(InvalidInputError, match=said):
        resume_run(store, run_of(store, "t1"), answer, question, "q")


def test_a_pause_ends_without_an_answer_and_refuses_one(store: MemoryStore, build: Build) -> None:
    settle(build(hello, interrupt_before=["hello"]))
    run = run_of(store, "t1")

    with pytest.raises(InvalidInputError, match="asks nothing: leave the answer out"):
        resume_run(store, run, "yes", None, "q")
    assert resume_run(store, run, None, None, "q")[0] == run.run_id


def test_a_failed_run_is_continued_by_a_new_one(store: MemoryStore, build: Build) -> None:
    settle(build(fail), recursion_limit=7)
    run = run_of(store, "t1")

    run_id, dispatch = resume_run(store, run, None, None, "q")

    new = find_run(store, run_id)
    assert (new.continues, new.status) == (run.run_id, "queued")
    assert records.config(new.request)["recursion_limit"] == 7
    assert dispatch


def test_a_continued_run_is_not_continued_twice(store: MemoryStore, build: Build) -> None:
    settle(build(fail))
    run = run_of(store, "t1")
    resume_run(store, run, None, None, "q")

    with pytest.raises(ThreadBusyError, match="is active on thread 't1'"):
        resume_run(store, run, None, None, "q")


def test_a_completed_run_is_not_continued(store: MemoryStore, build: Build) -> None:
    settle(build(hello))

    with pytest.raises(InvalidInputError, match="nothing of it is left to continue"):
        resume_run(store, run_of(store, "t1"), None, None, "q")


def test_an_older_failed_run_is_not_taken_for_the_newest(store: MemoryStore, build: Build) -> None:
    app = build(fail)
    for _ in range(2):
        settle(app)
    older, newer = store.runs("t1")

    with pytest.raises(InvalidInputError, match="nothing of it is left to continue"):
        retry_run(store, older, CONTINUABLE, "q")
    assert find_run(store, retry_run(store, newer, CONTINUABLE, "q")[0]).continues == newer.run_id


def test_a_retry_keeps_the_version_unless_another_is_named(store: MemoryStore, build: Build) -> None:
    settle(build(fail))
    run = run_of(store, "t1")
    new = find_run(store, retry_run(store, run, CONTINUABLE, "q")[0])
    assert new.graph_version == run.graph_version
    store.cancel("t1", new.run_id, reason="", error=b"", events=b"")

    settle(build(fail), thread_id="t2")
    other = run_of(store, "t2")
    again = find_run(store, retry_run(store, other, CONTINUABLE, "q", "v2")[0])
    assert again.graph_version == "v2"
    assert current_version(store, "fail") == "v2"
    with pytest.raises(InvalidInputError, match="runs graph 'other'"):
        current_version(store, "other")


def test_what_did_not_end_like_that_is_not_tried_again(store: MemoryStore, build: Build) -> None:
    settle(build(fail))
    run = run_of(store, "t1")

    with pytest.raises(InvalidInputError, match=f"is failed, not dead: 'tenxgraph runs why {run.run_id}'"):
        retry_run(store, run, {RunStatus.DEAD}, "q")


def test_a_message_of_the_log_is_told_with_its_calls() -> None:
    call = ToolCallBlock(id="c1", name="find", args={"order": 7})
    image = ImageBlock(media=MediaRef(url="https://example.org/a.png"))
    message = Message(message_id="m1", role="assistant", content=[TextBlock(text="I look"), call, image], timestamp=1.0)

    told = records.message_record(message.model_dump_json().encode())

    assert (told["message_id"], told["role"], told["at"]) == ("m1", "assistant", "1970-01-01T00:00:01.000+00:00")
    assert told["text"] == "I look → find({'order': 7}) <image>"
