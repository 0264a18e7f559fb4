"""One update out of what several tools of one message want changed in the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import reduce
from typing import Any

from pydantic import ValidationError

from tenxgraph.core.graph.merge import MergeConflict, ReducerError
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.field_spec import FieldSpec, field_spec
from tenxgraph.core.state.reducers import add_messages, append_items

Update = tuple[str, Mapping[str, Any]]
"""Who wants it, as errors name them; and field names with updates."""

Right = tuple[str, Any]


def fold_updates(state: AgentState, updates: Sequence[Update]) -> dict[str, Any]:
    """Return one update that does what all of them do, one after the other.

    Raises:
        MergeConflict: Two of them wrote a field without reducer; names both and the field.
        ReducerError: The field's reducer cannot take their updates as one; names both and the field.
    """
    rights: dict[str, list[Right]] = {}
    for writer, update in updates:
        for name, value in update.items():
            rights.setdefault(name, []).append((writer, value))
    return {name: _folded(state, name, writers) for name, writers in rights.items()}


def _folded(state: AgentState, name: str, rights: list[Right]) -> Any:
    values = [value for _, value in rights]
    if len(values) == 1 or name not in type(state).model_fields:
        return values[-1]
    spec = field_spec(type(state), name)
    if spec.reducer is None:
        raise MergeConflict(
            f"{_named(rights)} of one message wrote {_field(state, name)}, which has no reducer: annotate the field "
            "with one, or let one tool write it.",
            context={"field": name, "tools": [writer for writer, _ in rights]},
        )
    if spec.reducer in (add_messages, append_items):
        return [item for value in values for item in value]
    return values[-1] if spec.replaces else _combined(state, spec, spec.reducer, rights)


def _combined(state: AgentState, spec: FieldSpec, reducer: Callable[[Any, Any], Any], rights: list[Right]) -> Any:
    try:
        values = [spec.right.validated(value) for _, value in rights]
        combined = reduce(reducer, deepcopy(values))
        before = getattr(state, spec.name)
        # A node hands in one update. Where reducing two by two says something else, there is no such update.
        in_turn = reduce(reducer, deepcopy(values), deepcopy(before))
        is_same = bool(in_turn == reducer(deepcopy(before), deepcopy(combined)))
    except ValidationError as error:
        reason = f"one of them does not fit the field ({error.errors()[0]['msg']})"
        raise _refused(state, spec, rights, reason) from error
    except Exception as error:  # the reducer is the user's: whatever it raises is its fault, and named so
        raise _refused(state, spec, rights, f"it raised {type(error).__name__}: {error}") from error
    if not is_same:
        raise _refused(state, spec, rights, "one after the other they give another value")
    return combined


def _refused(state: AgentState, spec: FieldSpec, rights: list[Right], reason: str) -> ReducerError:
    return ReducerError(
        f"{_named(rights)} of one message wrote {_field(state, spec.name)}, whose reducer cannot take their updates as "
        f"one: {reason}. Mend the reducer, or let one tool write the field.",
        context={"field": spec.name, "tools": [writer for writer, _ in rights]},
    )


def _field(state: AgentState, name: str) -> str:
    owner = next(each for each in type(state).__mro__ if name in getattr(each, "__annotations__", {}))
    return f"{owner.__name__}.{name}"


def _named(rights: list[Right]) -> str:
    return " and ".join(writer for writer, _ in rights)
