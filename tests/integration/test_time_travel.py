"""Looking back, forking, going on from a checkpoint, changing the state, deleting: the same on both stores."""

import asyncio
import operator
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Annotated, Any

import fakeredis
import pytest

from tenxgraph.core.exceptions import (
    InterruptConflictError,
    InvalidInputError,
    NodeError,
    StaleStateError,
    ThreadBusyError,
    ThreadOwnerError,
)
from tenxgraph.core.graph import CompiledGraph, RunStatus, StateGraph, ToolNode
from tenxgraph.core.state import AgentState, Message, ToolCallBlock
from tenxgraph.core.state.reducers import replace_messages
from tenxgraph.executor import InProcessExecutor
from tenxgraph.settings import Settings
from tenxgraph.store.base import Edit, Edited, EditOutcome, Store
from tenxgraph.store.memory import MemoryStore
from tenxgraph.store.redis import RedisStore
from tenxgraph.utils import END, START, effect, interrupt
from tests.graphs.tools import Log, chain, graph
from tests.servers import RedisHarness

Compile = Callable[..., CompiledGraph[Any]]
T: dict[str, Any] = {"thread_id": "T"}
SETTINGS = Settings.load(thread_keep_s=0)


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    with fakeredis.FakeRedis() as client:
        yield RedisHarness(client).store


@pytest.fixture
def compiled(store: Store) -> Compile:
    def make(built: StateGraph[Any], **options: Any) -> CompiledGraph[Any]:
        app = built.compile(**options)
        app.__dict__["_executor"] = InProcessExecutor(app.definition, settings=SETTINGS, store=store)
        return app

    return make


def said(text: str = "Hi") -> dict[str, Any]:
    return {"messages": [Message.text_message(text)]}


def counting() -> StateGraph[Log]:
    """Three nodes; each notes itself and the count."""

    def add(name: str) -> Callable[[Log], dict[str, Any]]:
        return lambda state: {"log": [f"{name}{state.count}"], "count": state.count + 1}

    return chain(graph(a=add("a"), b=add("b"), c=add("c")), "a", "b", "c")


def at(app: CompiledGraph[Any], *upcoming: str, config: dict[str, Any] = T) -> int:
    """The newest checkpoint at which these nodes come next."""
    return next(snap.checkpoint for snap in app.get_state_history(config) if snap.next == upcoming)


# -- looking back


