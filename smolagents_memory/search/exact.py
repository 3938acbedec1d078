"""Vectors searched exactly, in RAM: the faster way up to some 50,000 vectors, and for every process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, select

from smolagents_memory._forks import Lock
from smolagents_memory.database import tables
from smolagents_memory.database.vectors import BOUND, open_vectors


Floats = NDArray[numpy.float32]
Ints = NDArray[numpy.int64]

_vectors, _gone = tables.vectors.c, tables.gone.c
_NEWER = (
    select(_vectors.id, _vectors.vector, *BOUND)
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
    def of(cls, connection: Connection, scope: int, rows: Any, dimensions: int) -> Rows:
        """From what `newer` selected of a scope."""
        ids = numpy.fromiter((row[0] for row in rows), dtype=numpy.int64, count=len(rows))
        return cls(ids, matrix_of(open_vectors(connection, scope, rows), dimensions))

    def without(self, ids: Any) -> Rows:
        """The rows that are not among `ids`."""
        keep = ~numpy.isin(self.ids, numpy.fromiter(ids, dtype=numpy.int64))
        return Rows(self.ids[keep], self.matrix[keep])

    def with_more(self, more: Rows) -> Rows:
        """Both, joined."""
        return Rows(numpy.concatenate([self.ids, more.ids]), numpy.concatenate([self.matrix, more.matrix]))

    def best(self, queries: Floats, limit: int) -> list[dict[int, float]]:
        """For each query the vectors nearest to it: number → cosine."""
        found = []
        for column in (self.matrix @ queries.T).T:
            top = numpy.argpartition(-column, limit)[:limit] if limit < len(column) else slice(None)
            found.append(dict(zip(self.ids[top].tolist(), column[top].tolist(), strict=True)))
        return found


class Heap:
    """Rows in few chunks: a small one joins its neighbour, so that adding does not copy everything each time.

    It is replaced and never changed: who searches it sees one state.
    """

    def __init__(self, chunks: Iterable[Rows] = ()) -> None:
        self.chunks = [chunk for chunk in chunks if len(chunk)]
        while len(self.chunks) > 1 and len(self.chunks[-1]) * 2 > len(self.chunks[-2]):
            last = self.chunks.pop()
            self.chunks[-1] = self.chunks[-1].with_more(last)

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    @property
    def bytes(self) -> int:
        """What it takes in RAM."""
        return sum(chunk.ids.nbytes + chunk.matrix.nbytes for chunk in self.chunks)

    def changed(self, more: Iterable[Rows], gone: Collection[int]) -> Heap:
        """With more rows, and without those whose numbers are gone."""
        chunks = [*self.chunks, *more]
        return Heap([chunk.without(gone) for chunk in chunks] if gone else chunks)

    def best(self, queries: Floats, limit: int, among: list[dict[int, float]] | None = None) -> list[dict[int, float]]:
        """For each query the vectors nearest to it, also `among` others that were found: number → cosine."""
        found = among or [{} for _ in queries]
        for chunk in self.chunks:
            for mine, more in zip(found, chunk.best(queries, limit), strict=True):
                mine.update(more)
        return [dict(sorted(each.items(), key=lambda pair: -pair[1])[:limit]) for each in found]


def matrix_of(vectors: Sequence[bytes], dimensions: int) -> Floats:
    """Vectors from SQL as rows. One whose bytes were changed is nothing: it must not come before all others."""
    width = 4 * dimensions
    nothing = bytes(width)
    joined = b"".join([vector if _are_bytes(vector) and len(vector) == width else nothing for vector in vectors])
    matrix = numpy.frombuffer(joined, dtype=numpy.float32).reshape(-1, dimensions)
    damaged = damaged_rows(matrix)
    return numpy.where(damaged[:, None], numpy.float32(0), matrix) if damaged.any() else matrix


def _are_bytes(vector: object) -> bool:
    return isinstance(vector, (bytes, memoryview))  # on a damaged page anything may stand


def damaged_rows(matrix: Floats) -> NDArray[numpy.bool_]:
    """Which rows are neither of length 1 nor nothing, as all are made."""
    with numpy.errstate(all="ignore"):
        lengths = numpy.einsum("ij,ij->i", matrix, matrix)
    well: NDArray[numpy.bool_] = (numpy.abs(lengths - 1) < 0.01) | (lengths == 0)
    return ~well


def newer(connection: Connection, scope: int, embedder: int, last: int, most: int | None = None) -> Any:
    """The vectors of a scope whose numbers are above `last`, by number."""
    return connection.execute(
        _NEWER if most is None else _NEWER.limit(most), {"scope": scope, "embedder": embedder, "last": last}
    ).all()


def dropped(connection: Connection, scope: int, last: int) -> list[int]:
    """The numbers of vectors that went since the change `last`; LEFT_OUT among them when not all are known."""
    return list(connection.execute(_GONE, {"scope": scope, "last": last}).scalars())


class ExactIndex:
    """All vectors of one scope in RAM, brought up to date from SQL before each search."""

    kind = "exact"

    def __init__(self, scope: int, embedder: int, dimensions: int) -> None:
        self.scope, self.embedder, self.dimensions = scope, embedder, dimensions
        self.stays = False  # whether it stands in for a Chroma that failed
        self._lock = Lock()
        self._last = 0
        self._heap = Heap()

    def refresh(self, connection: Connection, last: int) -> None:
        """Take in what changed up to the change `last`, which is what `connection` sees."""
        with self._lock:
            if last <= self._last:
                return
            heap, since = self._heap, self._last
            gone = dropped(connection, self.scope, since) if len(heap) else []
            if tables.LEFT_OUT in gone:  # it slept for long
                heap, since, gone = Heap(), 0, []
            rows = newer(connection, self.scope, self.embedder, since)
            self._heap = heap.changed([Rows.of(connection, self.scope, rows, self.dimensions)] if rows else (), gone)
            self._last = last

    def __len__(self) -> int:
        return len(self._heap)

    def matrix(self) -> Floats:
        """All vectors."""
        matrices = [chunk.matrix for chunk in self._heap.chunks]
        none = numpy.zeros((0, self.dimensions), dtype=numpy.float32)
        return matrices[0] if len(matrices) == 1 else numpy.concatenate([none, *matrices])

    @property
    def bytes(self) -> int:
        """What it takes in RAM."""
        return self._heap.bytes

    def ids(self) -> Ints:
        """The numbers of all vectors."""
        return numpy.concatenate([numpy.zeros(0, numpy.int64), *(chunk.ids for chunk in self._heap.chunks)])

    def best(self, connection: Connection, queries: Floats, limit: int) -> list[dict[int, float]]:
        """For each query the vectors nearest to it: number → cosine."""
        return self._heap.best(queries, limit)
