"""The codec of a state: what is written is read back equal, or refused by name."""

import operator
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    SecretStr,
    TypeAdapter,
    computed_field,
    field_validator,
)
from typing_extensions import TypedDict

from tenxgraph.core.exceptions import GraphError, InvalidInputError, SerializationError
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.blocks import TextBlock
from tenxgraph.core.state.codec import EncodedUpdate, StateCodec, is_delta
from tenxgraph.core.state.execution_state import ExecMeta
from tenxgraph.core.state.field_spec import id_key, message_key
from tenxgraph.core.state.image import ItemLog, StateImage, Version, apply
from tenxgraph.core.state.lazy_items import LazyItems, LazyStateMixin, Undecoded, raw
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.reducers import (
    add_messages,
    append_items,
    remove_tool_messages,
    replace_messages,
    replace_value,
)
from tenxgraph.core.state.sameness import same

PLACE = "node 'plan'"


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Shade(StrEnum):
    DARK = "dark"


class Level(IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: float


class Spot(TypedDict):
    data: bytes


@dataclass
class Box:
    size: int
    data: bytes = b""


class Inner(BaseModel):
    data: bytes = b""
    ratio: float = 0.0
    due: datetime | None = None


class Outer(BaseModel):
    inner: Inner
    more: list[Inner] = []
    by_name: dict[str, Inner] = {}


class Aliased(BaseModel):
    number: int = Field(alias="theNumber")


class Tree(BaseModel):
    data: bytes = b""
    children: list["Tree"] = []


class Rich(BaseModel):
    model_config = ConfigDict(extra="forbid")

    width: int = 2

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def area(self) -> int:
        return self.width**2


class Finding(BaseModel):
    id: str | int | None = None
    text: str = ""


def total(left: int, right: int) -> int:
    return left + right


def collect(left: list[int], right: int) -> list[int]:
    return [*left, right]


def gather(left: list[int], right: Iterable[int]) -> list[int]:
    return [*left, *right]


class Wide(AgentState):
    when: datetime | None = None
    day: date | None = None
    span: timedelta | None = None
    price: Decimal = Decimal(0)
    tags: set[int] = set()
    words: frozenset[str] = frozenset()
    pair: tuple[int, str] = (0, "")
    many: tuple[float, ...] = ()
    color: Color = Color.RED
    shade: Shade = Shade.DARK
    level: Level = Level.LOW
    blob: bytes = b""
    by_number: dict[int, str] = {}
    by_time: dict[datetime, int] = {}
    big: int = 0
    ratio: float = 0.0
    text: str = ""
    flag: bool = False
    mixed: int | str | bool | None = None
    key: UUID | None = None
    point: Point = Point(0, 0.0)
    spot: Spot = {"data": b""}
    box: Box = Box(0)
    outer: Outer = Outer(inner=Inner())
    aliased: Aliased = Aliased(theNumber=1)
    tree: Tree = Tree()
    rich: Rich = Rich()
    queue: deque[int] = deque()
    anything: Any = None
    table: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    nested: list[list[Inner]] = []
    plain: list = []  # type: ignore[type-arg]  # what is tested


WIDE = StateCodec(Wide, Wide())


def is_in_whole_minutes(when: datetime) -> bool:
    return (when.utcoffset() or timedelta()).seconds % 60 == 0


aware = st.datetimes(timezones=st.timezones() | st.just(UTC), min_value=datetime(1900, 1, 1))
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
floats = st.floats(allow_nan=True, allow_infinity=True)
wide_ints = st.integers(-(2**200), 2**200)
json_like = st.recursive(
    st.none() | st.booleans() | wide_ints | floats | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
inner = st.builds(Inner, data=st.binary(), ratio=floats, due=st.none() | st.datetimes(timezones=st.just(UTC)))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "when": aware.filter(is_in_whole_minutes),
    "day": st.dates(),
    "span": st.timedeltas(timedelta(days=-99999), timedelta(days=99999)),
    "price": st.decimals(allow_nan=False, allow_infinity=False),
    "tags": st.sets(wide_ints),
    "words": st.frozensets(text),
    "pair": st.tuples(wide_ints, text),
    "many": st.lists(floats).map(tuple),
    "color": st.sampled_from(Color),
    "shade": st.sampled_from(Shade),
    "level": st.sampled_from(Level),
    "blob": st.binary(),
    "by_number": st.dictionaries(wide_ints, text),
    "by_time": st.dictionaries(st.datetimes(timezones=st.just(UTC)), st.integers()),
    "big": wide_ints,
    "ratio": floats,
    "text": text,
    "flag": st.booleans(),
    "mixed": st.none() | st.booleans() | wide_ints | text,
    "key": st.uuids(),
    "point": st.builds(Point, wide_ints, floats),
    "spot": st.fixed_dictionaries({"data": st.binary()}),
    "box": st.builds(Box, st.integers(), st.binary()),
    "outer": st.builds(Outer, inner=inner, more=st.lists(inner, max_size=2), by_name=st.dictionaries(text, inner)),
    "aliased": st.builds(lambda number: Aliased(theNumber=number), st.integers()),
    "tree": st.builds(Tree, data=st.binary(), children=st.lists(st.builds(Tree, data=st.binary()), max_size=2)),
    "rich": st.builds(Rich, width=st.integers()),
    "queue": st.lists(st.integers()).map(deque),
    "anything": json_like,
    "table": st.dictionaries(text, json_like, max_size=3),
}
LISTS: dict[str, st.SearchStrategy[Any]] = {
    "rows": st.lists(st.dictionaries(text, json_like, max_size=3), max_size=3),
    "blobs": st.lists(st.binary(), max_size=3),
    "nested": st.lists(st.lists(inner, max_size=2), max_size=3),
    "plain": st.lists(json_like, max_size=3),
}


def exec_meta() -> ExecMeta:
    return ExecMeta(current_node="plan")


def message(at: Any, said: str = "hello") -> Message:
    return Message(message_id=at, role="user", content=[TextBlock(text=said)])


def image_of(codec: StateCodec, **fields: Any) -> StateImage:
    encoded = codec.validate_update(fields, place="the test").fields
    lists = {name: ItemLog(value) for name, value in encoded.items() if isinstance(value, tuple)}
    values = {name: value for name, value in encoded.items() if isinstance(value, bytes)}
    return StateImage(Version(1, "n"), values, lists)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_any_kind_is_read_back_equal(name: str) -> None:
    @given(VALUES[name])
    def check(value: Any) -> None:
        data = WIDE.encode(name, value)
        assert same(value, WIDE.decode(name, data))
        assert WIDE.encode(name, WIDE.decode(name, data)) == data or name in ("tags", "words", "when")
        update = WIDE.validate_update({name: value}, place=PLACE)
        assert same(value, WIDE.decode(name, EncodedUpdate.from_json(update.to_json()).fields[name]))  # type: ignore[arg-type]  # no list

    check()


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_any_kind_is_read_back_equal_item_by_item(name: str) -> None:
    @given(LISTS[name])
    def check(value: list[Any]) -> None:
        update = WIDE.validate_update({name: value}, place=PLACE)
        assert EncodedUpdate.from_json(update.to_json()) == update
        state = WIDE.build(StateImage(lists={name: ItemLog(update.fields[name])}), None, exec_meta())  # type: ignore[arg-type]  # a list
        assert type(getattr(state, name)) is LazyItems
        assert same(value, list(getattr(state, name)))

    check()


def test_every_field_of_the_wide_state_is_tried() -> None:
    assert VALUES.keys() | LISTS.keys() == WIDE.specs.keys() - {"context", "context_summary"}


@pytest.mark.parametrize("value", ["\x00", "\U0001f600", " ", "\x7f", '","role":', '{"message_id":', "\\", '"', "é"])
def test_a_message_with_odd_text_and_id_is_read_back_equal(value: str) -> None:
    original = Message.text_message(value, message_id=value)
    (data,) = WIDE.encode_items("context", [original])
    assert same(original, WIDE.decode_item("context", data))
    assert message_key(data) == TypeAdapter(str).dump_json(value)


def test_the_key_of_a_message_tells_a_number_from_its_text() -> None:
    keys = {message_key(data) for data in WIDE.encode_items("context", [message(at) for at in ("1", 1, 2**96, "x")])}
    assert keys == {b'"1"', b"1", b"79228162514264337593543950336", b'"x"'}


def test_an_hour_that_a_zone_repeats_is_kept() -> None:
    for fold in (0, 1):
        when = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
        assert WIDE.decode("when", WIDE.encode("when", when)).utcoffset() == when.utcoffset()


class Answer(BaseModel):
    city: str
    when: datetime


def test_parsed_content_that_is_a_model_is_stored_with_its_data() -> None:
    original = message("a")
    original.parsed_content = Answer(city="Rome", when=datetime(2024, 1, 1, tzinfo=UTC))
    (data,) = WIDE.encode_items("context", [original])
    assert WIDE.decode_item("context", data).parsed_content == {"city": "Rome", "when": "2024-01-01T00:00:00Z"}


class SpecialInner(Inner):
    more: int = 5


class Noted(BaseModel):
    _note: str = PrivateAttr(default="")


class Refusing(AgentState):
    table: dict[str, Any] = {}
    anything: Any = None
    inner: Inner = Inner()
    secret: SecretStr = SecretStr("")
    by_pair: dict[tuple[int, int], int] = {}
    noted: Noted = Noted()
    rounded: Annotated[float, PlainSerializer(round)] = 0.0
    rows: list[dict[str, Any]] = []
    word: str = ""
    number: int | float = 0


REFUSING = StateCodec(Refusing, Refusing())


def noted() -> Noted:
    value = Noted()
    value._note = "kept nowhere"
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


REFUSED: list[tuple[str, Any, str]] = [
    ("table", {"a": {"due": datetime(2024, 1, 1, tzinfo=UTC)}}, r"\['a'\]\['due'\] datetime came back as str"),
    ("table", {"a": (1, 2)}, "tuple came back as list"),
    ("table", {"a": {1, 2}}, "set came back as list"),
    ("table", {"a": b"x"}, "bytes came back as str"),
    ("table", {"a": Decimal("1.0")}, "Decimal came back as str"),
    ("table", {"a": {1: 2}}, r"\['a'\] key 1: int came back as str"),
    ("table", {"a": Shade.DARK}, "Shade came back as str"),
    ("table", {"a": Inner()}, "Inner came back as dict"),
    ("table", {"a": object()}, "object"),
    ("table", {"a": "\ud800"}, "surrogate|utf-8"),
    ("anything", Level.LOW, "Level came back as int"),
    ("anything", circle(), "[Cc]ircular"),
    ("inner", SpecialInner(), "SpecialInner"),
    ("secret", SecretStr("x"), "SecretStr"),
    ("by_pair", {(1, 2): 3}, "cannot be read"),
    ("noted", noted(), "Noted"),
    ("rounded", 1.5, "float"),
    ("rows", [{"a": 1}, {"a": (1,)}], r"\['a'\] tuple came back as list"),
]


@pytest.mark.parametrize(("name", "value", "reason"), REFUSED)
def test_what_does_not_come_back_equal_is_refused_with_field_and_node(name: str, value: Any, reason: str) -> None:
    with pytest.raises(SerializationError, match=reason) as caught:
        REFUSING.validate_update({name: value}, place=PLACE)
    assert f"Refusing.{name} was set by node 'plan' to a {type(value).__name__}" in caught.value.message
    assert "Declare the exact type" in caught.value.message
    assert caught.value.context["field"] == name
    assert caught.value.context["node"] == PLACE


def test_a_value_that_is_not_of_the_declared_type_is_an_error_and_no_warning() -> None:
    with pytest.raises(SerializationError, match="word"):
        REFUSING.encode("word", 3)


def test_a_message_broken_after_it_was_made_is_refused() -> None:
    broken = message("a")
    broken.role = "king"  # type: ignore[assignment]  # what is tested
    with pytest.raises(SerializationError, match=r"Refusing\.context"):
        REFUSING.validate_update({"context": [broken]}, place=PLACE)


def test_a_tool_output_that_is_no_json_is_refused() -> None:
    with pytest.raises(SerializationError, match=r"metadata\['at'\] datetime came back as str"):
        REFUSING.validate_update(
            {"context": Message(role="user", content=[], metadata={"at": datetime.now(UTC)})}, place=PLACE
        )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (1, 1.0),
        ((1,), [1]),
        ([1], (1,)),
        ({1}, {True}),
        ({(1,)}, {(True,)}),
        ({1: 2}, {True: 2}),
        ({"a": 1}, {"a": True}),
        ("dark", Shade.DARK),
        (Inner(), SpecialInner()),
        (Inner(ratio=1.0), Inner(ratio=2.0)),
        (Box(1), Box(True)),
        ([1], [1, 2]),
        (datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)),
        (datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), datetime(2024, 1, 1, tzinfo=UTC)),
        (object(), object()),
        (None, False),
        (float("nan"), 1.0),
        ({float("nan")}, {1.0}),
    ],
)
def test_values_that_only_look_alike_are_not_the_same(left: Any, right: Any) -> None:
    assert not same(left, right)
    assert not same([left], [right])


