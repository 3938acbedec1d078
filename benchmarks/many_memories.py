"""What many memories cost: of one scope to go through, to count and to forget, and of many objects to open.

    python benchmarks/many_memories.py [--memories 100000] [--objects 1000]

The claims:

- 100,000 memories are iterated in 3 s, on a quiet machine.
- To count them takes at most a fiftieth of the time to iterate them, and to find out what has faded at most a tenth.
- A thousand memories at one place, each of a scope of its own, have one embedder and one set of indexes, and one more
  costs at most a fifth of the first.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
from journal_cost import CONSOLE, Claims

from smolagents_memory import EnhancedAgentMemory, ForgettingCurve


NEVER = ForgettingCurve(every=0)


class Cheap:
    """One of some thousand rows for each text: what an embedder costs is no question here."""

    name, dimensions = "cheap", 384

    def __init__(self) -> None:
        self._rows = numpy.random.default_rng(1).standard_normal((4096, self.dimensions)).astype(numpy.float32)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """Rows by checksum."""
        return self._rows[[zlib.crc32(text.encode()) % len(self._rows) for text in texts]]

    def embed_query(self, text: str) -> Any:
        """The row of one text."""
        return self.embed_documents([text])[0]


def spent(what: str, work: Callable[[], Any]) -> float:
    """Seconds, which are printed."""
    begun = time.perf_counter()
    given = work()
    taken = time.perf_counter() - begun
    CONSOLE.print(f"{what}: {taken:.3f} s{f' ({given:,})' if isinstance(given, int) else ''}")
    return taken


def one_scope(claims: Claims, folder: Path, count: int) -> None:
    """All that goes over many memories of one scope, beside another one as large."""
    embedder = Cheap()
    for user in ("other", "one"):
        memory = EnhancedAgentMemory(folder, embedder=embedder, scope={"user": user}, forgetting=NEVER)
        items = [{"text": f"note {n} on the boiler of room {n % 97}", "meta": {"n": n % 100}} for n in range(count)]
        spent(f"remember {count:,}", lambda memory=memory, items=items: len(memory.remember_many(items)))
    iterated = spent("items()", lambda: sum(1 for _ in memory.items()))
    counted = spent("count()", memory.count) + spent("count(archived=True)", lambda: memory.count(archived=True))
    spent("scopes()", lambda: len(memory.scopes()))
    spent("stats()", lambda: memory.stats().memories)
    faded = spent("decay() that finds nothing", lambda: len(memory.decay()))
    spent("count(where)", lambda: memory.count({"n": 3}))
    spent("forget_where() of a hundredth", lambda: memory.forget_where({"n": 3}))
    spent("purge()", lambda: len(memory.purge()))
    memory.close()
    claims.check("seconds to iterate 100,000 memories", iterated * 100_000 / count, 3.0, "s")
    claims.check("time to count, twice, to that of iterating", counted / iterated, 1 / 50)
    claims.check("time to look for what has faded, likewise", faded / iterated, 1 / 10)


def many_objects(claims: Claims, where: Path | None, count: int) -> None:
    """Objects at one place, or each in RAM: what one costs, and what they share."""
    embedder, held = Cheap(), []
    times = []
    before = resident()
    for number in range(count):
        begun = time.perf_counter()
        held.append(EnhancedAgentMemory(where, embedder=embedder, scope={"user": f"u{number}"}, forgetting=NEVER))
        times.append(time.perf_counter() - begun)
    opened = resident()
    for memory in held:
        memory.remember("The staging server needs the VPN.")
        memory.recall("staging")
    used = resident()
    later = sorted(times[1:])[len(times) // 2 - 1]
    where_told, each = "in RAM" if where is None else "at one place", 1024 * count
    CONSOLE.print(
        f"{count:,} {where_told}: the first opens in {1e3 * times[0]:.1f} ms, others in {1e3 * later:.2f}; "
        f"{(opened - before) / each:,.0f} kB each, in use {(used - before) / each:,.0f}"
    )
    vaults = {id(memory.long_term.keeper.vault) for memory in held}
    embedders = {id(memory.long_term.keeper.vault.vectors.embedder) for memory in held}
    claims.check("embedders", len(embedders), 1, "")
    if where is not None:
        claims.check("sets of indexes", len(vaults), 1, "")
        claims.check("time to open one more, to that of the first", later / times[0], 0.2)
    for memory in held:
        memory.close()


def resident() -> int:
    """Bytes of RAM, in Linux."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--objects", type=int, default=1000)
    options = parser.parse_args()
    claims = Claims()
    with tempfile.TemporaryDirectory() as name:
        many_objects(claims, Path(name) / "objects", options.objects)
        many_objects(claims, None, options.objects // 10)
        if options.memories:
            one_scope(claims, Path(name) / "one", options.memories)
    sys.exit(claims.failed > 0)


if __name__ == "__main__":
    main()
