"""What graphs are tested with."""

from tenxgraph.testing.test_agent import TestAgent

__all__ = ["TestAgent"]
