"""Wrong calls: each error names the thing, the place and the next move, and nothing was written."""

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tenxgraph.core.exceptions import (
    GraphError,
    InterruptConflictError,
    InvalidInputError,
    TenxGraphError,
    ThreadOwnerError,
)
from tenxgraph.core.graph import CompiledGraph, StateGraph
from tenxgraph.core.state import AgentState, ExecutionState, Message
from tenxgraph.store.memory import MemoryStore
from tests.graphs.suite import CASES


class Order(AgentState):
    """A state with fields of its own."""

    city: str = ""
    count: int = 0
    anything: Any = None


def _app(store: MemoryStore, name: str = "orders") -> CompiledGraph[Order]:
    graph = StateGraph(Order, name=name).add_node("only", lambda state: {"count": state.count + 1})
    return graph.set_entry_point("only").compile(checkpointer=store)


HI = Message.text_message("Hi", message_id="hi")
SAID: dict[str, Any] = {"messages": [HI]}
THREAD = {"thread_id": "T"}

INPUTS: dict[str, tuple[Any, str]] = {
    "a text": ("Hi", r"input is a str: pass a dict with messages, state or resume"),
    "a list": ([HI], r"input is a list: pass a dict"),
    "a message": (HI, r"input is a Message: pass a dict"),
    "unknown key": ({"message": [HI]}, r"unknown keys message: it takes messages, state and resume"),
    "a field beside state": ({**SAID, "city": "Paris"}, r"unknown keys city.*under state"),
    "empty": ({}, r"input is empty: give messages"),
    "nothing on a new thread": (None, r"'T' has no .*run to continue: pass messages"),
    "no messages on a new thread": ({"messages": []}, r"'T' is new and the input has no messages"),
    "only state on a new thread": ({"state": {"city": "Rome"}}, r"'T' is new and the input has no messages"),
    "messages is a text": ({"messages": "Hi"}, r"messages is a str: pass a list, such as"),
    "messages is a message": ({"messages": HI}, r"messages is a Message: pass a list"),
    "messages is a dict": ({"messages": {"role": "user"}}, r"messages is a dict: pass a list"),
    "messages is nothing": ({"messages": None}, r"messages is a NoneType: pass a list"),
    "an item is a text": ({"messages": [HI, "Ho"]}, r"messages\[1\] is a str: pass a Message"),
    "an item with a wrong role": (
        {"messages": [{"role": "robot", "content": []}]},
        r"messages\[0\]\.role is wrong: .*'user', 'assistant', 'system' or 'tool'",
    ),
    "an item without content": ({"messages": [{"role": "user"}]}, r"messages\[0\]\.content is wrong: Field required"),
    "an unknown block": (
        {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]},
        r"messages\[0\]\.content.*hologram",
    ),
    "state is a list": ({**SAID, "state": ["city"]}, r"state is a list: pass a dict of field name to value"),
    "state is nothing": ({**SAID, "state": None}, r"state is a NoneType: pass a dict"),
    "a value of another type": ({**SAID, "state": {"count": "many"}}, r"Order by the input sets 'count' .*integer"),
    "a value that cannot be stored": (
        {**SAID, "state": {"anything": object()}},
        r"Order\.anything was set by the input to a object that cannot be stored .*Declare the exact type",
    ),
    "a value that would come back another": (
        {**SAID, "state": {"anything": (1, 2)}},
        r"Order\.anything was set by the input to a tuple that cannot be stored and read back equal",
    ),
}

