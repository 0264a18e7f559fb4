"""Ids: what is explicit wins, what the container says comes next, what is derived repeats."""

import asyncio
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

import pytest
from injectq import InjectQ

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import Message, generate_id
from tenxgraph.utils.ids import DerivedIds, IdType, id_source_scope


@pytest.fixture
def container() -> Iterator[InjectQ]:
    """Yield the container that ``InjectQ.get_instance()`` returns meanwhile."""
    box = InjectQ()
    with box.context():
        yield box


def a_container(**bound: Any) -> InjectQ:
    box = InjectQ()
    for name, value in bound.items():
        box[name] = value
    return box


def test_an_id_is_a_uuid4_text_unless_configured(container: InjectQ) -> None:
    made = generate_id(None)
    assert isinstance(made, str)
    assert uuid.UUID(made).version == 4
    assert generate_id() != made


@pytest.mark.parametrize(("id_type", "bits"), [("int", 96), ("bigint", 64)])
def test_integer_ids_have_the_configured_width(container: InjectQ, id_type: str, bits: int) -> None:
    container["generated_id_type"] = id_type
    made = [generate_id(None) for _ in range(64)]
    assert all(isinstance(one, int) and 0 <= one < 2**bits for one in made)
    assert max(int(one) for one in made) >= 2 ** (bits - 8)
    assert len(set(made)) == 64


def test_an_explicit_id_of_the_configured_type_wins_even_over_generated_id(container: InjectQ) -> None:
    container["generated_id"] = "from the container"
    assert generate_id("mine") == "mine"
    assert Message.text_message("hi", message_id="mine").message_id == "mine"
    container["generated_id_type"] = "bigint"
    assert generate_id(2**96) == 2**96
    assert generate_id(0) == 0


def test_an_explicit_id_of_the_other_type_gives_way_to_a_new_one(container: InjectQ) -> None:
    container["generated_id_type"] = "int"
    assert isinstance(generate_id("text"), int)
    assert generate_id(True) is not True


@pytest.mark.parametrize("nothing", [None, ""])
def test_nothing_is_no_explicit_id(container: InjectQ, nothing: str | None) -> None:
    assert generate_id(nothing)


async def _later() -> str:
    await asyncio.sleep(0)
    return "later"


class _Awaitable:
    def __await__(self) -> Any:
        return _later().__await__()


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (lambda: "value", "value"),
        (lambda: lambda: "called", "called"),
        (lambda: _later, "later"),
        (_later, "later"),
        (_Awaitable, "later"),
        (lambda: partial(_later), "later"),
    ],
    ids=["value", "callable", "coroutine function", "coroutine", "awaitable", "callable that returns a coroutine"],
)
def test_generated_id_may_be_a_value_a_callable_or_awaitable(container: InjectQ, bound: Any, expected: str) -> None:
    container["generated_id"] = bound()

    async def in_a_loop() -> list[str | int]:
        return [generate_id(None), Message.text_message("hi").message_id]

    assert [generate_id(None), generate_id(None)] == [expected, expected]
    assert asyncio.run(in_a_loop()) == [expected, expected]


def test_generated_id_may_be_a_factory_of_the_container(container: InjectQ) -> None:
    container.factories["generated_id"] = iter(range(7, 99)).__next__
    container["generated_id_type"] = "int"
    assert [generate_id(None), generate_id(None)] == [7, 8]


def test_generated_id_that_is_none_leaves_it_to_the_type(container: InjectQ) -> None:
    container["generated_id"] = lambda: None
    assert uuid.UUID(str(generate_id(None))).version == 4


def test_a_coroutine_sees_the_context_of_its_caller(container: InjectQ) -> None:
    async def current() -> bool:
        return InjectQ.get_instance() is container

    async def as_id() -> str:
        return str(await current())

    async def in_a_loop() -> str | int:
        return generate_id(None)

    container["generated_id"] = as_id
    assert asyncio.run(in_a_loop()) == "True"


@pytest.mark.parametrize("bad", [1.5, b"bytes", uuid.UUID(int=1), True])
def test_a_generated_id_that_is_no_id_is_refused_by_its_type(container: InjectQ, bad: object) -> None:
    container["generated_id"] = lambda: bad
    with pytest.raises(GraphError, match=type(bad).__name__):
        generate_id(None)


def test_an_unknown_id_type_is_refused_by_name(container: InjectQ) -> None:
    container["generated_id_type"] = "ulid"
    with pytest.raises(GraphError, match="'ulid'"):
        generate_id(None)


