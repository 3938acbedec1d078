"""Vectors for the memories that have none of the embedder in use: after a change of embedder, or after an outage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
from sqlalchemy import Connection, select, update

from smolagents_memory._errors import SealError
from smolagents_memory._log import logger
from smolagents_memory._progress import progress
from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.ledger import changing
from smolagents_memory.database.many import last_of
from smolagents_memory.database.vectors import BOUND, open_vectors
from smolagents_memory.search.exact import damaged_rows
from smolagents_memory.stores.findable import add_vectors, drop_vectors
from smolagents_memory.stores.rows import RECORDS, embedder_id, record_of, record_rows, writing_memories
from smolagents_memory.stores.vault import Vault, missing_statement


BATCH = 512  # memories in a transaction: enough for texts of one length to be embedded together


def reembed(vault: Vault, *, show: bool | None = None) -> int:
    """Embed what has no vectors of the vault's embedder, in place; how many that were.

    Each batch is one transaction, so a process that dies goes on where it stopped. Another process that does the
    same work already is not disturbed: 0 is returned at once. Meanwhile recall goes by words.
    """
    if vault.vectors is None:
        return 0
    total = vault.missing()
    if not total:
        return 0
    with _alone(vault.database.path) as alone:
        if not alone:
            logger.info(
                "another process embeds the memories of %r anew; recall goes by words meanwhile", vault.database
            )
            return 0
        done = 0
        vault.reembedding = True
        try:
            with progress("Embedding memories anew", total, show=show) as advance:
                while vault.missing():  # again, for what was changed meanwhile
                    after = 0
                    while rows := _without_vectors(vault, after):
                        _embed(vault, rows)
                        after = rows[-1].id
                        done += len(rows)
                        advance(len(rows))
            vault.embedded()
        finally:
            vault.reembedding = False
        return done


def forget_damaged(vault: Vault) -> None:
    """Take vectors away whose bytes were changed, or that could not be made, so that they are made anew."""
    if vault.vectors is None:
        return
    vectors, last = tables.vectors.c, 0
    width = vault.vectors.dimensions
    rows = select(vectors.id, vectors.scope_id, vectors.vector, *BOUND).order_by(vectors.id).limit(5 * BATCH)
    mine = tables.embedders.c.name == vault.vectors.name
    rows = rows.join(tables.embedders, tables.embedders.c.id == vectors.embedder_id).where(mine)
    while True:
        with vault.database.reading() as connection:
            found = connection.execute(rows.where(vectors.id > last)).all()
            last = last_of([row.id for row in found], last) if found else last
            opened = {row.id: _opened(connection, row) for row in found}
        if not found:
            return
        whole = [
            row for row in found if len(opened[row.id]) == 4 * width and isinstance(row.parts, int) and row.parts > 0
        ]
        matrix = numpy.frombuffer(b"".join([opened[row.id] for row in whole]), dtype=numpy.float32).reshape(-1, width)
        bad = {row.item_id for row, damaged in zip(whole, damaged_rows(matrix), strict=True) if damaged}
        bad |= {row.item_id for row, vector in zip(whole, matrix, strict=True) if not vector.any()}
        bad |= {row.item_id for row in found} - {row.item_id for row in whole}
        if bad:
            with writing_memories(vault.database) as connection:
                items = tables.items.c.id.in_(sorted(bad))
                for scope in {row.scope_id for row in found if row.item_id in bad}:
                    changing(connection, scope, [row.item_id for row in found if row.scope_id == scope])
                connection.execute(update(tables.items).where(items).values(embedder_id=None))


def _opened(connection: Connection, row: Any) -> bytes:
    """A vector; nothing for one that a seal does not vouch for, so that it is made anew."""
    try:
        return open_vectors(connection, row.scope_id, [row])[0]
    except SealError:
        return b""


def _without_vectors(vault: Vault, after: int) -> Sequence[Any]:
    """The next rows that have no vectors of the vault's embedder, by number."""
    assert vault.indexes is not None
    items = tables.items.c
    with vault.database.reading() as connection:
        current = vault.indexes.embedder_id(connection)
        statement = missing_statement(current, None, RECORDS.add_columns(items.scope_id)).where(items.id > after)
        rows: Sequence[Any] = record_rows(connection, statement.order_by(items.id).limit(BATCH)).all()
        if rows:
            last_of([row.id for row in rows], after)
        return rows


def _embed(vault: Vault, rows: Sequence[Any]) -> None:
    """Embed rows and put their vectors in the place of the old ones, in one transaction."""
    assert vault.vectors is not None
    with vault.database.reading() as connection:
        read = [searchable(record_of(envelope_of(connection), row).value) for row in rows]
    # of one that is damaged the empty text: it is left out of every result, and must not come again and again
    matrices = vault.vectors.of_each(read)
    items = tables.items.c
    with writing_memories(vault.database) as connection:
        embedder = embedder_id(connection, vault.vectors.name)
        values = {row.id: row.value for row in rows}
        now = connection.execute(select(items.id, items.value, items.archived).where(items.id.in_(list(values)))).all()
        # what was changed or deleted since it was read comes again, or not at all
        there = {row.id: row.archived for row in now if row.value == values[row.id]}
        for scope in {row.scope_id for row in rows}:
            changing(connection, scope, [row.id for row in rows if row.scope_id == scope and row.id in there])
        pairs = [(row, matrix) for row, matrix in zip(rows, matrices, strict=True) if row.id in there]
        drop_vectors(connection, list(there))
        add_vectors(connection, embedder, [(row.id, row.scope_id, there[row.id] is None, m) for row, m in pairs])
        connection.execute(update(tables.items).where(items.id.in_(list(there))).values(embedder_id=embedder))


@contextmanager
def _alone(path: Path | None) -> Iterator[bool]:
    """Whether no other process does the same; in RAM and on a server there is nobody to lock out, or no place to."""
    from filelock import FileLock, Timeout

    if path is None:
        yield True
        return
    lock = FileLock(f"{path}.embedding", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
    else:
        try:
            yield True
        finally:
            lock.release()
