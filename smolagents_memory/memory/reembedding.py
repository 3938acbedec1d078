"""Vectors for the memories that have none of the embedder in use: after a change of embedder, or after an outage."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert, select, update

from smolagents_memory.stores import schema
from smolagents_memory.stores.packing import searchable
from smolagents_memory.stores.progress import progress
from smolagents_memory.stores.rows import RECORDS, embedder_id, record_of, take_numbers
from smolagents_memory.stores.vault import Vault, missing_statement


logger = logging.getLogger("smolagents_memory")

BATCH = 128


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
    with _alone(vault) as alone:
        if not alone:
            logger.info(
                "another process embeds the memories of %r anew; recall goes by words meanwhile", vault.database
            )
            return 0
        done = 0
        vault.reembedding = True
        try:
            with progress("Embedding memories anew", total, show=show) as advance:
                while some := _batch(vault):
                    done += some
                    advance(some)
        finally:
            vault.reembedding = False
        return done


def _batch(vault: Vault) -> int:
    assert vault.vectors is not None
    items, vectors = schema.items.c, schema.vectors.c
    with vault.database.read() as connection:
        current = connection.execute(
            select(schema.embedders.c.id).where(schema.embedders.c.name == vault.vectors.name)
        ).scalar()
        statement = missing_statement(current, None, RECORDS.add_columns(items.scope_id)).limit(BATCH)
        rows = connection.execute(statement).all()
    if not rows:
        return 0
    matrices = vault.vectors.of_documents([searchable(record_of(row).value) for row in rows])
    with vault.database.write() as connection:
        embedder = embedder_id(connection, vault.vectors.name)
        ids = [row.id for row in rows]
        # what was changed or deleted since it was read comes again, or not at all
        there: dict[int, Any] = {
            row.id: row.archived
            for row in connection.execute(select(items.id, items.value, items.archived).where(items.id.in_(ids)))
            if any(row.id == old.id and row.value == old.value for old in rows)
        }
        old = connection.execute(
            select(vectors.id, vectors.scope_id).where(vectors.item_id.in_(list(there)), vectors.live.is_(True))
        ).all()
        count = len(old) + sum(len(m) for row, m in zip(rows, matrices, strict=True) if row.id in there)
        number = take_numbers(connection, count)
        gone = [{"id": number + n, "scope_id": each.scope_id, "vector_id": each.id} for n, each in enumerate(old)]
        number += len(gone)
        new = []
        for row, matrix in zip(rows, matrices, strict=True):
            for part, vector in enumerate(matrix if row.id in there else ()):
                new.append(
                    {"id": number, "item_id": row.id, "scope_id": row.scope_id, "embedder_id": embedder, "part": part,
                     "parts": len(matrix), "live": there[row.id] is None, "vector": vector.tobytes()}
                )  # fmt: skip
                number += 1
        connection.execute(delete(schema.vectors).where(vectors.item_id.in_(list(there))))
        if gone:
            connection.execute(insert(schema.gone), gone)
        if new:
            connection.execute(insert(schema.vectors), new)
        connection.execute(update(schema.items).where(items.id.in_(list(there))).values(embedder_id=embedder))
    return len(rows)


class _alone:
    """A lock that only one process gets; in RAM and on a server there is nobody to lock out, or no place to."""

    def __init__(self, vault: Vault) -> None:
        self._lock: Any = None
        if vault.database.file is not None:
            from filelock import FileLock

            self._lock = FileLock(str(Path(f"{vault.database.file}.embedding")), thread_local=False)

    def __enter__(self) -> bool:
        if self._lock is None:
            return True
        from filelock import Timeout

        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            self._lock = None
            return False
        return True

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            self._lock.release()
