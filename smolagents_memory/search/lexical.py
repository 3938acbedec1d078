"""How well words fit: BM25, with the counts of one scope alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


K1 = 1.2
B = 0.75


@dataclass(frozen=True)
class Lexicon:
    """What BM25 needs to know about a scope: how many texts, how long on average, how many hold each word."""

    texts: int
    average: float
    counts: Mapping[str, int]

    def rarity(self, word: str) -> float:
        """The weight of a word: rare ones tell more."""
        count = self.counts.get(word, 0)
        return math.log(1 + (self.texts - count + 0.5) / (count + 0.5)) if self.texts >= count else 0.0

    def weights(self, wanted: Mapping[str, float]) -> dict[str, float]:
        """Rarity times how much each word is wanted, for the words that occur at all."""
        return {word: weight * self.rarity(word) for word, weight in wanted.items() if self.counts.get(word)}

    def spread(self, wanted: Mapping[str, float]) -> tuple[float, float]:
        """About the mean and the deviation of the scores over the whole scope, without looking at each text."""
        mean = variance = 0.0
        for word, weight in self.weights(wanted).items():
            share = min(1.0, self.counts[word] / max(1, self.texts))
            mean += weight * share
            variance += weight * weight * share * (1 - share)
        return mean, math.sqrt(variance)

    def score(self, words: str, length: int, weights: Mapping[str, float]) -> float:
        """The BM25 score of one text, given as its stems joined by spaces."""
        tokens = words.split()
        norm = K1 * (1 - B + B * length / (self.average or 1.0))
        total = 0.0
        for word, weight in weights.items():
            often = tokens.count(word)
            if often:
                total += weight * often * (K1 + 1) / (often + norm)
        return total


def coverage(words: str, weights: Mapping[str, float], missing: Iterable[float] = ()) -> float:
    """Which share of the weight of the query's words a text holds."""
    held = set(words.split())
    whole = sum(weights.values()) + sum(missing)
    return sum(weight for word, weight in weights.items() if word in held) / whole if whole else 0.0
