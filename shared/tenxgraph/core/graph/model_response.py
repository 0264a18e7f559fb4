"""A model's answer as a message. Imported when a model is called: it needs the ``llm`` extra."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_ai.messages import (
    FilePart,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.usage import RequestUsage

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.graph.tool_schema import argument_faults
from tenxgraph.core.state.blocks import ContentBlock, ImageBlock, ReasoningBlock, TextBlock, ToolCallBlock
from tenxgraph.core.state.media import MediaRef
from tenxgraph.core.state.message import Message, TokenUsages

OUTPUT_TOOL: Final = "final_result"
"""By calling it, a model without JSON output gives its structured answer."""

MODEL: Final = "model"
PARTS: Final = "parts"
_NOTES: Final = ("id", "signature", "provider_name", "provider_details")

OutputT = TypeVar("OutputT", bound=BaseModel)


def read_output(response: ModelResponse, schema: type[OutputT] | None) -> OutputT | None:
    """Return a structured answer; None where the model calls tools first, or nothing structured was asked.

    Raises:
        NodeError: ``INVALID_OUTPUT`` naming what does not fit the schema.
    """
    if schema is None:
        return None
    final = _final_call(response)
    if final is None and response.tool_calls:
        return None
    given = response.text or "" if final is None else final.args or "{}"
    try:
        return schema.model_validate_json(given) if isinstance(given, str) else schema.model_validate(given)
    except ValidationError as error:
        raise NodeError(
            f"The answer of model {response.model_name!r} does not fit {schema.__name__}: {argument_faults(error)}. "
            "Try again, simplify the schema, or choose another model.",
            error_code="INVALID_OUTPUT",
        ) from error


def to_message(response: ModelResponse, output: BaseModel | None, message_id: str | int, *, keep_raw: bool) -> Message:
    """Return the answer as an assistant message."""
    parts = _kept_parts(response, output)
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    content = [block for part in parts for block in _block(part)]
    if output is not None and _final_call(response) is not None:
        content.append(TextBlock(text=output.model_dump_json()))
    return Message(
        message_id=message_id,
        role="assistant",
        content=content,
        tools_calls=[_raw_call(call) for call in calls] or None,
        reasoning=response.thinking or None,
        usages=_usages(response.usage),
        metadata={MODEL: _noted(response, parts)},
        raw=_raw(response) if keep_raw else None,
        parsed_content=output,
    )


def _final_call(response: ModelResponse) -> ToolCallPart | None:
    return next((call for call in response.tool_calls if call.tool_name == OUTPUT_TOOL), None)


def _kept_parts(response: ModelResponse, output: BaseModel | None) -> list[ModelResponsePart]:
    """Leave out what has no block, and every call beside a final answer: nobody makes it any more."""
    parts: list[ModelResponsePart] = [part for part in response.parts if _says_something(part)]
    return parts if output is None else [part for part in parts if not isinstance(part, ToolCallPart)]


def _says_something(part: ModelResponsePart) -> bool:
    if isinstance(part, ThinkingPart):  # sealed reasoning has no text, and must go back all the same
        return bool(part.content or part.signature)
    return isinstance(part, ToolCallPart | FilePart) or (isinstance(part, TextPart) and bool(part.content))


def _block(part: ModelResponsePart) -> Iterator[ContentBlock]:
    if isinstance(part, TextPart):
        yield TextBlock(text=part.content)
    elif isinstance(part, ThinkingPart):
        yield ReasoningBlock(summary=part.content)
    elif isinstance(part, ToolCallPart):
        yield ToolCallBlock(id=part.tool_call_id, name=part.tool_name, args=part.args_as_dict())
    elif isinstance(part, FilePart):
        data = base64.b64encode(part.content.data).decode("ascii")
        yield ImageBlock(media=MediaRef(kind="data", data_base64=data, mime_type=part.content.media_type))


def _raw_call(call: ToolCallPart) -> dict[str, Any]:
    text = call.args if isinstance(call.args, str) and call.args else json.dumps(call.args or {})
    return {"id": call.tool_call_id, "type": "function", "function": {"name": call.tool_name, "arguments": text}}


def _usages(usage: RequestUsage) -> TokenUsages | None:
    if not usage.has_values():
        return None
    return TokenUsages(
        completion_tokens=usage.output_tokens,
        prompt_tokens=usage.input_tokens,
        total_tokens=usage.total_tokens,
        reasoning_tokens=usage.details.get("reasoning_tokens", 0) or getattr(usage, "output_reasoning_tokens", 0),
        cache_creation_input_tokens=usage.cache_write_tokens,
        cache_read_input_tokens=usage.cache_read_tokens,
        audio_tokens=usage.input_audio_tokens + usage.output_audio_tokens,
    )


def _noted(response: ModelResponse, parts: Sequence[ModelResponsePart]) -> dict[str, Any]:
    """Note who answered, and the signatures and ids that this provider wants back with the next request."""
    noted: dict[str, Any] = {"name": response.model_name, "provider": response.provider_name}
    notes = [_part_note(part) for part in parts]
    return {**noted, PARTS: notes} if any(notes) else noted


def _part_note(part: ModelResponsePart) -> dict[str, Any]:
    found = {name: getattr(part, name, None) for name in _NOTES}
    return {name: value for name, value in found.items() if value is not None}


def _raw(response: ModelResponse) -> dict[str, Any]:
    dumped: dict[str, Any] = ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    return dumped
