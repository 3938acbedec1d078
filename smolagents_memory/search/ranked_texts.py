"""A ranked search over texts that are all at hand, for stores that have no full-text index of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from smolagents_memory.search.lexical import Lexicon
from smolagents_memory.search.words import query_words


def ranked(query: str, texts: Iterable[tuple[str, str]]) -> list[tuple[str, float]]:
    """The keys whose words fit the query, best first. `texts` are pairs of a key and its stems joined by spaces.

    >>> ranked("red car", [("a", "a red car"), ("b", "a blue car"), ("c", "nothing")])[0][0]
    'a'
    """
    wanted = dict.fromkeys(query_words(query), 1.0)
    if not wanted:
        return []
    counts: Counter[str] = Counter()
    matching: list[tuple[str, str, int]] = []
    number = total = 0
    for key, words in texts:
        tokens = words.split()
        number += 1
        total += len(tokens)
        held = wanted.keys() & set(tokens)
        if held:
            counts.update(held)
            matching.append((key, words, len(tokens)))
    lexicon = Lexicon(number, total / max(1, number), counts)
    weights = lexicon.weights(wanted)
    scored = [(key, lexicon.score(words, length, weights)) for key, words, length in matching]
    return sorted(scored, key=lambda pair: -pair[1])
