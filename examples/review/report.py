"""The report: what a review says to people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from examples.review.document import Document, LeftOut, Measures, Outcome, Rule, RuleKind
from examples.review.markdown import escape, shorten, table
from examples.review.prose import describe_ease
from examples.review.terms import Pair, most_similar

WORDS_PER_MINUTE = 240
MAX_ROWS = 50
_MIN_RULES = 5  # fewer say nothing about a document's temper
_TERMS_SHOWN = 4
_QUOTE_CHARS = 320
_MODALS = {RuleKind.OBLIGATION: "Must", RuleKind.PROHIBITION: "Must not", RuleKind.PERMISSION: "May"}

_METHOD = """\
*Words* are runs of letters. *Reading ease* is Flesch's: 206.8 - 1.015 × words per sentence - 84.6 × syllables per word;
60 reads like plain English, 30 like a scientific article, and syllables are estimated from hyphenation. A rule is an
English sentence with *must*, *shall*, *may not*, *required to*, *provided that* or their like; one that does several
things counts once, as what binds most. *Key terms* weigh how often, where and how evenly a term occurs. The counts are
made by pattern: read the sentence before you rely on it."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A document that could be measured."""

    document: Document
    measures: Measures
    summary: str

    @property
    def title(self) -> str:
        return escape(self.document.name)


def write_markdown(
    folder: str,
    outcomes: Sequence[Outcome],
    left_out: Sequence[LeftOut],
    chart: str | None,
    today: date,
) -> str:
    """Return the report. Only the line with the date differs between two reviews of the same documents.

    Args:
        folder: What was reviewed.
        outcomes: What was found out, in the order of the report.
        left_out: Files that were not tried.
        chart: Address of the chart, relative to the report; None without one.
        today: Date of the report.
    """
    entries = [_Entry(it.document, it.review.measures, it.summary) for it in outcomes if it.review.measures is not None]
    failed = [LeftOut(name=it.review.name, reason=it.review.problem) for it in outcomes if it.review.measures is None]
    parts = [f"# Review of {escape(folder)}", f"Reviewed on {today.isoformat()}.", *_summary(entries)]
    if entries:
        parts += [*_documents(entries, chart), *_rules(entries), *_similar(entries)]
    parts += _left_out([*failed, *left_out])
    return "\n\n".join([*parts, "## How this was measured", _METHOD]) + "\n"


def _summary(entries: Sequence[_Entry]) -> Iterator[str]:
    yield "## Summary"
    if not entries:
        yield "No document could be reviewed."
        return
    words, rules, conditional = (
        sum(getattr(entry.measures, field) for entry in entries) for field in ("words", "rules", "conditional")
    )
    yield (
        f"**{_count(len(entries), 'document')}** with {_count(words, 'word')}: {_duration(words)} of reading, "
        f"and {_rules_found(rules, conditional)}."
    )
    if len(entries) > 1:
        yield "\n".join(f"- {line}" for line in _highlights(entries))


def _highlights(entries: Sequence[_Entry]) -> Iterator[str]:
    longest = max(entries, key=lambda entry: entry.measures.words)
    words = longest.measures.words
    yield f"Longest: **{longest.title}**, {_count(words, 'word')}, {_duration(words)}."
    easiest = max(entries, key=lambda entry: entry.measures.reading_ease)
    hardest = min(entries, key=lambda entry: entry.measures.reading_ease)
    yield f"Easiest to read: **{easiest.title}**, {_ease(easiest)}. Hardest: **{hardest.title}**, {_ease(hardest)}."
    ruling = [entry for entry in entries if entry.measures.rules >= _MIN_RULES]
    if ruling:
        strictest, freest = max(ruling, key=_strictness), max(ruling, key=_freedom)
        yield f"Strictest: **{strictest.title}**, {_strictness(strictest):.1f} duties and bans in 1,000 words."
        yield f"Most permissive: **{freest.title}**, {_freedom(freest):.0%} of its rules allow something."


def _strictness(entry: _Entry) -> float:
    return 1000 * (entry.measures.obligations + entry.measures.prohibitions) / entry.measures.words


def _freedom(entry: _Entry) -> float:
    return entry.measures.permissions / entry.measures.rules


def _documents(entries: Sequence[_Entry], chart: str | None) -> Iterator[str]:
    yield "## Documents"
    header = ("Document", "Words", "Sentences", "Reading ease", "Must", "Must not", "May", "Key terms")
    yield table(header, map(_row, entries), right=range(1, 7))
    if chart is not None:
        yield f"![Rules per document: how many sentences oblige, forbid and allow]({chart})"


def _row(entry: _Entry) -> tuple[str, ...]:
    found = entry.measures
    counts = (found.obligations, found.prohibitions, found.permissions)
    numbers = (found.words, found.sentences, found.reading_ease, *counts)
    terms = ", ".join(map(escape, found.terms[:_TERMS_SHOWN]))
    return (entry.title, *(f"{number:,}" for number in numbers), terms)


def _rules(entries: Sequence[_Entry]) -> Iterator[str]:
    yield "## What they ask"
    for entry in entries:
        yield f"### {entry.title}"
        yield _facts(entry)
        if entry.summary:
            yield escape(entry.summary)
        if entry.measures.quotes:
            yield "\n".join(map(_quote, entry.measures.quotes))


def _facts(entry: _Entry) -> str:
    found, also = entry.measures, ", ".join(map(escape, entry.document.aliases))
    facts = [
        f"{_count(found.words, 'word')}, {_duration(found.words)}",
        f"reading ease {_ease(entry)}",
        _rules_found(found.rules, found.conditional),
    ]
    notes = [f"also as {also}"] if also else []
    return " · ".join([*facts, *notes, *filter(None, [found.encoding_note])])


def _quote(rule: Rule) -> str:
    condition = ", on a condition" if rule.is_conditional else ""
    return f"- *{_MODALS[rule.kind]}{condition}:* “{escape(shorten(rule.text, _QUOTE_CHARS))}”"


def _similar(entries: Sequence[_Entry]) -> Iterator[str]:
    pairs = most_similar([(entry.document.name, entry.measures.terms) for entry in entries])
    if pairs:
        yield "## Alike"
        yield "The pairs that share most of their twenty key terms."
        yield table(("Documents", "Shared", "Terms"), map(_pair_row, pairs), right=[1])


def _pair_row(pair: Pair) -> tuple[str, ...]:
    terms = ", ".join(map(escape, pair.terms[: 2 * _TERMS_SHOWN]))
    more = " …" if len(pair.terms) > 2 * _TERMS_SHOWN else ""
    return f"{escape(pair.first)} and {escape(pair.second)}", f"{pair.share:.0%}", terms + more


def _left_out(files: Sequence[LeftOut]) -> Iterator[str]:
    if not files:
        return
    yield "## Left out"
    shown = sorted(files, key=lambda file: (file.name.casefold(), file.name))
    yield table(("File", "Reason"), ((escape(file.name), escape(file.reason)) for file in shown[:MAX_ROWS]))
    if len(shown) > MAX_ROWS:
        yield f"And {len(shown) - MAX_ROWS:,} more."


def _ease(entry: _Entry) -> str:
    return f"{entry.measures.reading_ease} ({describe_ease(entry.measures.reading_ease)})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _rules_found(rules: int, conditional: int) -> str:
    if not rules:
        return "no rules"
    return f"{_count(rules, 'rule')}, {conditional:,} on a condition" if conditional else _count(rules, "rule")


def _duration(words: int) -> str:
    minutes = max(1, round(words / WORDS_PER_MINUTE))
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
