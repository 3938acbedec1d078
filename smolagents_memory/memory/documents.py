"""A document in parts: paragraphs together as long as they are short, a long one at its sentences."""

from __future__ import annotations

import re


PART = 800  # characters: well within the window of the default embedder

_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")


def parts_of(text: str, size: int = PART) -> list[str]:
    """The parts in order; joined they hold every word of the text.

    >>> parts_of("One.\\n\\nTwo.\\n\\nThree is a longer paragraph.", size=12)
    ['One.\\n\\nTwo.', 'Three is a', 'longer', 'paragraph.']
    """
    pieces = [piece for paragraph in _PARAGRAPH.split(text) for piece in _cut(paragraph.strip(), size)]
    return _together(pieces, size, "\n\n")


def _cut(paragraph: str, size: int) -> list[str]:
    if len(paragraph) <= size:
        return [paragraph]
    sentences = [each.strip() for each in _SENTENCE.split(paragraph)]
    short = [word for each in sentences for word in ([each] if len(each) <= size else _at_spaces(each, size))]
    return _together(short, size, " ")


def _at_spaces(sentence: str, size: int) -> list[str]:
    words = [word[start : start + size] for word in sentence.split() for start in range(0, len(word), size)]
    return _together(words, size, " ")


def _together(pieces: list[str], size: int, between: str) -> list[str]:
    """Neighbours joined, as long as what comes of it is not too long."""
    joined: list[str] = []
    for piece in filter(None, pieces):
        if joined and len(joined[-1]) + len(between) + len(piece) <= size:
            joined[-1] += between + piece
        else:
            joined.append(piece)
    return joined
