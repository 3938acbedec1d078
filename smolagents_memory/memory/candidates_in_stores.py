"""Candidates for recall out of stores of the user's own: what these find, ranked as anything else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.memory.ranking import Candidate
from smolagents_memory.memory.recalling import Cosines, Near, best_of_each
from smolagents_memory.search.cues import cues_of
from smolagents_memory.search.lexical import Lexicon
from smolagents_memory.search.parts import query_sentences
from smolagents_memory.search.spread import DEVIATION, quantiles, spread_of_best
from smolagents_memory.search.words import words
from smolagents_memory.stores.base import MemoryStore
from smolagents_memory.stores.kept import by_words
from smolagents_memory.stores.records import Record
from smolagents_memory.stores.requirements import Needed
from smolagents_memory.stores.store_bank import FIELDS, StoreBank


FARTHER = 4  # times as many are asked for by meaning: of what only words find, a store does not tell how near it is


class StoreSource:
    """The `Source` of one query over a StoreBank.

    The scores of a store that has vectors are cosines. Of any other's nothing is known but what stands before what.
    """

    def __init__(self, bank: StoreBank, meaning: MemoryStore[Any] | None, query: str) -> None:
        self._bank, self._meaning, self._query = bank, meaning, query
        self._survey = bank.survey()
        self._records: dict[str, Record] = {}
        self._worded: Collection[int] = ()
        self.live = bank.live
        self.sentences = query_sentences(query) if meaning is not None else [query]

    def narrowed(self, wanted: Sequence[Needed]) -> Collection[int] | None:
        """Stores of one's own do not tell."""
        return None

    def by_meaning(self, limit: int, among: Collection[int] | None = None) -> Near | None:
        """It is asked first: both stores search now, so that what they find counts in the lexicon."""
        meaning = self._meaning
        if meaning is not self._bank.texts:
            self._worded = self._found(self._bank.texts, self._query, limit)
        texts = [*self.sentences, self._query] if len(self.sentences) > 1 else [self._query]
        lists = None
        if meaning is not None:
            lists = self._bank.by_meaning(lambda: [self._near(meaning, text, limit) for text in texts])
        if meaning is self._bank.texts and lists is None:
            self._worded = self._looked_through(limit)
        if lists is None:
            self._load(self._worded)
            return None
        near = best_of_each((number, 1, cosine) for each in lists for number, cosine in each.items())
        if limit >= self.live:  # a graph may never come to some of what it holds
            self._worded = {*self._worded, *self._survey.numbers()}
        self._load({*near, *self._worded})
        spreads = [spread_of_best(sorted(each.values(), reverse=True), self.live) for each in lists]
        return Near.of(lists, near, spreads)

    def spelled(self, wanted: dict[str, float]) -> dict[str, float]:
        return wanted

    def lexicon(self, wanted: Collection[str]) -> Lexicon:
        return self._survey.lexicon(wanted)

    def by_words(self, weights: Mapping[str, float], limit: int) -> Collection[int]:
        return self._worded

    def candidates(self, ids: Collection[int], places: Collection[int] = ()) -> Iterable[Candidate]:
        beside = [self._survey.number(key) for key in map(self._survey.at.get, places) if key is not None]
        for number, record in self._load([*ids, *beside]).items():
            if record.archived is None:
                text = searchable(record.value)
                found = words(text)
                yield Candidate(
                    number, self._survey.place(record.key), " ".join(found), len(found), record.created,
                    record.touched, record.importance, record.useful, cues_of(text),
                )  # fmt: skip

    def worded(self, ids: Collection[int]) -> Iterable[Candidate]:
        """Nothing is narrowed."""
        return ()

    def cosines(self, ids: Collection[int]) -> Cosines:
        """What is not among the best of a store is not told."""
        return {}

    def records(self, ids: Collection[int]) -> dict[int, Record]:
        return self._load(ids)

    # -- the stores --------------------------------------------------------------------------------------------

    def _load(self, ids: Collection[int]) -> dict[int, Record]:
        """The memories that are still there."""
        keys = {number: self._survey.key(number) for number in ids}
        self._records.update(self._bank.get_many([key for key in keys.values() if key not in self._records]))
        there = {number: self._records[key] for number, key in keys.items() if key in self._records}
        self._bank.seen(self._survey, there.values())
        return there

    def _near(self, store: MemoryStore[Any], text: str, limit: int) -> dict[int, float]:
        found = self._found(store, text, FARTHER * limit)
        if "vectors" in store.abilities:
            return found
        alike: dict[float, list[float]] = {}
        for score, expected in zip(found.values(), quantiles(len(found), self.live), strict=True):
            alike.setdefault(score, []).append(expected)
        return {number: DEVIATION * fmean(alike[score]) for number, score in found.items()}

    def _looked_through(self, limit: int) -> Collection[int]:
        """What words find in a store that finds by meaning alone, while that fails: its memories are read."""
        texts = ((each.key, " ".join(words(searchable(each.value)))) for each in self._bank.records())
        return [self._survey.number(key) for key, _ in by_words(self._query, texts)[:limit]]

    def _found(self, store: MemoryStore[Any], text: str, limit: int) -> dict[int, float]:
        """What a store finds, best first: number → score. Archived memories must not take the others' places."""
        hits = self._bank.search(store, text, limit + (self._survey.archived if store is self._bank.texts else 0))
        if store is self._bank.texts:
            whole = [hit for hit in hits if hit.value is not None and FIELDS in hit.meta]
            self._records.update((hit.key, self._bank.record(hit.key, hit.value, hit.meta)) for hit in whole)
        return {self._survey.number(hit.key): hit.score for hit in hits}
