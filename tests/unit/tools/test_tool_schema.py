"""What a model is told about a tool, and how the arguments of its calls are checked."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from injectq import Inject
from pydantic import BaseModel, Field, ValidationError

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.tool_schema import argument_faults, build_tool
from tenxgraph.core.state import AgentState
from tenxgraph.utils import tool


class Unit(StrEnum):
    CELSIUS = "c"
    KELVIN = "k"


class Address(BaseModel):
    street: str
    title: str = ""


class Database:
    pass


def properties(fn: Callable[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = build_tool(fn).parameters["properties"]
    return found


def test_name_description_and_arguments_come_from_signature_and_docstring() -> None:
    def get_weather(city: str, days: int = 3) -> str:
        """Tell the weather.

        For any place.

        Args:
            city: The place,
                by name.
            days (int): How many days.

        Returns:
            A sentence.
        """
        return ""

    assert build_tool(get_weather).schema() == {
        "name": "get_weather",
        "description": "Tell the weather.\n\nFor any place.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The place, by name."},
                "days": {"type": "integer", "default": 3, "description": "How many days."},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    }


def sphinx(city: str) -> None:
    """Look.

    :param str city: The place
        by name.
    :returns: nothing
    """


def numpy(city: str) -> None: ...


numpy.__doc__ = """Look.

Parameters
----------
city : str
    The place
    by name.

Returns
-------
None
"""


@pytest.mark.parametrize("fn", [sphinx, numpy])
def test_other_docstring_styles_are_read(fn: Callable[..., Any]) -> None:
    found = build_tool(fn)

    assert found.description == "Look."
    assert found.parameters["properties"]["city"]["description"] == "The place by name."


def test_the_decorator_names_and_describes_and_leaves_the_function_as_it_is() -> None:
    @tool(name="weather-now", description="Look outside.", tags=["outside"])
    def f(city: str) -> str:
        return f"in {city}"

    found = build_tool(f)

    assert (found.name, found.description, found.tags) == ("weather-now", "Look outside.", frozenset({"outside"}))
    assert f("Oslo") == "in Oslo"


def test_the_decorator_works_bare_and_on_a_bound_method() -> None:
    class Shop:
        def buy(self, item: str) -> str:
            """Buy it."""
            return item

    named = tool(name="order")(Shop().buy)

    assert tool(sphinx) is sphinx
    assert build_tool(named).schema()["name"] == "order"
    assert build_tool(named).description == "Buy it."
    assert named("egg") == "egg"


def test_what_the_runtime_supplies_is_hidden_from_the_model() -> None:
    def f(
        city: str,
        state: AgentState,
        config: dict[str, Any],
        tool_call_id: str,
        emit: Callable[[Any], None],
        database: Database,
        other: Any = Inject[Database],
    ) -> None: ...

    found = build_tool(f)

    assert list(found.parameters["properties"]) == ["city"]
    assert found.injected == {"state", "config", "tool_call_id", "emit"}
    assert [need.parameter for need in found.dependencies] == ["database", "other"]


def test_a_plain_value_named_state_is_an_argument_of_the_model() -> None:
    def f(city: str, state: str, config: Literal["a", "b"] | None = None) -> None: ...

    assert list(properties(f)) == ["city", "state", "config"]


def test_arguments_may_have_names_that_models_of_pydantic_use_themselves() -> None:
    def f(schema: str, model_config: int, copy: bool, _x: int) -> None: ...

    found = build_tool(f)
    args = {"schema": "s", "model_config": 1, "copy": True, "_x": 2}

    assert list(found.parameters["properties"]) == list(args)
    assert found.validate(args) == args


def test_types_become_schemas_and_arguments_become_the_types() -> None:
    def f(at: Address, unit: Unit, days: Annotated[int, Field(ge=1, description="own words")] = 1) -> None:
        """Do.

        Args:
            at: Where.
            unit: Of the answer.
            days: Not shown.
        """

    found = build_tool(f)

    assert found.parameters["properties"]["days"] == {
        "type": "integer", "minimum": 1, "default": 1, "description": "own words",
    }  # fmt: skip
    assert found.validate({"at": {"street": "x"}, "unit": "k"}) == {"at": Address(street="x"), "unit": Unit.KELVIN}


def test_a_default_given_by_a_pydantic_field_is_passed_as_its_value() -> None:
    def f(days: int = Field(default=3, ge=1)) -> int:
        return days

    assert build_tool(f).validate({}) == {"days": 3}


def test_wrong_missing_and_unknown_arguments_are_named() -> None:
    def f(city: str, days: int = 1) -> None: ...

    with pytest.raises(ValidationError) as caught:
        build_tool(f).validate({"days": "many", "county": "x"})

    said = argument_faults(caught.value)
    assert "city: Field required" in said
    assert "days: Input should be a valid integer" in said
    assert "county: Extra inputs are not permitted" in said


def test_a_function_that_takes_anything_gets_anything() -> None:
    def f(city: str, **more: Any) -> None: ...

    found = build_tool(f)

    assert found.bind(found.validate({"city": "x", "y": 1})) == (("x",), {"y": 1})


def test_a_partial_and_an_object_with_call_are_tools() -> None:
    class Search:
        """Search the web."""

        def __call__(self, query: str) -> None: ...

    assert build_tool(tool(name="search")(Search())).schema()["description"] == "Search the web."
    assert list(properties(partial(numpy, city="x"))) == ["city"]


def no_name() -> Any:
    return lambda x: x


def generator() -> Any:
    def f(x: int) -> Any:
        yield x

    return f


def variadic() -> Any:
    def f(*x: int) -> None: ...

    return f


def callback() -> Any:
    def f(done: Callable[[int], None]) -> None: ...

    return f


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (no_name, "name it with @tool"),
        (generator, "a generator has no result"),
        (variadic, r"\*x gets none"),
        (callback, "no JSON Schema"),
        (lambda: Search, "pass a function"),
        (lambda: "search", "pass a function"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_reason(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(GraphError, match=said) as caught:
        build_tool(make())

    assert caught.value.error_code == "INVALID_TOOL"


class Search:
    def __call__(self, query: str) -> None: ...


def test_an_argument_whose_annotation_cannot_be_read_is_named() -> None:
    def f(city: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - the point of the test

    with pytest.raises(GraphError, match="'Nowhere' of 'city'"):
        build_tool(f)


def test_the_decorator_on_a_name_says_how_to_write_it() -> None:
    with pytest.raises(GraphError, match="write @tool\\(name='lookup'\\)"):
        tool("lookup")  # type: ignore[call-overload]
