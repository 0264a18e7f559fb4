"""Sentences that oblige, forbid or allow."""

import re
from collections.abc import Iterable, Sequence

from examples.review.document import Rule, RuleKind
from examples.review.prose import split_words


def _pattern(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(alternatives)})\b", re.IGNORECASE)


_PROHIBITS = _pattern(
    r"(?:must|shall|may|can) not",
    "cannot",
    "mustn't",
    r"(?:is|are) (?:not (?:permitted|allowed|authori[sz]ed)|prohibited|forbidden)",
    r"(?:neither|nor|no one|nobody|in no event|under no circumstances?)\b[^.;]*? (?:may|shall|must)",
)
_OBLIGES = _pattern("must", "shall", r"(?:is|are|be) (?:required|obliged|obligated) to", r"(?:has|have) to")
_ALLOWS = _pattern(
    r"may(?! \d)", "need not", r"(?:is|are) (?:permitted|allowed|free to|entitled to)", r"(?:is|are) not required to"
)
_CONDITION = _pattern("provided,? that", "unless", "only if", r"on (?:the )?condition that", "(?:as|so) long as")
_BINDS_NOBODY = _pattern(r"shall (?:mean|include|be (?:deemed|construed))", "may not apply")
_NO_DUTY = _pattern(r"(?:is|are) not required to", "need not", r"(?:do|does) not have to")
_ACTS = _pattern(r"(?:you|licensees?|recipients?|distributors?|contributors?|users?|everyone) (?:may|must|shall)")
_LIST_MARK = re.compile(r"^(?:\(?(?:\d+(?:\.\d+)*|[a-z])[.)]|[-•*])\s+", re.IGNORECASE)

_SHORT_WORDS, _LONG_WORDS = 8, 40


def find_rules(sentences: Iterable[str]) -> list[Rule]:
    """Return the sentences that bind somebody, in their order."""
    found = ((sentence, classify(sentence)) for sentence in sentences)
    return [Rule(kind=kind, is_conditional=bool(_CONDITION.search(text)), text=text) for text, kind in found if kind]


def classify(sentence: str) -> RuleKind | None:
    """Tell what a sentence asks. Of several things, what forbids outweighs what obliges, and that what allows.

    "Provided that" without another modal obliges. Definitions ("shall mean") bind nobody.
    """
    text = _BINDS_NOBODY.sub("", sentence)
    if _PROHIBITS.search(text):
        return RuleKind.PROHIBITION
    if _OBLIGES.search(_NO_DUTY.sub("", text)):
        return RuleKind.OBLIGATION
    if _ALLOWS.search(text) or _NO_DUTY.search(text):
        return RuleKind.PERMISSION
    return RuleKind.OBLIGATION if re.search(r"\bprovided,? that\b", text, re.IGNORECASE) else None


def choose_quotes(rules: Sequence[Rule]) -> list[Rule]:
    """Return of each kind the rule that reads best alone: a whole sentence of moderate length about its reader."""
    of_kinds = ([rule for rule in rules if rule.kind is kind] for kind in RuleKind)
    best = (max(of_kind, key=_quotability) for of_kind in of_kinds if of_kind)
    return [rule.model_copy(update={"text": _LIST_MARK.sub("", rule.text)}) for rule in best]


def _quotability(rule: Rule) -> tuple[int, int]:
    words = len(split_words(rule.text))
    points = 2 * (_SHORT_WORDS <= words <= _LONG_WORDS) + 2 * bool(_ACTS.search(rule.text))
    points += rule.text.endswith(".") - 2 * rule.text.isupper()
    return points, -abs(words - (_SHORT_WORDS + _LONG_WORDS) // 2)
