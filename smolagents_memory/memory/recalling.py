"""Recall: candidates from words and from meaning, scored exactly, with what their neighbours lend them.

Where candidates come from is the affair of the place that keeps them, a `Source`; ranking them is done here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from smolagents_memory.memory.forgetting import DAY
from smolagents_memory.memory.ranking import Candidate, Ranker, lent, relevance, sentence_weights
from smolagents_memory.search.lexical import Lexicon, coverage
from smolagents_memory.search.parts import best_of_parts
from smolagents_memory.search.words import query_words
from smolagents_memory.stores.records import Record


Fits = Callable[[Record], bool]
Cosines = dict[int, tuple[float, int]]  # a memory's number → the cosine of its best part, and in how many parts it is

_WORDS = 24  # of a query that candidates are looked up by
_TEXTS = 20_000  # that hold these words, all together


@dataclass
class Near:
    """What a search by meaning found: for each of the query's sentences, if it is a long one, and for all of it."""

    cosines: Cosines
    tops: list[float]  # for each sentence how near its three nearest are, on average; none for a short query
    spreads: list[tuple[float, float]]  # of the whole scope's similarities: mean and deviation

    @classmethod
    def of(cls, lists: list[dict[int, float]], cosines: Cosines, spreads: list[tuple[float, float]]) -> Near:
        """From the lists that were found for each of the sentences, and for the whole."""
        return cls(cosines, [sum(sorted(each.values(), reverse=True)[:3]) / 3 for each in lists[:-1]], spreads)


def best_of_each(found: Iterable[tuple[int, int, float]]) -> Cosines:
    """Of (memory, in how many parts it is, cosine of one of them) the best of each memory."""
    near: Cosines = {}
    for item, parts, cosine in found:
        near[item] = (max(cosine, near.get(item, (-1.0, 1))[0]), parts)
    return near


class Source(Protocol):
    """What recall asks of the place that keeps the memories, for one query. Newer memories have higher numbers."""

    sentences: list[str]  # the query's if it is a long one, else the query
    live: int  # memories that can be found

    def by_meaning(self, limit: int) -> Near | None:
        """The memories nearest in meaning; None where words alone decide."""

    def lexicon(self, wanted: Collection[str]) -> Lexicon:
        """How often these words occur in the scope."""

    def by_words(self, weights: Mapping[str, float], limit: int) -> Collection[int]:
        """The memories that hold most of these words by weight."""

    def candidates(self, ids: Collection[int], places: Collection[int] = ()) -> Iterable[Candidate]:
        """These memories and those at these places, but for those that are put away."""

    def cosines(self, ids: Collection[int]) -> Cosines:
        """How near memories are that were not found by meaning, as far as that can be told."""

    def records(self, ids: Collection[int]) -> dict[int, Record]:
        """Memories as a whole; one that is damaged is left out."""


@dataclass
class Found:
    """A recalled memory, with the parts its score is made of and how sure it is that it has to do with the query."""

    record: Record
    score: float
    parts: dict[str, float]
    relevance: float


def recalled(source: Source, ranker: Ranker, k: int, now: float, fits: Fits | None) -> list[Found]:
    """The `k` best memories of a source for its query, best first."""
    limit = max(ranker.candidates, k)
    while True:
        search = _Search(source, ranker, limit, now)
        found = search.best(k, fits)
        if fits is None or len(found) >= k or search.seen >= source.live or limit >= source.live:
            return found
        limit *= 10  # a narrow filter: look at more


