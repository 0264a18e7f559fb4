"""The merge: depends on image and updates in plan order alone, and writes what is new."""

import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tenxgraph.core.exceptions import GraphError, SerializationError
from tenxgraph.core.graph.merge import MergeConflict, ReducerError, merge
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.codec import EncodedUpdate, StateCodec
from tenxgraph.core.state.execution_state import ExecMeta
from tenxgraph.core.state.image import Patch, StateImage, Version, apply
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.reducers import (
    add_messages,
    append_items,
    replace_messages,
    replace_value,
)

Updates = Sequence[tuple[str, dict[str, Any]]]


class Finding(BaseModel):
    id: str | int | None
    text: str = ""


class Loose(BaseModel):
    id: float
    text: str = ""


def joined(left: str, right: str) -> str:
    return f"{left}>{right}"


def newest_first(left: list[int], right: list[int]) -> list[int]:
    return [*right, *left]


def appended_in_place(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left.extend(right)
    return left


def spoiling(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if left:
        left[-1]["spoiled"] = (1, 2) if "tuple" in right[0] else len(right)
    return left + right


def counted(left: int, right: list[str]) -> int:
    return left + len(right)


def kept(left: list[int], right: list[int]) -> list[int]:
    return left


def failing(left: int, right: int) -> int:
    raise KeyError("out of luck")


def wrong(left: int, right: int) -> Any:
    return "many"


def lossy(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {**left, "pair": (1, 2)}


class State(AgentState):
    plain: int = 0
    rows: list[int] = []
    trail: Annotated[str, joined] = "start"
    total: Annotated[int, operator.add] = 0
    count: Annotated[int, counted] = 0
    numbers: Annotated[list[int], operator.add] = []
    stack: Annotated[list[int], newest_first] = []
    notes: Annotated[list[dict[str, Any]], appended_in_place] = []
    spoiled: Annotated[list[dict[str, Any]], spoiling] = []
    frozen: Annotated[list[int], kept] = []
    findings: Annotated[list[Finding], append_items] = []
    loose: Annotated[list[Loose], append_items] = []
    history: Annotated[list[Message], replace_messages] = []
    latest: Annotated[int, replace_value] = 0
    newest: Annotated[list[int], replace_value] = []
    tags: set[str] = set()


class Faulty(AgentState):
    broken: Annotated[int, failing] = 0
    typed: Annotated[int, wrong] = 0
    paired: Annotated[dict[str, Any], lossy] = {}
    single: int = 0


CODEC = StateCodec(State, State())
FAULTY = StateCodec(Faulty, Faulty())


def message(at: str, said: str = "hello") -> Message:
    return Message.text_message(said, message_id=at)


def encoded(codec: StateCodec, updates: Updates) -> list[tuple[str, EncodedUpdate]]:
    return [(task, codec.validate_update(fields, place=f"node {task!r}")) for task, fields in updates]


def merged(image: StateImage, *updates: tuple[str, dict[str, Any]], codec: StateCodec = CODEC) -> Patch:
    return merge(codec, image, encoded(codec, updates))


def after(image: StateImage, *updates: tuple[str, dict[str, Any]]) -> StateImage:
    return apply(image, merged(image, *updates), Version(image.version.number + 1, "n"))


def state_of(image: StateImage) -> State:
    state: State = CODEC.build(image, None, ExecMeta(current_node="n"))
    return state


def fresh() -> StateImage:
    return apply(StateImage(), CODEC.initial_patch(), Version(1, "n"))


@pytest.fixture(params=["fresh", "empty"])
def image(request: pytest.FixtureRequest) -> StateImage:
    """A thread's first state, written and not yet written."""
    return fresh() if request.param == "fresh" else StateImage()


def test_updates_are_merged_in_the_order_given(image: StateImage) -> None:
    found = state_of(after(image, ("a", {"trail": "a", "stack": [1]}), ("b", {"trail": "b", "stack": [2]})))
    assert (found.trail, found.stack) == ("start>a>b", [2, 1])


def test_a_field_without_reducer_takes_the_new_value(image: StateImage) -> None:
    found = state_of(after(image, ("a", {"plain": 5, "rows": [1, 2]}), ("b", {"tags": {"x"}})))
    assert (found.plain, found.rows, found.tags) == (5, [1, 2], {"x"})


def test_two_tasks_that_write_a_field_without_reducer_are_named_with_it(image: StateImage) -> None:
    with pytest.raises(
        MergeConflict, match=r"'a' and 'b' of one step wrote State\.plain, which has no reducer"
    ) as caught:
        merged(image, ("a", {"plain": 5}), ("c", {"trail": "x"}), ("b", {"plain": 5}))
    assert isinstance(caught.value, GraphError)
    assert caught.value.to_dict() == {
        "error_type": "MergeConflict",
        "error_code": "MERGE_CONFLICT",
        "message": caught.value.message,
        "context": {"field": "plain", "tasks": ["a", "b"]},
    }


def test_of_two_replacing_updates_the_last_in_plan_order_counts(image: StateImage) -> None:
    found = after(
        image, ("a", {"latest": 1, "newest": [1], "history": [message("x")]}), ("b", {"latest": 2, "newest": [2]})
    )
    assert (state_of(found).latest, state_of(found).newest, len(state_of(found).history)) == (2, [2], 1)


def test_a_message_is_kept_once_and_the_first_wins(image: StateImage) -> None:
    first = after(image, ("in", {"context": [message("a", "one"), message("a", "two"), message("b")]}))
    second = merged(
        first, ("x", {"context": [message("b", "again"), message("c", "x")]}), ("y", {"context": message("c", "y")})
    )
    assert [CODEC.decode_item("context", item).text() for item in second.appends["context"]] == ["x"]
    assert [m.text() for m in state_of(first).context] == ["one", "hello"]


def test_items_are_deduped_by_id_and_those_without_id_are_all_kept(image: StateImage) -> None:
    first = after(image, ("a", {"findings": [Finding(id=1), Finding(id="1"), Finding(id=None)]}))
    second = after(first, ("b", {"findings": [Finding(id=1, text="again"), Finding(id=None), Finding(id=2**80)]}))
    assert [each.id for each in state_of(second).findings] == [1, "1", None, None, 2**80]


def test_items_with_other_ids_are_deduped_by_the_reducer_itself(image: StateImage) -> None:
    first = after(image, ("a", {"loose": [Loose(id=0.0)]}))
    second = merged(first, ("b", {"loose": [Loose(id=-0.0), Loose(id=2.0)]}))
    assert second.appends == {"loose": (b'{"id":2.0,"text":""}',)}


def test_merging_messages_decodes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    image = after(fresh(), ("in", {"context": [message(str(at)) for at in range(9)]}))
    updates = encoded(CODEC, [("a", {"context": [message("3"), message("new")]})])

    def refuse(data: bytes) -> Any:
        raise AssertionError("decoded")

    monkeypatch.setattr(CODEC.item_codec("context"), "decode", refuse)
    assert len(merge(CODEC, image, updates).appends["context"]) == 1


def test_only_what_is_new_is_written(image: StateImage) -> None:
    first = after(image, ("a", {"context": [message("a")], "numbers": [1], "rows": [1], "plain": 7, "tags": {"x"}}))
    patch = merged(
        first, ("b", {"numbers": [2, 3], "rows": [1, 4], "plain": 7, "tags": {"x"}, "context": [message("a")]})
    )
    assert patch == Patch(appends={"numbers": (b"2", b"3"), "rows": (b"4",)})


def test_a_list_that_no_longer_starts_as_it_did_is_rewritten(image: StateImage) -> None:
    first = after(image, ("a", {"stack": [1], "rows": [1, 2], "newest": [1]}))
    patch = merged(first, ("b", {"stack": [2], "rows": [1], "newest": []}))
    assert patch == Patch(rewrites={"stack": (b"2", b"1"), "rows": (b"1",), "newest": ()})


def test_nothing_changed_is_an_empty_patch(image: StateImage) -> None:
    first = after(image, ("a", {"numbers": [1], "frozen": [1], "newest": [1]}))
    assert merged(first, ("b", {"numbers": [], "frozen": [5], "newest": [1]}), ("c", {"context": []})).is_empty
    assert merged(first).is_empty


def test_the_initial_items_of_a_thread_not_yet_written_are_written_with_the_first_update() -> None:
    codec = StateCodec(State, State(context=[message("hi")], numbers=[1], rows=[1]))
    updates = {"context": [message("hi", "again"), message("a")], "numbers": [2], "rows": [1, 2], "total": 4}
    patch = merged(StateImage(), ("a", updates), codec=codec)
    state = codec.build(apply(StateImage(), patch, Version(1, "n")), None, ExecMeta(current_node="n"))
    assert [m.message_id for m in state.context] == ["hi", "a"]
    assert (state.numbers, state.rows, state.total) == ([1, 2], [1, 2], 4)


def test_an_update_of_the_reducers_own_type_is_merged(image: StateImage) -> None:
    assert state_of(after(image, ("a", {"count": ["x", "y"]}), ("b", {"count": ["z"]}))).count == 3


def test_a_reducer_that_returns_its_left_side_extended_appends(image: StateImage) -> None:
    first = after(image, ("a", {"notes": [{"n": 1}]}))
    assert merged(first, ("b", {"notes": [{"n": 2}]}), ("c", {"notes": [{"n": 3}]})).appends == {
        "notes": (b'{"n":2}', b'{"n":3}')
    }


def test_a_reducer_that_edits_the_old_items_does_not_spoil_the_image(image: StateImage) -> None:
    first = after(image, ("a", {"spoiled": [{"n": 1}]}))
    patch = merged(first, ("b", {"spoiled": [{"n": 2}]}))
    assert state_of(first).spoiled == [{"n": 1}]
    assert patch.rewrites == {"spoiled": (b'{"n":1,"spoiled":1}', b'{"n":2}')}


def test_a_reducer_that_raises_is_named_with_the_task_and_the_cause() -> None:
    with pytest.raises(ReducerError, match=r"reducer of Faulty\.broken raised KeyError on the update of 'b'") as caught:
        merged(StateImage(), ("a", {"single": 1}), ("b", {"broken": 1}), codec=FAULTY)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.context == {"field": "broken", "task": "b"}


def test_a_reducer_that_returns_another_type_is_named() -> None:
    with pytest.raises(
        ReducerError, match=r"Faulty\.typed returned what the field does not take, on the updates of 'a'"
    ):
        merged(StateImage(), ("a", {"typed": 1}), codec=FAULTY)


def test_a_reducer_whose_value_does_not_come_back_equal_is_refused() -> None:
    with pytest.raises(SerializationError, match=r"Faulty\.paired was set by its reducer on .* 'a' and 'b'"):
        merged(StateImage(), ("a", {"paired": {}}), ("b", {"paired": {}}), codec=FAULTY)


def test_a_reducer_that_spoils_an_old_item_is_refused() -> None:
    first = after(fresh(), ("a", {"spoiled": [{"n": 1}]}))
    with pytest.raises(SerializationError, match="tuple came back as list"):
        merged(first, ("b", {"spoiled": [{"tuple": 2}]}))


FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "context": add_messages,
    "findings": append_items,
    "loose": append_items,
    "trail": joined,
    "total": operator.add,
    "count": counted,
    "numbers": operator.add,
    "stack": newest_first,
    "history": replace_messages,
    "latest": replace_value,
    "newest": replace_value,
}
numbers = st.lists(st.integers(0, 3), max_size=3)
some_messages = st.lists(st.builds(message, st.sampled_from("abcdef"), st.sampled_from("xy")), max_size=4)
update = st.fixed_dictionaries(
    {},
    optional={
        "context": some_messages,
        "history": some_messages,
        "findings": st.lists(st.builds(Finding, id=st.sampled_from([1, "1", 2, None]), text=st.text("xy", max_size=1))),
        "loose": st.lists(st.builds(Loose, id=st.sampled_from([0.0, -0.0, 1.5]))),
        "trail": st.text("ab", max_size=2),
        "total": st.integers(),
        "count": st.lists(st.text("a"), max_size=2),
        "numbers": numbers,
        "stack": numbers,
        "newest": numbers,
        "latest": st.integers(),
    },
)


def said(items: Any) -> Any:
    is_messages = isinstance(items, list) and items and isinstance(items[0], Message)
    return [(m.message_id, m.text()) for m in items] if is_messages else items


@settings(deadline=None)
@given(st.lists(st.lists(update, max_size=3), max_size=4), st.booleans())
def test_merge_equals_folding_the_reducers_by_hand(steps: list[list[dict[str, Any]]], is_written: bool) -> None:
    image = fresh() if is_written else StateImage()
    expected = State().model_dump(include=set(FOLDS))
    for step in steps:
        image = after(image, *[(f"task {at}", fields) for at, fields in enumerate(step)])
        for fields in step:
            for name, right in fields.items():
                expected[name] = FOLDS[name](expected[name], right)
    assert {name: said(getattr(state_of(image), name)) for name in FOLDS} == {
        name: said(value) for name, value in expected.items()
    }


@settings(deadline=None)
@given(st.lists(update, max_size=3), st.lists(update, max_size=3))
def test_a_merge_neither_changes_its_image_nor_depends_on_earlier_ones(
    before: list[dict[str, Any]], step: list[dict[str, Any]]
) -> None:
    image = after(fresh(), *[(f"task {at}", fields) for at, fields in enumerate(before)])
    content = {name: list(log) for name, log in image.lists.items()}, dict(image.values)
    updates = encoded(CODEC, [(f"task {at}", fields) for at, fields in enumerate(step)])
    first = merge(CODEC, image, updates)
    once, twice = (apply(image, first, Version(9, "n")) for _ in range(2))
    assert merge(CODEC, image, updates) == first
    assert once == twice
    assert ({name: list(log) for name, log in image.lists.items()}, dict(image.values)) == content
