"""The conversation that is played, and what stands in for a model unless one is named."""

from tenxgraph.core.state import AgentState, Message
from tenxgraph.testing import TestAgent

CUSTOMER = (
    "Hello, I am Anna Berg. Has my order 1042 been sent?",
    "It has, but the desk lamp arrived broken. I would like my money back.",
    "Thank you! My neighbour also waits for something, order 7.",
)

ANSWERS = TestAgent(
    [
        [("look_up_order", {"order_id": 1042})],
        "Hello Anna! Yes: {result}",
        [("refund_item", {"order_id": 1042, "item": "desk lamp", "reason": "arrived broken"})],
        "I have asked for the refund. {result}",
        [("look_up_order", {"order_id": 7})],
        "I am sorry: {result} Could you ask your neighbour for the number again?",
    ]
)


async def scripted(state: AgentState) -> list[Message]:
    """Answer from the script; ``{result}`` stands for what the last tool said."""
    (answer,) = await ANSWERS(state)
    text = answer.text()
    if "{result}" not in text:
        return [answer]
    result = next(message.text() for message in reversed(state.context) if message.role == "tool")
    return [Message.text_message(text.replace("{result}", result), role="assistant")]
