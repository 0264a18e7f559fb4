"""Log lines of long-running commands: one line each, with the fields that say where it belongs."""

import logging
from typing import Final

_FIELDS: Final = ("thread_id", "run_id", "step", "task", "attempt")


class FieldsFormatter(logging.Formatter):
    """Puts thread, run, step, task and attempt behind the message, where a record has them."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        said = " ".join(f"{name}={getattr(record, name)}" for name in _FIELDS if hasattr(record, name))
        line = super().format(record)
        return f"{line}  [{said}]" if said else line


def set_up_logs(level: str = "INFO") -> None:
    """Send the log to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(FieldsFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