CONFIGS: dict[str, tuple[Any, str]] = {
    "a text": ("T", r"config is a str: pass a dict such as \{'thread_id': 'demo'\}"),
    "thread_id is a number": ({"thread_id": 7}, r"config\['thread_id'\] is 7: it must be a text"),
    "thread_id is empty": ({"thread_id": ""}, r"config\['thread_id'\] is '': it must be a text"),
    "thread_id is half a character": (
        {"thread_id": "\ud800"},
        r"config\['thread_id'\] is '\\ud800': it must be a text",
    ),
    "user_id is a number": ({"user_id": 7}, r"config\['user_id'\] is 7: it must be a text"),
    "run_id is bytes": ({"run_id": b"R"}, r"config\['run_id'\] is b'R': it must be a text"),
    "recursion_limit is 0": ({"recursion_limit": 0}, r"config\['recursion_limit'\] is 0: .*whole number above 0"),
    "recursion_limit is a text": ({"recursion_limit": "25"}, r"config\['recursion_limit'\] is '25'"),
    "recursion_limit is True": ({"recursion_limit": True}, r"config\['recursion_limit'\] is True"),
    "recursion_limit is 2.5": ({"recursion_limit": 2.5}, r"config\['recursion_limit'\] is 2\.5"),
    "timeout_s is negative": (
        {"timeout_s": -1},
        r"config\['timeout_s'\] is -1: it must be a number of seconds above 0",
    ),
    "timeout_s is no number": ({"timeout_s": math.nan}, r"config\['timeout_s'\] is nan"),
    "timeout_s has no end": ({"timeout_s": math.inf}, r"config\['timeout_s'\] is inf"),
    "strategy": (
        {"multitask_strategy": "wait"},
        r"config\['multitask_strategy'\] is 'wait': .*'enqueue', 'reject', 'interrupt', 'rollback'",
    ),
    "priority": ({"priority": 10}, r"config\['priority'\] is 10: it must be a whole number from 0 to 9"),
    "start_after_s": ({"start_after_s": -0.1}, r"config\['start_after_s'\] is -0\.1: .*0 or more"),
    "an object": ({"client": object()}, r"config\['client'\] is a object that JSON does not hold: .*in the node"),
    "a tuple": ({"pair": (1, 2)}, r"config\['pair'\] is a tuple that JSON does not hold"),
    "a wide number": ({"wide": 2**70}, r"config\['wide'\] is a int that JSON does not hold"),
    "no number": ({"limit": math.nan}, r"config\['limit'\] is a float that JSON does not hold"),
    "a key that is no text": ({7: "x"}, r"config\[7\]"),
}


def _refused(
    store: MemoryStore, call: Callable[[], Any], match: str, kind: type[TenxGraphError] = InvalidInputError
) -> None:
    before = _all_of(store)
    with pytest.raises(kind, match=re.compile(match, re.DOTALL)) as caught:
        call()
    assert caught.value.error_code
    assert caught.value.to_dict()["message"] == caught.value.message
    assert _all_of(store) == before


def _all_of(store: MemoryStore) -> Any:
    threads = store.threads(limit=100)
    runs = {thread.thread_id: store.runs(thread.thread_id) for thread in threads}
    events = {run.run_id: store.events(name, run.run_id, "", timeout_s=0) for name in runs for run in runs[name]}
    return threads, runs, events, store.next_due_ms()