@given(json_like)
def test_every_value_is_the_same_as_itself_read_again(value: Any) -> None:
    assert same(value, WIDE.decode("anything", WIDE.encode("anything", value)))


def test_an_update_names_the_unknown_field_the_state_and_the_node() -> None:
    with pytest.raises(
        InvalidInputError, match=r"update of Wide by node 'plan' sets the unknown field 'colour'.*color"
    ):
        WIDE.validate_update({"colour": "red"}, place=PLACE)


def test_an_update_may_not_touch_the_runtimes_field() -> None:
    with pytest.raises(InvalidInputError, match="`execution_meta`, which belongs to the runtime"):
        WIDE.validate_update({"execution_meta": exec_meta()}, place=PLACE)


def test_an_invalid_value_is_refused_with_field_and_reason() -> None:
    with pytest.raises(InvalidInputError, match=r"sets 'big' to what is not valid: .*valid integer"):
        WIDE.validate_update({"big": "many"}, place=PLACE)
    with pytest.raises(InvalidInputError, match=r"sets 'nested' to what is not valid: 0\.0\.ratio"):
        WIDE.validate_update({"nested": [[{"ratio": "x"}]]}, place=PLACE)


def test_a_value_is_coerced_as_the_field_says() -> None:
    update = WIDE.validate_update({"big": "12", "tags": [1, 1], "nested": [[{"ratio": 1}]]}, place=PLACE)
    assert update.fields == {"big": b"12", "tags": b"[1]", "nested": (b'[{"data":"","ratio":1.0,"due":null}]',)}


