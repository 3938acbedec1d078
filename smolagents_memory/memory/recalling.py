"""Recall: candidates from words and from meaning, scored exactly, with what their neighbours lend them.

Where candidates come from is the affair of the place that keeps them, a `Source`; ranking them is done here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from itertools import chain, islice
from typing import Protocol

from smolagents_memory.memory.alike import Apart
from smolagents_memory.memory.forgetting import DAY
from smolagents_memory.memory.ranking import Candidate, Ranker, lent, newest_first, relevance, sentence_weights
from smolagents_memory.search.cues import Asked, Cues, asked_by
from smolagents_memory.search.lexical import Lexicon
from smolagents_memory.search.parts import best_of_parts
from smolagents_memory.search.words import query_words
from smolagents_memory.stores.records import Record
from smolagents_memory.stores.requirements import Needed


Fits = Callable[[Record], bool]
Ranked = tuple[float, Candidate]  # a candidate with its score
Cosines = dict[int, tuple[float, int]]  # a memory's number → the cosine of its best part, and in how many parts it is

TELLING = 3  # of the nearest to a sentence: they tell whether there is anything like it
_WORDS = 24  # of a query that candidates are looked up by
_TEXTS = 20_000  # that hold these words, all together


@dataclass
class Near:
    """What a search by meaning found: for each of the query's sentences, if it is a long one, and for all of it."""

    cosines: Cosines
    tops: list[float]  # for each sentence how near its three nearest are, on average; none for a short query
    spreads: list[tuple[float, float]]  # of the whole scope's similarities: mean and deviation

    @cached_property
    def spread(self) -> tuple[float, float]:
        """Over the sentences that were asked for: the highest mean is what the best of them reaches by chance."""
        means, deviations = zip(*self.spreads, strict=True)
        return max(means), sum(deviations) / len(deviations)

    @classmethod
    def of(cls, lists: list[dict[int, float]], cosines: Cosines, spreads: list[tuple[float, float]]) -> Near:
        """From the lists that were found for each of the sentences, and for the whole."""
        best = (sorted(each.values(), reverse=True)[:TELLING] for each in lists[:-1])
        return cls(cosines, [sum(each) / TELLING for each in best], spreads)


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

    def narrowed(self, wanted: Sequence[Needed]) -> Collection[int] | None:
        """The memories that may meet all that is wanted, if they are few, and that is soon told; else None."""

    def by_meaning(self, limit: int, among: Collection[int] | None = None) -> Near | None:
        """The memories nearest in meaning; None where words alone decide. With `among` none need be looked for."""

    def spelled(self, wanted: dict[str, float]) -> dict[str, float]:
        """The query's words as the place spells them: under a seal nobody can tell what they are."""

    def lexicon(self, wanted: Collection[str]) -> Lexicon:
        """How often these words occur in the scope."""

    def by_words(self, weights: Mapping[str, float], limit: int) -> Collection[int]:
        """The memories that hold most of these words by weight."""

    def candidates(self, ids: Collection[int], places: Collection[int] = ()) -> Iterable[Candidate]:
        """These memories and those at these places, but for those that are put away."""

    def worded(self, ids: Collection[int]) -> Iterable[Candidate]:
        """The same with nothing but their words: what `narrowed` gave, which may be many."""

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


def recalled(
    source: Source,
    ranker: Ranker,
    k: int,
    now: float,
    fits: Fits | None,
    wanted: Sequence[Needed] = (),
    *,
    least: float = 0.0,
    all_alike: bool = False,
) -> list[Found]:
    """The `k` best memories of a source for its query, best first; of runs that left the same only one.

    `wanted` is what those that fit meet at least, and `least` how relevant they are.
    """
    limit = max(ranker.candidates, k)
    among = source.narrowed(wanted) if wanted else None
    there = source.live if among is None else len(among)
    most = there if fits is not None else 10 * limit
    while True:
        search, apart = _Search(source, ranker, limit, now, among), None if all_alike else Apart()
        found = search.best(k, fits, apart, least)
        passed_over = search.refused if least else fits is not None  # what is further away is not relevant either
        short = len(found) < k and (passed_over or (apart is not None and apart.dropped))
        if not short or search.seen >= there or limit >= most:
            return found
        limit = 10 * limit if among is None else there  # a narrow filter, or much that is the same: look at more


