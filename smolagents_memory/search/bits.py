"""The signs of vectors: one bit a dimension, by which those near to a query are chosen out of very many.

They lie by columns, 64 dimensions of all rows of a block together: so a million are looked through in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy
from numpy.typing import NDArray

from smolagents_memory.search.exact import Floats, Ints


ROWS = 1 << 15  # of a block: what is computed of one stays in the processor's cache
ROUGHLY, MOST = 10, 20_000  # at first so many times as many are chosen by the number of signs, up to this
_IN_A_BYTE = 3  # columns whose counts, of 64 at the most, add up in one byte

Words = NDArray[numpy.uint64]


def signs_of(matrix: Floats) -> Words:
    """The signs of some rows, by columns."""
    packed = numpy.packbits(matrix > 0, axis=1, bitorder="little")
    packed = numpy.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    return numpy.ascontiguousarray(packed.view("<u8").T)


def counted_by_table(words: Words) -> NDArray[Any]:
    """How many bits of each word are set, for a numpy that cannot count them itself."""
    table = _table()
    counts: NDArray[Any] = table[words.view(numpy.uint16).reshape(-1, 4)].sum(axis=1, dtype=numpy.uint8)
    return counts


def _table() -> NDArray[numpy.uint8]:
    if not _counts:
        each = numpy.arange(1 << 16, dtype=numpy.uint16)
        _counts.append(sum((each >> bit & 1 for bit in range(16)), numpy.zeros(1, numpy.uint16)).astype(numpy.uint8))
    return _counts[0]


_counts: list[NDArray[numpy.uint8]] = []
count_bits: Callable[[Words], NDArray[Any]] = getattr(numpy, "bitwise_count", counted_by_table)


class Block:
    """The signs of some vectors and their numbers, in order. Replaced, never changed."""

    def __init__(self, ids: Ints, columns: Words) -> None:
        self.ids, self.columns = ids, columns

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def bytes(self) -> int:
        """What it takes in RAM."""
        return self.ids.nbytes + self.columns.nbytes

    def distances(self, query: Words) -> NDArray[numpy.uint16]:
        """In how many dimensions each has another sign than the query."""
        total = numpy.zeros(len(self), dtype=numpy.uint16)
        differ = numpy.empty(len(self), dtype=numpy.uint64)
        for start in range(0, len(query), _IN_A_BYTE):
            few = numpy.zeros(len(self), dtype=numpy.uint8)
            for column in range(start, min(start + _IN_A_BYTE, len(query))):
                numpy.bitwise_xor(self.columns[column], query[column], out=differ)
                few += count_bits(differ)
            total += few
        return total

    def with_more(self, more: Block) -> Block:
        """Both, joined."""
        columns = numpy.concatenate([self.columns, more.columns], axis=1)
        return Block(numpy.concatenate([self.ids, more.ids]), columns)

    def without(self, gone: Ints) -> Block:
        """The rows that are not among these numbers, which come in order."""
        if not len(gone) or gone[-1] < self.ids[0] or gone[0] > self.ids[-1]:
            return self
        keep = ~numpy.isin(self.ids, gone)
        return self if keep.all() else Block(self.ids[keep], numpy.ascontiguousarray(self.columns[:, keep]))

    def cut(self) -> list[Block]:
        """The same in blocks that are not too large."""
        starts = range(0, len(self), ROWS)
        if len(starts) == 1:
            return [self]
        pieces = [slice(start, start + ROWS) for start in starts]
        return [Block(self.ids[each].copy(), numpy.ascontiguousarray(self.columns[:, each])) for each in pieces]


class Bits:
    """The signs of all vectors of a scope, as blocks. Replaced, never changed: who searches them sees one state."""

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks = [block for block in blocks if len(block)]

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    @property
    def bytes(self) -> int:
        """What they take in RAM."""
        return sum(block.bytes for block in self.blocks)

    def ids(self) -> Ints:
        """The numbers of all."""
        return numpy.concatenate([numpy.zeros(0, numpy.int64), *(block.ids for block in self.blocks)])

    def with_more(self, more: Block) -> Bits:
        """With newer vectors."""
        if not len(more):
            return self
        last = self.blocks[-1:]
        joined = last[0].with_more(more) if last and len(last[0]) < ROWS else None
        return Bits([*self.blocks[:-1], *joined.cut()] if joined else [*self.blocks, *more.cut()])

    def without(self, gone: Collection[int]) -> Bits:
        """Without those whose numbers are gone."""
        numbers = numpy.sort(numpy.fromiter(gone, dtype=numpy.int64, count=len(gone)))
        return Bits(block.without(numbers) for block in self.blocks) if gone else self

    def nearest(self, query: Floats, count: int) -> Ints:
        """The numbers of those whose signs say most of a query: at first by how many are alike, then by how much.

        What a dimension weighs in the query is known, and half as many have to be scored exactly for it.
        """
        if count >= len(self):
            return self.ids()
        rows, ids = self._alike(signs_of(query[None])[:, 0], max(count, min(ROUGHLY * count, MOST)))
        each = numpy.unpackbits(rows.astype("<u8").view(numpy.uint8), axis=1, count=len(query), bitorder="little")
        weights = each.astype(numpy.float32) @ query
        found: Ints = ids[numpy.argpartition(-weights, count)[:count]] if count < len(ids) else ids
        return found

    def _alike(self, query: Words, count: int) -> tuple[Words, Ints]:
        """The signs and numbers of those that have most signs as a query has them."""
        distances = [block.distances(query) for block in self.blocks]
        often = sum(numpy.bincount(each, minlength=64 * len(query) + 1) for each in distances)
        furthest = int(numpy.searchsorted(numpy.cumsum(often), min(count, len(self))))
        near = [numpy.flatnonzero(each <= furthest) for each in distances]
        ids = numpy.concatenate([block.ids[rows] for block, rows in zip(self.blocks, near, strict=True)])
        signs = numpy.concatenate([block.columns[:, rows].T for block, rows in zip(self.blocks, near, strict=True)])
        far = numpy.concatenate([each[rows] for each, rows in zip(distances, near, strict=True)])
        chosen = numpy.argsort(far, kind="stable")[:count]
        return numpy.ascontiguousarray(signs[chosen]), ids[chosen]
