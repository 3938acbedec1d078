"""SqlStore: memories in a database by URL; SqliteStore: in a file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic

from sqlalchemy import ColumnElement, Connection

from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.codec.values import scrubbed_value
from smolagents_memory.database import tables
from smolagents_memory.database.engine import MEMORIES, Database
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.places import Place
from smolagents_memory.database.redacting import redaction_of
from smolagents_memory.privacy.redaction import FAILED
from smolagents_memory.search.full_text import full_text_of, state_of
from smolagents_memory.search.lexical import Lexicon
from smolagents_memory.search.words import query_words, words
from smolagents_memory.stores.bank import Bank
from smolagents_memory.stores.base import (
    Hit,
    Item,
    MemoryStore,
    Meta,
    Value,
    Where,
    asked,
    checked_key,
    checked_keys,
    entries,
)
from smolagents_memory.stores.filters import Check
from smolagents_memory.stores.narrowing import narrowed
from smolagents_memory.stores.records import Draft, Record
from smolagents_memory.stores.requirements import required
from smolagents_memory.stores.rereading import reread
from smolagents_memory.stores.rows import RECORDS, record_rows, whole


_items = tables.items.c


class SqlStore(MemoryStore[Value], Generic[Value]):
    """Memories in SQLite or Postgres, found by their words (BM25 over FTS5 or tsvector).

    Args:
        url: The place: a folder, a file, a database URL (`postgresql://user@host/name`), or a `Place`.
        scope: Whose memories: what others hold is never seen, and does not change the ranking here.
        clock: Gives the seconds since 1970.

    >>> store = SqlStore("sqlite://")
    >>> store.add("k1", "The key is under the mat.")
    >>> store.search("Where are the keys?")[0].key
    'k1'
    """

    abilities = frozenset({"filters", "persistent", "scopes"})

    def __init__(
        self,
        url: str | os.PathLike[str] | Place | None,
        *,
        scope: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = Database.at(url, faults=MEMORIES)
        self.database.prepare()
        reread(self.database)
        self.bank = Bank(self.database, scope)
        self.redaction = redaction_of(self.database, self.bank.name, self.database.place.redact, self.bank.begin)
        self._asking = None if self.redaction is None else self.redaction.asking()
        self._clock = clock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.database)!r})"

    def add(self, key: str, value: Value, meta: Meta | None = None) -> None:
        self.add_many([(key, value, meta)])

    def add_many(self, items: Iterable[Item[Value]]) -> int:
        """Add all or, when one is refused, none."""
        now = self._clock()
        given = (self._redacted(*item) for item in entries(items))
        drafts = [
            Draft(Record(key, value, meta, created=now, touched=now), " ".join(words(searchable(value))))
            for key, value, meta in given
        ]
        if self.redaction is not None:
            self.redaction.keep()
        if drafts:
            self.bank.put(drafts)
        return len(drafts)

    def _redacted(self, key: str, value: Value, meta: Meta | None) -> list[Any]:
        """One thing to keep, as it is written."""
        named = scrubbed_value(key, self.redaction)
        if named == FAILED != key:  # under which every other one that failed would be lost
            raise UnsupportedValueError("a key could not be redacted (the warning says why); nothing was written")
        return [named, scrubbed_value(value, self.redaction), scrubbed_value(meta, self.redaction)]

    def get(self, key: str) -> Value | None:
        record = self.bank.get(self._key(key))
        return None if record is None else record.value

    def get_many(self, keys: Iterable[str]) -> dict[str, Value]:
        kept = {self._key(key): key for key in checked_keys(keys)}
        return {kept[key]: record.value for key, record in self.bank.get_many(list(kept)).items()}

    def meta(self, key: str) -> dict[str, Any] | None:
        record = self.bank.get(self._key(key))
        return None if record is None else record.meta

    def _key(self, key: object) -> str:
        """A key as it was written."""
        named: str = scrubbed_value(checked_key(key), self._asking)
        return named

    def search(self, query: str, top_k: int = 5, where: Where | None = None) -> list[Hit[Value]]:
        where = scrubbed_value(where, self._asking)
        query, top_k, fits = asked(scrubbed_value(query, self._asking), top_k, where)
        wanted = dict.fromkeys(query_words(query), 1.0)
        if not top_k or not wanted:
            return []
        with self.database.reading() as connection:
            state = state_of(connection, self.bank.name)
            if state is None:
                return []
            wanted = {envelope_of(connection).words(self.bank.name, word): 1.0 for word in wanted}
            text = full_text_of(connection)
            counts = text.counts(connection, state.id, wanted)
            lexicon = Lexicon(state.live, state.words / max(1, state.live), counts)
            weights = lexicon.weights(lexicon.narrowed(wanted))
            among = narrowed(connection, state.id, required(where))
            if among is not None:
                mine = (_items.scope_id == state.id, _items.archived.is_(None))
                hits = _ranked(connection, among, lexicon, weights, fits, *mine)
                return [hit for hit in hits if hit.score > 0][:top_k]
            limit = max(100, 3 * top_k)
            while True:  # a filter that is not told in SQL, or a broad one: look at more
                candidates = text.candidates(connection, state.id, weights, limit)
                hits = _ranked(connection, candidates, lexicon, weights, fits)[:top_k]
                if len(hits) >= top_k or len(candidates) < limit or fits is None:
                    return hits
                limit *= 10

    def forget(self, key: str) -> bool:
        return bool(self.bank.forget([self._key(key)]))

    def forget_many(self, keys: Iterable[str]) -> int:
        return len(self.bank.forget([self._key(key) for key in checked_keys(keys)]))

    def items(self) -> Iterator[tuple[str, Value, dict[str, Any]]]:
        return ((record.key, record.value, record.meta) for record in self.bank.records())

    def __len__(self) -> int:
        return self.bank.count()

    def purge(self) -> bool:
        """Make sure that no byte of what was forgotten is left in the files; False when a reader prevents it."""
        return self.bank.erase()

    def close(self) -> None:
        self.database.close()


class SqliteStore(SqlStore[Value], Generic[Value]):
    """Memories in a SQLite file, or in the one of a folder.

    >>> import tempfile
    >>> store = SqliteStore(tempfile.mkdtemp() + "/memory.db")
    >>> len(store)
    0
    """

    def __init__(self, path: str | os.PathLike[str] | Place = "agent_memory", **options: Any) -> None:
        super().__init__(path, **options)


def _ranked(
    connection: Connection,
    ids: list[int],
    lexicon: Lexicon,
    weights: dict[str, float],
    fits: Check | None,
    *which: ColumnElement[bool],
) -> list[Hit[Any]]:
    statement = RECORDS.add_columns(_items.words, _items.word_count).where(*which)
    hits = []
    for some in chunks(ids):
        rows = {row.id: row for row in record_rows(connection, statement.where(_items.id.in_(some)))}
        for record in whole(connection, rows.values()):
            if fits is None or fits(record.meta):
                row = rows[record.id]
                score = lexicon.score(row.words, row.word_count, weights)
                hits.append(Hit(record.key, record.value, score, record.meta))
    return sorted(hits, key=lambda hit: -hit.score)
