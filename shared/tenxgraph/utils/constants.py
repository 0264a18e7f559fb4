"""Names that graphs are written with: the virtual nodes and the sizes of a result."""

from enum import StrEnum
from typing import Final

START: Final = "__start__"
END: Final = "__end__"


class ResponseGranularity(StrEnum):
    """How much of the state a result carries; the plain strings work too."""

    FULL = "full"
    PARTIAL = "partial"
    LOW = "low"