def test_messages_stands_for_context_and_one_message_for_a_list() -> None:
    one = message("a")
    expected = WIDE.validate_update({"context": [one]}, place=PLACE)
    assert WIDE.validate_update({"messages": [one]}, place=PLACE) == expected
    assert WIDE.validate_update({"messages": one}, place=PLACE) == expected
    assert WIDE.validate_update({"context": [one.model_dump()]}, place=PLACE) == expected
    with pytest.raises(InvalidInputError, match="leave one"):
        WIDE.validate_update({"messages": [one], "context": [one]}, place=PLACE)


class OwnMessages(AgentState):
    messages: str = ""


def test_a_field_of_ones_own_called_messages_is_that_field() -> None:
    codec = StateCodec(OwnMessages, OwnMessages())
    assert codec.validate_update({"messages": "x"}, place=PLACE).fields == {"messages": b'"x"'}


def test_deltas_are_never_encoded() -> None:
    part = message("a")
    part.delta = True
    assert is_delta(part)
    assert not is_delta("a")
    (data,) = WIDE.validate_update({"context": [part, message("b")]}, place=PLACE).fields["context"]
    assert message_key(data) == b'"b"'  # type: ignore[arg-type]  # an item
    assert WIDE.encode_items("context", [part]) == ()


class Reduced(AgentState):
    count: Annotated[int, total] = 0
    numbers: Annotated[list[int], collect] = []
    more: Annotated[list[int], gather] = []
    sums: Annotated[list[int], operator.add] = []
    findings: Annotated[list[Finding], append_items] = []
    history: Annotated[list[Message], replace_messages] = []
    latest: Annotated[list[int], replace_value] = []
    tags: set[str] = set()
    short: Annotated[list[int], Field(max_length=2)] = []
    kind: Literal["a", "b"] = "a"
    upper: str = ""
    lower: list[str] = []

    @field_validator("upper")
    @classmethod
    def _upper(cls, value: str) -> str:
        return value.upper()

    @field_validator("lower")
    @classmethod
    def _lower(cls, value: list[str]) -> list[str]:
        return [each.lower() for each in value]


