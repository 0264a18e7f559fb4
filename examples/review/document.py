"""Documents and what is found out about each."""

from enum import StrEnum
from typing import NamedTuple

from pydantic import BaseModel


class Document(BaseModel):
    """A file to review.

    Attributes:
        id: Its name, size and time of change: a file that changed is another document.
        name: Path inside the folder, with ``/``.
        path: Absolute path, without symbolic links.
        size_bytes: Its size when it was listed.
        aliases: Names inside the folder that are symbolic links to it.
    """

    id: str
    name: str
    path: str
    size_bytes: int
    aliases: list[str] = []


class LeftOut(BaseModel):
    """A file that is not reviewed, and why."""

    name: str
    reason: str


class RuleKind(StrEnum):
    """What a rule asks of its reader."""

    OBLIGATION = "obligation"
    PROHIBITION = "prohibition"
    PERMISSION = "permission"


class Rule(BaseModel):
    """A sentence that binds somebody.

    Attributes:
        kind: What it asks.
        is_conditional: It holds on a condition: provided that, unless, only if.
        text: The sentence, on one line.
    """

    kind: RuleKind
    is_conditional: bool
    text: str


class Measures(BaseModel):
    """What the analysis of one text found.

    Attributes:
        words: Number of words; numbers are none.
        sentences: Number of sentences; headings and list items count as such.
        reading_ease: Flesch reading ease, rounded to one place: 100 is easy, 30 difficult; below 0 for legal prose.
        obligations: Number of sentences that oblige.
        prohibitions: Number of sentences that forbid.
        permissions: Number of sentences that allow.
        conditional: How many of these hold on a condition only.
        quotes: The rules worth quoting, at most one of a kind.
        terms: Key terms in lower case, the weightiest first.
        encoding_note: How the bytes were read, where it was not UTF-8.
    """

    words: int
    sentences: int
    reading_ease: float
    obligations: int
    prohibitions: int
    permissions: int
    conditional: int
    quotes: list[Rule]
    terms: list[str]
    encoding_note: str = ""

    @property
    def rules(self) -> int:
        """Number of rules of all kinds."""
        return self.obligations + self.prohibitions + self.permissions


class Review(BaseModel):
    """The outcome for one document: its measures, or the problem that prevented them.

    Attributes:
        id: Id of the document.
        name: Name of the document.
        measures: None where there is a problem.
        problem: Empty where there are measures.
    """

    id: str
    name: str
    measures: Measures | None = None
    problem: str = ""


class Outcome(NamedTuple):
    """A document and all that was found out about it; the summary is empty where there is none."""

    document: Document
    review: Review
    summary: str = ""
