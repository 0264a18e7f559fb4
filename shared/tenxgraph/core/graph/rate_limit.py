"""How often a model may be called by all workers together."""

import re
from dataclasses import dataclass
from typing import Final

_PERIODS_S: Final = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
}
_FORM: Final = re.compile(r"\s*(\d+)\s*/\s*(\d*)\s*([a-z]+)\s*")
_MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most ``calls`` begin in any ``period_s`` seconds."""

    calls: int
    period_s: float

    @classmethod
    def parse(cls, text: str) -> "RateLimit | None":
        """Read ``60/min``, ``5/s``, ``1000/hour`` or ``10/30s``; None if it is none of these."""
        found = _FORM.fullmatch(text)
        if found is None or found[3] not in _PERIODS_S or not 0 < int(found[1]) <= _MOST or found[2] == "0":
            return None
        return cls(int(found[1]), int(found[2] or 1) * _PERIODS_S[found[3]])
