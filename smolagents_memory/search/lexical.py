"""How well words fit: BM25, with the counts of one scope alone.

A word that is asked for may have several stems, joined by spaces. They are one word here: a text has one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


K1 = 1.2
B = 0.75
_FEW = 30  # texts that do not tell yet which words are common


@dataclass(frozen=True)
class Lexicon:
    """What BM25 needs to know about a scope: how many texts, how long on average, how many hold each stem."""

    texts: int
    average: float
    counts: Mapping[str, int]

    def count(self, word: str) -> int:
        """How many texts hold a word."""
        counts = self.counts
        return counts.get(word, 0) if " " not in word else sum(counts.get(stem, 0) for stem in word.split())

    def narrowed(self, wanted: Mapping[str, float]) -> dict[str, float]:
        """The words with those of their stems alone that occur; a word of which none does stays as it is."""
        found: dict[str, float] = {}
        for word, weight in wanted.items():
            held = " ".join([stem for stem in word.split() if self.counts.get(stem)]) or word
            found[held] = max(weight, found.get(held, 0.0))
        return found

    def rarity(self, word: str) -> float:
        """The weight of a word: rare ones tell more."""
        return self._rarity(word, self.texts)

    def worth(self, word: str) -> float:
        """The same in a scope of some size: where there are few texts, a word that is in one of them is not common."""
        return self._rarity(word, max(self.texts, _FEW))

    def _rarity(self, word: str, texts: int) -> float:
        count = self.count(word)
        return math.log(1 + (texts - count + 0.5) / (count + 0.5)) if texts >= count else 0.0

    def weights(self, wanted: Mapping[str, float]) -> dict[str, float]:
        """Rarity times how much each word is wanted, for the words that occur at all."""
        return {word: weight * self.rarity(word) for word, weight in wanted.items() if self.count(word)}

    def spread(self, wanted: Mapping[str, float]) -> tuple[float, float]:
        """About the mean and the deviation of the scores over the whole scope, without looking at each text."""
        mean = variance = 0.0
        for word, weight in self.weights(wanted).items():
            share = min(1.0, self.count(word) / max(1, self.texts))
            mean += weight * share
            variance += weight * weight * share * (1 - share)
        return mean, math.sqrt(variance)

    def score(self, words: str, length: int, weights: Mapping[str, float]) -> float:
        """The BM25 score of one text, given as its stems joined by spaces."""
        return self.fit(words, length, weights)[0]

    def fit(self, words: str, length: int, weights: Mapping[str, float]) -> tuple[float, frozenset[str]]:
        """The score, and which of the words the text holds."""
        tokens = words.split()
        norm = K1 * (1 - B + B * length / (self.average or 1.0))
        total, held = 0.0, []
        for word, weight in weights.items():
            often = tokens.count(word) if " " not in word else sum(map(tokens.count, word.split()))
            if often:
                total += weight * often * (K1 + 1) / (often + norm)
                held.append(word)
        return total, frozenset(held)
