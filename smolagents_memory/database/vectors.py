"""Vectors on their way to the database and back: as they are, or under a seal, bound to the memory they are of.

They are bound to the name of the embedder, too: its number stands in a table that has no marks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, select

from smolagents_memory._errors import SealError
from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.sealed import Sealed, of_scope


_v, _embedders = tables.vectors.c, tables.embedders.c
BOUND = (_v.item_id, _v.part, _v.parts, _v.embedder_id)  # what a sealed vector is bound to
_BOUND, _NUMBER = struct.Struct(">qiii"), struct.Struct(">I")


def vector_bytes(connection: Connection, scope: int, bound: tuple[int, int, int, int], data: bytes) -> bytes:
    """A vector as it lies in its column; what it is bound to comes as in BOUND."""
    sealed = envelope_of(connection).sealed
    if sealed is None:
        return data
    owner = of_scope(sealed.scope_of(scope))
    return _NUMBER.pack(sealed.number(owner)) + sealed.key(owner).seal(data, _bound(connection, sealed, bound))


def open_vectors(connection: Connection, scope: int, rows: Iterable[Any]) -> list[bytes]:
    """The vectors of rows of a scope that have the columns of BOUND; SealError for one that was changed or moved."""
    sealed = envelope_of(connection).sealed
    if sealed is None:
        return [row.vector for row in rows]
    owner = of_scope(sealed.scope_of(scope))
    key, number = sealed.key(owner), _NUMBER.pack(sealed.number(owner))
    opened = []
    for row in rows:
        data = row.vector
        try:
            if data[:4] != number:
                raise SealError("it was sealed with another key than its scope has now")
            bound = (row.item_id, row.part, row.parts, row.embedder_id)
            opened.append(key.open(data[4:], _bound(connection, sealed, bound)))
        except (SealError, TypeError, struct.error) as error:
            raise sealed.refused(f"a vector of {owner!r}", error) from error
    return opened


def _bound(connection: Connection, sealed: Sealed, bound: tuple[int, int, int, int]) -> bytes:
    embedder = bound[-1]
    if embedder not in sealed.embedders:
        name = connection.execute(select(_embedders.name).where(_embedders.id == embedder)).scalar()
        sealed.embedders[embedder] = repr(name).encode("utf-8", "backslashreplace")
    return sealed.place + _BOUND.pack(*bound) + sealed.embedders[embedder]