@pytest.mark.parametrize(("given", "match"), INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("how", ["invoke", "submit", "stream"])
def test_a_wrong_input_is_refused_before_anything_is_written(how: str, given: Any, match: str) -> None:
    store = MemoryStore()
    app = _app(store)
    kind = TenxGraphError if "stored" in match else InvalidInputError
    _refused(store, lambda: list(getattr(app, how)(given, THREAD)), match, kind)
    assert store.threads(limit=9) == []


@pytest.mark.parametrize(("config", "match"), CONFIGS.values(), ids=CONFIGS)
def test_a_wrong_config_is_refused_before_anything_is_written(config: Any, match: str) -> None:
    store = MemoryStore()
    _refused(store, lambda: _app(store).invoke(SAID, config), match)
    assert store.threads(limit=9) == []


@pytest.mark.parametrize("given", ["everything", "", None, 3])
def test_a_wrong_granularity_is_refused_before_anything_is_written(given: Any) -> None:
    store = MemoryStore()
    app = _app(store)
    match = r"response_granularity is .*: choose one of 'full', 'partial', 'low'"
    _refused(store, lambda: app.invoke(SAID, THREAD, given), match)
    _refused(store, lambda: list(app.stream(SAID, THREAD, given)), match)
    run_id = app.invoke(SAID, THREAD)["run_id"]
    _refused(store, lambda: app.get_run(run_id).result(response_granularity=given), match)
    _refused(store, lambda: list(app.get_run(run_id).stream(response_granularity=given)), match)


def test_fields_that_the_state_does_not_take_from_outside_are_ignored_with_a_warning() -> None:
    app = _app(MemoryStore())
    given = {
        "city": "Rome",
        "colour": "red",
        "context": [HI],
        "context_summary": "s",
        "execution_meta": ExecutionState(),
    }
    with pytest.warns(
        UserWarning, match=r"sets colour, context, context_summary, execution_meta, which Order does not"
    ):
        app.invoke({**SAID, "state": given}, THREAD)
    state = app.get_state(THREAD).state
    assert (state.city, state.context_summary, len(state.context)) == ("Rome", None, 1)


def test_another_users_thread_is_refused_to_every_call() -> None:
    store = MemoryStore()
    app = _app(store)
    app.invoke(SAID, {**THREAD, "user_id": "ann"})
    for call in (
        lambda: app.invoke(SAID, {**THREAD, "user_id": "bob"}),
        lambda: app.invoke(SAID, THREAD),
        lambda: app.invoke(None, {**THREAD, "user_id": "bob"}),
        lambda: app.invoke({"resume": 1}, {**THREAD, "user_id": "bob"}),
        lambda: app.get_state({**THREAD, "user_id": "bob"}),
        lambda: app.stop({**THREAD, "user_id": "bob"}),
    ):
        _refused(store, call, r"'T' belongs to another user than '(bob|anonymous)'", ThreadOwnerError)


def test_a_thread_of_another_graph_is_refused_naming_both() -> None:
    store = MemoryStore()
    _app(store).invoke(SAID, THREAD)
    other = _app(store, "billing")
    match = r"'T' belongs to graph 'orders', not to 'billing': use another thread_id"
    for call in (
        lambda: other.invoke(SAID, THREAD),
        lambda: other.invoke(None, THREAD),
        lambda: other.invoke({"resume": 1}, THREAD),
        lambda: other.get_state(THREAD),
    ):
        _refused(store, call, match)


def test_a_run_id_names_one_run_for_ever() -> None:
    store = MemoryStore()
    app = _app(store)
    app.invoke(SAID, {**THREAD, "run_id": "R"})
    match = r"run_id 'R' was used on thread 'T' with another thread, user or input: .*take a new one"
    other_text = {"messages": [Message.text_message("Ho")]}
    for given, config in [
        (SAID, {"thread_id": "U"}),
        (other_text, THREAD),
        ({**SAID, "state": {"city": "Rome"}}, THREAD),
        (None, THREAD),
    ]:
        _refused(store, partial(app.invoke, given, {**config, "run_id": "R"}), match)


def test_a_state_that_is_not_there_is_refused_by_name() -> None:
    store = MemoryStore()
    app = _app(store)
    _refused(store, lambda: app.get_state(THREAD), r"There is no thread 'T' in this store: name one")
    _refused(store, lambda: app.get_state({}), r"There is no thread None in this store")
    _refused(store, lambda: app.stop({"thread_id": "T"}), r"There is no thread 'T'")
    app.invoke(SAID, THREAD)
    for number in (0, 3, -1, 99):
        _refused(store, partial(app.get_state, THREAD, number), rf"no checkpoint {number}; the newest is 2")
    for odd in ("1", True, 1.5):
        _refused(store, partial(app.get_state, THREAD, odd), r"checkpoint is .*: it must be a whole number")  # type: ignore[arg-type]  # wrong on purpose


def test_an_answer_to_nothing_is_a_conflict() -> None:
    store = MemoryStore()
    app = _app(store)
    _refused(
        store,
        lambda: app.invoke({"resume": 1}, THREAD),
        "Nothing waits for this answer on thread 'T'",
        InterruptConflictError,
    )
    app.invoke(SAID, THREAD)
    _refused(store, lambda: app.invoke({"resume": 1}, THREAD), "Nothing waits", InterruptConflictError)


def test_a_wrong_answer_to_a_question_changes_nothing() -> None:
    store = MemoryStore()
    app = CASES["question"].compile(checkpointer=store)
    app.invoke(SAID, THREAD)
    for given, match in [
        ({"resume": "maybe"}, r"does not fit its schema: 'maybe' is not of type 'boolean'\. Nothing was changed"),
        ({"resume": object()}, r"is a object that JSON does not hold: pass plain values"),
        ({"resume": True, **SAID}, r"\{\"resume\": …\} goes alone, without messages and state"),
        ({"resume": True, "state": {"count": 1}}, r"goes alone"),
        (SAID, r"waits for an answer to '.*approve.*': call with \{\"resume\": answer\}\. Nothing was changed"),
        (None, r"waits for an answer"),
    ]:
        _refused(store, partial(app.invoke, given, THREAD), match)
    assert app.invoke({"resume": True}, THREAD)["status"] == "completed"


def test_several_questions_and_an_answer_that_names_none() -> None:
    store = MemoryStore()
    app = CASES["three_questions_at_once"].compile(checkpointer=store)
    ids = [asked["id"] for asked in app.invoke(SAID, THREAD)["interrupts"]]
    listed = ", ".join(re.escape(repr(name)) for name in ids)
    for answer in ("yes", {"one": 1}, {ids[0]: 1, "other": 2}, {}):
        _refused(
            store,
            partial(app.invoke, {"resume": answer}, THREAD),
            rf"3 answers, so name which: .*{listed}",
        )


def test_what_compile_does_not_know_is_refused() -> None:
    graph = StateGraph().add_node("a", lambda state: None).set_entry_point("a")
    for options in (
        {"steps": "batch"},
        {"checkpointer": object()},
        {"checkpointer": MemoryStore(), "redis_url": "redis://x"},
    ):
        with pytest.raises(GraphError, match=rf"compile\(\): {list(options)[-1]} must be"):
            graph.compile(**options)
