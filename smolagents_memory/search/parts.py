"""Long texts and long queries in parts, and how near a text is by the best of its parts."""

from __future__ import annotations

import math
import re


LONGEST_QUERY = 2048  # bytes; of a longer one the beginning and the end are asked, where people say what they want
_END = 800  # bytes of either end: a little less in all, for text that is cut in pieces costs a little more
_PART = 1000  # characters of a part, for embedders that do not say how they would split
_LONG_QUERY = 24  # words; a longer query is also taken sentence by sentence
_SENTENCES = 8
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_CUT_WORD = 64  # characters at the cut that are left out to keep words whole
_BROKEN_END, _BROKEN_BEGINNING = re.compile(rf"\s\S{{0,{_CUT_WORD}}}\Z"), re.compile(rf"\S{{0,{_CUT_WORD}}}\s")


def bounded_query(query: str) -> str:
    """A query that costs a bounded time: of a long one both ends, half each; others as they are.

    >>> asked = bounded_query("Where is the key? " + "Much else. " * 10_000 + "Look in the hall.")
    >>> len(asked) <= LONGEST_QUERY, asked.startswith("Where is the key?"), asked.endswith("Look in the hall.")
    (True, True, True)
    """
    size = len(query) if query.isascii() else len(query[:LONGEST_QUERY].encode("utf-8", "surrogatepass"))
    if len(query) <= LONGEST_QUERY and size <= LONGEST_QUERY:
        return query
    head = query[:_END].encode("utf-8", "surrogatepass")[:_END].decode("utf-8", "ignore")
    tail = query[-_END:].encode("utf-8", "surrogatepass")[-_END:].decode("utf-8", "ignore")
    begun = _BROKEN_BEGINNING.match(tail)
    # joined by a space: a text of one sentence stays one, for each sentence is asked by itself
    return _BROKEN_END.sub("", head) + " " + (tail[begun.end() :] if begun else tail)


def query_sentences(query: str) -> list[str]:
    """A long query's sentences: most of a long instruction says nothing about what is looked for.

    >>> query_sentences("Where is the key?")
    ['Where is the key?']
    """
    if len(query.split()) < _LONG_QUERY:
        return [query]
    sentences = [part.strip() for part in _SENTENCE.split(query[:20_000]) if len(part.split()) > 1]
    if len(sentences) <= 1:
        return [query]
    if len(sentences) > _SENTENCES:  # neighbours together, so that nothing is left out
        size = -(-len(sentences) // _SENTENCES)
        sentences = [" ".join(sentences[i : i + size]) for i in range(0, len(sentences), size)]
    return sentences


def split_by_characters(text: str) -> list[str]:
    """Parts of some thousand characters, at spaces where there are any; neighbours overlap by a tenth."""
    if len(text) <= _PART:
        return [text]
    parts = []
    start = 0
    while start < len(text):
        stop = min(len(text), start + _PART)
        if stop < len(text):
            space = text.rfind(" ", start + _PART // 2, stop)
            stop = space if space > 0 else stop
        parts.append(text[start:stop])
        if stop == len(text):
            break
        start = max(start + 1, stop - _PART // 10)
    return parts


def best_of_parts(cosine: float, parts: int, deviation: float = 0.1) -> float:
    """The similarity of the best of several parts, made fair: of many parts, the best looks good by chance.

    The best of n independent ones is some sqrt(2 ln n) deviations above the mean; the parts of one text are alike, so
    about half of that is taken off.
    """
    return cosine - 0.48 * deviation * math.sqrt(2 * math.log(parts)) if parts > 1 else cosine
