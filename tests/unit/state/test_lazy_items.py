"""Lists that decode their items at first access: whoever reads one sees the items, or hears that he cannot."""

import bisect
import copy
import heapq
import json
import operator
import pickle
import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from tenxgraph.core.state.lazy_items import (
    LazyItems,
    LazyStateMixin,
    Undecoded,
    UndecodedItemError,
    decoded,
    raw,
)
from tenxgraph.core.state.message import Message

MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


def lazy(items: list[Any]) -> LazyItems[Any]:
    return LazyItems([Undecoded(orjson.dumps(item), orjson.loads) for item in items])


def messages(count: int = 3) -> list[Message]:
    return [Message.text_message(f"text {at}", message_id=f"id-{at}") for at in range(count)]


def lazy_messages(count: int = 3) -> LazyItems[Message]:
    encoded = map(MESSAGE.dump_json, messages(count))
    return LazyItems([Undecoded(data, MESSAGE.validate_json) for data in encoded])


def ids(items: Any) -> list[Any]:
    return [item.message_id for item in items]


def undecoded_count(items: LazyItems[Any]) -> int:
    return sum(type(item) is Undecoded for item in raw(items))


def test_only_what_is_looked_at_is_decoded() -> None:
    items = lazy([1, 2, 3, 4])
    assert items[-1] == 4
    assert next(iter(items)) == 1
    assert undecoded_count(items) == 2


def test_an_item_stays_the_same_object_so_that_edits_persist() -> None:
    items = lazy([{"n": 1}, {"n": 2}])
    items[0]["n"] = 5
    assert items[0] == {"n": 5}
    assert next(iter(items)) is items[0] is items[0:1][0] is next(reversed(list(reversed(items))))


def test_two_lists_over_the_same_markers_own_their_objects() -> None:
    markers = [Undecoded(b'{"n":1}', orjson.loads)]
    first, second = LazyItems[Any](markers), LazyItems[Any](markers)
    first[0]["n"] = 2
    assert second[0] == {"n": 1}


def test_threads_that_meet_in_the_decoding_get_the_same_object() -> None:
    meeting = Barrier(2)

    def decode(data: bytes) -> list[bytes]:
        with suppress(BrokenBarrierError):
            meeting.wait(0.1)
        return [data]

    items: LazyItems[list[bytes]] = LazyItems([Undecoded(b"1", decode)])
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: items[0], range(2))
    assert first is second


def test_a_list_laid_over_a_part_of_itself_repeats_its_objects() -> None:
    items = lazy([{"n": 1}, {"n": 2}])
    items[1:] = items
    assert items == [{"n": 1}, {"n": 1}, {"n": 2}]
    assert items[0] is items[1]


def test_only_the_wanted_length_of_the_markers_is_taken() -> None:
    markers = [Undecoded(b"1", orjson.loads), Undecoded(b"2", orjson.loads)]
    assert list(LazyItems(markers, 1)) == [1]


def unpacked(items: Any) -> list[Any]:
    first, *rest = items
    return [first, *rest]


def matched(items: Any) -> list[Any]:
    match items:
        case [first, *rest, last]:
            return [first, *rest, last]
    return []


def as_tuple(items: Any) -> tuple[Any, ...]:
    found = tuple(items)
    assert not any(type(item) is Undecoded for item in found)
    return found


def collected(*args: Any) -> list[Any]:
    return list(args)


def added(left: Any, right: Any) -> Any:
    return left + right


def assigned_over(items: Any) -> list[Any]:
    target = [0]
    target[:] = items
    return target


def extended(items: Any) -> list[Any]:
    target: list[Any] = []
    target.extend(items)
    return target


def added_in_place(items: Any) -> list[Any]:
    target: list[Any] = []
    alias = target
    target += items
    assert alias is target
    return alias


def slices_assigned_to_itself(items: Any) -> list[Any]:
    items[:] = items
    return list(items)


READINGS: dict[str, Callable[[Any], list[Any]]] = {
    "list": list,
    "tuple": lambda items: [*as_tuple(items)],
    "star": lambda items: [*items],
    "call": lambda items: collected(*items),
    "unpack": unpacked,
    "match": matched,
    "x + a": lambda items: added(items, []),
    "a + x": lambda items: added([], items),
    "x + x": lambda items: (items + items)[: len(items)],
    "x * 1": lambda items: items * 1,
    "1 * x": lambda items: 1 * items,
    "a += x": added_in_place,
    "slice": lambda items: items[:],
    "backwards slice": lambda items: items[::-1][::-1],
    "reversed": lambda items: list(reversed(list(reversed(items)))),
    "slice assignment": assigned_over,
    "slice assignment to itself": slices_assigned_to_itself,
    "extend": extended,
    "list.copy": lambda items: items.copy(),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "deepcopy inside": lambda items: copy.deepcopy({"a": items})["a"],
    "pickle": lambda items: pickle.loads(pickle.dumps(items)),
    "pickle protocol 0": lambda items: pickle.loads(pickle.dumps(items, 0)),
    "json": lambda items: json.loads(json.dumps(items)),
    "json inside": lambda items: json.loads(json.dumps({"a": [items]}))["a"][0],
    "indented json": lambda items: json.loads(json.dumps(items, indent=1)),
    "pop": lambda items: [items.pop() for _ in range(len(items))][::-1],
    "map": lambda items: list(map(decoded, items)),
    "repr": lambda items: json.loads(repr(items)),
    "str": lambda items: json.loads(str(items)),
    "format": lambda items: json.loads(f"{items}"),
    "any adapter": lambda items: TypeAdapter[Any](Any).dump_python(items),
    "any adapter json": lambda items: json.loads(TypeAdapter[Any](Any).dump_json(items)),
}


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_every_way_of_reading_gives_the_items(reading: Callable[[Any], list[Any]]) -> None:
    assert reading(lazy([[1], 2, 3])) == [[1], 2, 3]


