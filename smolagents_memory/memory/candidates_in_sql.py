"""Candidates for recall out of SQL and the indexes made from it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

from smolagents_memory._errors import EmbeddingError
from smolagents_memory.database.many import numbered
from smolagents_memory.memory.ranking import Candidate
from smolagents_memory.memory.recalling import Cosines, Near, best_of_each
from smolagents_memory.search.full_text import full_text_of, state_of
from smolagents_memory.search.lexical import Lexicon
from smolagents_memory.stores.records import Record
from smolagents_memory.stores.rows import BY_IDS, whole
from smolagents_memory.stores.vault import Vault


_LIGHT = (
    "SELECT id, place, words, word_count, created, touched, importance, useful FROM memory_items "
    "WHERE {column} IN ({{ids}}) AND archived IS NULL"
)
_BY_ID, _BY_PLACE = _LIGHT.format(column="id"), _LIGHT.format(column="place")


@contextmanager
def asked_of_sql(vault: Vault, scope: str, query: str) -> Iterator[SqlSource | None]:
    """A source for one query in one scope, which sees one state of the database; None where the scope is empty."""
    vectors = vault.indexes.vectors if vault.indexes is not None and vault.is_whole() else None
    sentences, matrix = [query], None
    if vectors is not None:
        try:
            sentences, matrix = vectors.of_query(query)
        except EmbeddingError as error:
            vectors.went_without(error)
    with vault.database.reading() as connection:
        if matrix is not None and not vault.is_whole_in(connection):
            matrix = None
        state = state_of(connection, scope)
        yield SqlSource(vault, connection, state, sentences, matrix) if state is not None and state.live else None


class SqlSource:
    """The `Source` of one query over one connection; `matrix` holds its sentences' vectors, None is words alone."""

    def __init__(self, vault: Vault, connection: Connection, state: Any, sentences: list[str], matrix: Any) -> None:
        self.sentences, self.live = sentences, state.live
        self._connection, self._indexes, self._matrix = connection, vault.indexes, matrix
        self._scope, self._last, self._words = state.id, state.last, state.words
        self._text = full_text_of(connection)

    def by_meaning(self, limit: int) -> Near | None:
        if self._indexes is None or self._matrix is None:
            return None
        where = (self._connection, self._scope, self.live)
        lists = self._indexes.nearest(*where, self._last, self._matrix, limit)
        best: dict[int, float] = {}
        for each in lists:
            for vector, cosine in each.items():
                best[vector] = max(cosine, best.get(vector, -1.0))
        parts = self._indexes.items_of(self._connection, list(best))
        near = best_of_each((item, count, best[vector]) for vector, item, count in parts)
        return Near.of(lists, near, self._indexes.spread(*where, self._matrix))

    def lexicon(self, wanted: Collection[str]) -> Lexicon:
        counts = self._text.counts(self._connection, self._scope, wanted)
        return Lexicon(self.live, self._words / max(1, self.live), counts)

    def by_words(self, weights: Mapping[str, float], limit: int) -> Collection[int]:
        return self._text.candidates(self._connection, self._scope, weights, limit)

    def candidates(self, ids: Collection[int], places: Collection[int] = ()) -> Iterable[Candidate]:
        for statement, numbers in ((_BY_ID, ids), (_BY_PLACE, places)):
            for row in numbered(self._connection, statement, list(numbers)):
                if _is_sound(row):
                    yield Candidate(*row)

    def cosines(self, ids: Collection[int]) -> Cosines:
        if self._indexes is None or not ids:
            return {}
        owners, parts, rows = self._indexes.vectors_of(self._connection, list(ids))
        if not owners:
            return {}
        return best_of_each(zip(owners, parts, (rows @ self._matrix.T).max(axis=1).tolist(), strict=True))

    def records(self, ids: Collection[int]) -> dict[int, Record]:
        rows = self._connection.execute(BY_IDS, {"ids": list(ids)})
        return {record.id: record for record in whole(self._connection, rows)}


def _is_sound(row: Any) -> bool:
    """Whether a row holds what it should: on a damaged page anything may stand, and it is left out."""
    _, place, words, count, *numbers = row
    return (
        isinstance(words, str)
        and isinstance(count, int)
        and (place is None or isinstance(place, int))
        and all(isinstance(number, (float, int)) and math.isfinite(number) for number in numbers)
    )
