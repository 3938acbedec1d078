"""Full text in SQL: candidates for a ranking that is computed exactly afterwards (`lexical.py`).

Each word is indexed with the number of its scope in front. So a scope's search touches no other scope's words, and
how often a word occurs is counted for the scope alone: what one scope holds does not change another's ranking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, select, text
from sqlalchemy.exc import DatabaseError

from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.ledger import OF_SCOPE, enter
from smolagents_memory.database.many import chunks
from smolagents_memory.database.owners import no_scope
from smolagents_memory.database.sealed import Sealed


class State(NamedTuple):
    """A scope: its number, how much is in it, and the last change of the whole place."""

    id: int
    live: int
    words: int
    last: int


_STATE = (
    select(*OF_SCOPE, tables.changes.c.last)
    .join(tables.changes, tables.changes.c.id == 1)
    .where(tables.scopes.c.name == bindparam("name"))
)


_items, _vectors = tables.items.c, tables.vectors.c
_SEALED_STATE = (  # the same with the newest numbers in the scope: those that are given are newer than all
    select(*OF_SCOPE, tables.changes.c.last)
    .add_columns(select(func.max(_items.id)).where(_items.scope_id == tables.scopes.c.id).label("item"))
    .add_columns(select(func.max(_vectors.id)).where(_vectors.scope_id == tables.scopes.c.id).label("vector"))
    .outerjoin(tables.changes, tables.changes.c.id == 1)
    .where(tables.scopes.c.name == bindparam("name"))
)


def state_of(connection: Connection, name: str) -> State | None:
    """How a scope stands; None before anything was written in it. What is damaged is counted."""
    envelope = envelope_of(connection)
    statement = _STATE if envelope.sealed is None else _SEALED_STATE
    row = connection.execute(statement, {"name": envelope.scope(name)}).first()
    if row is None:
        no_scope(connection)
        return None
    if envelope.sealed is not None:
        enter(connection, envelope.sealed, row, name)
        _check_last(envelope.sealed, row)
    live, words = row.live, row.words
    if live < 0 or words < 0:
        items = tables.items.c
        counted = select(func.count(), func.sum(items.word_count))
        here = counted.where(items.scope_id == row.id, items.archived.is_(None))
        live, words = (int(each or 0) for each in connection.execute(here).one())
    return State(row.id, live, max(0, words), row.last)


def _check_last(sealed: Sealed, row: Any) -> None:
    """Raise SealError where the count of changes was lost or set back: indexes would not be brought up to date."""
    newest = [each for each in (row.item, row.vector) if each is not None]
    if not isinstance(row.last, int) or any(not isinstance(each, int) or each > row.last for each in newest):
        raise sealed.refused("the count of its changes", "it is none, or was set back")


def full_text_of(connection: Connection) -> SqliteText | PostgresText:
    """The full-text index of the database behind a connection. `rows` are (memory's id, scope's id, its words)."""
    return PostgresText() if connection.dialect.name == "postgresql" else SqliteText()


def _scoped(scope: int, words: str) -> str:
    prefix = f"{scope}z"
    return " ".join([prefix + word for word in words.split()])


class SqliteText:
    """One FTS5 table for all scopes. It keeps no text of its own: what it holds can be made again from the words."""

    def add(self, connection: Connection, rows: Sequence[tuple[int, int, str]]) -> None:
        self._write(connection, "INSERT INTO memory_words(rowid, words) VALUES (?, ?)", rows)

    def remove(self, connection: Connection, rows: Sequence[tuple[int, int, str]]) -> None:
        self._write(connection, "INSERT INTO memory_words(memory_words, rowid, words) VALUES ('delete', ?, ?)", rows)

    def _write(self, connection: Connection, statement: str, rows: Sequence[tuple[int, int, str]]) -> None:
        if rows:
            connection.exec_driver_sql(statement, [(item, _scoped(scope, words)) for item, scope, words in rows])

    def whole(self, connection: Connection) -> bool:
        """Whether it is sound, and has a row for each memory that can be found by words."""
        try:
            connection.exec_driver_sql("INSERT INTO memory_words(memory_words) VALUES ('integrity-check')")
        except DatabaseError:
            return False
        return _as_many(connection)

    def counts(self, connection: Connection, scope: int, words: Iterable[str]) -> dict[str, int]:
        scoped = [f"{scope}z{stem}" for word in words for stem in word.split()]
        found: dict[str, int] = {}
        skip = len(f"{scope}z")
        for some in chunks(scoped):
            marks = ",".join("?" * len(some))
            rows = connection.exec_driver_sql(
                f"SELECT term, doc FROM memory_word_counts WHERE term IN ({marks})", tuple(some)
            )
            found.update((term[skip:], count) for term, count in rows)
        return found

    def candidates(self, connection: Connection, scope: int, weights: Mapping[str, float], limit: int) -> list[int]:
        if not weights:
            return []
        query = " OR ".join(f'"{scope}z{stem}"' for word in weights for stem in word.split())
        rows = connection.exec_driver_sql(
            "SELECT rowid FROM memory_words WHERE memory_words MATCH ? ORDER BY rank LIMIT ?", (query, limit)
        )
        return [row[0] for row in rows]


_COUNT = "(SELECT count(*) FROM memory_words WHERE words @@ CAST(:q{number} AS tsquery))"


class PostgresText:
    """A table of tsvectors under a GIN index. The stems are ours, so a search means the same as in SQLite."""

    LARGEST = 900_000  # bytes of words: a tsvector takes a megabyte

    def add(self, connection: Connection, rows: Sequence[tuple[int, int, str]]) -> None:
        statement = text("INSERT INTO memory_words VALUES (:item, array_to_tsvector(:words))")
        values = [{"item": item, "words": self._lexemes(scope, words)} for item, scope, words in rows]
        if values:
            connection.execute(statement, values)

    def _lexemes(self, scope: int, words: str) -> list[str]:
        prefix = f"{scope}z"
        room = self.LARGEST
        kept = []
        for word in dict.fromkeys(words.split()):
            room -= len(word.encode()) + len(prefix) + 4
            if room < 0:
                break
            kept.append(prefix + word)
        return kept

    def remove(self, connection: Connection, rows: Sequence[tuple[int, int, str]]) -> None:
        if rows:
            connection.execute(
                text("DELETE FROM memory_words WHERE item_id = ANY(:items)"), {"items": [row[0] for row in rows]}
            )

    def whole(self, connection: Connection) -> bool:
        """Whether it has a row for each memory that can be found by words."""
        return _as_many(connection)

    def counts(self, connection: Connection, scope: int, words: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for some in chunks([stem for word in words for stem in word.split()]):
            counts = ", ".join(_COUNT.format(number=number) for number in range(len(some)))
            values = {f"q{number}": _lexeme(scope, stem) for number, stem in enumerate(some)}
            row = connection.execute(text(f"SELECT {counts}"), values).one()
            found.update((stem, int(count)) for stem, count in zip(some, row, strict=True) if count)
        return found

    def candidates(self, connection: Connection, scope: int, weights: Mapping[str, float], limit: int) -> list[int]:
        if not weights:
            return []
        lexemes = [_lexeme(scope, word) for word in weights]
        parameters: dict[str, Any] = {"any": " | ".join(lexemes), "limit": limit}
        score = []
        for number, (lexeme, weight) in enumerate(zip(lexemes, weights.values(), strict=True)):
            score.append(f"CASE WHEN words @@ CAST(:q{number} AS tsquery) THEN :w{number} ELSE 0.0 END")
            parameters |= {f"q{number}": lexeme, f"w{number}": float(weight)}
        statement = text(
            "SELECT item_id FROM memory_words WHERE words @@ CAST(:any AS tsquery) "
            f"ORDER BY CAST({' + '.join(score)} AS double precision) / ln(length(words) + 20.0) DESC, item_id "
            "LIMIT :limit"
        )
        return [row[0] for row in connection.execute(statement, parameters)]


def _as_many(connection: Connection) -> bool:
    live = "FROM memory_items WHERE archived IS NULL"  # one without any word may have a row or not
    counts = f"(SELECT count(*) FROM memory_words) BETWEEN (SELECT count(*) {live} AND words <> '')"
    return bool(connection.exec_driver_sql(f"SELECT {counts} AND (SELECT count(*) {live})").scalar())


def _lexeme(scope: int, word: str) -> str:
    return " | ".join(f"'{scope}z{stem}'" for stem in word.split())  # letters and digits: nothing needs escaping