@pytest.mark.parametrize("name", ["list.copy", "copy", "deepcopy", "pickle", "slice", "x + a", "a + x", "x * 1"])
def test_copies_are_plain_lists(name: str) -> None:
    assert type(READINGS[name](lazy([1, 2]))) is list


def test_a_copy_shares_its_items_and_a_deep_copy_does_not() -> None:
    items = lazy([{"n": 1}])
    assert copy.copy(items)[0] is items[0] is added(items, [])[0]
    assert copy.deepcopy(items)[0] is not items[0]


def test_comparisons_look_at_the_items() -> None:
    assert lazy([1, 2]) == [1, 2]
    assert operator.eq([1, 2], lazy([1, 2]))
    assert lazy([1, 2]) == lazy([1, 2])
    assert lazy([1, 2]) != [1, 3]
    assert operator.lt([1, 2], lazy([1, 3]))
    assert lazy([1, 3]) > lazy([1, 2])
    assert lazy([1]) <= [1] <= lazy([1])
    assert lazy([1]) >= lazy([1])
    assert {"a": lazy([1])} == {"a": [1]}


def test_searches_look_at_the_items() -> None:
    items = lazy([3, 1, 2])
    assert 2 in items
    assert 7 not in items
    assert (lazy([3, 1]).index(1), lazy([1, 1]).count(1)) == (1, 2)
    assert (min(lazy([3, 1])), max(lazy([3, 1])), sum(lazy([3, 1])), sorted(lazy([3, 1]))) == (1, 3, 4, [1, 3])
    assert (set(lazy([1])), dict(enumerate(lazy([1])))) == ({1}, {0: 1})
    assert any(lazy([0, 1]))
    assert not all(lazy([0, 1]))
    assert operator.itemgetter(0)(lazy([5])) == 5
    assert bisect.bisect(lazy([1, 2, 3]), 2) == 2
    assert random.Random(1).choice(lazy([4])) == 4


def test_membership_stops_at_the_first_match() -> None:
    items = lazy([1, 2, 3])
    assert 1 in items
    assert undecoded_count(items) == 2


def test_changes_work_as_on_a_list() -> None:
    items = lazy([3, 1, 2])
    items.append(9)
    items.insert(0, 8)
    items[1] = 7
    del items[2]
    assert items == [8, 7, 2, 9]
    items.remove(7)
    items.reverse()
    assert list(items) == [9, 2, 8]
    items.sort(key=lambda item: -item)
    assert list(items) == [9, 8, 2]
    items += lazy([5])
    items.extend(items)
    assert list(items) == [9, 8, 2, 5, 9, 8, 2, 5]
    items *= 2
    assert len(items) == 16
    items[2:] = lazy([6])
    assert items == [9, 8, 6]
    items.clear()
    assert items == []


def test_repeating_a_list_repeats_its_objects() -> None:
    items = lazy([{"n": 1}])
    items *= 2
    assert items[0] is items[1]


@given(st.lists(st.integers(0, 5), max_size=6), st.lists(st.tuples(st.integers(0, 9), st.integers(-7, 7)), max_size=8))
def test_any_sequence_of_changes_ends_as_on_a_list(start: list[int], changes: list[tuple[int, int]]) -> None:
    items, plain = lazy(start), list(start)
    for kind, at in changes:
        outcomes = [_changed(each, kind, at) for each in (items, plain)]
        assert outcomes[0] == outcomes[1]
    assert list(items) == plain


def _changed(items: list[int], kind: int, at: int) -> Any:
    actions: list[Callable[[], Any]] = [
        lambda: items.pop(at),
        lambda: items.insert(at, at),
        lambda: items.__delitem__(at),
        lambda: items.__setitem__(at, 99),
        lambda: items[at:],
        items.reverse,
        items.sort,
        lambda: items.index(at),
        lambda: items.remove(at),
        lambda: items[at],
    ]
    try:
        return actions[kind]()
    except (IndexError, ValueError) as error:
        return type(error)


class Holder(LazyStateMixin):
    model_config = ConfigDict(validate_assignment=True)

    context: list[Message] = []
    extra: list[Any] = []


class Foreign(BaseModel):
    history: list[Message]


