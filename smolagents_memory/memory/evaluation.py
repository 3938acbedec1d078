"""How good recall is on cases of your own: recall@k, hit ratio, MRR, latency."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import UnsupportedValueError


@dataclass(frozen=True)
class Evaluation:
    """The figures of `evaluate`. `recall` is the mean share of a case's expected keys among its first `k` results."""

    k: int
    cases: int
    recall: float
    hit_ratio: float
    mrr: float
    p50_ms: float
    p95_ms: float

    def __str__(self) -> str:
        return (
            f"recall@{self.k} {self.recall:.3f}   hit ratio {self.hit_ratio:.3f}   MRR {self.mrr:.3f}   "
            f"p50 {self.p50_ms:.1f} ms   p95 {self.p95_ms:.1f} ms   ({self.cases} cases)"
        )


def evaluate(memory: Any, cases: Iterable[tuple[str, str | Iterable[str]]], k: int = 10) -> Evaluation:
    """Recall each case's query and look for the key, or the keys, it expects.

    `memory` has `recall(query, k)`, or is a store.

    >>> from smolagents_memory import EnhancedAgentMemory, evaluate
    >>> memory = EnhancedAgentMemory(vector=False)
    >>> key = memory.remember("The cat is called Mia.")
    >>> evaluate(memory, [("What is the cat's name?", [key])]).recall
    1.0
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UnsupportedValueError(f"k is how many results are looked at, a whole number from 1, not {k!r:.40}")
    if not isinstance(cases, Iterable):
        raise UnsupportedValueError(f"cases are pairs of a query and the keys that it should find, not {cases!r:.80}")
    ask = memory.recall if hasattr(memory, "recall") else memory.search
    shares, firsts, times = [], [], []
    for query, expected in map(_case, cases):
        start = time.perf_counter()
        found = [hit.key for hit in ask(query, k)]
        times.append((time.perf_counter() - start) * 1000)
        shares.append(len(expected & set(found)) / len(expected))
        firsts.append(next((1 / place for place, key in enumerate(found, 1) if key in expected), 0.0))
    count, times = len(times), sorted(times) or [0.0]
    recall, hits, mrr = (sum(each) / max(1, count) for each in (shares, [first > 0 for first in firsts], firsts))
    p50, p95 = times[count // 2], times[max(0, min(count - 1, int(count * 0.95)))]
    return Evaluation(k, count, recall, hits, mrr, p50, p95)


def _case(case: Any) -> tuple[str, set[str]]:
    """A query and the keys that it expects; a bare key is one, and not its letters."""
    if isinstance(case, (tuple, list)) and len(case) == 2:
        query, keys = case
        expected: set[Any] = {keys} if isinstance(keys, str) else set(keys) if isinstance(keys, Iterable) else {None}
        if isinstance(query, str) and expected and all(isinstance(key, str) and key for key in expected):
            return query, expected
    raise UnsupportedValueError(
        f'a case is a query and the keys that it should find, ("…", ["key"]), so cases are pairs; not {brief(case)}'
    )
