"""Recall over SQL: candidates from words and vectors, scored exactly, with what their neighbours lend them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, select

from smolagents_memory.database import tables
from smolagents_memory.memory.ranking import Candidate, Ranker, lent, relevance, sentence_weights
from smolagents_memory.search.embedding import best_of_parts
from smolagents_memory.search.full_text import FullText, full_text_of
from smolagents_memory.search.lexical import Lexicon, coverage
from smolagents_memory.search.words import query_words
from smolagents_memory.stores.bank import Bank
from smolagents_memory.stores.records import Record
from smolagents_memory.stores.rows import BY_IDS, numbered, whole
from smolagents_memory.stores.vault import Vault


DAY = 86_400.0
_WORDS = 24  # of a query that candidates are looked up by
_TEXTS = 20_000  # that hold these words, all together

_LIGHT = (
    "SELECT id, place, words, word_count, created, touched, importance, useful FROM memory_items "
    "WHERE {column} IN ({{ids}}) AND archived IS NULL"
)
_BY_ID, _BY_PLACE = _LIGHT.format(column="id"), _LIGHT.format(column="place")
_STATE = (
    select(tables.scopes.c.id, tables.scopes.c.live, tables.scopes.c.words, tables.changes.c.last)
    .join(tables.changes, tables.changes.c.id == 1)
    .where(tables.scopes.c.name == bindparam("name"))
)


@dataclass
class Found:
    """A recalled memory, with the parts its score is made of and how sure it is that it has to do with the query."""

    record: Record
    score: float
    parts: dict[str, float]
    relevance: float


class Recall:
    """Recall for one memory: a vault, the bank of its scope, a ranker."""

    def __init__(self, vault: Vault, bank: Bank, ranker: Ranker) -> None:
        self.vault, self.bank, self.ranker = vault, bank, ranker

    def __call__(
        self,
        query: str,
        k: int,
        *,
        now: float,
        fits: Callable[[dict[str, Any]], bool] | None = None,
        words_only: bool = False,
    ) -> list[Found]:
        """The `k` best memories for `query`, best first."""
        if k <= 0 or not query.strip():
            return []
        vectors = None if words_only or self.vault.indexes is None else self.vault.indexes.vectors
        sentences, matrix = vectors.of_query(query) if vectors is not None else ([query], None)
        with self.vault.database.reading() as connection:
            state = connection.execute(_STATE, {"name": self.bank.name}).first()
            if state is None or not state.live:
                return []
            limit = max(self.ranker.candidates, k)
            while True:
                search = _Search(self, connection, state, sentences, matrix)
                found, seen = search.run(limit, k, now, fits)
                if fits is None or len(found) >= k or seen >= state.live or limit >= state.live:
                    return found
                limit *= 10  # a narrow filter: look at more


class _Search:
    """One search: its state, so that no function needs ten arguments."""

    def __init__(self, recall: Recall, connection: Connection, state: Any, sentences: list[str], matrix: Any) -> None:
        self.recall, self.ranker, self.connection = recall, recall.ranker, connection
        self.indexes = recall.vault.indexes
        self.scope, self.live, self.last = state.id, state.live, state.last
        self.average = state.words / max(1, state.live)
        self.sentences, self.matrix = sentences, matrix
        self.wanted: dict[str, float] = {}
        self.candidates: dict[int, Candidate] = {}
        self.history: dict[int, list[float]] = {}  # created, touched, importance, useful
        self.spreads: list[tuple[float, float]] = []
        self.own_by_place: dict[int, float] = {}
        self.now = 0.0

    def run(
        self, limit: int, k: int, now: float, fits: Callable[[dict[str, Any]], bool] | None
    ) -> tuple[list[Found], int]:
        """The best `k`, and how many memories were looked at."""
        near = self._near_vectors(limit) if self.matrix is not None else {}
        text = full_text_of(self.connection)
        by_words = self._by_words(text, limit)
        ids = list({*near, *by_words})
        self._load(numbered(self.connection, _BY_ID, ids))
        self._score(near, list(self.candidates))
        seen = len(self.candidates)
        self._widen()
        self.now = now
        self.own_by_place = {c.place: c.own for c in self.candidates.values() if c.place is not None}
        scored = [(sum(self._more(candidate), candidate.own), candidate) for candidate in self.candidates.values()]
        scored.sort(key=_best_first)
        return self._records(scored, k, fits), seen

    # -- candidates --------------------------------------------------------------------------------------------

    def _near_vectors(self, limit: int) -> dict[int, tuple[float, int]]:
        """Memories by their vectors: number → best cosine of its parts, and how many parts it has."""
        assert self.indexes is not None
        lists = self.indexes.nearest(self.connection, self.scope, self.live, self.last, self.matrix, limit)
        if len(self.sentences) > 1:
            tops = [sum(sorted(each.values(), reverse=True)[:3]) / 3 for each in lists[:-1]]
            weights = sentence_weights(tops)
        else:
            weights = [1.0]
        for sentence, weight in zip(self.sentences, weights, strict=True):
            if weight > 0.05:
                self._want(sentence, weight)
        self.spreads = self.indexes.spread(self.connection, self.scope, self.live, self.matrix)
        best: dict[int, float] = {}
        for each in lists:
            for vector, cosine in each.items():
                best[vector] = max(cosine, best.get(vector, -1.0))
        near: dict[int, tuple[float, int]] = {}
        for vector, item, parts in self.indexes.items_of(self.connection, list(best)):
            near[item] = (max(best[vector], near.get(item, (-1.0, 1))[0]), parts)
        return near

    def _want(self, sentence: str, weight: float) -> None:
        for word in query_words(sentence):
            self.wanted[word] = max(weight, self.wanted.get(word, 0.0))

    def _by_words(self, text: FullText, limit: int) -> list[int]:
        if not self.wanted:
            self._want(" ".join(self.sentences), 1.0)
        counts = text.counts(self.connection, self.scope, self.wanted)
        self.lexicon = Lexicon(self.live, self.average, counts)
        self.weights = self.lexicon.weights(self.wanted)
        self.missing = [
            weight * self.lexicon.rarity(word) for word, weight in self.wanted.items() if word not in self.weights
        ]
        self.lexical_spread = self.lexicon.spread(self.wanted)
        return text.candidates(self.connection, self.scope, self._telling(), limit)

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

    def _load(self, rows: Iterable[Any]) -> list[int]:
        added = []
        for row in rows:
            item, place, words, length, *history = row
            if item not in self.candidates:
                self.candidates[item] = Candidate(item, place, words, length)
                self.history[item] = history
                added.append(item)
        return added

    def _widen(self) -> None:
        """Take in what stands beside the best candidates: a neighbour may be what was looked for."""
        best = sorted(self.candidates.values(), key=lambda c: -c.own)[: self.ranker.widened]
        there = {candidate.place for candidate in self.candidates.values()}
        places = {
            candidate.place + distance
            for candidate in best
            if candidate.place is not None
            for distance in (-2, -1, 1, 2)
        } - there
        if places:
            added = self._load(numbered(self.connection, _BY_PLACE, list(places)))
            self._score({}, added)

    # -- scores ------------------------------------------------------------------------------------------------

    def _score(self, near: dict[int, tuple[float, int]], ids: Sequence[int]) -> None:
        mean, deviation = self.lexical_spread
        if self.matrix is not None:
            near = {**near, **self._cosines([item for item in ids if item not in near])}
        for item in ids:
            candidate = self.candidates[item]
            score = self.lexicon.score(candidate.words, candidate.length, self.weights)
            candidate.lexical = (score - mean) / deviation if deviation else 0.0
            if self.matrix is not None:
                self._score_vector(candidate, near.get(item))
            candidate.own = self.ranker.own(candidate.lexical, candidate.vector)

    def _score_vector(self, candidate: Candidate, found: tuple[float, int] | None) -> None:
        middle, deviation = self._spread()
        if found is None:  # not embedded yet: nothing speaks for or against it
            candidate.vector = 0.0
            return
        cosine, parts = found
        candidate.cosine = best_of_parts(cosine, parts, deviation)
        candidate.vector = (candidate.cosine - middle) / deviation

    def _spread(self) -> tuple[float, float]:
        """Over the sentences that were asked for: the highest mean is what the best of them reaches by chance."""
        if len(self.spreads) == 1:
            return self.spreads[0]
        means = [mean for mean, _ in self.spreads]
        return max(means), sum(deviation for _, deviation in self.spreads) / len(self.spreads)

    def _cosines(self, items: list[int]) -> dict[int, tuple[float, int]]:
        assert self.indexes is not None
        if not items:
            return {}
        owners, parts, rows = self.indexes.vectors_of(self.connection, items)
        if not owners:
            return {}
        best = (rows @ self.matrix.T).max(axis=1).tolist()
        found: dict[int, tuple[float, int]] = {}
        for item, count, cosine in zip(owners, parts, best, strict=True):
            found[item] = (max(cosine, found.get(item, (-1.0, 1))[0]), count)
        return found

    def _more(self, candidate: Candidate) -> tuple[float, float, float, float]:
        """What its neighbours and its history add to a candidate's own score."""
        created, touched, importance, useful = self.history[candidate.id]
        ranker = self.ranker
        return (
            lent(ranker, self.own_by_place, candidate.place),
            ranker.recency_part((self.now - max(created, touched)) / DAY),
            ranker.importance_part(importance),
            ranker.use_part(useful),
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

    def _records(
        self, scored: list[tuple[float, Candidate]], k: int, fits: Callable[[dict[str, Any]], bool] | None
    ) -> list[Found]:
        found: list[Found] = []
        step = k if fits is None else max(4 * k, 100)
        for start in range(0, len(scored), step):
            some = scored[start : start + step]
            rows = self.connection.execute(BY_IDS, {"ids": [candidate.id for _, candidate in some]})
            records = {record.id: record for record in whole(self.connection, rows)}
            for score, candidate in some:
                record = records.get(candidate.id)
                if record is not None and (fits is None or fits(record.view())):
                    found.append(Found(record, score, self._parts(candidate), self._relevance(candidate)))
            if len(found) >= k:
                break
        return found[:k]


def _best_first(pair: tuple[float, Candidate]) -> tuple[float, int]:
    return (-pair[0], -pair[1].id)
