"""Everything that is measured about one document."""

from collections import Counter
from pathlib import Path

from examples.review.document import Document, Measures, Review, RuleKind
from examples.review.prose import count_syllables, reading_ease, split_sentences, split_words
from examples.review.reading import NotTextError, Text, read_document
from examples.review.rules import choose_quotes, find_rules
from examples.review.terms import find_terms


def review(document: Document) -> Review:
    """Read and measure a document; what cannot be read is a review with a problem, never an error."""
    try:
        measures = measure(read_document(Path(document.path), document.name))
    except NotTextError as error:
        return Review(id=document.id, name=document.name, problem=str(error))
    except OSError as error:
        return Review(id=document.id, name=document.name, problem=(error.strerror or "cannot be read").lower())
    return Review(id=document.id, name=document.name, measures=measures)


def measure(text: Text) -> Measures:
    """Measure a text.

    Raises:
        NotTextError: It has no words.
    """
    sentences = split_sentences(text.text)
    words = [word for sentence in sentences for word in split_words(sentence)]
    if not words:
        raise NotTextError("no words")
    rules = find_rules(sentences)
    kinds = Counter(rule.kind for rule in rules)
    return Measures(
        words=len(words),
        sentences=len(sentences),
        reading_ease=reading_ease(len(words), len(sentences), sum(map(count_syllables, words))),
        obligations=kinds[RuleKind.OBLIGATION],
        prohibitions=kinds[RuleKind.PROHIBITION],
        permissions=kinds[RuleKind.PERMISSION],
        conditional=sum(rule.is_conditional for rule in rules),
        quotes=choose_quotes(rules),
        terms=find_terms(sentences),
        encoding_note=text.note,
    )
