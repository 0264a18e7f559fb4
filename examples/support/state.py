"""The state of a conversation with a customer."""

from tenxgraph.core.state import AgentState


class SupportState(AgentState):
    """A conversation, and where the shop's database is; workers must see it under the same path."""

    database: str = ""
