"""Sentences, words and syllables of English prose."""

import re
from functools import cache

from pyphen import Pyphen  # type: ignore[import-untyped]  # ships no types
from segtok.segmenter import split_multi  # type: ignore[import-untyped]  # ships no types

_BLANK_LINES = re.compile(r"\n\s*\n")
_DECORATION = frozenset("*|#=_~+")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, each on one line; blank lines always split, and what has no word is dropped."""
    # Left to itself, split_multi joins a paragraph to the last one if it begins in lower case.
    sentences = (sentence for paragraph in _BLANK_LINES.split(text) for sentence in split_multi(paragraph))
    return [line for line in map(_on_one_line, sentences) if _WORD.search(line)]


def _on_one_line(sentence: str) -> str:
    """Join the lines of a sentence, without the frame of asterisks or bars that may stand around them."""
    return " ".join(word for word in sentence.split() if not _DECORATION.issuperset(word))


def split_words(text: str) -> list[str]:
    """Return the words: runs of letters, with apostrophes and hyphens inside."""
    return _WORD.findall(text)


def count_syllables(word: str) -> int:
    """Estimate the syllables of an English word: places where it may be hyphenated, plus one."""
    return len(_dictionary().positions(word.lower())) + 1


@cache
def _dictionary() -> Pyphen:
    return Pyphen(lang="en_US")


def reading_ease(words: int, sentences: int, syllables: int) -> float:
    """Return the Flesch reading ease, rounded to one place; all counts are at least 1."""
    return round(206.835 - 1.015 * words / sentences - 84.6 * syllables / words, 1)


def describe_ease(ease: float) -> str:
    """Return Flesch's word for a reading ease."""
    bands = ((90, "very easy"), (80, "easy"), (70, "fairly easy"), (60, "plain"), (50, "fairly hard"), (30, "hard"))
    return next((name for least, name in bands if ease >= least), "very hard")