class _Search:
    """One search: its state, so that no function needs ten arguments."""

    def __init__(
        self, source: Source, ranker: Ranker, limit: int, now: float, among: Collection[int] | None = None
    ) -> None:
        self.source, self.ranker, self.now = source, ranker, now
        self.narrow = among is not None
        self.all: dict[int, Candidate] = {}
        self.near = source.by_meaning(limit, among)
        self.asked = asked_by(source.sentences[0]) if len(source.sentences) == 1 else Asked()
        wanted = self._wanted()
        self.stems = {stem for word in wanted for stem in word.split()}
        self.lexicon = source.lexicon(wanted)
        wanted = self.lexicon.narrowed(wanted)
        self.weights = self.lexicon.weights(wanted)
        self.worth = {word: weight * self.lexicon.worth(word) for word, weight in wanted.items()}
        self.all_of_it = sum(self.worth.values())
        self.lexical_spread = self.lexicon.spread(wanted)
        self._take(source.candidates(self._found(limit) if among is None else self._best_of(among, 2 * limit)))
        self.seen, self.refused = len(self.all), 0
        self._widen()
        self.own_by_place = {each.place: each.own for each in self.all.values() if each.place is not None}

    def best(self, k: int, fits: Fits | None, apart: Apart | None, least: float) -> list[Found]:
        """The `k` best that fit and are so relevant."""
        candidates = [each for each in self.all.values() if not self.narrow or self._is_found(each)]
        candidates = [each for each in candidates if not least or self._relevance(each) >= least]
        scored = [(sum(self._more(each), each.own + each.form), each) for each in candidates]
        scored.sort(key=lambda pair: (-pair[0], -pair[1].id))
        window = 0 if self.asked.past else max(k, self.ranker.widened)  # whatever `k` is, the later one comes first
        if fits is None:
            scored[:window] = self._newest_first(scored[:window])
            ranked: Iterator[tuple[Ranked, Record]] = self._fitting(scored, k, None)
        else:
            ranked = self._fitting(scored, max(4 * k, 100), fits)
            first = list(islice(ranked, window))
            records = {pair[1].id: record for pair, record in first}
            ordered = self._newest_first([pair for pair, _ in first])
            ranked = chain([(pair, records[pair[1].id]) for pair in ordered], ranked)
        found: list[Found] = []
        for (score, candidate), record in ranked:
            if apart is None or apart.takes(record):
                found.append(Found(record, score, self._parts(candidate), self._relevance(candidate)))
            if len(found) >= k:
                break
        return found

    def _newest_first(self, ranked: list[Ranked]) -> list[Ranked]:
        return newest_first(ranked, self.ranker, self.worth, self.all_of_it)

    def _fitting(self, ranked: list[Ranked], step: int, fits: Fits | None) -> Iterator[tuple[Ranked, Record]]:
        """Those that fit, read so many at a time."""
        for start in range(0, len(ranked), step):
            some = ranked[start : start + step]
            records = self.source.records([candidate.id for _, candidate in some])
            for pair in some:
                record = records.get(pair[1].id)
                if record is not None and (fits is None or fits(record)):
                    yield pair, record
                else:
                    self.refused += 1

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
        return self.source.spelled(wanted)

    def _is_found(self, candidate: Candidate) -> bool:
        """Whether a search would have found what a filter chose: by words alone it must hold one, or stand beside."""
        beside = lent(self.ranker, self.own_by_place, candidate.place) > 0
        return self.near is not None or bool(candidate.held) or beside

    def _found(self, limit: int) -> set[int]:
        """What meaning and words find."""
        near = self.near.cosines if self.near is not None else ()
        return {*near, *self.source.by_words(self._telling(), limit)}

    def _best_of(self, among: Collection[int], most: int) -> Collection[int]:
        """Those of some that a search among them alone would find."""
        if len(among) <= most:
            return among
        if self.near is not None:
            self.near.cosines.update(self.source.cosines(among))
        told = list(self.source.worded(among))
        for each in told:
            self._score(each)
        return [each.id for each in nlargest(most, told, key=lambda each: each.own)]

    def _telling(self) -> dict[str, float]:
        """The rarest words of the query, as many as can be looked up quickly; the score then counts all of them."""
        chosen: dict[str, float] = {}
        texts = 0
        for word, weight in sorted(self.weights.items(), key=lambda pair: -pair[1])[:_WORDS]:
            texts += self.lexicon.count(word)
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
        if self.near is not None:
            self.near.cosines.update(self.source.cosines([e.id for e in new if e.id not in self.near.cosines]))
        for each in new:
            self._score(each)
            each.covered = sum(self.worth[word] for word in each.held) / self.all_of_it if self.all_of_it else 0.0
            each.form = sum(self._form_parts(each).values())

    def _score(self, candidate: Candidate) -> None:
        """What its words and its meaning are worth."""
        mean, deviation = self.lexical_spread
        score, candidate.held = self.lexicon.fit(candidate.words, candidate.length, self.weights)
        candidate.lexical = (score - mean) / deviation if deviation else 0.0
        if self.near is not None:
            self._score_vector(candidate, self.near)
        candidate.own = self.ranker.own(candidate.lexical, candidate.vector)

    def _score_vector(self, candidate: Candidate, near: Near) -> None:
        found = near.cosines.get(candidate.id)
        if found is None:  # not embedded yet, or not told: nothing speaks for or against it
            candidate.vector = 0.0
            return
        middle, deviation = near.spread
        candidate.cosine = best_of_parts(*found, deviation)
        candidate.vector = (candidate.cosine - middle) / deviation

    def _more(self, candidate: Candidate) -> tuple[float, float, float, float]:
        """What its neighbours and its history add to a candidate's own score."""
        ranker = self.ranker
        return (
            lent(ranker, self.own_by_place, candidate.place) * ranker.share(_cues_of(candidate).words),
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
            **self._form_parts(candidate),
            **dict(zip(names, self._more(candidate), strict=True)),
        }

    def _form_parts(self, candidate: Candidate) -> dict[str, float]:
        """What its form tells."""
        cues = _cues_of(candidate)
        speaker = cues.speaker(candidate.words)
        named = bool(speaker) and self.stems.issuperset(speaker)
        return self.ranker.form_parts(cues, self.asked, named=named, covered=candidate.covered)

    def _relevance(self, candidate: Candidate) -> float:
        return relevance(None if candidate.vector is None else candidate.cosine, candidate.covered)


def _cues_of(candidate: Candidate) -> Cues:
    """What the form of a text tells; before that was told, its length alone."""
    return candidate.cues or Cues(candidate.length)
