"""What a filter costs: a recall that few memories fit beside one that all do, and what labels cost who writes.

    python benchmarks/filtered_recall.py [--memories 20000] [--folder DIR] [--written 20000]

Memories have five fields of metadata; of a thousand one fits each filter: by kind, source, a field, a time. The
claims, of ratios in one run, on a quiet machine:

- A recall by such a filter, or by a key, takes at most 1.5 times as long as one without a filter.
- To read or count what fits takes at most a twentieth of the time to read all memories.
- To write memories takes at most 1.25 times as long as without labels and their indexes, and the file is at most 1.15
  times as large.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from journal_cost import CONSOLE, Claims
from recall_at_a_million import PIECE, Clustered, queries, texts

from smolagents_memory import EnhancedAgentMemory, ForgettingCurve
from smolagents_memory.stores import bank


NEVER = ForgettingCurve(every=0)
EACH = 1000  # of which one fits
START, SECONDS = 1_700_000_000.0, 10.0  # a memory each ten seconds
SINGLE = 300  # memories written one by one
RECALLS = 30


class Clock:
    """Goes on with each memory that is written."""

    now = START

    def __call__(self) -> float:
        return self.now


def items(count: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """So many memories, from a number on."""
    for n, text in enumerate(texts(count), first):
        meta = {
            "ticket": n // 3,
            "team": f"team {n % 11}",
            "year": 2000 + n % 25,
            "host": f"h{n % EACH}",
            "open": n % 2,
        }
        kind = "failure" if n % EACH == 7 else "memory"
        yield {"text": text, "key": f"m{n}", "kind": kind, "source": f"s{n * 7919 % EACH}", "meta": meta}


def opened(folder: Path, clock: Clock) -> EnhancedAgentMemory:
    """Chroma is not asked: it takes its time to be filled."""
    how: dict[str, Any] = {"scope": {"of": "filters"}, "own_collection": 10**9}
    return EnhancedAgentMemory(folder, embedder=Clustered(), forgetting=NEVER, clock=clock, **how)


def at_once(count: int) -> int:
    """How many are written at once, and have the same time."""
    return min(500, max(1, count // EACH))


def fill(folder: Path, count: int) -> None:
    """Write so many memories."""
    clock, every, begun, together = Clock(), items(count), time.perf_counter(), at_once(count)
    with opened(folder, clock) as memory:
        for start in range(0, count, together):
            clock.now = START + start * SECONDS
            memory.remember_many((next(every) for _ in range(min(together, count - start))), show_progress=False)
            if start % PIECE == 0 and start:
                CONSOLE.print(f"{start:,} written in {time.perf_counter() - begun:.0f} s")


def compared(memory: EnhancedAgentMemory, ways: dict[str, dict[str, Any] | None]) -> dict[str, float]:
    """The median of recalls in each way, in milliseconds; they take turns."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn, query in enumerate(queries()[: RECALLS + 2]):
        for name, where in ways.items():
            begun = time.perf_counter()
            memory.recall(query, 5, where=where)
            if turn > 1:
                taken[name].append(1000 * (time.perf_counter() - begun))
    return {name: statistics.median(times) for name, times in taken.items()}


