"""The fingerprint: equal wherever the same code is read, another one where it changed."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Dict, Generic, List, Literal, Optional, TypeVar, Union  # noqa: UP035 - spellings

import pytest
from pydantic import BaseModel, Field, create_model

from tenxgraph.core.graph import RetryPolicy, StateGraph
from tenxgraph.core.graph.fingerprint import canonical_type
from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.reducers import append_items, replace_value
from tenxgraph.utils.constants import END, START

APP = """
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

from pydantic import BaseModel

from tenxgraph.core.graph import RetryPolicy, StateGraph
from tenxgraph.core.state import AgentState
from tenxgraph.core.state.reducers import append_items, replace_value
from tenxgraph.utils.command import Command
from tenxgraph.utils.constants import END, START


class Color(Enum):
    RED = "red"


class Item(BaseModel):
    path: Path
    tags: set[str] = set()


class State(AgentState):
    items: Annotated[list[Item], append_items] = []
    latest: Annotated[Optional[datetime], replace_value] = None
    choice: Literal["a", 1, True, Color.RED, None] = None
    table: dict[str, tuple[int, ...] | frozenset[bytes]] = {}
    anything: Any = None


def plan(state: State) -> Command[Literal["work"]]: ...
def work(state: State, config: dict) -> None: ...
def rescue(state: State) -> None: ...
def done(state: State) -> bool: ...


graph = (
    StateGraph(State)
    .add_node("plan", plan)
    .add_node("work", work, retry=RetryPolicy(retry_on=(OSError, ValueError)), timeout_s=3, on_error="rescue")
    .add_node("rescue", rescue)
    .add_edge(START, "plan")
    .add_edge("rescue", "plan")
    .add_conditional_edges("work", done, {True: END, False: "plan", Color.RED: "plan"})
)
if __name__ == "__main__":
    print(graph.define().fingerprint)
