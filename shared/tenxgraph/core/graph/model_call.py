"""Ask a model, and others in its place. Imported when a model is called: it needs the ``llm`` extra."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from pydantic import BaseModel
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from tenxgraph.core.exceptions import GraphError, NodeError
from tenxgraph.core.graph.model_request import to_request
from tenxgraph.core.graph.model_response import OUTPUT_TOOL, read_output
from tenxgraph.core.graph.model_stream import Pieces, Tell, can_stream
from tenxgraph.core.graph.model_waits import Waits
from tenxgraph.core.graph.rate_limit import RateLimit
from tenxgraph.core.graph.retry_policy import RetryPolicy
from tenxgraph.core.state.message import Message
from tenxgraph.utils.ids import generate_id

_logger = logging.getLogger(__name__)

Answer: TypeAlias = tuple[ModelResponse, BaseModel | None, str | int]
"""What a model answered, the structured part of it if one was asked for, and the id of the message that it becomes."""

_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
_OF_THE_MODEL: Final = (ModelAPIError, UnexpectedModelBehavior, NodeError)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """What a model is asked.

    Attributes:
        context: The conversation.
        system: The system prompt.
        tools: ``{name, description, parameters}`` of what it may call.
        output_schema: What its answer must fit.
        settings: pydantic-ai's ModelSettings.
        retry: How often it is asked again where that may help; None leaves that to the candidate.
        rate_limit: How often all workers together may ask one model.
        new_id: Makes the id of a message.
        tell: Takes the answer piece by piece; None where nobody follows.
    """

    context: Sequence[Message]
    system: str | None
    tools: Sequence[Mapping[str, Any]]
    output_schema: type[BaseModel] | None
    settings: Mapping[str, Any]
    retry: RetryPolicy | None
    rate_limit: RateLimit | None = None
    new_id: Callable[[], str | int] = generate_id
    tell: Tell | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be asked.

    Attributes:
        name: In the line of its rate limit.
        find: Returns it.
        retry: How often it is asked again if the agent does not say.
    """

    name: str
    find: Callable[[], Awaitable[Model]]
    retry: RetryPolicy | None = None


async def ask(models: Sequence[Candidate], call: ModelCall, waits: Waits) -> Answer:
    """Ask the first model; the next where another model may do what one did not.

    Raises:
        GraphError: The model or its settings are wrong.
        Exception: What the last model failed with; its notes say what the others failed with.
        RetryLater: The wait is long, or followers saw a part of an answer that is void now.
    """
    failures: list[Exception] = []
    while True:
        asked = models[waits.position]
        try:
            return await _ask_patiently(asked, call, waits)
        except _OF_THE_MODEL as error:
            failures.append(error)
            if waits.position + 1 == len(models):
                _note_others(error, failures[:-1])
                raise
            waits.go_to(waits.position + 1)
            _logger.warning("model %d of %d failed, the next is asked: %s", waits.position, len(models), error)
            await waits.pause(0.0, str(error))
        except UserError as error:
            raise GraphError(f"The model cannot be asked: {error.message}", error_code="MODEL") from error


async def _ask_patiently(asked: Candidate, call: ModelCall, waits: Waits) -> Answer:
    model = await asked.find()
    retry = call.retry or asked.retry
    messages = to_request(call.context, call.system, model.system)
    while True:
        if call.rate_limit is not None:
            await waits.for_turn(call.rate_limit, asked.name)
        try:
            return await _ask_once(model, messages, call, waits)
        except _OF_THE_MODEL as error:
            waits.tries += 1
            if retry is None or not _may_pass(error) or not retry.retries(error, waits.tries):
                raise
            pause_s = max(retry.delay_s(waits.tries, model.model_name), getattr(error, "retry_after", None) or 0.0)
            _logger.info("model %s is asked again in %.1f s: %s", model.model_name, pause_s, error)
            await waits.pause(pause_s, str(error))


async def _ask_once(model: Model, messages: list[ModelMessage], call: ModelCall, waits: Waits) -> Answer:
    settings = cast("ModelSettings", _settings(model, call.settings)) or None
    parameters = _parameters(call)
    if call.tell is None or not can_stream(model):
        response = await model_request(model, messages, model_settings=settings, model_request_parameters=parameters)
        return response, read_output(response, call.output_schema), call.new_id()
    message_id = call.new_id()

    def tell(delta: Message) -> None:
        waits.has_told = True
        call.tell and call.tell(delta)

    pieces = Pieces(message_id, tell)
    async with model_request_stream(
        model, messages, model_settings=settings, model_request_parameters=parameters
    ) as stream:
        async for event in stream:
            pieces.take(event)
        response = stream.get()
    if response.state == "incomplete":
        raise ModelAPIError(model.model_name, "the answer broke off before its end")
    return response, read_output(response, call.output_schema), message_id


def _settings(model: Model, given: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what the model's client does already: to be told anew it would be copied."""
    own = getattr(getattr(model, "client", None), "max_retries", None)
    return {name: value for name, value in given.items() if name != "max_retries" or value != own}


def _may_pass(error: Exception) -> bool:
    """Tell whether the same question may be answered in a while: not where the provider refused it for what it is."""
    if isinstance(error, ModelHTTPError):
        return error.status_code in _PASSING_STATUSES or error.status_code >= 500
    return True


def _note_others(error: Exception, others: Sequence[Exception]) -> None:
    for other in others:
        error.add_note(f"A model asked before failed too: {type(other).__name__}: {other}")


def _parameters(call: ModelCall) -> ModelRequestParameters:
    tools = [_definition(each) for each in call.tools]
    if call.output_schema is None:
        return ModelRequestParameters(function_tools=tools)
    schema = call.output_schema.model_json_schema()
    name, description = call.output_schema.__name__, call.output_schema.__doc__
    final = ToolDefinition(
        name=OUTPUT_TOOL,
        parameters_json_schema=schema,
        description=description or "Give the final answer.",
        kind="output",
    )
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="auto",  # as the model's profile says: JSON output, or a tool
        output_object=OutputObjectDefinition(json_schema=schema, name=name, description=description),
        output_tools=[final],
    )


def _definition(tool: Mapping[str, Any]) -> ToolDefinition:
    return ToolDefinition(
        name=tool["name"], parameters_json_schema=dict(tool["parameters"]), description=tool["description"] or None
    )


def unknown_settings(settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that no model knows; those of one provider carry its name in front."""
    known = ModelSettings.__annotations__
    return sorted(name for name in settings if name not in known and name.partition("_")[0] not in _PREFIXES)


_PREFIXES: Final = frozenset(
    {"anthropic", "bedrock", "cerebras", "cohere", "gateway", "google", "groq", "huggingface", "mistral", "ollama",
     "openai", "openrouter", "xai", "zai"}
)  # fmt: skip