class Untyped(BaseModel):
    history: list  # type: ignore[type-arg]  # what is tested


def holder() -> Holder:
    return Holder.model_construct(context=lazy_messages(), extra=lazy([1, {"a": 2}]))


def test_a_state_dumps_its_lazy_lists() -> None:
    eager = Holder(context=messages(), extra=[1, {"a": 2}])
    for at, message in enumerate(eager.context):
        message.timestamp = holder().context[at].timestamp = 1.0
    state = holder()
    for message in state.context:
        message.timestamp = 1.0
    assert state.model_dump() == eager.model_dump()
    assert json.loads(holder().model_dump_json())["extra"] == [1, {"a": 2}]
    assert TypeAdapter(Holder).dump_python(holder())["extra"] == [1, {"a": 2}]
    assert list(holder().model_dump(exclude={"context": {0}})["context"][0]) == list(Message.model_fields)
    assert TypeAdapter(list[Holder]).dump_python([holder()], exclude={0: {"context"}}) == [{"extra": [1, {"a": 2}]}]


def test_the_schema_of_a_state_is_that_of_its_fields() -> None:
    assert Holder.model_json_schema(mode="serialization")["properties"].keys() == {"context", "extra"}


def test_a_state_made_or_assigned_from_lazy_lists_holds_the_items() -> None:
    state = Holder(context=lazy_messages(), extra=lazy([1]))
    assert (ids(state.context), state.extra) == (["id-0", "id-1", "id-2"], [1])
    assert ids(Holder.model_validate(dict(holder())).context) == ["id-0", "id-1", "id-2"]
    state.context = lazy_messages(1)
    assert ids(state.context) == ["id-0"]


def test_a_state_is_copied_compared_and_pickled_with_its_items() -> None:
    assert ids(holder().model_copy().context) == ["id-0", "id-1", "id-2"]
    assert type(holder().model_copy(deep=True).context) is list
    state = holder()
    assert state == state.model_copy(deep=True)
    assert pickle.loads(pickle.dumps(state)) == state
    assert "id-2" in repr(holder())
    assert [name for name, _ in holder()] == ["context", "extra"]


def test_pydantic_serializes_a_lazy_list_in_a_foreign_model_rightly_and_warns() -> None:
    with pytest.warns(UserWarning, match="Pydantic serializer warnings"):
        dumped = Foreign.model_construct(history=lazy_messages()).model_dump()
    assert [each["message_id"] for each in dumped["history"]] == ["id-0", "id-1", "id-2"]


class Item(BaseModel):
    n: int


class OwnItem(Item):
    @model_validator(mode="before")
    @classmethod
    def _decoded(cls, data: Any) -> Any:
        return decoded(data)


class Items(BaseModel):
    items: list[Item]
    own: list[OwnItem] = []


def test_pydantic_refuses_a_lazy_list_for_a_foreign_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "unraisablehook", lambda _: None
    )  # pydantic-core asks isinstance() and reports the refusal
    with pytest.raises(ValidationError, match="3 validation errors"):
        Items(items=lazy([{"n": 1}, {"n": 2}, {"n": 3}]))


def test_pydantic_takes_a_lazy_list_for_a_foreign_model_whose_items_decode_themselves() -> None:
    assert Items(items=[], own=lazy([{"n": 1}])).own == [OwnItem(n=1)]


def test_a_foreign_model_takes_a_plain_list_of_it() -> None:
    assert ids(Foreign(history=list(lazy_messages())).history) == ["id-0", "id-1", "id-2"]


USES: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda item: item.text,
    "getattr": lambda item: getattr(item, "role", None),
    "isinstance": lambda item: isinstance(item, Message),
    "==": lambda item: item == 1,
    "!=": lambda item: item != 1,
    "<": lambda item: item < 1,
    "bool": bool,
    "str": str,
    "repr": repr,
    "format": "{}".format,
    "hash": hash,
    "len": len,
    "list": list,
    "in": lambda item: 1 in item,
    "index": lambda item: item["a"],
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "int": int,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_marker_that_leaks_through_a_raw_copy_is_loud(use: Callable[[Any], Any]) -> None:
    leaked = Untyped(history=lazy_messages()).history[0]
    with pytest.raises((UndecodedItemError, TypeError)):
        use(leaked)


@pytest.mark.parametrize("options", [{}, {"default": str}, {"default": lambda item: item.model_dump()}])
def test_orjson_refuses_a_lazy_list(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Undecoded"):
        orjson.dumps(lazy([1]), **options)


def test_orjson_takes_a_lazy_list_that_passes_through_default() -> None:
    assert orjson.dumps(lazy([1]), default=list, option=orjson.OPT_PASSTHROUGH_SUBCLASS) == b"[1]"


def test_a_heap_refuses_a_lazy_list() -> None:
    with pytest.raises(UndecodedItemError, match="pass list"):
        heapq.heapify(lazy([2, 1]))


def test_a_marker_is_decoded_on_request() -> None:
    assert decoded(Undecoded(b"[1]", orjson.loads)) == [1]
    assert decoded([1]) == [1]
