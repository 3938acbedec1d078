"""What the length of a query costs: recall and search against those of a query of 2 kB, in the same run.

    python benchmarks/query_length.py [--memories 1000] [--turns 7]

Each figure is the best of several turns, in time of this process (what else the machine does hardly counts), over
queries that were not asked before (an embedder's answers are kept).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from smolagents_memory import EnhancedAgentMemory, InMemoryStore, SqlStore, VectorMemoryStore
from smolagents_memory.testing.filling import varied_memories


SIZES = (200, 2_000, 20_000, 200_000, 1_400_000)


def text_of(size: int) -> str:
    """So many characters of prose."""
    sentence = "The harbour crane number {n} lifts {n} crates of fruit before noon. "
    return "".join(sentence.format(n=n) for n in range(size // 60 + 1))[:size]


def best(ask: Callable[[str], Any], turns: int) -> dict[int, float]:
    """For each size the quickest of some turns, in ms of this process; every turn asks all sizes."""
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    texts = {size: text_of(size) for size in SIZES}
    for turn in range(turns):
        for size, text in texts.items():
            begun = time.process_time()
            ask(f"{turn} {size} {text}")
            times[size].append(time.process_time() - begun)
    return {size: 1000 * min(each) for size, each in times.items()}


def places(count: int) -> dict[str, Callable[[str], Any]]:
    """What can be asked, filled."""
    memories: list[Any] = list(varied_memories(count))
    ours, words = EnhancedAgentMemory(), EnhancedAgentMemory(vector=False)
    stores = EnhancedAgentMemory(long_term=InMemoryStore(), vector_store=VectorMemoryStore())
    in_ram: InMemoryStore[str] = InMemoryStore()
    in_sql: SqlStore[str] = SqlStore("sqlite://")
    for memory in (ours, words, stores):
        memory.remember_many(memories)
    for store in (in_ram, in_sql):
        store.add_many((f"k{n}", item["text"]) for n, item in enumerate(memories))
    return {
        "recall, SQL": ours.recall, "recall, words alone": words.recall, "recall, stores": stores.recall,
        "InMemoryStore.search": in_ram.search, "SqlStore.search": in_sql.search,
    }  # fmt: skip


def main() -> None:
    """Print times and ratios."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--memories", type=int, default=1000)
    options.add_argument("--turns", type=int, default=7)
    given = options.parse_args()
    print(f"{'characters':24}" + "".join(f"{size:>18,}" for size in SIZES))
    for name, ask in places(given.memories).items():
        times = best(ask, given.turns)
        print(f"{name:24}" + "".join(f"{ms:9.1f} ms {ms / times[2_000]:5.2f}" for ms in times.values()))


if __name__ == "__main__":
    main()