REDUCED = StateCodec(Reduced, Reduced())


def test_reducers_are_found_among_the_metadata() -> None:
    found = {name: spec.reducer for name, spec in REDUCED.specs.items()}
    assert found["context"] is add_messages
    assert (found["count"], found["sums"], found["tags"], found["short"]) == (total, operator.add, None, None)
    assert {name: spec.appends for name, spec in REDUCED.specs.items() if spec.appends} == {
        "context": "messages",
        "findings": "items",
    }


def test_an_update_has_the_type_that_the_reducer_takes() -> None:
    update = REDUCED.validate_update({"numbers": "3", "more": [4], "sums": [5]}, place=PLACE)
    assert update.fields == {"numbers": b"3", "more": (b"4",), "sums": (b"5",)}
    with pytest.raises(InvalidInputError, match="numbers"):
        REDUCED.validate_update({"numbers": [3]}, place=PLACE)


def test_an_overlay_has_the_type_of_the_field() -> None:
    assert REDUCED.validate_overlay({"numbers": [3]}, place=PLACE).fields == {"numbers": (b"3",)}
    with pytest.raises(InvalidInputError, match="unknown field"):
        REDUCED.validate_overlay({"nobody": 1}, place=PLACE)


def test_constraints_and_validators_of_the_class_apply_to_updates() -> None:
    update = REDUCED.validate_update({"upper": "abc", "lower": ["A"]}, place=PLACE)
    assert update.fields == {"upper": b'"ABC"', "lower": (b'"a"',)}
    with pytest.raises(InvalidInputError, match="at most 2"):
        REDUCED.validate_update({"short": [1, 2, 3]}, place=PLACE)
    with pytest.raises(InvalidInputError, match="kind"):
        REDUCED.validate_update({"kind": "c"}, place=PLACE)


