"""A value as stores without an index of their own keep it, and how these search: they look at every one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from smolagents_memory.codec.plain_json import pack, searchable, unpack
from smolagents_memory.search.lexical import Lexicon
from smolagents_memory.search.words import query_words, words
from smolagents_memory.stores.base import Hit, Where, asked


@dataclass(frozen=True)
class Kept:
    """Texts that nobody can change from outside; `words` are the stems that the value is found by."""

    value: str  # a text as it is, anything else packed
    is_text: bool
    meta: str
    words: str

    @classmethod
    def of(cls, value: Any, meta: dict[str, Any]) -> Kept:
        """A value and its metadata made ready, or refused."""
        is_text = isinstance(value, str)
        return cls(
            value if is_text else pack(value), is_text, pack(meta, "metadata"), " ".join(words(searchable(value)))
        )

    def unpacked(self) -> tuple[Any, dict[str, Any]]:
        """The value and its metadata."""
        return (self.value if self.is_text else unpack(self.value)), unpack(self.meta)


def found(
    query: str, top_k: int, where: Where | None, texts: Iterable[tuple[str, str]], read: Callable[[str], Kept | None]
) -> list[Hit[Any]]:
    """The best `top_k` that fit. `texts` are keys with their words; `read` gives what is kept, if it still is.

    >>> there = {name: Kept.of(f"a {name} car", {}) for name in ("red", "blue")}
    >>> [hit.key for hit in found("red car", 1, None, ((key, kept.words) for key, kept in there.items()), there.get)]
    ['red']
    """
    query, top_k, fits = asked(query, top_k, where)
    hits: list[Hit[Any]] = []
    for key, score in by_words(query, texts):
        if len(hits) >= top_k:
            break
        kept = read(key)
        value, meta = kept.unpacked() if kept is not None else (None, {})
        if kept is not None and (fits is None or fits(meta)):
            hits.append(Hit(key, value, score, meta))
    return hits


def by_words(query: str, texts: Iterable[tuple[str, str]]) -> list[tuple[str, float]]:
    """The keys of the texts that hold a word of the query, with their scores, best first."""
    wanted = dict.fromkeys(query_words(query), 1.0)
    if not wanted:
        return []
    stems_wanted = {stem for word in wanted for stem in word.split()}
    counts: Counter[str] = Counter()
    matching: list[tuple[str, str, int]] = []
    number = total = 0
    for key, stems in texts:
        tokens = stems.split()
        number += 1
        total += len(tokens)
        held = stems_wanted & set(tokens)
        if held:
            counts.update(held)
            matching.append((key, stems, len(tokens)))
    lexicon = Lexicon(number, total / max(1, number), counts)
    weights = lexicon.weights(lexicon.narrowed(wanted))
    scored = [(key, lexicon.score(stems, length, weights)) for key, stems, length in matching]
    return sorted(scored, key=lambda pair: -pair[1])
