"""The words and labels of a place, made anew when the way to make them has changed: the texts are the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from smolagents_memory._progress import progress
from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.ledger import changing
from smolagents_memory.database.maintenance import count_words, drop_lost_labels, index_words_anew
from smolagents_memory.database.many import CHUNK, last_of
from smolagents_memory.database.opened import Opened
from smolagents_memory.search.cues import cues_of
from smolagents_memory.search.full_text import full_text_of
from smolagents_memory.search.words import ANALYSER, words
from smolagents_memory.stores.field_labels import LABELLER
from smolagents_memory.stores.findable import add_words, change_labels, drop_words
from smolagents_memory.stores.rows import RECORDS, record_rows, whole, word_count, writing_memories


_read: WeakKeyDictionary[Opened, object] = WeakKeyDictionary()  # what was looked at, and which file it was
_LONGEST = 19  # digits of a number in SQL
MADE_BY = f"{ANALYSER} and {LABELLER}"  # what makes words and labels
_AFTER = " after "  # between that and the last memory that was read
_items, _about = tables.items.c, tables.about.c
_ROWS = RECORDS.add_columns(_items.scope_id, _items.words).order_by(_items.id).limit(CHUNK)


def reread(database: Database, *, anew: bool = False, show: bool | None = None) -> int:
    """Make the words of all memories anew unless today's analyser made them, or in any case; how many changed.

    Each batch is one transaction that notes how far it came. So one that was killed is gone on with where it stopped,
    and processes that open a place at the same time share the work.
    """
    file = database.file
    if not anew and database.opened in _read and _read[database.opened] == file:
        return 0
    with database.reading() as connection:
        last = 0 if anew else _stopped_at(connection)
        total = 0 if last is None else _between(connection, last)
    changed = 0
    with progress("Reading memories anew", total, show=show) as advance:
        while last is not None:
            with writing_memories(database) as connection:
                start = last if anew else _stopped_at(connection)
                rows = [] if start is None else record_rows(connection, _ROWS.where(_items.id > start)).all()
                others = _between(connection, last, start)
                changed += _made_anew(connection, rows)
                last = last_of([row.id for row in rows], start or 0) if rows else None
                if not rows and anew:
                    _count_anew(connection, changed)
                if not anew or not rows:
                    _note(connection, last)
            advance(others + len(rows))
    _read[database.opened] = file
    return changed


def _stopped_at(connection: Connection) -> int | None:
    """The last memory that was read anew; None where all were."""
    noted = connection.execute(select(_about.value).where(_about.name == "words")).scalar()
    by, _, last = noted.partition(_AFTER) if isinstance(noted, str) else ("", "", "")  # SQLite keeps anything
    if by != MADE_BY:
        return 0
    return int(last) if last.isdecimal() and len(last) < _LONGEST else None


def is_all_read(connection: Connection) -> bool:
    """Whether the words and labels of all memories are there, as today's analyser makes them."""
    return _stopped_at(connection) is None


def _note(connection: Connection, last: int | None) -> None:
    connection.execute(delete(tables.about).where(_about.name == "words"))
    value = MADE_BY if last is None else f"{MADE_BY}{_AFTER}{last}"
    connection.execute(insert(tables.about).values(name="words", value=value))


def _between(connection: Connection, after: int, last: int | None = None) -> int:
    """How many memories come after one, up to another."""
    counted = select(func.count()).select_from(tables.items).where(_items.id > after)
    return int(connection.execute(counted if last is None else counted.where(_items.id <= last)).scalar() or 0)


def _count_anew(connection: Connection, changed: int) -> None:
    drop_lost_labels(connection)
    for scope in connection.scalars(select(tables.scopes.c.id)).all():
        changing(connection, scope, ())  # its row gets other counts
    if changed or not full_text_of(connection).whole(connection):
        index_words_anew(connection)  # damaged words are not what stands in it
    else:
        count_words(connection)


def _made_anew(connection: Connection, rows: Sequence[Any]) -> int:
    envelope = envelope_of(connection)
    scopes = {row.id: envelope.read_scope(row.scope or "") for row in rows}
    records = {record.id: record for record in whole(connection, rows)}
    read = {each: searchable(record.value) for each, record in records.items()}
    new = {each: envelope.words(scopes[each], " ".join(words(found))) for each, found in read.items()}
    told = [
        {"target": each, "cues": envelope.cues(scopes[each], new[each], cues_of(found).packed())}
        for each, found in read.items()
    ]
    for scope in {row.scope_id for row in rows if row.scope is not None}:  # one that is damaged is nobody's
        theirs = [row.id for row in rows if row.scope_id == scope and row.id in read]
        changing(connection, scope, theirs)
        change_labels(connection, scope, [(each, None, records[each]) for each in theirs])
    if told:
        statement = update(tables.items).where(_items.id == bindparam("target"))
        connection.execute(statement.values(cues=bindparam("cues")), told)
    other = [row for row in rows if new.get(row.id, row.words) != row.words]
    for row in other:
        if row.archived is None:
            drop_words(connection, row.scope_id, [(row.id, row.words)])
            add_words(connection, row.scope_id, [(row.id, new[row.id])])
    if other:
        values = [{"target": row.id, "w": new[row.id], "n": word_count(new[row.id])} for row in other]
        statement = update(tables.items).where(_items.id == bindparam("target"))
        connection.execute(statement.values(words=bindparam("w"), word_count=bindparam("n")), values)
    return len(other)
