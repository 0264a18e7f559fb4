"""Importing does nothing, and the front doors show what the packages behind them show."""

import importlib
import re
import subprocess
import sys
from typing import Final

import pytest

import tenxgraph
import tenxgraph.core
import tenxgraph.core.exceptions
import tenxgraph.core.graph
import tenxgraph.core.state

HEAVY: Final = ("celery", "kombu", "redis", "flower", "pydantic_ai", "tenxgraph_scheduler", "tenxgraph_worker")


def loaded_after(statement: str) -> set[str]:
    """Run a statement in a fresh interpreter; return the names of all modules loaded then."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["tenxgraph", "tenxgraph.core"])
def test_a_front_door_loads_nothing_behind_it(module: str) -> None:
    loaded = loaded_after(f"import {module}")

    assert not loaded & {"pydantic", "tenxgraph.core.graph", "tenxgraph.core.state", *HEAVY}


@pytest.mark.parametrize(
    "module",
    [
        "tenxgraph.core.graph",
        "tenxgraph.core.state",
        "tenxgraph.core.exceptions",
        "tenxgraph.utils",
        "tenxgraph.settings",
    ],
)
def test_graphs_and_state_load_neither_celery_nor_redis(module: str) -> None:
    assert not loaded_after(f"import {module}") & set(HEAVY)


@pytest.mark.parametrize("name", tenxgraph.__all__)
def test_every_name_of_the_front_door_is_there(name: str) -> None:
    assert getattr(tenxgraph, name) is not None
    assert name in dir(tenxgraph)


def test_core_shows_all_of_graph_and_state_and_every_error() -> None:
    errors = {
        name
        for name, value in vars(tenxgraph.core.exceptions).items()
        if isinstance(value, type) and issubclass(value, tenxgraph.core.exceptions.TenxGraphError)
    }

    assert set(tenxgraph.core.__all__) == {*tenxgraph.core.graph.__all__, *tenxgraph.core.state.__all__, *errors}


@pytest.mark.parametrize("name", tenxgraph.core.__all__)
def test_every_name_of_core_is_the_one_from_its_home(name: str) -> None:
    homes = (tenxgraph.core.graph, tenxgraph.core.state, tenxgraph.core.exceptions)
    home = next(home for home in homes if name in dir(home))

    assert getattr(tenxgraph.core, name) is getattr(home, name)


@pytest.mark.parametrize("module", ["tenxgraph", "tenxgraph.core"])
def test_an_unknown_name_is_an_attribute_error_that_names_the_package(module: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Stategraph'"):
        _ = importlib.import_module(module).Stategraph


def test_the_version_is_one_that_installers_understand() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", tenxgraph.__version__)
