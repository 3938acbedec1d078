"""How a query's similarities to a whole scope are spread, told from a part of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist, fmean
from typing import Any


DEVIATION = 0.1  # of cosines, by general experience
_PRIOR = 10  # how many texts that experience counts for, in a scope that holds few


def with_experience(mean: Any, variance: Any, count: int) -> tuple[Any, Any]:
    """Mean and deviation of `count` similarities (numbers, or arrays of them), tempered by what is usual."""
    return mean * count / (count + _PRIOR), ((variance * count + DEVIATION**2 * _PRIOR) / (count + _PRIOR)) ** 0.5


def quantiles(count: int, texts: int) -> list[float]:
    """Where the best `count` of so many normal values lie, in deviations from their mean, best first.

    >>> [round(each, 1) for each in quantiles(3, 100)]
    [2.6, 2.2, 2.0]
    """
    normal = NormalDist()
    return [normal.inv_cdf(1 - (place + 0.5) / max(texts, count)) for place in range(count)]


def spread_of_best(best: Sequence[float], texts: int) -> tuple[float, float]:
    """Mean and deviation of all similarities, of which only the best are known: they are laid along a normal's.

    >>> middle, deviation = spread_of_best([0.1 + 0.2 * each for each in quantiles(200, 10_000)], 10_000)
    >>> round(middle, 1), round(deviation, 1)
    (0.1, 0.2)
    """
    if not best:
        return 0.0, DEVIATION
    expected = quantiles(len(best), texts)
    middle, mean = fmean(expected), fmean(best)
    across = sum((each - middle) ** 2 for each in expected)
    slope = sum((e - middle) * (b - mean) for e, b in zip(expected, best, strict=True)) / across if across else 0.0
    found: tuple[float, float] = with_experience(mean - slope * middle, slope**2, len(best))
    return found