def recalls(claims: Claims, memory: EnhancedAgentMemory, count: int) -> None:
    """By each kind of filter, and without."""
    middle = START + count // 2 // at_once(count) * at_once(count) * SECONDS
    ways: dict[str, dict[str, Any] | None] = {
        "none": None,
        "kind": {"kind": "failure"},
        "source": {"source": "s7"},
        "a field": {"host": "h8"},
        "two fields": {"host": "h8", "open": 0},
        "a time": {"created": {"$gte": middle, "$lt": middle + max(1, count // EACH) * SECONDS}},
        "a key": {"key": f"m{count // 2}"},
    }
    fitting = {name: memory.count(where) for name, where in ways.items()}
    memory.recall(queries()[0])
    CONSOLE.print(f"the index was whole after {made_behind(memory):.0f} s; {memory.stats().index} serves")
    found = compared(memory, ways)
    for name, milliseconds in found.items():
        CONSOLE.print(f"recall by {name:12} ({fitting[name]:9,} fit): {milliseconds:7.2f} ms")
        if name != "none":
            claims.check(f"a recall by {name} to one without a filter", milliseconds / found["none"], 1.5)


def made_behind(memory: EnhancedAgentMemory) -> float:
    """Seconds until all vectors are in the index."""
    keeper: Any = memory.long_term.keeper
    return spent(lambda: whole(keeper.vault.indexes.of_name(keeper.bank.name)))


def whole(index: Any) -> None:
    while getattr(index, "_behind", None) is not None and index._behind.is_alive():
        time.sleep(0.05)


def spent(work: Callable[[], Any]) -> float:
    """Seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def readings(claims: Claims, memory: EnhancedAgentMemory) -> None:
    """What fits, read and counted, and in the end forgotten."""
    whole_scope = spent(lambda: sum(1 for _ in memory.items()))
    read = spent(lambda: list(memory.items({"host": "h9"})))
    counted = spent(lambda: memory.count({"kind": "failure"}))
    document = spent(lambda: memory.remember_document("one\n\ntwo", source="a document"))
    forgotten = spent(lambda: memory.forget_where({"host": "h9"}))
    CONSOLE.print(
        f"all read in {whole_scope:.2f} s; by a field {1000 * read:.1f} ms; counted by kind {1000 * counted:.1f} ms; "
        f"forgotten by a field {1000 * forgotten:.1f} ms; a document kept in {1000 * document:.1f} ms"
    )
    for name, taken in (("read", read), ("count", counted), ("forget", forgotten)):
        claims.check(f"to {name} what fits, to reading all", taken / whole_scope, 1 / 20)


def written(folder: Path, count: int) -> tuple[float, float, float]:
    """Seconds for many memories in pieces, milliseconds for one, and the bytes of the database."""
    clock, every = Clock(), list(items(count))
    with opened(folder, clock) as memory:
        many = spent(lambda: memory.remember_many(every, show_progress=False))
        more = list(items(SINGLE, first=count))
        single = statistics.median(spent(lambda each=each: memory.remember_many([each])) for each in more)
    return many, 1000 * single, (folder / "memory.db").stat().st_size


def without_labels(folder: Path, count: int) -> tuple[float, float, float]:
    """The same in a place that has none, nor the indexes that came with them."""
    with opened(folder, Clock()) as memory, memory.long_term.keeper.vault.database.writing() as connection:
        for name in ("memory_items_created", "memory_items_importance"):
            connection.exec_driver_sql(f"DROP INDEX {name}")
    with patch.object(bank, "change_labels", lambda *_: None):
        return written(folder, count)


def writing(claims: Claims, folder: Path, count: int) -> None:
    """In turns, the best of three."""
    found: dict[bool, list[tuple[float, float, float]]] = {True: [], False: []}
    for turn in range(3):
        for labelled, write in ((False, without_labels), (True, written)):
            found[labelled].append(write(folder / f"{turn}{labelled}", count))
    best = {labelled: [min(each) for each in zip(*taken, strict=True)] for labelled, taken in found.items()}
    for labelled, (many, single, size) in best.items():
        with_ = "with" if labelled else "without"
        CONSOLE.print(f"{with_} labels: {count:,} in {many:.2f} s, one in {single:.2f} ms, {size / 1e6:.1f} MB")
    for name, limit, a, b in zip(
        ("to write many", "to write one", "the file"), (1.25, 1.25, 1.15), best[True], best[False], strict=True
    ):
        claims.check(f"{name}, to that without labels", a / b, limit)


def main() -> None:
    """Fill, measure, and compare with the claims."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--written", type=int, default=20_000, help="to see what writing costs; 0: not at all")
    parser.add_argument("--folder", type=Path, help="where they are kept; else in one that is deleted afterwards")
    options = parser.parse_args()
    claims = Claims()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "recalls"
        if not (folder / "memory.db").exists():
            fill(folder, options.memories)
        with opened(folder, Clock()) as memory:
            recalls(claims, memory, options.memories)
            readings(claims, memory)
        if options.written:
            writing(claims, Path(temporary), options.written)
    sys.exit(claims.failed > 0)


if __name__ == "__main__":
    main()
