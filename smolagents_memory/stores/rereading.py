"""The words of a place, made anew from its texts when the way to make them has changed: the texts are the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from smolagents_memory._progress import progress
from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.maintenance import count_words, index_words_anew
from smolagents_memory.database.many import CHUNK, last_of
from smolagents_memory.database.opened import Opened
from smolagents_memory.search.full_text import full_text_of
from smolagents_memory.search.words import ANALYSER, words
from smolagents_memory.stores.findable import add_words, drop_words
from smolagents_memory.stores.rows import RECORDS, whole, word_count, writing_memories


_read: WeakKeyDictionary[Opened, object] = WeakKeyDictionary()  # what was looked at, and which file it was
_items, _about = tables.items.c, tables.about.c
_ROWS = RECORDS.add_columns(_items.scope_id, _items.words).order_by(_items.id).limit(CHUNK)


def reread(database: Database, *, anew: bool = False, show: bool | None = None) -> int:
    """Make the words of all memories anew unless today's analyser made them, or in any case; how many changed.

    Each batch is one transaction, so a process that dies leaves nothing half-made, and the next one begins again.
    """
    file = database.file
    if not anew and database.opened in _read and _read[database.opened] == file:
        return 0
    with database.reading() as connection:
        by = connection.execute(select(_about.value).where(_about.name == "words")).scalar()
        due = anew or by != ANALYSER
        total = connection.execute(select(func.count()).select_from(tables.items)).scalar() if due else 0
    changed = last = 0
    with progress("Reading memories anew", int(total or 0), show=show) as advance:
        while due:
            with writing_memories(database) as connection:
                rows = connection.execute(_ROWS.where(_items.id > last)).all()
                changed += _made_anew(connection, rows)
                if not rows:
                    if anew and (changed or not full_text_of(connection).whole(connection)):
                        index_words_anew(connection)  # damaged words are not what stands in it
                    elif anew:
                        count_words(connection)
                    connection.execute(delete(tables.about).where(_about.name == "words"))
                    connection.execute(insert(tables.about).values(name="words", value=ANALYSER))
                    break
                last = last_of([row.id for row in rows], last)
            advance(len(rows))
    _read[database.opened] = file
    return changed


def _made_anew(connection: Connection, rows: Sequence[Any]) -> int:
    new = {record.id: " ".join(words(searchable(record.value))) for record in whole(connection, rows)}
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
