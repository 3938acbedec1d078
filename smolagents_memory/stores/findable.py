"""What a memory is found by, its words, vectors and labels: put there and taken away within a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update

from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.vectors import vector_bytes
from smolagents_memory.search.full_text import full_text_of
from smolagents_memory.stores.field_labels import labels_of
from smolagents_memory.stores.records import Record
from smolagents_memory.stores.rows import take_numbers, word_count


KEPT_GONE = 1000  # rows of a scope that are kept for indexes at least
TRIMMED_EVERY = 1000  # changes after which it is looked whether there are too many

_vectors = tables.vectors.c
_LABEL = "INSERT INTO memory_labels (scope_id, label, item_id) VALUES {rows} ON CONFLICT DO NOTHING"
_UNLABEL = text("DELETE FROM memory_labels WHERE scope_id = :scope AND label = :label AND item_id = :item")


def add_words(connection: Connection, scope: int, rows: Sequence[tuple[int, str]]) -> None:
    """Memories, by number and words, can be found by their words."""
    full_text_of(connection).add(connection, [(item, scope, words) for item, words in rows])
    _count(connection, scope, rows, 1)


def drop_words(connection: Connection, scope: int, rows: Sequence[tuple[int, str]]) -> None:
    """They no longer can."""
    full_text_of(connection).remove(connection, [(item, scope, words) for item, words in rows])
    _count(connection, scope, rows, -1)


def add_vectors(
    connection: Connection, embedder: int, owners: Iterable[tuple[int, int, bool, Any]], first: int | None = None
) -> None:
    """Keep vectors: (memory, scope, whether it is not put away, a matrix with one row a part).

    Their numbers begin with `first` where they were taken already.
    """
    rows = [
        {"item_id": item, "scope_id": scope, "embedder_id": embedder, "part": part, "parts": len(matrix),
         "live": live,
         "vector": vector_bytes(connection, scope, (item, part, len(matrix), embedder), vector.tobytes())}
        for item, scope, live, matrix in owners
        for part, vector in enumerate(matrix)
    ]  # fmt: skip
    if rows:
        first = first or take_numbers(connection, len(rows))
        connection.execute(insert(tables.vectors), [{"id": first + n, **row} for n, row in enumerate(rows)])


def drop_vectors(connection: Connection, items: Sequence[int], *, keep: bool = False) -> None:
    """Every index drops the vectors of these memories; with `keep` they stay in SQL."""
    for some in chunks(items):
        theirs = _vectors.item_id.in_(some)
        live = select(_vectors.id, _vectors.scope_id).where(theirs, _vectors.live.is_(True))
        rows = connection.execute(live).all()
        if rows:
            first = take_numbers(connection, len(rows))
            gone = [{"id": first + n, "scope_id": row.scope_id, "vector_id": row.id} for n, row in enumerate(rows)]
            connection.execute(insert(tables.gone), gone)
            if first // TRIMMED_EVERY != (first + len(rows)) // TRIMMED_EVERY:
                for scope in {row.scope_id for row in rows}:
                    _trim(connection, scope)
        change = update(tables.vectors).values(live=False) if keep else delete(tables.vectors)
        connection.execute(change.where(theirs))


def change_labels(
    connection: Connection, scope: int, changes: Iterable[tuple[int, Record | None, Record | None]]
) -> None:
    """Memories, by number, were what the first record says, or nothing, and are what the second says, or gone."""
    if envelope_of(connection).sealed is not None:  # that one was taken away would not be noticed
        return
    sets = [(item, _labels(old), _labels(new)) for item, old, new in changes]
    gone = sorted((label, item) for item, old, new in sets for label in old - new)
    if gone:
        connection.execute(_UNLABEL, [{"scope": scope, "label": label, "item": item} for label, item in gone])
    for some in chunks(sorted((label, item) for item, old, new in sets for label in new - old)):
        rows = ",".join(f"({int(scope)},{int(label)},{int(item)})" for label, item in some)  # nothing but numbers
        connection.exec_driver_sql(_LABEL.format(rows=rows))


def _labels(record: Record | None) -> set[int]:
    return set() if record is None else labels_of(record)


def _trim(connection: Connection, scope: int) -> None:
    """Leave out the oldest of what indexes must drop: to an index that saw fewer deletions than there are memories.

    It need not be known who has seen what: a row with no vector's number is left where rows are missing, so an index
    that comes from before it knows that it must be made anew. That takes no longer than so many deletions would.
    """
    gone, scopes = tables.gone.c, tables.scopes.c
    live = connection.execute(select(scopes.live).where(scopes.id == scope)).scalar() or 0
    newest = select(gone.id).where(gone.scope_id == scope).order_by(gone.id.desc())
    kept = max(KEPT_GONE, live)
    if connection.execute(newest.offset(2 * kept).limit(1)).scalar() is not None:
        last = connection.execute(newest.offset(kept).limit(1)).scalar()
        connection.execute(delete(tables.gone).where(gone.scope_id == scope, gone.id < last))
        connection.execute(update(tables.gone).where(gone.id == last).values(vector_id=tables.LEFT_OUT))


def _count(connection: Connection, scope: int, rows: Sequence[tuple[int, str]], sign: int) -> None:
    if rows:
        counts = tables.scopes.c
        live, words = sign * len(rows), sign * sum(word_count(words) for _, words in rows)
        one = update(tables.scopes).where(counts.id == scope)
        connection.execute(one.values(live=counts.live + live, words=counts.words + words))
