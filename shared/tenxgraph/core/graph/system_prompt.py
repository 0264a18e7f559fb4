"""Fill the fields of the state into a system prompt."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.state.agent_state import AgentState


class _FromState(Formatter):
    def __init__(self, state: AgentState) -> None:
        self._state = state

    def get_value(self, key: int | str, args: Any, kwargs: Mapping[str, Any]) -> Any:  # noqa: ARG002 - the fields are its only arguments
        fields = type(self._state).model_fields
        if key not in fields:
            raise _wrong(f"{{{key}}} names no field of the state. Its fields are {', '.join(fields)}", str(key))
        value = getattr(self._state, str(key))
        return "" if value is None else value


def fill_prompt(prompt: str, state: AgentState) -> str:
    """Return the prompt with each ``{field}`` replaced by the state's value; None becomes empty.

    Raises:
        GraphError: ``SYSTEM_PROMPT`` naming what is no field.
    """
    try:
        return _FromState(state).vformat(prompt, (), {})
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        raise _wrong(f"it cannot be filled ({error})", "") from error


def names_field(prompt: str, field: str) -> bool:
    """Tell whether a prompt asks for a field."""
    return any(name == field for _, name, _, _ in Formatter().parse(prompt))


def _wrong(reason: str, field: str) -> GraphError:
    return GraphError(
        f"The system prompt is wrong: {reason}; write {{{{ and }}}} for braces.",
        error_code="SYSTEM_PROMPT",
        context={"field": field},
    )