class _Search:
    """One search: its state, so that no function needs ten arguments."""

    def __init__(self, source: Source, ranker: Ranker, limit: int, now: float) -> None:
        self.source, self.ranker, self.now = source, ranker, now
        self.all: dict[int, Candidate] = {}
        self.near = source.by_meaning(limit)
        wanted = self._wanted()
        self.lexicon = source.lexicon(wanted)
        self.weights = self.lexicon.weights(wanted)
        self.missing = [
            weight * self.lexicon.rarity(word) for word, weight in wanted.items() if word not in self.weights
        ]
        self.lexical_spread = self.lexicon.spread(wanted)
        cosines = self.near.cosines if self.near is not None else {}
        self._take(source.candidates({*cosines, *source.by_words(self._telling(), limit)}))
        self.seen = len(self.all)
        self._widen()
        self.own_by_place = {each.place: each.own for each in self.all.values() if each.place is not None}

    def best(self, k: int, fits: Fits | None) -> list[Found]:
        """The `k` best that fit."""
        scored = [(sum(self._more(each), each.own), each) for each in self.all.values()]
        scored.sort(key=lambda pair: (-pair[0], -pair[1].id))
        found: list[Found] = []
        step = k if fits is None else max(4 * k, 100)
        for start in range(0, len(scored), step):
            some = scored[start : start + step]
            records = self.source.records([candidate.id for _, candidate in some])
            for score, candidate in some:
                record = records.get(candidate.id)
                if record is not None and (fits is None or fits(record)):
                    found.append(Found(record, score, self._parts(candidate), self._relevance(candidate)))
            if len(found) >= k:
                break
        return found[:k]

    # -- candidates --------------------------------------------------------------------------------------------

    def _wanted(self) -> dict[str, float]:
        """The query's words; those of sentences that have nothing like them in memory count little, or not at all."""
        tops = self.near.tops if self.near is not None else []
        weights = sentence_weights(tops) if tops else [1.0] * len(self.source.sentences)
        wanted: dict[str, float] = {}
        for sentence, weight in zip(self.source.sentences, weights, strict=True):
            if weight > 0.05:
                for word in query_words(sentence):
                    wanted[word] = max(weight, wanted.get(word, 0.0))
        return wanted

    def _telling(self) -> dict[str, float]:
        """The rarest words of the query, as many as can be looked up quickly; the score then counts all of them."""
        chosen: dict[str, float] = {}
        texts = 0
        for word, weight in sorted(self.weights.items(), key=lambda pair: -pair[1])[:_WORDS]:
            texts += self.lexicon.counts[word]
            if chosen and texts > _TEXTS:
                break
            chosen[word] = weight
        return chosen

    def _widen(self) -> None:
        """Take in what stands beside the best candidates: a neighbour may be what was looked for."""
        best = sorted(self.all.values(), key=lambda each: -each.own)[: self.ranker.widened]
        beside = {each.place + far for each in best if each.place is not None for far in (-2, -1, 1, 2)}
        places = beside - {each.place for each in self.all.values()}
        if places:
            self._take(self.source.candidates((), places))

    # -- scores ------------------------------------------------------------------------------------------------

    def _take(self, candidates: Iterable[Candidate]) -> None:
        """Score candidates that are not there yet by themselves: what they lend each other comes when all are."""
        new = [each for each in candidates if each.id not in self.all]
        self.all.update((each.id, each) for each in new)
        mean, deviation = self.lexical_spread
        if self.near is not None:
            self.near.cosines.update(self.source.cosines([e.id for e in new if e.id not in self.near.cosines]))
        for each in new:
            score = self.lexicon.score(each.words, each.length, self.weights)
            each.lexical = (score - mean) / deviation if deviation else 0.0
            if self.near is not None:
                self._score_vector(each, self.near)
            each.own = self.ranker.own(each.lexical, each.vector)

    def _score_vector(self, candidate: Candidate, near: Near) -> None:
        found = near.cosines.get(candidate.id)
        if found is None:  # not embedded yet, or not told: nothing speaks for or against it
            candidate.vector = 0.0
            return
        # over the sentences that were asked for: the highest mean is what the best of them reaches by chance
        middle = max(mean for mean, _ in near.spreads)
        deviation = sum(deviation for _, deviation in near.spreads) / len(near.spreads)
        candidate.cosine = best_of_parts(*found, deviation)
        candidate.vector = (candidate.cosine - middle) / deviation

    def _more(self, candidate: Candidate) -> tuple[float, float, float, float]:
        """What its neighbours and its history add to a candidate's own score."""
        ranker = self.ranker
        return (
            lent(ranker, self.own_by_place, candidate.place),
            ranker.recency_part((self.now - max(candidate.created, candidate.touched)) / DAY),
            ranker.importance_part(candidate.importance),
            ranker.use_part(candidate.useful),
        )

    def _parts(self, candidate: Candidate) -> dict[str, float]:
        """All that a score is made of, by name."""
        share = 1.0 if candidate.vector is None else self.ranker.lexical
        names = ("neighbour", "recency", "importance", "use")
        return {
            "lexical": candidate.lexical * share,
            "vector": (candidate.vector or 0.0) * (1 - share),
            **dict(zip(names, self._more(candidate), strict=True)),
        }

    def _relevance(self, candidate: Candidate) -> float:
        covered = coverage(candidate.words, self.weights, self.missing)
        return relevance(None if candidate.vector is None else candidate.cosine, covered)
