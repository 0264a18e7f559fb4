"""What becomes of an input to a thread: one table of what it finds there, its strategy and its kind."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final


class MultitaskStrategy(StrEnum):
    """What a new run does about the run that has the thread."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"


class Occupancy(StrEnum):
    """What an input finds on the thread."""

    FREE = "free"
    CONTINUABLE = "continuable"
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    PAUSE = "pause"
    QUESTION = "question"


class ThreadInput(StrEnum):
    """What comes: a message, None, an answer; the first two also at the moment at which a delayed run is to start."""

    MESSAGE = "message"
    CONTINUE = "continue"
    RESUME = "resume"
    LATE_MESSAGE = "late_message"
    LATE_CONTINUE = "late_continue"


class Verdict(StrEnum):
    """What is done about it."""

    START = "start"
    QUEUE = "queue"
    STOP = "stop"
    REPLACE = "replace"
    UNDO = "undo"
    ANSWER = "answer"
    UNANSWERED = "unanswered"
    BUSY = "busy"
    NOTHING = "nothing"
    CONFLICT = "conflict"
    REJECT = "reject"
    FAIL = "fail"


_OF: Final = {
    "S": Verdict.START,
    "q": Verdict.QUEUE,
    "s": Verdict.STOP,
    "r": Verdict.REPLACE,
    "u": Verdict.UNDO,
    "a": Verdict.ANSWER,
    "!": Verdict.UNANSWERED,
    "b": Verdict.BUSY,
    "n": Verdict.NOTHING,
    "c": Verdict.CONFLICT,
    "R": Verdict.REJECT,
    "F": Verdict.FAIL,
}

# A letter for each strategy: enqueue, reject, interrupt, rollback.
_ROWS: Final = {
    ThreadInput.MESSAGE: {
        Occupancy.FREE: "SSSS",
        Occupancy.CONTINUABLE: "SSSS",
        Occupancy.QUEUED: "qbru",
        Occupancy.RUNNING: "qbsu",
        Occupancy.STOPPING: "qbsu",
        Occupancy.PAUSE: "aasu",
        Occupancy.QUESTION: "!!su",
    },
    ThreadInput.CONTINUE: {
        Occupancy.FREE: "nnnn",
        Occupancy.CONTINUABLE: "SSSS",
        Occupancy.QUEUED: "bbbb",
        Occupancy.RUNNING: "bbbb",
        Occupancy.STOPPING: "bbbb",
        Occupancy.PAUSE: "aaaa",
        Occupancy.QUESTION: "!!!!",
    },
    ThreadInput.RESUME: {
        Occupancy.FREE: "cccc",
        Occupancy.CONTINUABLE: "cccc",
        Occupancy.QUEUED: "cccc",
        Occupancy.RUNNING: "cccc",
        Occupancy.STOPPING: "cccc",
        Occupancy.PAUSE: "aaaa",
        Occupancy.QUESTION: "aaaa",
    },
    ThreadInput.LATE_MESSAGE: {
        Occupancy.FREE: "SSSS",
        Occupancy.CONTINUABLE: "SSSS",
        Occupancy.QUEUED: "qRru",
        Occupancy.RUNNING: "qRsu",
        Occupancy.STOPPING: "qRsu",
        Occupancy.PAUSE: "qRsu",
        Occupancy.QUESTION: "qRsu",
    },
    ThreadInput.LATE_CONTINUE: {
        Occupancy.FREE: "FFFF",
        Occupancy.CONTINUABLE: "SSSS",
        Occupancy.QUEUED: "qRRR",
        Occupancy.RUNNING: "qRRR",
        Occupancy.STOPPING: "qRRR",
        Occupancy.PAUSE: "qRRR",
        Occupancy.QUESTION: "qRRR",
    },
}

Row = tuple[ThreadInput, Occupancy, MultitaskStrategy]


def _rows() -> Iterator[tuple[Row, Verdict]]:
    for given, found in _ROWS.items():
        for occupancy, letters in found.items():
            for strategy, letter in zip(MultitaskStrategy, letters, strict=True):
                yield (given, occupancy, strategy), _OF[letter]


VERDICTS: Final[dict[Row, Verdict]] = dict(_rows())
"""The table. The Redis store's scripts are handed the same one."""
