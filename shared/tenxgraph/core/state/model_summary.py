"""Ask a language model for a summary."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.state.message import Message

MISSING_EXTRA: Final = "MISSING_EXTRA"
_PROVIDERS: Final = {
    "gemini-": "google",
    "gpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude-": "anthropic",
}
_TASK: Final = (
    "Sum up the conversation below for the assistant who continues it. Keep names, numbers, decisions and open "
    "questions. Answer with the summary alone."
)


def summarize_with(model: str) -> Callable[[Sequence[Message], str | None], Awaitable[str]]:
    """Return a function that has ``model`` write the summary.

    The function raises ``GraphError`` where the ``llm`` extra, or the provider's own package, is not installed.
    """

    async def summarize(messages: Sequence[Message], summary: str | None) -> str:
        try:
            return await _ask(provider_name(model), _prompt(messages, summary))
        except ImportError as error:
            raise GraphError(
                f"the summary by model {model!r} needs the llm extra ({error}): "
                "pip install 'tenxgraph[llm]', or give summarize=",
                error_code=MISSING_EXTRA,
                context={"extra": "llm", "model": model},
            ) from error

    return summarize


def provider_name(model: str) -> str:
    """Return ``provider:name`` for a short model name; a name with a provider stays as it is."""
    found = next((provider for prefix, provider in _PROVIDERS.items() if model.startswith(prefix)), None)
    return model if ":" in model or found is None else f"{found}:{model}"


async def _ask(model: str, prompt: str) -> str:
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelRequest, TextPart

    response = await model_request(model, [ModelRequest.user_text_prompt(prompt, instructions=_TASK)])
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _prompt(messages: Sequence[Message], summary: str | None) -> str:
    before = [f"Summary so far: {summary}"] if summary else []
    return "\n\n".join([*before, *(f"{message.role}: {message.text()}" for message in messages)])
