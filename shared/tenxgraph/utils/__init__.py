"""What nodes and callers use beside the graph itself."""

from typing import TYPE_CHECKING

from tenxgraph._lazy import lazy

# Functions named like their modules are bound at once: the first import of such a module would else put the module
# in the function's place.
from tenxgraph.utils.effect import effect
from tenxgraph.utils.emit import emit
from tenxgraph.utils.interrupt import interrupt
from tenxgraph.utils.load_media import load_media
from tenxgraph.utils.tool import tool

if TYPE_CHECKING:
    from tenxgraph.utils.command import Command, Send
    from tenxgraph.utils.constants import END, START, ResponseGranularity

__all__ = [
    "END",
    "START",
    "Command",
    "ResponseGranularity",
    "Send",
    "effect",
    "emit",
    "interrupt",
    "load_media",
    "tool",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "END": "tenxgraph.utils.constants",
            "START": "tenxgraph.utils.constants",
            "ResponseGranularity": "tenxgraph.utils.constants",
            "Command": "tenxgraph.utils.command",
            "Send": "tenxgraph.utils.command",
        },
    )
