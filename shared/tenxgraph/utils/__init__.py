"""What nodes and callers use beside the graph itself."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

# Functions named like their modules are bound at once: the first import of such a module would else put the module
# in the function's place.
from tenxgraph.utils.effect import effect
from tenxgraph.utils.emit import emit
from tenxgraph.utils.interrupt import interrupt
from tenxgraph.utils.tool import tool

if TYPE_CHECKING:
    from tenxgraph.utils.command import Command, Send
    from tenxgraph.utils.constants import END, START, ResponseGranularity

__all__ = ["END", "START", "Command", "ResponseGranularity", "Send", "effect", "emit", "interrupt", "tool"]

_HOMES: Final = {
    "END": "constants",
    "START": "constants",
    "ResponseGranularity": "constants",
    "Command": "command",
    "Send": "command",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