"""

GOLDEN = "8cff3fb39fbef6f9f004fa805441a94721d0be57762fb2620201153e3d8cd564"


@pytest.fixture(scope="module")
def app_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("app")
    (folder / "golden_app.py").write_text(APP)
    return folder


def printed(folder: Path, hash_seed: str, *command: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


IMPORTED = ("-c", "import golden_app; print(golden_app.graph.define().fingerprint)")


@pytest.mark.parametrize(
    ("hash_seed", "command"),
    [("0", IMPORTED), ("1", IMPORTED), ("4242", IMPORTED), ("7", ("golden_app.py",)), ("8", ("-m", "golden_app"))],
)
def test_the_fingerprint_is_the_same_for_every_hash_seed_and_way_to_start(
    app_folder: Path, hash_seed: str, command: tuple[str, ...]
) -> None:
    assert printed(app_folder, hash_seed, *command) == GOLDEN


class Page(BaseModel):
    number: int = 0


class OtherPage(BaseModel):
    number: str = ""


class Base(AgentState):
    city: str = ""
    pages: Annotated[list[int], append_items] = Field(default_factory=list)


def step(state: AgentState) -> None: ...


def other(state: AgentState) -> None: ...


def route(state: AgentState) -> Literal["a", "b"]:
    return "a"


def reroute(state: AgentState) -> Literal["a", "b"]:
    return "b"


class Worker:
    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, state: AgentState) -> None: ...


def build(state: Any = Base, first: Any = step, path_map: Any = None, condition: Any = route, **policies: Any) -> str:
    graph = StateGraph(state).add_node("a", first, **policies).add_node("b", step)
    graph.add_edge(START, "a").add_conditional_edges("a", condition, path_map).add_edge("b", END)
    return graph.define().fingerprint


def test_the_same_graph_built_twice_has_the_same_fingerprint() -> None:
    assert build() == build()


def test_the_order_in_which_different_sources_are_connected_does_not_matter() -> None:
    left = StateGraph().add_node("a", step).add_node("b", step).add_edge(START, "a").add_edge("a", "b")
    right = StateGraph().add_node("a", step).add_node("b", step).add_edge("a", "b").add_edge(START, "a")
    assert left.define().fingerprint == right.define().fingerprint


def test_the_order_of_one_nodes_edges_matters_since_it_decides_which_edges_lead_back() -> None:
    def both(first: str, second: str) -> str:
        graph = StateGraph().add_node("a", step).add_node("b", step)
        return graph.add_edge(START, first).add_edge(START, second).define().fingerprint

    assert both("a", "b") != both("b", "a")


class MoreFields(Base):
    extra: int = 0


class OtherType(AgentState):
    city: bytes = b""
    pages: Annotated[list[int], append_items] = Field(default_factory=list)


class OtherReducer(AgentState):
    city: str = ""
    pages: Annotated[list[int], replace_value] = Field(default_factory=list)


CHANGES: list[dict[str, Any]] = [
    {"state": MoreFields},
    {"state": OtherType},
    {"state": OtherReducer},
    {"first": other},
    {"first": Worker(3)},
    {"condition": reroute},
    {"path_map": ["a", "b"]},
    {"path_map": {"a": "b", "b": "b", "c": "a"}},
    {"path_map": {True: "b", False: "a"}},
    {"path_map": {1: "b", 0: "a"}},
    {"timeout_s": 1.0},
    {"queue": "gpu"},
    {"priority": 3},
    {"on_error": "b"},
    {"join": "each"},
    {"retry": RetryPolicy()},
    {"retry": RetryPolicy(max_attempts=9)},
    {"retry": RetryPolicy(retry_on=OSError)},
]


def test_every_change_of_topology_schema_nodes_or_policies_gives_another_fingerprint() -> None:
    found = [build(), *(build(**change) for change in CHANGES)]
    assert len(set(found)) == len(found)


def test_a_number_of_seconds_counts_by_its_value() -> None:
    assert build(timeout_s=1) == build(timeout_s=1.0)


def test_a_change_inside_a_nested_model_of_the_users_counts() -> None:
    def of(number: Any) -> str:
        nested = create_model("Nested", __module__=__name__, number=(number, ...))
        table: Any = GenericAlias(dict, (str, nested))
        return build(state=create_model("Own", __base__=AgentState, table=(table, {})))

    assert of(int) == of(int)
    assert of(int) != of(str)


class Tree(AgentState):
    branches: "list[Branch]" = Field(default_factory=list)


class Branch(BaseModel):
    twigs: "list[Branch]" = Field(default_factory=list)


def test_models_that_mention_each_other_come_to_an_end() -> None:
    Tree.model_rebuild()
    assert build(state=Tree) == build(state=Tree)


def test_objects_partials_and_lambdas_carry_no_address() -> None:
    assert build(first=Worker(1)) == build(first=Worker(2))
    assert build(first=functools.partial(step)) == build(first=functools.partial(step))
    lambdas = [lambda state: None for _ in range(2)]
    assert build(first=lambdas[0]) == build(first=lambdas[1])


def test_an_unnamed_graph_is_named_by_its_fingerprint_and_a_name_does_not_change_it() -> None:
    unnamed = StateGraph().add_node("a", step).set_entry_point("a").define()
    named = StateGraph(name="support").add_node("a", step).set_entry_point("a").define()
    assert unnamed.name == f"graph-{unnamed.fingerprint[:12]}"
    assert (named.name, named.fingerprint) == ("support", unnamed.fingerprint)


def test_initial_values_do_not_change_it() -> None:
    assert build(state=Base(city="Paris")) == build()


class Color(Enum):
    RED = 1


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    content: T


HERE = __name__


@pytest.mark.parametrize(
    ("spellings", "written"),
    [
        ([List[int], list[int], Annotated[list[int], "x"]], "list[int]"),  # noqa: UP006
        ([Optional[int], int | None, Union[int, None]], "Union[int,None]"),  # noqa: UP007, UP045
        ([Dict[str, Any], dict[str, Any]], "dict[str,typing:Any]"),  # noqa: UP006
        ([tuple[int, ...]], "tuple[int,...]"),
        ([Callable[[int, str], None]], "collections:Callable[[int,str],None]"),
        ([Literal["a", 1, True, Color.RED, None]], f"Literal[str:'a',int:1,bool:True,{HERE}:Color.RED,NoneType:None]"),
        ([datetime], "datetime:datetime"),
        ([Path], "pathlib:Path"),
        ([Message], "tenxgraph:Message"),
        ([Box[int]], f"{HERE}:Box[int]"),
        ([Box[Optional[Color]]], f"{HERE}:Box[Union[{HERE}:Color,None]]"),  # noqa: UP045
        ([list], "list"),
        ([None, type(None)], "None"),
        (["Later"], "Later"),
        ([T], "TypeVar:T"),
    ],
)
def test_a_type_is_written_in_one_way_however_it_is_spelled(spellings: list[Any], written: str) -> None:
    assert {canonical_type(spelling) for spelling in spellings} == {written}


def test_pauses_count_since_a_worker_would_run_on_without_them() -> None:
    def build() -> StateGraph[AgentState]:
        return StateGraph().add_node("a", lambda state: None).add_edge(START, "a")

    plain = build().define()
    assert build().define(interrupt_before=["a"]).fingerprint != plain.fingerprint
    assert build().define(interrupt_after=["a"]).fingerprint != build().define(interrupt_before=["a"]).fingerprint
