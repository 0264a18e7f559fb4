"""Key terms of a text, and how many two texts share."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from yake import KeywordExtractor  # type: ignore[import-untyped]  # ships no types

MAX_TERMS = 20


def find_terms(sentences: Iterable[str]) -> list[str]:
    """Return up to ``MAX_TERMS`` terms of one to three words, in lower case, the weightiest first.

    Of terms that share half of their words, such as "public license terms" and "general public license", or all words
    of one of them, the first stays.
    """
    extractor = KeywordExtractor(lan="en", n=3, top=4 * MAX_TERMS)
    kept: dict[str, frozenset[str]] = {}
    for term, _ in extractor.extract_keywords("\n".join(sentences)):
        words = frozenset(term.lower().split())
        if not any(_overlap(words, other) for other in kept.values()):
            kept[term.lower()] = words
    return list(kept)[:MAX_TERMS]


def _overlap(words: frozenset[str], other: frozenset[str]) -> bool:
    shared = len(words & other)
    return 2 * shared >= len(words | other) or shared == min(len(words), len(other))


class Pair(NamedTuple):
    """Two texts that share terms.

    Attributes:
        first: Name of one.
        second: Name of the other.
        share: Shared terms among all terms of both, from 0 to 1.
        terms: The shared terms, in the first's order.
    """

    first: str
    second: str
    share: float
    terms: tuple[str, ...]


def most_similar(terms: Sequence[tuple[str, Sequence[str]]], most: int = 5, least_shared: int = 3) -> list[Pair]:
    """Return the pairs that share most terms, the closest first.

    Args:
        terms: Name of a text, and its terms.
        most: How many pairs to return at most.
        least_shared: Pairs with fewer terms in common are left out.
    """
    pairs = [_pair(one, other) for at, one in enumerate(terms) for other in terms[at + 1 :]]
    close = [pair for pair in pairs if len(pair.terms) >= least_shared]
    return sorted(close, key=lambda pair: -pair.share)[:most]


def _pair(one: tuple[str, Sequence[str]], other: tuple[str, Sequence[str]]) -> Pair:
    (first, left), (second, right) = one, other
    shared = tuple(term for term in left if term in right)
    return Pair(first, second, len(shared) / max(1, len({*left, *right})), shared)
