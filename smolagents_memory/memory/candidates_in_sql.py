"""Candidates for recall out of SQL and the indexes made from it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

from smolagents_memory._errors import EmbeddingError
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.ledger import LIGHT, check_lights
from smolagents_memory.database.many import chunks, numbered
from smolagents_memory.memory.ranking import Candidate
from smolagents_memory.memory.recalling import TELLING, Cosines, Near, best_of_each
from smolagents_memory.search.cues import Cues
from smolagents_memory.search.full_text import full_text_of, state_of
from smolagents_memory.search.lexical import Lexicon
from smolagents_memory.stores.narrowing import narrowed
from smolagents_memory.stores.records import Record
from smolagents_memory.stores.requirements import Needed
from smolagents_memory.stores.rows import BY_IDS, record_rows, whole
from smolagents_memory.stores.vault import Vault


_LIGHT = "SELECT {{columns}} FROM memory_items WHERE {column} IN ({{ids}}) AND archived IS NULL"
_MINE = " AND +scope_id = {scope}"  # without a seal: a damaged label may name another's; + keeps indexes out of it
_WORDED = "SELECT id, words, word_count FROM memory_items WHERE id IN ({ids}) AND archived IS NULL" + _MINE
_UNKNOWN = (0.0, 0.0, 1.0, 0.0)  # when it was kept and used, what it is worth
_OF_CANDIDATE = "cues, id, place, words, word_count, created, touched, importance, useful"
_CHECKED = ", ".join((*LIGHT, "mark"))  # under a seal
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
        found = state is not None and state.live
        yield SqlSource(vault, connection, state, scope, sentences, matrix) if found else None


class SqlSource:
    """The `Source` of one query over one connection; `matrix` holds its sentences' vectors, None is words alone."""

    def __init__(
        self, vault: Vault, connection: Connection, state: Any, named: str, sentences: list[str], matrix: Any
    ) -> None:
        self._named, self._sealed = named, envelope_of(connection).sealed
        self.sentences, self.live = sentences, state.live
        self._connection, self._indexes, self._matrix = connection, vault.indexes, matrix
        self._scope, self._last, self._words = state.id, state.last, state.words
        self._text = full_text_of(connection)

    def narrowed(self, wanted: Sequence[Needed]) -> Collection[int] | None:
        return narrowed(self._connection, self._scope, wanted)

    def by_meaning(self, limit: int, among: Collection[int] | None = None) -> Near | None:
        if self._indexes is None or self._matrix is None:
            return None
        where = (self._connection, self._scope, self.live)
        if among is not None and len(self.sentences) == 1:
            self._indexes.refresh(*where, self._last)
            return Near({}, [], self._indexes.spread(*where, self._matrix))
        limit = limit if among is None else TELLING  # in the whole scope, too: they tell which sentences count
        lists = self._indexes.nearest(*where, self._last, self._matrix, limit)
        best: dict[int, float] = {}
        for each in lists:
            for vector, cosine in each.items():
                best[vector] = max(cosine, best.get(vector, -1.0))
        parts = self._indexes.items_of(self._connection, list(best))
        near = best_of_each((item, count, best[vector]) for vector, item, count in parts)
        return Near.of(lists, near, self._indexes.spread(*where, self._matrix))

    def spelled(self, wanted: dict[str, float]) -> dict[str, float]:
        sealed = self._sealed
        return wanted if sealed is None else {sealed.words(self._named, word): each for word, each in wanted.items()}

    def lexicon(self, wanted: Collection[str]) -> Lexicon:
        counts = self._text.counts(self._connection, self._scope, wanted)
        return Lexicon(self.live, self._words / max(1, self.live), counts)

    def by_words(self, weights: Mapping[str, float], limit: int) -> Collection[int]:
        return self._text.candidates(self._connection, self._scope, weights, limit)

    def candidates(self, ids: Collection[int], places: Collection[int] = ()) -> Iterable[Candidate]:
        columns = _OF_CANDIDATE if self._sealed is None else _CHECKED
        for statement, numbers in ((_BY_ID, ids), (_BY_PLACE, places)):
            asked = statement if self._sealed is not None else statement + _MINE
            rows = numbered(self._connection, asked, list(numbers), columns=columns, scope=self._scope)
            if self._sealed is None:
                yield from (_candidate(row[1:], row[0]) for row in rows if _is_sound(row))
            else:
                for row, cues in check_lights(self._sealed, self._named, rows):
                    yield _candidate((row[0], *row[2:9]), cues)

    def worded(self, ids: Collection[int]) -> Iterable[Candidate]:
        for number, words, count in numbered(self._connection, _WORDED, list(ids), scope=self._scope):
            if isinstance(words, str) and isinstance(count, int):
                yield Candidate(number, None, words, count, *_UNKNOWN)

    def cosines(self, ids: Collection[int]) -> Cosines:
        if self._indexes is None or not ids:
            return {}
        owners, parts, rows = self._indexes.vectors_of(self._connection, list(ids))
        if not owners:
            return {}
        return best_of_each(zip(owners, parts, (rows @ self._matrix.T).max(axis=1).tolist(), strict=True))

    def records(self, ids: Collection[int]) -> dict[int, Record]:
        found: dict[int, Record] = {}
        for some in chunks(list(ids)):
            rows = record_rows(self._connection, BY_IDS, {"ids": some})
            found |= {record.id: record for record in whole(self._connection, rows)}
        return found


def _candidate(row: Any, cues: Any) -> Candidate:
    """With what its form tells, as far as that was told, and is whole."""
    found = Candidate(*row)
    if isinstance(cues, (bytes, memoryview)):
        found.cues = Cues.unpacked(bytes(cues))
    return found


def _is_sound(row: Any) -> bool:
    """Whether a row holds what it should: on a damaged page anything may stand, and it is left out."""
    _, _, place, words, count, created, touched, importance, useful = row
    try:
        return (
            isinstance(words, str)
            and isinstance(count, int)
            and (place is None or isinstance(place, int))
            and math.isfinite(created + touched + importance + useful)  # each of them is, and is a number
        )
    except TypeError:
        return False
