"""Graphs that are ready to use."""

from tenxgraph.prebuilt.react_agent import ReactAgent

__all__ = ["ReactAgent"]
