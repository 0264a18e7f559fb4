"""The model that a name stands for, with its connections. Imported when a model is called: needs the ``llm`` extra."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any, Final, TypeAlias

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.state.model_summary import provider_name

_OPENAI: Final = frozenset({"openai", "openai-chat", "openai-responses"})

HeldModel: TypeAlias = tuple[Model, AsyncGenerator[Model, None] | None]
"""A model, and what closes its connections once nobody has it any more, or its loop ends."""


async def held_model(model: str | Model, base_url: str | None) -> HeldModel:
    """Return the model that a name stands for, for the loop that runs here; a model object as it is.

    Args:
        model: ``gpt-…``, ``o…``, ``claude-…``, ``gemini-…``, ``provider:name``, or a model object of pydantic-ai.
        base_url: An OpenAI-compatible server to ask, whatever the model is called.

    Raises:
        GraphError: ``MODEL`` if nobody knows it.
        ImportError: The provider's package is not installed.
    """
    if isinstance(model, Model):
        return model, None
    lifetime = _lifetime(model, base_url)
    return await anext(lifetime), lifetime


async def _lifetime(model: str, base_url: str | None) -> AsyncGenerator[Model, None]:
    """A loop closes generators that nobody holds any more, and all of them before it ends."""
    async with AsyncExitStack() as stack:
        name = provider_name(model)
        if base_url is not None or name.partition(":")[0] in _OPENAI:
            yield _of_openai(model if base_url is not None else name, base_url, stack)
        else:
            found = _inferred(name)
            yield found
            async with found:  # leaving it closes what pydantic-ai opened
                pass


def _of_openai(name: str, base_url: str | None, stack: AsyncExitStack) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = _client()
    if client is not None:
        stack.push_async_callback(client.aclose)
    try:
        provider = OpenAIProvider(base_url=base_url, http_client=client)
    except UserError as error:
        raise _unusable(name, error) from error
    # How often is ours to say; a client that is told with each call is copied for each.
    provider.client.max_retries = 0
    if base_url is None:
        return infer_model(name, lambda _: provider)
    # Only our own prefix goes: servers have model names with colons, such as qwen3:8b.
    return OpenAIChatModel(name.removeprefix("openai:"), provider=provider)


def _client() -> Any:
    try:
        from tenxgraph.core.graph.model_connections import connected_client

        return connected_client()
    except (ImportError, TypeError):  # an older pydantic-ai has another HTTP library, or takes no transport
        return None


def _inferred(name: str) -> Model:
    try:
        return infer_model(name)
    except UserError as error:
        raise _unusable(name, error) from error


def _unusable(name: str, error: UserError) -> GraphError:
    return GraphError(
        f"Model {name!r} cannot be used: {error.message} Write provider:name, or give base_url for a server of "
        "your own.",
        error_code="MODEL",
        context={"model": name},
    )