def test_two_reducers_are_refused_at_the_build() -> None:
    class Two(AgentState):
        both: Annotated[list[int], operator.add, gather] = []

    with pytest.raises(GraphError, match=r"Two\.both has the reducers add, gather: leave one"):
        StateCodec(Two, Two())


def test_a_reducer_that_takes_one_argument_is_refused_at_the_build() -> None:
    class One(AgentState):
        log: Annotated[list[Message], remove_tool_messages] = []

    with pytest.raises(GraphError, match=r"remove_tool_messages of One\.log must take two arguments"):
        StateCodec(One, One())


def test_the_key_of_an_item_is_its_id() -> None:
    keys = [id_key(data) for data in REDUCED.encode_items("findings", [Finding(id=i) for i in ("1", 1, 2**70, None)])]
    assert keys == [b'"1"', b"1", b"1180591620717411303424", b""]


def test_items_whose_ids_compare_otherwise_than_their_json_take_the_general_way() -> None:
    class ById(BaseModel):
        id: float

    class Floats(AgentState):
        found: Annotated[list[ById], append_items] = []

    assert StateCodec(Floats, Floats()).spec("found").appends is None


def test_a_fresh_thread_starts_with_the_initial_values() -> None:
    initial = Wide(text="start", context=[message("a")], tags={1})
    codec = StateCodec(Wide, initial)
    image = apply(StateImage(), codec.initial_patch(), Version(1, "n"))
    for each in (image, StateImage()):
        state = codec.build(each, None, exec_meta())
        assert (state.text, state.tags, [m.message_id for m in state.context]) == ("start", {1}, ["a"])
    fields = codec.initial_fields().fields
    assert (fields["text"], fields["rows"], fields.keys()) == (b'"start"', (), codec.specs.keys())


