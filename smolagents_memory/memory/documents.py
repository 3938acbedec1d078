"""A document: its text, and its parts: paragraphs together as long as they are short, a long one at its sentences."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import DocumentError, UnsupportedValueError
from smolagents_memory._files import named_file
from smolagents_memory._log import logger, warn_of_loss


PART = 800  # characters: well within the window of the default embedder

_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")


def document_of(text_or_path: Any, source: str | None, path: Any, said: Callable[[str], str] = str) -> tuple[str, str]:
    """The text of a document and what it is called, from what `remember_document` was given.

    What nobody named is called by what no other document is: a text by itself, a file by its path as it was given.
    A text is one as `said` gives it.
    """
    if (text_or_path is None) == (path is None):
        raise UnsupportedValueError("give a text, or a file as path=…, and not both; nothing was changed")
    if not isinstance(source, (str, type(None))):
        raise UnsupportedValueError(f"a source is a text, not {brief(source)}; nothing was changed")
    if isinstance(text_or_path, str):
        if _is_file(text_or_path):
            logger.warning("%r was kept as a text; to keep the file of that name: path=%r", *[said(text_or_path)] * 2)
        text = said(text_or_path)
        return text, source or f"document {sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
    given = text_or_path if path is None else path
    if not isinstance(given, (str, os.PathLike)):
        raise UnsupportedValueError(f"a document is a text or the path of a file, not {brief(given)}")
    file = named_file(given)
    return _read(file.expanduser()), source or Path(given).as_posix()


def _is_file(text: str) -> bool:
    try:
        return len(text) < 1000 and Path(text).is_file()
    except (OSError, ValueError):  # no file can be called so
        return False


def _read(file: Path) -> str:
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        raise DocumentError(f"{brief(str(file))} cannot be read ({error}); nothing was changed") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        warn_of_loss(f"{file.name} is not UTF-8 throughout: a \N{REPLACEMENT CHARACTER} stands for what is not", 5)
        return content.decode("utf-8-sig", "replace")


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