def test_the_history_is_every_checkpoint_newest_first(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    app.invoke(said("Again"), T)
    seen = list(app.get_state_history(T))
    assert [snap.checkpoint for snap in seen] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert [snap.next for snap in seen] == [(), ("c",), ("b",), ("a",)] * 2
    assert [snap.state.count for snap in seen] == [6, 5, 4, 3, 3, 2, 1, 0]
    assert [len(snap.state.context) for snap in seen] == [2] * 4 + [1] * 4
    assert [snap.checkpoint for snap in app.get_state_history(T, limit=2, before=5)] == [4, 3]
    assert [snap.checkpoint for snap in app.get_state_history(T, before=seen[4].config)] == [3, 2, 1]
    assert {snap.source for snap in seen} == {"run"}
    assert app.get_state(seen[2].config) == seen[2]


def test_the_history_reads_the_same_from_async_code(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)

    async def read() -> list[int]:
        return [snap.checkpoint async for snap in app.aget_state_history(T, limit=3)]

    assert asyncio.run(read()) == [4, 3, 2]


class Kept(AgentState):
    """A context that is written anew each time, and a list that grows."""

    context: Annotated[list[Message], replace_messages] = []
    notes: Annotated[list[str], operator.add] = []
    mood: str | None = None


def test_every_checkpoint_reads_as_it_was_also_over_rewrites(compiled: Compile) -> None:
    def shorten(state: Kept) -> dict[str, Any]:
        return {"context": list(state.context)[-2:], "notes": [f"{len(state.context)}"], "mood": None}

    def rename(state: Kept) -> dict[str, Any]:
        return {"context": [Message.text_message("only", message_id="only")], "mood": "new"}

    built = StateGraph(Kept)
    built.add_node("shorten", shorten).add_node("rename", rename)
    app = compiled(chain(built, "shorten", "rename"))
    then: dict[int, Kept] = {}
    for number in range(4):
        for chunk in app.stream(said(f"{number}"), T, "full"):
            if chunk.event == "state":
                assert isinstance(chunk.state, Kept)
                then[chunk.data["checkpoint"]] = chunk.state
    now = {snap.checkpoint: snap.state for snap in app.get_state_history(T)}
    assert len(now) == 12
    assert {n: s.model_dump(exclude={"execution_meta"}) for n, s in now.items()} == {
        n: s.model_dump(exclude={"execution_meta"}) for n, s in then.items()
    }


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": True}, {"before": "x"}])
def test_a_history_asked_for_wrongly_is_refused(compiled: Compile, wrong: dict[str, Any]) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        app.get_state_history(T, **wrong)
    with pytest.raises(InvalidInputError, match="no thread"):
        app.get_state_history({"thread_id": "nowhere"})
    with pytest.raises(ThreadOwnerError):
        app.get_state_history({**T, "user_id": "bert"})


# -- forks


def test_a_fork_goes_on_from_a_checkpoint_and_leaves_the_thread_alone(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    before = list(app.get_state_history(T))
    forked = app.fork(T, at(app, "b"), thread_id="F")
    assert forked == {"thread_id": "F"}
    snap = app.get_state(forked)
    assert (snap.state.log, snap.next, snap.checkpoint, snap.source) == (["a0"], ("b",), 1, "fork")
    result = app.invoke(None, forked, "full")
    assert result["state"].log == ["a0", "b1", "c2"]
    assert [message.text() for message in result["messages"]] == ["Hi"]
    assert list(app.get_state_history(T)) == before


def test_a_fork_of_a_finished_thread_takes_the_next_message(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    forked = app.fork(T)
    assert app.get_state(forked).status is RunStatus.COMPLETED
    with pytest.raises(InvalidInputError, match="no failed, stopped or paused run"):
        app.invoke(None, forked)
    assert app.invoke(said("More"), forked, "full")["state"].log == ["a0", "b1", "c2", "a3", "b4", "c5"]


def test_a_fork_has_its_owner_and_only_the_owner_forks(compiled: Compile) -> None:
    app = compiled(counting())
    anna = {**T, "user_id": "anna"}
    app.invoke(said(), anna)
    with pytest.raises(ThreadOwnerError):
        app.fork(T)
    forked = asyncio.run(app.afork(anna))
    assert forked["user_id"] == "anna"
    with pytest.raises(ThreadOwnerError):
        app.get_state({"thread_id": forked["thread_id"]})


def test_a_fork_to_a_thread_that_is_there_or_from_nothing_is_refused(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    with pytest.raises(InvalidInputError, match="exists already"):
        app.fork(T, thread_id="T")
    with pytest.raises(InvalidInputError, match="no checkpoint 99"):
        app.fork(T, 99)
    with pytest.raises(InvalidInputError, match="whole number"):
        app.fork(T, "1")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="no thread"):
        app.fork({"thread_id": "nowhere"})


@pytest.mark.parametrize("call", ["fork", "update_state", "get_state"])
@pytest.mark.parametrize(
    ("config", "match"),
    [("T", "config is a str"), ({**T, "checkpoint": "1"}, "whole number above 0")],
    ids=["str", "1"],
)
def test_a_config_that_makes_no_sense_is_refused_by_name(compiled: Compile, call: str, config: Any, match: str) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    more = ({"log": ["x"]},) if call == "update_state" else ()
    with pytest.raises(InvalidInputError, match=match):
        getattr(app, call)(config, *more)


def test_a_fork_before_a_question_asks_anew(compiled: Compile) -> None:
    app = compiled(chain(graph(ask=lambda state: {"log": [interrupt("name?")]}), "ask"))
    app.invoke(said(), T)
    forked = app.fork(T)
    assert app.get_state(forked).interrupts == []
    assert app.invoke(None, forked)["status"] is RunStatus.WAITING
    assert app.invoke({"resume": "F"}, forked, "full")["state"].log == ["F"]
    assert app.invoke({"resume": "T"}, T, "full")["state"].log == ["T"]


# -- going on from a checkpoint


def test_going_on_from_a_checkpoint_is_a_newer_version_of_the_same_thread(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    result = app.invoke(None, {**T, "checkpoint": at(app, "b")}, "full")
    assert result["state"].log == ["a0", "b1", "c2"]
    assert [message.text() for message in result["messages"]] == ["Hi"]
    seen = list(app.get_state_history(T))
    assert [snap.checkpoint for snap in seen] == [7, 6, 5, 4, 3, 2, 1]
    assert [snap.source for snap in seen] == ["run", "run", "checkpoint", "run", "run", "run", "run"]
    assert (seen[2].state.log, seen[2].next) == (["a0"], ("b",))


def test_a_snapshots_config_is_all_that_it_takes(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), {**T, "user_id": "anna"})
    snap = next(s for s in app.get_state_history({**T, "user_id": "anna"}) if s.next == ("c",))
    assert app.invoke(None, snap.config, "full")["state"].log == ["a0", "b1", "c2"]
    assert app.invoke(said("More"), snap.config, "full")["state"].log == ["a0", "b1", "a2", "b3", "c4"]


def test_what_is_done_again_from_a_checkpoint_is_really_done(compiled: Compile) -> None:
    paid: list[str] = []

    def take() -> str:
        paid.append("paid")
        return f"receipt {len(paid)}"

    def pay(state: Log) -> dict[str, Any]:
        return {"log": [effect("pay", take)]}

    app = compiled(chain(graph("a", pay=pay), "a", "pay"))
    app.invoke(said(), T)
    again = app.invoke(None, {**T, "checkpoint": at(app, "pay")}, "full")
    assert (again["state"].log, len(paid)) == (["a", "receipt 2"], 2)
    app.invoke(None, app.fork(T, at(app, "pay")))
    assert len(paid) == 3


def test_a_tool_call_before_which_one_goes_back_is_made_again(compiled: Compile) -> None:
    charged: list[str] = []

    def charge(sum: int) -> str:
        """Charge."""
        charged.append("charged")
        return f"{len(charged)}"

    def call(state: Log) -> Message:
        blocks = [ToolCallBlock(id="c1", name="charge", args={"sum": 3})]
        return Message(role="assistant", content=list(blocks), message_id="calls")

    app = compiled(chain(graph(call=call, tools=ToolNode([charge])), "call", "tools"))
    app.invoke(said(), T)
    again = app.invoke(None, {**T, "checkpoint": at(app, "tools")}, "full")
    assert (again["state"].context[-1].text(), len(charged)) == ("2", 2)
    app.invoke(None, {**T, "checkpoint": at(app, "tools")})
    assert len(charged) == 3


def test_nothing_comes_next_where_a_run_ended(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    with pytest.raises(InvalidInputError, match="Nothing comes next at checkpoint 4"):
        app.invoke(None, {**T, "checkpoint": 4})
    with pytest.raises(InvalidInputError, match="no checkpoint 9"):
        app.invoke(None, {**T, "checkpoint": 9})
    with pytest.raises(InvalidInputError, match="no checkpoint 1"):
        app.invoke(said(), {"thread_id": "new", "checkpoint": 1})
    with pytest.raises(InvalidInputError, match="whole number above 0"):
        app.invoke(None, {**T, "checkpoint": 0})
    with pytest.raises(ThreadOwnerError):
        app.invoke(None, {**T, "checkpoint": 2, "user_id": "bert"})
    assert app.get_state(T).checkpoint == 4


def test_a_repeated_call_from_a_checkpoint_runs_once(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    again = {**T, "checkpoint": at(app, "c"), "run_id": "again"}
    assert app.invoke(None, again)["status"] is app.invoke(None, again)["status"] is RunStatus.COMPLETED
    assert app.get_state(T).checkpoint == 6


def test_a_waiting_run_is_not_gone_behind(compiled: Compile) -> None:
    app = compiled(chain(graph("a", ask=lambda state: {"log": [interrupt("name?")]}), "a", "ask"))
    app.invoke(said(), T)
    with pytest.raises(ThreadBusyError):
        app.invoke(None, {**T, "checkpoint": at(app, "a")})
    with pytest.raises(InvalidInputError, match="leave checkpoint out"):
        app.invoke({"resume": "x"}, {**T, "checkpoint": 1})
    assert app.invoke({"resume": "Ann"}, app.get_state(T).config, "full")["state"].log == ["a", "Ann"]


def test_the_newest_checkpoint_of_a_pause_resumes_it(compiled: Compile) -> None:
    app = compiled(counting(), interrupt_before=["b"])
    app.invoke(said(), T)
    assert app.invoke(None, app.get_state(T).config, "full")["state"].log == ["a0", "b1", "c2"]
    assert app.get_state(T).checkpoint == 5  # the pause was taken up, nothing was gone back to


def test_the_newest_checkpoint_of_a_failed_run_continues_it(compiled: Compile) -> None:
    broken = [True]

    def fragile(state: Log) -> dict[str, Any]:
        if broken[0]:
            raise ValueError("broken")
        return {"log": ["mended"]}

    app = compiled(chain(graph("a", fragile=fragile), "a", "fragile"))
    with pytest.raises(NodeError):
        app.invoke(said(), T)
    broken[0] = False
    assert app.invoke(None, app.get_state(T).config, "full")["state"].log == ["a", "mended"]


def test_going_back_drops_what_a_failed_run_left(compiled: Compile) -> None:
    def fragile(state: Log) -> dict[str, Any]:
        if state.count < 3:
            raise ValueError("too small")
        return {"log": ["fine"]}

    app = compiled(chain(graph(a=lambda state: {"count": state.count + 2}, fragile=fragile), "a", "fragile"))
    with pytest.raises(NodeError):
        app.invoke(said(), T)
    app.update_state(T, {"count": 5})
    assert app.get_state(T).state.count == 5
    with pytest.raises(NodeError):
        app.invoke(None, {**T, "checkpoint": at(app, "a")})
    app.update_state(T, {"count": 5})
    assert app.invoke(None, T, "full")["state"].log == ["fine"]


def test_a_loop_from_a_checkpoint_has_the_steps_of_a_run(compiled: Compile) -> None:
    built = graph("a")
    built.add_edge(START, "a")
    built.add_conditional_edges("a", lambda state: END if len(state.log) >= 4 else "a", {"a": "a", END: END})
    app = compiled(built)
    assert app.invoke(said(), {**T, "recursion_limit": 4})["status"] is RunStatus.COMPLETED
    assert app.invoke(None, {**T, "checkpoint": 2, "recursion_limit": 3}, "full")["state"].log == ["a"] * 4


# -- changing the state


def test_an_update_goes_through_the_reducers(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    named = app.update_state(T, {"log": ["by hand"], "count": 10, "messages": [Message.text_message("Note")]})
    assert named == {**T, "checkpoint": 5}
    snap = app.get_state(T)
    assert (snap.state.log, snap.state.count, len(snap.state.context)) == (["a0", "b1", "c2", "by hand"], 10, 2)
    assert (snap.next, snap.source, snap.status) == ((), "update", RunStatus.COMPLETED)
    assert app.invoke(said("More"), T, "full")["state"].log[-1] == "c12"


@pytest.mark.parametrize(
    ("values", "as_node", "match"),
    [
        ({"colour": 1}, None, "colour"),
        ({"count": "many"}, None, "count"),
        ({"execution_meta": None}, None, "execution_meta"),
        ({"count": 1}, "z", "'z'"),
        ([1], None, "dict"),
    ],
)
def test_a_wrong_update_changes_nothing(compiled: Compile, values: Any, as_node: str | None, match: str) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    with pytest.raises(InvalidInputError, match=match):
        app.update_state(T, values, as_node)
    assert app.get_state(T).checkpoint == 4


def test_an_update_as_a_node_chooses_what_comes_next(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    app.update_state(T, {"count": 7}, as_node="a")
    assert (app.get_state(T).next, app.get_state(T).status) == (("b",), RunStatus.STOPPED)
    assert app.invoke(None, T, "full")["state"].log == ["a0", "b1", "c2", "b7", "c8"]
    app.update_state(T, {"count": 0}, as_node="c")
    assert app.get_state(T).next == ()
    with pytest.raises(InvalidInputError):
        app.invoke(None, T)


def test_an_update_as_a_node_asks_its_condition(compiled: Compile) -> None:
    async def choose(state: Log) -> str:
        return "many" if state.count > 5 else "few"

    built = graph("ask", "many", "few")
    built.add_edge(START, "ask").add_conditional_edges("ask", choose, {"many": "many", "few": "few"})
    app = compiled(built)
    app.invoke(said(), T)
    asyncio.run(app.aupdate_state(T, {"count": 9}, as_node="ask"))
    assert app.invoke(None, T, "full")["state"].log == ["ask", "few", "many"]


def test_a_pause_goes_on_with_the_updated_state(compiled: Compile) -> None:
    app = compiled(counting(), interrupt_before=["b"], interrupt_after=["b"])
    app.invoke(said(), T)
    app.update_state(T, {"count": 5})
    snap = app.get_state(T)
    assert (snap.status, snap.next) == (RunStatus.WAITING, ("b",))
    app.invoke(None, T)
    app.update_state(T, {"count": 8})
    assert app.invoke(None, T, "full")["state"].log == ["a0", "b5", "c8"]


def test_an_update_as_a_node_takes_a_pause_elsewhere(compiled: Compile) -> None:
    app = compiled(counting(), interrupt_before=["b"])
    app.invoke(said(), T)
    app.update_state(T, {"log": ["instead of b"]}, as_node="b")
    assert (app.get_state(T).next, app.get_state(T).status) == (("c",), RunStatus.WAITING)
    result = app.invoke(None, T, "full")
    assert (result["status"], result["state"].log) == (RunStatus.COMPLETED, ["a0", "instead of b", "c1"])


def test_an_update_as_the_last_node_lets_the_run_end(compiled: Compile) -> None:
    app = compiled(counting(), interrupt_before=["c"])
    app.invoke(said(), T)
    app.update_state(T, {"log": ["instead of c"]}, as_node="c")
    result = app.invoke(None, T, "full")
    assert (result["status"], result["state"].log) == (RunStatus.COMPLETED, ["a0", "b1", "instead of c"])


def test_a_question_keeps_waiting_through_an_update_and_is_given_up_as_its_node(compiled: Compile) -> None:
    app = compiled(chain(graph("end", ask=lambda state: {"log": [interrupt("name?"), f"{state.count}"]}), "ask", "end"))
    app.invoke(said(), T)
    app.update_state(T, {"count": 3})
    assert [asked["value"] for asked in app.get_state(T).interrupts] == ["name?"]
    app.invoke({"resume": "Ann"}, T)
    assert app.get_state(T).state.log == ["Ann", "3", "end"]
    app.invoke(said(), T)
    app.update_state(T, {"log": ["nobody"]}, as_node="ask")
    assert app.get_state(T).interrupts == []
    with pytest.raises((InterruptConflictError, InvalidInputError)):
        app.invoke({"resume": {"unknown": 1}}, {**T, "checkpoint": 1})
    assert app.invoke(None, T, "full")["state"].log == ["Ann", "3", "end", "nobody", "end"]


def test_while_a_run_is_at_work_nothing_is_updated(compiled: Compile) -> None:
    begun, go = Event(), Event()

    def slow(state: Log) -> dict[str, Any]:
        begun.set()
        go.wait(10)
        return {"log": ["slow"]}

    app = compiled(chain(graph(slow=slow), "slow"))
    handle = app.submit(said(), T)
    assert begun.wait(10)
    with pytest.raises(ThreadBusyError, match=handle.run_id):
        app.update_state(T, {"count": 1})
    with pytest.raises(ThreadBusyError):
        app.invoke(None, {**T, "checkpoint": 1})
    with pytest.raises(ThreadBusyError):
        app.delete_thread(T)
    go.set()
    assert handle.result(10)["status"] is RunStatus.COMPLETED


def test_an_update_of_a_state_that_moved_is_refused(compiled: Compile) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    old = app.get_state(T).config
    app.update_state(old, {"count": 1})
    with pytest.raises(StaleStateError, match="checkpoint 5, no longer at 4"):
        app.update_state(old, {"count": 2})
    with pytest.raises(ThreadOwnerError):
        app.update_state({**T, "user_id": "bert"}, {"count": 2})
    assert app.get_state(T).state.count == 1


def test_updates_at_once_all_count(compiled: Compile, store: Store) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: app.update_state(T, {"log": [f"{number}"]}), range(4)))
    assert sorted(app.get_state(T).state.log[3:]) == ["0", "1", "2", "3"]


def test_an_update_that_never_meets_a_still_state_gives_up(
    compiled: Compile, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = compiled(counting())
    app.invoke(said(), T)

    def stale(edit: Edit) -> Edited:
        return Edited(EditOutcome.STALE)

    monkeypatch.setattr(store, "edit", stale)
    with pytest.raises(StaleStateError, match="moved on"):
        app.update_state(T, {"count": 1})


# -- deletion


def test_a_deleted_thread_is_gone_and_may_begin_anew(compiled: Compile, store: Store) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    with pytest.raises(ThreadOwnerError):
        app.delete_thread({**T, "user_id": "bert"})
    app.delete_thread(T)
    with pytest.raises(InvalidInputError, match="no thread"):
        app.get_state(T)
    assert app.invoke(said(), T, "full")["state"].log == ["a0", "b1", "c2"]


def test_deletion_by_force_cancels_what_runs_and_what_waits_behind_it(compiled: Compile, store: Store) -> None:
    begun, go, ended = Event(), Event(), Event()

    def slow(state: Log) -> dict[str, Any]:
        begun.set()
        go.wait(10)
        ended.set()
        return {"log": ["late"]}

    app = compiled(chain(graph(slow=slow), "slow"))
    handle = app.submit(said(), T)
    app.submit(said("Behind"), T)
    assert begun.wait(10)
    asyncio.run(app.adelete_thread(T, force=True))
    assert store.thread("T") is None
    go.set()
    assert ended.wait(10)
    assert (store.thread("T"), store.run(handle.run_id), list(store.threads(limit=9))) == (None, None, [])


def test_of_two_deletions_by_force_at_once_the_late_one_finds_its_work_done(
    compiled: Compile, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = compiled(counting(), interrupt_before=["b"])
    app.invoke(said(), T)
    stale = store.thread("T")
    app.delete_thread(T, force=True)
    seen = iter([stale, stale])
    with monkeypatch.context() as patched:
        patched.setattr(store, "thread", lambda _: next(seen, None))
        app.delete_thread(T, force=True)
    assert next(seen, None) is None, "it saw the run that was gone by then"


def test_a_clock_that_was_set_back_keeps_nobody_from_deleting(compiled: Compile, store: Store) -> None:
    app = compiled(counting())
    app.invoke(said(), T)
    later_ms = store.now_ms() + 3_600_000
    if isinstance(store, MemoryStore):
        store._threads["T"].idle_ms = later_ms
    else:
        assert isinstance(store, RedisStore)
        store._scripts.client.hset(store._keys.base("T") + "thread", "idle_ms", later_ms)
    app.delete_thread(T)
    assert store.thread("T") is None
