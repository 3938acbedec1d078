"""Vectors searched exactly, in RAM: the faster way up to some 50,000 vectors, and for every process."""

from __future__ import annotations

import threading
from typing import Any

import numpy
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, select

from smolagents_memory.database import tables


Floats = NDArray[numpy.float32]
Ints = NDArray[numpy.int64]

_vectors, _gone = tables.vectors.c, tables.gone.c
_NEWER = (
    select(_vectors.id, _vectors.vector)
    .where(
        _vectors.scope_id == bindparam("scope"),
        _vectors.id > bindparam("last"),
        _vectors.embedder_id == bindparam("embedder"),
        _vectors.live.is_(True),
    )
    .order_by(_vectors.id)
)
_GONE = select(_gone.vector_id).where(_gone.scope_id == bindparam("scope"), _gone.id > bindparam("last"))


class Rows:
    """Vectors with their numbers."""

    def __init__(self, ids: Ints, matrix: Floats) -> None:
        self.ids, self.matrix = ids, matrix

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, rows: Any, dimensions: int) -> Rows:
        """From what `newer` selected."""
        ids = numpy.fromiter((row[0] for row in rows), dtype=numpy.int64, count=len(rows))
        joined = b"".join([row[1] for row in rows])
        return cls(ids, numpy.frombuffer(joined, dtype=numpy.float32).reshape(-1, dimensions))

    def without(self, ids: Any) -> Rows:
        """The rows that are not among `ids`."""
        keep = ~numpy.isin(self.ids, numpy.fromiter(ids, dtype=numpy.int64))
        return Rows(self.ids[keep], self.matrix[keep])

    def with_more(self, more: Rows) -> Rows:
        """Both, joined."""
        return Rows(numpy.concatenate([self.ids, more.ids]), numpy.concatenate([self.matrix, more.matrix]))

    def best(self, queries: Floats, limit: int) -> list[dict[int, float]]:
        """For each query the vectors nearest to it: number → cosine."""
        if not len(self):
            return [{} for _ in queries]
        cosines = self.matrix @ queries.T
        found = []
        for column in cosines.T:
            if limit < len(column):
                top = numpy.argpartition(-column, limit)[:limit]
                found.append(dict(zip(self.ids[top].tolist(), column[top].tolist(), strict=True)))
            else:
                found.append(dict(zip(self.ids.tolist(), column.tolist(), strict=True)))
        return found


def newer(connection: Connection, scope: int, embedder: int, last: int, most: int | None = None) -> Any:
    """The vectors of a scope whose numbers are above `last`, by number."""
    return connection.execute(
        _NEWER if most is None else _NEWER.limit(most), {"scope": scope, "embedder": embedder, "last": last}
    ).all()


def dropped(connection: Connection, scope: int, last: int) -> list[int]:
    """The numbers of vectors that went since the change `last`."""
    return list(connection.execute(_GONE, {"scope": scope, "last": last}).scalars())


class ExactIndex:
    """All vectors of one scope in RAM, brought up to date from SQL before each search."""

    def __init__(self, scope: int, embedder: int, dimensions: int) -> None:
        self.scope, self.embedder, self.dimensions = scope, embedder, dimensions
        self.stays = False  # whether it stands in for a Chroma that failed
        self._lock = threading.Lock()
        self._last = 0
        self._chunks: list[Rows] = []

    def refresh(self, connection: Connection, last: int) -> None:
        """Take in what changed up to the change `last`, which is what `connection` sees."""
        with self._lock:
            if last <= self._last:
                return
            rows = newer(connection, self.scope, self.embedder, self._last)
            gone = set(dropped(connection, self.scope, self._last)) if self._chunks else set()
            chunks = list(self._chunks)
            if rows:
                chunks.append(Rows.of(rows, self.dimensions))
            if gone:
                chunks = [chunk.without(gone) for chunk in chunks]
            self._chunks = _merged(chunks)
            self._last = last

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def matrix(self) -> Floats:
        """All vectors."""
        chunks = self._chunks
        if not chunks:
            return numpy.zeros((0, self.dimensions), dtype=numpy.float32)
        return chunks[0].matrix if len(chunks) == 1 else numpy.concatenate([chunk.matrix for chunk in chunks])

    @property
    def bytes(self) -> int:
        """What it takes in RAM."""
        return len(self) * (self.dimensions * 4 + 8)

    def best(self, queries: Floats, limit: int) -> list[dict[int, float]]:
        """For each query the vectors nearest to it: number → cosine."""
        found: list[dict[int, float]] = [{} for _ in queries]
        for chunk in self._chunks:
            for mine, more in zip(found, chunk.best(queries, limit), strict=True):
                mine.update(more)
        if len(self._chunks) > 1:
            return [dict(sorted(each.items(), key=lambda pair: -pair[1])[:limit]) for each in found]
        return found

    def close(self) -> None:
        """Let go of the RAM."""
        with self._lock:
            self._chunks, self._last = [], 0


def _merged(chunks: list[Rows]) -> list[Rows]:
    """Few chunks: a small one joins its neighbour, so that adding one by one does not copy everything each time."""
    chunks = [chunk for chunk in chunks if len(chunk)]
    while len(chunks) > 1 and len(chunks[-1]) * 2 > len(chunks[-2]):
        last = chunks.pop()
        chunks[-1] = chunks[-1].with_more(last)
    return chunks
