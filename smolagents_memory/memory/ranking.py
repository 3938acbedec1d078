"""How the parts of a score come together. Everything is in deviations of the scope it is found in.

A list's scores say little as they are: a cosine of 0.4 is much in one scope and little in another. So each is put
as "how many deviations above what this query scores on the scope's texts", and then they add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ranker:
    """The weights of recall. The defaults were chosen on three conversations and hold on others and other texts.

    Args:
        lexical: The weight of the words; the vectors have the rest.
        beside: What the better of the two direct neighbours lends, as a share of its score.
        near: What the better of the two neighbours after these lends.
        recency: What a memory of this moment is ahead of a very old one.
        half_life: Days after which half of that is left.
        importance: What doubling the importance is worth.
        use: What each doubling of its useful uses is worth.
        candidates: How many are looked at from either list.
    """

    lexical: float = 0.35
    beside: float = 0.5
    near: float = 0.3
    recency: float = 0.1
    half_life: float = 30.0
    importance: float = 0.25
    use: float = 0.2
    candidates: int = 40
    widened: int = 20

    def own(self, lexical: float, vector: float | None) -> float:
        """A text's own score from its deviations; without vectors its words count alone."""
        return lexical if vector is None else self.lexical * lexical + (1 - self.lexical) * vector

    def recency_part(self, age_days: float) -> float:
        """What a memory's age is worth."""
        return self.recency * math.pow(2.0, -max(0.0, age_days) / self.half_life)

    def importance_part(self, importance: float) -> float:
        """What a memory's importance is worth: 1 is ordinary."""
        return self.importance * math.log2(min(max(importance, 1 / 16), 16))

    def use_part(self, useful: float) -> float:
        """What is worth that a memory has helped before, or has not."""
        return math.copysign(self.use * min(3.0, math.log2(1 + abs(useful))), useful)


@dataclass(slots=True)
class Candidate:
    """A memory on its way through the ranking; `own` is its score before its neighbours and its history."""

    id: int
    place: int | None
    words: str
    length: int
    created: float
    touched: float
    importance: float
    useful: float
    lexical: float = 0.0
    vector: float | None = None
    cosine: float = 0.0
    own: float = 0.0


def lent(ranker: Ranker, own_by_place: Mapping[int, float], place: int | None) -> float:
    """What a memory gets from those beside it in its source: a share of the better one's score, at each distance."""
    if place is None:
        return 0.0
    score = own_by_place.get
    beside = max(score(place - 1, 0.0), score(place + 1, 0.0), 0.0)
    near = max(score(place - 2, 0.0), score(place + 2, 0.0), 0.0)
    return ranker.beside * beside + ranker.near * near


def sentence_weights(best: Sequence[float]) -> list[float]:
    """How much each sentence of a long query counts, from how near its nearest memories are.

    Most sentences of a long instruction have nothing like them in memory, and so lose their say: 0.1 less of cosine
    leaves a third of it.
    """
    top = max(best, default=0.0)
    return [math.exp(10.0 * (each - top)) for each in best]


def relevance(cosine: float | None, coverage: float) -> float:
    """How sure it is, from 0 to 1, that a memory has to do with the query: apart from what else is in memory."""
    if cosine is None:
        return 1 / (1 + math.exp(-(10.0 * coverage - 4.5)))
    return 1 / (1 + math.exp(-(9.0 * cosine + 4.0 * coverage - 5.0)))