def test_a_default_that_no_update_may_be_is_kept_in_the_class() -> None:
    class Sloppy(AgentState):
        name: str = None  # type: ignore[assignment]  # what is tested

    codec = StateCodec(Sloppy, Sloppy())
    state = codec.build(StateImage(), None, exec_meta())
    assert state.name is None
    assert "name" not in codec.initial_fields().fields
    assert codec.diff(StateImage(), None, state) == {}
    state.name = "x"
    assert codec.diff(StateImage(), None, state) == {"name": "x"}


def test_a_list_that_starts_as_none_is_refused() -> None:
    class NoList(AgentState):
        rows: list[int] = None  # type: ignore[assignment]  # what is tested

    with pytest.raises(SerializationError, match=r"NoList\.rows starts as NoneType, but is declared as a list"):
        StateCodec(NoList, NoList())


def test_an_initial_list_that_cannot_be_stored_is_refused() -> None:
    with pytest.raises(SerializationError, match=r"Wide\.rows was set by the initial state"):
        StateCodec(Wide, Wide(rows=[{"a": (1,)}]))


class Whole(AgentState):
    model_config = ConfigDict(validate_assignment=True)

    tags: set[str] = set()
    table: dict[str, Any] = {}
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)


WHOLE = StateCodec(Whole, Whole())


def test_a_built_state_is_a_whole_model() -> None:
    meta = exec_meta()
    state = WHOLE.build(image_of(WHOLE, tags={"a"}, context=[message("m")]), None, meta)
    assert type(state) is Whole
    assert state.execution_meta is meta
    assert state.model_fields_set == set(Whole.model_fields)
    assert (state._cache, state.is_stopped_requested()) == ({}, False)
    state._cache["a"] = 1
    state.tags = {"b"}
    assert state.model_copy(deep=True).tags == {"b"}


def test_every_attempt_gets_objects_of_its_own() -> None:
    image = image_of(WHOLE, table={"a": [1]}, context=[message("m")])
    first, second = (WHOLE.build(image, None, exec_meta()) for _ in range(2))
    first.table["a"].append(2)
    first.context[0].content.clear()
    first.context.append(message("n"))
    assert second.table == {"a": [1]}
    assert (second.context[0].text(), len(second.context)) == ("hello", 1)
    assert WHOLE.build(image, None, exec_meta()).table == {"a": [1]}
    WHOLE.build(StateImage(), None, exec_meta()).table["x"] = 1
    assert WHOLE.build(StateImage(), None, exec_meta()).table == {}


def test_an_overlay_replaces_values_for_its_task_alone() -> None:
    image = image_of(WHOLE, tags={"a"}, context=[message("m")])
    overlay = WHOLE.validate_overlay({"tags": {"b"}, "context": [message("o")]}, place=PLACE)
    state = WHOLE.build(image, overlay, exec_meta())
    assert (state.tags, [m.message_id for m in state.context], state.table) == ({"b"}, ["o"], {})
    assert WHOLE.build(image, None, exec_meta()).tags == {"a"}


class Dumped(AgentState, LazyStateMixin):
    rows: list[Inner] = []


def test_a_built_state_dumps_its_items() -> None:
    codec = StateCodec(Dumped, Dumped())
    image = image_of(codec, context=[message("m")], rows=[Inner(ratio=1.0)])
    dumped = codec.build(image, None, exec_meta()).model_dump(mode="json")
    assert [each["message_id"] for each in dumped["context"]] == ["m"]
    assert dumped["rows"] == [{"data": "", "ratio": 1.0, "due": None}]
    assert Dumped.model_validate(dict(codec.build(image, None, exec_meta()))).rows == [Inner(ratio=1.0)]