class _Numbered:
    id_type: IdType = "string"

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def next_id(self) -> str:
        self.count += 1
        return f"{self.name}{self.count}"


def test_a_message_asks_the_source_of_its_scope_and_scopes_nest() -> None:
    outer, inner = _Numbered("outer"), _Numbered("inner")
    with id_source_scope(outer):
        first = Message(role="user", content=[])
        with id_source_scope(inner):
            second = Message.text_message("hi")
            explicit = Message.text_message("hi", message_id="explicit")
        third = Message.text_message("hi")
    assert [m.message_id for m in (first, second, explicit, third)] == ["outer1", "inner1", "explicit", "outer2"]
    assert generate_id(None) not in {"outer3", "inner2"}


def test_a_scope_ends_with_the_error_that_leaves_it() -> None:
    with pytest.raises(KeyError), id_source_scope(_Numbered("gone")):
        raise KeyError
    assert generate_id(None) != "gone1"


def test_only_an_id_that_was_given_counts_as_set() -> None:
    assert "message_id" not in Message.text_message("hi").model_fields_set
    assert "message_id" not in Message.tool_message([]).model_fields_set
    assert "message_id" in Message.text_message("hi", message_id="x").model_fields_set


def test_derived_ids_repeat_with_the_attempt_and_differ_by_every_coordinate() -> None:
    def ids_of(run: str, step: int, task: int | str) -> list[str | int]:
        source = DerivedIds(run, step, task, a_container())
        return [source.next_id() for _ in range(3)]

    places: list[tuple[str, int, int | str]] = [("r", 0, 0), ("r", 0, 1), ("r", 1, 0), ("r2", 0, 0), ("r", 0, "0")]
    made = [one for place in places for one in ids_of(*place)]
    assert len(set(made)) == 15
    assert made == [one for place in places for one in ids_of(*place)]
    assert all(str(uuid.UUID(str(one))) == one for one in made)


def test_derived_ids_are_the_same_in_every_process() -> None:
    """Pinned: attempts before and after an upgrade must agree."""
    pinned: dict[str, str | int] = {
        "string": "5e5570f7-39d0-59ce-ac73-e5252b95b826",
        "int": 29194883083431651868945933605,
        "bigint": 6797463419714861518,
    }
    made = {kind: DerivedIds("run", 2, 3, a_container(generated_id_type=kind)).next_id() for kind in pinned}
    assert made == pinned


@pytest.mark.parametrize(("id_type", "bits"), [("int", 96), ("bigint", 64)])
def test_derived_integers_have_the_configured_width(id_type: str, bits: int) -> None:
    source = DerivedIds("r", 0, 0, a_container(generated_id_type=id_type))
    made = [int(source.next_id()) for _ in range(64)]
    assert 2 ** (bits - 8) <= max(made) < 2**bits
    with id_source_scope(source):
        assert generate_id(2**95) == 2**95
        assert isinstance(generate_id("text"), int)


def test_the_containers_generated_id_wins_over_derivation() -> None:
    with id_source_scope(DerivedIds("r", 0, 0, a_container(generated_id=_later))):
        assert generate_id(None) == "later"
        assert generate_id("mine") == "mine"


def test_threads_that_share_a_source_get_different_ids() -> None:
    with id_source_scope(DerivedIds("r", 0, 0, a_container())), ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda context: context.run(generate_id), [copy_context() for _ in range(200)]))
    expected = DerivedIds("r", 0, 0, a_container())
    assert set(made) == {expected.next_id() for _ in range(200)}


def test_the_graphs_id_generator_wins_over_the_container_and_over_derivation() -> None:
    container = InjectQ()
    container.bind_instance("generated_id", "by-container")
    assert DerivedIds("r", 1, 0, container, generator=lambda: "by-graph").next_id() == "by-graph"
    assert DerivedIds("r", 1, 0, container, generator=lambda: None).next_id() == "by-container"
    with pytest.raises(GraphError, match="id_generator gave a float"):
        DerivedIds("r", 1, 0, container, generator=lambda: 0.5).next_id()


def test_messages_of_nodes_get_their_ids_from_the_graphs_id_generator() -> None:
    graph = StateGraph(id_generator=lambda: f"X{uuid.uuid4().hex}").add_node("n", lambda _: "hello")
    result = graph.set_entry_point("n").compile().invoke({"messages": [Message.text_message("hi")]})
    assert result["messages"][-1].message_id.startswith("X")
