"""The signs of vectors: counted as they are, the nearest ones chosen, and blocks that come and go."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smolagents_memory.search import bits
from smolagents_memory.search.bits import Bits, Block, counted_by_table, signs_of


def drawn(seed: int, rows: int, dimensions: int) -> Any:
    matrix = numpy.random.default_rng(seed).normal(size=(rows, dimensions)).astype(numpy.float32)
    matrix[matrix < -1.5] = 0  # which is no sign
    return matrix


def made(matrix: Any, piece: int) -> Bits:
    """The rows with the numbers 0, 10, 20, … taken in piece by piece."""
    found = Bits()
    for start in range(0, len(matrix), piece):
        some = matrix[start : start + piece]
        found = found.with_more(Block(10 * numpy.arange(start, start + len(some)), signs_of(some)))
    return found


SIZES = {"seed": st.integers(0, 2**32), "rows": st.integers(1, 60), "dimensions": st.integers(1, 400)}


@pytest.mark.parametrize("by_table", [False, True], ids=["by numpy", "by table"])
@given(**SIZES)
def test_a_distance_is_in_how_many_dimensions_signs_differ(
    by_table: bool, seed: int, rows: int, dimensions: int
) -> None:
    """Also of widths that fill no word, and with a numpy that counts no bits."""
    matrix = drawn(seed, rows + 1, dimensions)
    query, there = signs_of(matrix[:1])[:, 0], Block(numpy.arange(rows), signs_of(matrix[1:]))
    with pytest.MonkeyPatch.context() as patched:
        if by_table:
            patched.setattr(bits, "count_bits", counted_by_table)
        found = there.distances(query)
    assert found.tolist() == ((matrix[1:] > 0) != (matrix[0] > 0)).sum(axis=1).tolist()


@given(**SIZES, count=st.integers(0, 70), piece=st.integers(1, 20))
def test_the_nearest_are_chosen_out_of_all_blocks(
    seed: int, rows: int, dimensions: int, count: int, piece: int
) -> None:
    """By their signs, each as much as its dimension weighs in the query: none left out weighs more than one chosen."""
    matrix = drawn(seed, rows + 1, dimensions)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bits, "ROWS", 8)
        patched.setattr(bits, "ROUGHLY", 1000)
        there = made(matrix[1:], piece)
        found = there.nearest(matrix[0], count)
    weights = (matrix[1:] > 0).astype(numpy.float32) @ matrix[0]
    assert len(set(found.tolist())) == len(found) == min(count, rows)
    assert sorted(weights[found // 10].tolist(), reverse=True) == pytest.approx(
        sorted(weights.tolist(), reverse=True)[:count], abs=1e-4
    )


@given(**SIZES, count=st.integers(1, 30), piece=st.integers(1, 20))
def test_at_first_those_are_chosen_that_have_most_signs_alike(
    seed: int, rows: int, dimensions: int, count: int, piece: int
) -> None:
    """So many, and none that is left out is nearer than one that is not."""
    matrix = drawn(seed, rows + 1, dimensions)
    distances = ((matrix[1:] > 0) != (matrix[0] > 0)).sum(axis=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bits, "ROWS", 8)
        patched.setattr(bits, "ROUGHLY", 1)
        found = made(matrix[1:], piece).nearest(matrix[0], count)
    assert sorted(distances[found // 10].tolist()) == sorted(distances.tolist())[:count]


@given(**SIZES, gone=st.sets(st.integers(-2, 62).map(lambda n: 10 * n)), piece=st.integers(1, 20))
def test_what_goes_is_gone_and_the_rest_stays(
    seed: int, rows: int, dimensions: int, gone: set[int], piece: int
) -> None:
    """In order, in blocks that are not too large, and what was there before is as it was."""
    matrix = drawn(seed, rows, dimensions)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bits, "ROWS", 8)
        there = made(matrix, piece)
    before = there.ids().tolist()
    left = there.without(gone)
    kept = [number for number in range(0, 10 * rows, 10) if number not in gone]
    assert left.ids().tolist() == kept
    assert all(0 < len(block) <= 8 for block in left.blocks)
    columns = numpy.concatenate([signs_of(matrix[:0]), *(block.columns for block in left.blocks)], axis=1)
    assert (columns == signs_of(matrix[[number // 10 for number in kept]])).all()
    assert there.ids().tolist() == before == list(range(0, 10 * rows, 10))
    assert there.bytes == 8 * rows * (1 + -(-dimensions // 64))