def test_building_does_not_decode_messages() -> None:
    image = image_of(WHOLE, context=[message(at) for at in range(50)])
    state = WHOLE.build(image, None, exec_meta())
    assert all(type(item) is Undecoded for item in raw(state.context))


def changed(codec: StateCodec, image: StateImage, edit: Callable[[Any], Any], **overlay: Any) -> dict[str, Any]:
    laid = codec.validate_overlay(overlay, place=PLACE) if overlay else None
    state = codec.build(image, laid, exec_meta())
    edit(state)
    return codec.diff(image, laid, state)


def reduced_image() -> StateImage:
    fields = {"sums": [1, 2], "latest": [1, 2], "tags": {"a", "b", "c"}, "lower": ["x"], "count": 3}
    return image_of(REDUCED, context=[message("a"), message("b")], findings=[Finding(id=1)], **fields)


def test_an_untouched_state_has_no_changes_and_stays_undecoded() -> None:
    state = REDUCED.build(reduced_image(), None, exec_meta())
    assert REDUCED.diff(reduced_image(), None, state) == {}
    assert all(type(item) is Undecoded for item in raw(state.context))


def test_reading_changes_nothing() -> None:
    def read(state: Reduced) -> None:
        assert [len(list(each)) for each in (state.context, state.sums, state.findings, state.tags)] == [2, 2, 1, 3]

    assert changed(REDUCED, reduced_image(), read) == {}


def test_a_set_with_the_same_items_in_another_order_is_no_change() -> None:
    def rebuild(state: Wide) -> None:
        before = list(state.tags)
        state.tags = {8, 0} if before == [0, 8] else {0, 8}
        assert list(state.tags) != before

    assert changed(WIDE, image_of(WIDE, tags={0, 8}), rebuild) == {}


def test_a_list_that_grew_gives_what_is_new_where_the_reducer_appends() -> None:
    def grow(state: Reduced) -> None:
        state.sums.append(3)
        state.latest.append(3)
        state.lower = [*state.lower, "y"]
        state.findings += [Finding(id=2)]

    assert changed(REDUCED, reduced_image(), grow) == {
        "sums": [3],
        "latest": [1, 2, 3],
        "lower": ["x", "y"],
        "findings": [Finding(id=2)],
    }


def test_a_list_that_changed_inside_gives_the_whole_value() -> None:
    def edit(state: Reduced) -> None:
        state.sums[0] = 9
        state.lower.clear()
        state.count = 4

    assert changed(REDUCED, reduced_image(), edit) == {"sums": [9, 2], "lower": [], "count": 4}


def test_an_edit_within_a_decoded_item_is_seen() -> None:
    def edit(state: Wide) -> None:
        state.rows[-1]["a"] = 2

    image = image_of(WIDE, rows=[{"a": 0}, {"a": 1}])
    assert changed(WIDE, image, edit) == {"rows": [{"a": 0}, {"a": 2}]}


def test_context_gives_only_messages_with_new_ids_and_is_never_wiped() -> None:
    def replace(state: Reduced) -> None:
        state.context[0].content.clear()
        state.context = [state.context[0], message("c"), message("b", "again")]

    found = changed(REDUCED, reduced_image(), replace)
    assert [m.message_id for m in found["context"]] == ["c"]
    assert changed(REDUCED, reduced_image(), lambda state: state.context.clear()) == {}
    assert changed(REDUCED, reduced_image(), lambda state: state.context.reverse()) == {}


def test_an_overlay_is_what_a_state_is_compared_with() -> None:
    overlay = {"count": 8, "context": [message("o")], "sums": [7]}
    assert changed(REDUCED, reduced_image(), lambda state: len(state.context), **overlay) == {}

    def grow(state: Reduced) -> None:
        assert state.context[0].message_id == "o"
        state.context += [message("p"), message("a", "known to the thread")]
        state.sums.append(8)

    found = changed(REDUCED, reduced_image(), grow, **overlay)
    assert [m.message_id for m in found.pop("context")] == ["p"]
    assert found == {"sums": [8]}


