"""The node that asks a language model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.model_waits import Waits
from tenxgraph.core.graph.node_return import Trimmed
from tenxgraph.core.graph.rate_limit import RateLimit
from tenxgraph.core.graph.retry_policy import RetryPolicy
from tenxgraph.core.graph.system_prompt import fill_prompt, names_field
from tenxgraph.core.graph.tool_node import ToolNode
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.kept_media import refers_to_kept, with_data
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.model_summary import MISSING_EXTRA, provider_name
from tenxgraph.utils.emit import emit
from tenxgraph.utils.task_context import find_task

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from tenxgraph.core.graph.held_model import HeldModel


_logger = logging.getLogger(__name__)

_EXTRAS: Final = ("openai", "google", "anthropic")
_SUMMARY: Final = "context_summary"
_RETRIES: Final = 2


class Agent:
    """Asks a model to continue the conversation, and adds its answer to ``context``.

    A tool call by the model appears in the message's ``tools_calls`` and as ``ToolCallBlock``; lead such a message to
    the ``tool_node`` and back. Constructing needs no provider's package, calling does.

    Args:
        model: ``gpt-…``, ``o…``, ``claude-…``, ``gemini-…``, or ``provider:name``; or a model object of pydantic-ai.
        system_prompt: Stands before the conversation; ``{field}`` is replaced by that field of the state.
        tool_node: Its tools are offered to the model.
        output_schema: A pydantic model that the answer must fit; it ends up in ``parsed_content``.
        trim_context: Let the graph's context manager shorten what the model is sent and what ``context`` carries on.
            Without one a warning is logged and everything is sent.
        retry: How often the model is asked again after an answer that is unusable, 429 and 5xx, and lost connections.
            Without one a model that is given by name is asked ``max_retries`` times more (2 unless set). A pause of
            more than 2 s holds no worker: the task waits, and its next attempt goes on from there.
        fallback_models: Asked in this order when the model fails.
        keep_raw: Keep the whole answer in ``raw``.
        rate_limit: How often all workers together may call each model: ``"60/min"``, ``"5/s"``, ``"10/30s"``. A call
            that has to wait for more than 2 s holds no worker. Outside of a graph nothing is limited.
        base_url: An OpenAI-compatible server to ask instead of the model's own provider.
        **model_settings: ``temperature``, ``max_tokens``, ``timeout`` (seconds) and whatever else pydantic-ai's
            ModelSettings have; settings of one provider carry its name, as ``openai_reasoning_effort``.

    Raises:
        GraphError: ``INVALID_AGENT`` naming the argument that makes no sense.
    """

    may_begin_again: Final = True
    """An attempt that ends while it waits for its model loses nothing."""

    def __init__(
        self,
        model: str | Model,
        system_prompt: str | None = None,
        tool_node: ToolNode | None = None,
        output_schema: type[BaseModel] | None = None,
        trim_context: bool = False,
        retry: RetryPolicy | None = None,
        fallback_models: Sequence[str | Model] = (),
        keep_raw: bool = False,
        base_url: str | None = None,
        rate_limit: str | None = None,
        **model_settings: Any,
    ) -> None:
        self.model = model
        self.system_prompt = system_prompt
        self.tool_node = tool_node
        self.output_schema = output_schema
        self.trim_context = trim_context
        self.retry = retry
        self.fallback_models: tuple[str | Model, ...] = (
            (fallback_models,) if isinstance(fallback_models, str) else tuple(fallback_models)
        )
        self.keep_raw = keep_raw
        self.base_url = base_url
        self.rate_limit = rate_limit
        self.model_settings = model_settings
        self._check()
        # A model's connections belong to the loop they were made on.
        self._models: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, HeldModel]] = WeakKeyDictionary()

    async def __call__(self, state: AgentState, config: Mapping[str, Any] | None = None) -> list[Message]:
        """Ask the model once.

        Returns:
            The answer as a list of one message. Return it as it is: where the context manager has shortened the
            conversation, the list brings along what is left.

        Raises:
            GraphError: ``MISSING_EXTRA`` naming what to install; ``MODEL``, ``SYSTEM_PROMPT`` or ``INVALID_AGENT``.
            NodeError: ``INVALID_OUTPUT`` if the answer does not fit ``output_schema``.
        """
        del config
        sent = await self._trimmed(state)
        message = await self._ask(sent)
        return [message] if sent is state else Trimmed([message], sent)

    async def _ask(self, sent: AgentState) -> Message:
        try:
            from tenxgraph.core.graph.model_call import Candidate, ModelCall, ask, unknown_settings
            from tenxgraph.core.graph.model_response import to_message
        except ImportError as error:
            raise self._missing_extra(self.model, error) from error
        unknown = unknown_settings(self.model_settings)
        if unknown:
            raise _invalid(unknown[0], self.model_settings[unknown[0]], "left out: no model has such a setting")
        tools = self.tool_node.schemas() if self.tool_node is not None else []
        task = find_task()
        call = ModelCall(
            context=await _with_media(sent.context),
            system=self._system(sent),
            tools=tools,
            output_schema=self.output_schema,
            settings=self._settings(),
            retry=self.retry,
            rate_limit=RateLimit.parse(self.rate_limit or ""),
            tell=emit if task is not None and task.follows_tokens else None,
        )
        models = [
            Candidate(self._name(model), partial(self._model, position), self._own_retry(model))
            for position, model in enumerate((self.model, *self.fallback_models))
        ]
        response, output, message_id = await ask(models, call, Waits.of(task))
        return to_message(response, output, message_id, keep_raw=self.keep_raw)

    def _settings(self) -> dict[str, Any]:
        # How often and how long is ours to say: a client that waits for a minute holds a worker for a minute.
        return self.model_settings if not isinstance(self.model, str) else {**self.model_settings, "max_retries": 0}

    def _own_retry(self, model: str | Model) -> RetryPolicy | None:
        if not isinstance(model, str):
            return None
        return RetryPolicy(max_attempts=1 + int(self.model_settings.get("max_retries", _RETRIES)))

    def _name(self, model: str | Model) -> str:
        name = provider_name(model) if isinstance(model, str) else str(model.model_name)
        return name if self.base_url is None or not isinstance(model, str) else f"{model} at {self.base_url}"

    def _system(self, sent: AgentState) -> str | None:
        prompt = self.system_prompt or ""
        parts = [fill_prompt(prompt, sent)] if prompt else []
        if sent.context_summary and not names_field(prompt, _SUMMARY):
            parts.append(f"What was said before, in short:\n{sent.context_summary}")
        return "\n\n".join(parts) or None

    async def _trimmed(self, state: AgentState) -> AgentState:
        if not self.trim_context:
            return state
        task = find_task()
        if task is None or task.context_manager is None:
            _logger.warning(
                "trim_context=True, but the graph has no context manager: everything is sent. "
                "Give one: StateGraph(…, context_manager=MessageContextManager())."
            )
            return state
        trimmed: AgentState = await task.context_manager.atrim_context(state)
        return trimmed

    async def _model(self, position: int) -> Model:
        from tenxgraph.core.graph.held_model import held_model

        known = self._models.setdefault(asyncio.get_running_loop(), {})
        if position not in known:
            name = (self.model, *self.fallback_models)[position]
            try:
                known[position] = await held_model(name, self.base_url)
            except ImportError as error:
                raise self._missing_extra(name, error) from error
        return known[position][0]

    def _missing_extra(self, model: str | Model, error: ImportError) -> GraphError:
        name = model if isinstance(model, str) else ""
        provider = "openai" if self.base_url is not None else provider_name(name).partition(":")[0]
        extra = next((each for each in _EXTRAS if provider.partition("-")[0] == each), "llm")
        return GraphError(
            f"Model {name!r} needs the extra {extra} ({error}): pip install 'tenxgraph[{extra}]'.",
            error_code=MISSING_EXTRA,
            context={"extra": extra, "model": name},
        )

    def _check(self) -> None:
        checks: list[tuple[str, str, Callable[[Any], bool]]] = [
            ("model", "a name, or a model object of pydantic-ai", _is_model),
            ("system_prompt", "a text", lambda given: given is None or isinstance(given, str)),
            ("tool_node", "a ToolNode", lambda given: given is None or isinstance(given, ToolNode)),
            ("output_schema", "a pydantic model class", _is_schema),
            ("retry", "a RetryPolicy", lambda given: given is None or isinstance(given, RetryPolicy)),
            ("fallback_models", "a list of models", lambda given: all(map(_is_model, given))),
            ("rate_limit", "a text such as '60/min', '5/s' or '10/30s'", _is_rate),
        ]
        for name, wanted, is_fine in checks:
            if not is_fine(getattr(self, name)):
                raise _invalid(name, getattr(self, name), wanted)


async def _with_media(context: list[Message]) -> list[Message]:
    messages, task = list(context), find_task()
    if task is None or not any(map(refers_to_kept, messages)):
        return messages
    return await asyncio.to_thread(with_data, messages, task.load_media)


def _is_model(given: Any) -> bool:
    return bool(given) if isinstance(given, str) else hasattr(given, "request") and hasattr(given, "model_name")


def _is_schema(given: Any) -> bool:
    return given is None or (isinstance(given, type) and issubclass(given, BaseModel))


def _is_rate(given: Any) -> bool:
    return given is None or (isinstance(given, str) and RateLimit.parse(given) is not None)


def _invalid(name: str, value: Any, wanted: str) -> GraphError:
    return GraphError(
        f"Agent: {name} must be {wanted}, not {value!r}.", error_code="INVALID_AGENT", context={"argument": name}
    )
