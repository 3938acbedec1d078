"""Vectors that are there already: a text that is written again as it is need not be embedded again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any

import numpy
from sqlalchemy import Connection, select

from smolagents_memory._errors import SealError
from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.database import tables
from smolagents_memory.database.many import chunks
from smolagents_memory.database.vectors import BOUND, open_vectors
from smolagents_memory.search.exact import damaged_rows
from smolagents_memory.stores.records import Record


_vectors, _items = tables.vectors.c, tables.items.c
# of those alone that count as embedded: what `reindex` is to make anew is not taken from here
_OF_ITEMS = (
    select(_vectors.vector, *BOUND)
    .join(tables.items, (_items.id == _vectors.item_id) & (_items.embedder_id == _vectors.embedder_id))
    .join(tables.embedders, tables.embedders.c.id == _vectors.embedder_id)
    .order_by(_vectors.item_id, _vectors.part)
)


def vectors_there(
    connection: Connection, scope: int, records: Sequence[Record], texts: Collection[str], embedder: str, width: int
) -> dict[str, Any]:
    """The vectors of those of a scope's memories that have one of these texts: by text, a matrix for each.

    What has none of this embedder's, or not all of them as they were made, is not among them.
    """
    text_of = {each.id: text for each in records if (text := searchable(each.value)) in texts}
    found: dict[str, Any] = {}
    for some in chunks(list(text_of)):
        held = _OF_ITEMS.where(_vectors.item_id.in_(some), tables.embedders.c.name == embedder)
        for item, rows in groupby(connection.execute(held).all(), key=lambda row: row.item_id):
            matrix = _matrix(connection, scope, list(rows), width)
            if matrix is not None:
                found[text_of[item]] = matrix
    return found


def _matrix(connection: Connection, scope: int, rows: Sequence[Any], width: int) -> Any:
    """The vectors of one memory; None where one is missing, damaged, or stands for a text that was refused."""
    if [row.part for row in rows] != list(range(len(rows))) or any(row.parts != len(rows) for row in rows):
        return None
    try:
        held = open_vectors(connection, scope, rows)
    except SealError:  # they are made anew, and these go
        return None
    if any(len(each) != 4 * width for each in held):
        return None
    matrix = numpy.frombuffer(b"".join(held), dtype=numpy.float32).reshape(-1, width)
    return matrix if matrix.any(axis=1).all() and not damaged_rows(matrix).any() else None
