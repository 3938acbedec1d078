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
    parts: list[str] = []
    for piece in pieces:
        if parts and len(parts[-1]) + len(piece) + 2 <= size:
            parts[-1] += "\n\n" + piece
        elif piece:
            parts.append(piece)
    return parts


def _cut(paragraph: str, size: int) -> list[str]:
    if len(paragraph) <= size:
        return [paragraph]
    pieces = [""]
    for sentence in _SENTENCE.split(paragraph):
        for word in [sentence] if len(sentence) <= size else _at_spaces(sentence, size):
            if len(pieces[-1]) + len(word) < size:
                pieces[-1] = f"{pieces[-1]} {word}".strip()
            else:
                pieces.append(word)
    return [piece for piece in pieces if piece]


def _at_spaces(sentence: str, size: int) -> list[str]:
    pieces = [""]
    for word in sentence.split():
        while len(word) > size:
            pieces.append(word[:size])
            word = word[size:]
        if len(pieces[-1]) + 1 + len(word) <= size:
            pieces[-1] = f"{pieces[-1]} {word}".strip()
        else:
            pieces.append(word)
    return [piece for piece in pieces if piece]
