"""A paragraph about a document by a language model."""

from pydantic import BaseModel

from tenxgraph.core.graph import Agent, RetryPolicy
from tenxgraph.core.state import AgentState, Message

MODEL_VARIABLE = "TENXGRAPH_REVIEW_MODEL"
MAX_CHARS = 60_000

_TASK = (
    "You are given a document, or its beginning. Say in one paragraph of at most eighty words what it is, whom it "
    "binds and what matters most in it. Write plain prose without headings or lists, and add nothing of your own."
)


class Summary(BaseModel):
    """A summary of the document with this id."""

    id: str
    text: str


async def summarise(model: str, text: str) -> str:
    """Return one paragraph about a text.

    Args:
        model: As `Agent` takes it: a short name, or ``provider:name``.
        text: The text; its first ``MAX_CHARS`` characters are sent.

    Raises:
        GraphError: The model is unknown, or its extra is not installed.
    """
    agent = Agent(model, _TASK, retry=RetryPolicy())
    answer = await agent(AgentState(context=[Message.text_message(text[:MAX_CHARS])]))
    messages = answer if isinstance(answer, list) else answer["context"]
    return " ".join("".join(message.text() for message in messages).split())