def test_a_changed_value_of_a_wrong_type_reaches_the_validation() -> None:
    def spoil(state: Reduced) -> None:
        state.sums.append("x")  # type: ignore[arg-type]  # what is tested
        state.count = "x"  # type: ignore[assignment]  # what is tested
        state.lower = "x"  # type: ignore[assignment]  # what is tested

    assert changed(REDUCED, reduced_image(), spoil) == {"sums": ["x"], "count": "x", "lower": "x"}


def test_a_lazy_list_in_an_update_is_not_decoded_again() -> None:
    state = WIDE.build(image_of(WIDE, rows=[{"a": 1}, {"a": 2}]), None, exec_meta())
    state.rows[1]["a"] = 3
    update = WIDE.validate_update({"rows": state.rows}, place=PLACE)
    assert update.fields == {"rows": (b'{"a":1}', b'{"a":3}')}
    assert type(raw(state.rows)[0]) is Undecoded


def test_a_lazy_list_may_go_to_any_other_field() -> None:
    image = image_of(WIDE, rows=[{"a": 1}], blobs=[b"x"], nested=[[Inner()]])
    state = WIDE.build(image, None, exec_meta())
    update = WIDE.validate_update(
        {"plain": state.rows, "anything": state.rows, "table": {"a": state.rows}}, place=PLACE
    )
    assert update.fields == {"plain": (b'{"a":1}',), "anything": b'[{"a":1}]', "table": b'{"a":[{"a":1}]}'}


def test_a_lazy_list_of_another_type_is_checked_as_any_other_list() -> None:
    state = WIDE.build(image_of(WIDE, blobs=[b"x"]), None, exec_meta())
    with pytest.raises(SerializationError, match="bytes came back as str"):
        WIDE.validate_update({"plain": state.blobs}, place=PLACE)


class Grouped(AgentState):
    items: list[Inner] = []
    groups: dict[str, list[Inner]] = {}
    maybe: list[Inner] | None = None


@pytest.fixture
def quiet_isinstance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)  # pydantic-core reports what its isinstance() met


@pytest.mark.usefixtures("quiet_isinstance")
def test_a_lazy_list_may_go_into_a_typed_container() -> None:
    codec = StateCodec(Grouped, Grouped())
    state = codec.build(image_of(codec, items=[Inner(ratio=1.0)]), None, exec_meta())
    update = codec.validate_update({"groups": {"a": state.items}}, place=PLACE)
    assert codec.decode("groups", update.fields["groups"]) == {"a": [Inner(ratio=1.0)]}  # type: ignore[arg-type]
    state = codec.build(image_of(codec, items=[Inner(ratio=1.0)]), None, exec_meta())
    update = codec.validate_update({"maybe": state.items}, place=PLACE)
    assert codec.decode("maybe", update.fields["maybe"]) == [Inner(ratio=1.0)]  # type: ignore[arg-type]


@given(
    st.dictionaries(
        text,
        st.binary().map(lambda data: WIDE.encode("blob", data))
        | st.lists(text).map(lambda items: tuple(WIDE.encode("text", item) for item in items)),
        max_size=5,
    )
)
def test_an_encoded_update_travels_byte_by_byte(fields: dict[str, Any]) -> None:
    update = EncodedUpdate(fields)
    assert EncodedUpdate.from_json(update.to_json()) == update


def best_us(action: Callable[[], Any], rounds: int = 200) -> float:
    took: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        took.append(time.perf_counter() - start)
    return min(took) * 1e6


def test_a_small_message_is_encoded_and_checked_quickly() -> None:
    small = Message.text_message("What is the weather in Tokyo?")
    assert best_us(lambda: WIDE.encode_items("context", [small])) < 40


def test_building_a_state_costs_next_to_nothing_per_message() -> None:
    codec = StateCodec(AgentState, AgentState())
    image = image_of(codec, context=[message(at) for at in range(10_000)])
    codec.build(image, None, exec_meta())
    assert best_us(lambda: codec.build(image, None, None)) < 200
