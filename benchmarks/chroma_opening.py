"""What it costs to compare Chroma's files before they are read, and to note them after a write, beside the rest of it.

python benchmarks/chroma_opening.py [--memories 20000]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy

from smolagents_memory import EnhancedAgentMemory
from smolagents_memory.search.chroma_folder import DATABASE
from smolagents_memory.search.examining import fault_of
from smolagents_memory.search.inventory import Inventory


class Random:
    """Vectors as long as a real model's, that cost nothing to make."""

    name = "random"

    def embed_documents(self, texts: list[str]) -> Any:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Any:
        return numpy.random.default_rng(random.Random(text).randrange(1 << 30)).normal(size=384)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--open", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        began = time.perf_counter()
        memory = EnhancedAgentMemory(options.open, embedder=Random())
        memory.recall("note 7", 1)
        print(time.perf_counter() - began)
        return
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with EnhancedAgentMemory(place, embedder=Random()) as memory:
            began = time.perf_counter()
            memory.remember_many(f"note {n}" for n in range(options.memories))
            memory.recall("note 7", 1)
            filling = time.perf_counter() - began
            began = time.perf_counter()
            memory.remember_many(f"another note {n}" for n in range(1000))
            flush = time.perf_counter() - began
        folder = place / "chroma"
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        opening = min(_opened(place) for _ in range(3))
        inventory = Inventory(folder, DATABASE)
        compare = min(_timed(inventory.compare) for _ in range(5))
        note = min(_timed(inventory.write) for _ in range(5))
        examine = _timed(lambda: fault_of(folder))
        (folder / "header").write_bytes(b"damage")
        anew = _opened(place)
    print(f"{options.memories} memories, {size / 1e6:.0f} MB of Chroma's")
    print(f"opening, with a first recall       {opening:8.3f} s")
    print(f"  of it comparing its files        {compare:8.3f} s   {compare / opening:6.1%}")
    print(f"keeping 1,000 more                 {flush:8.3f} s")
    print(f"  of it noting its files, at most  {compare + note:8.3f} s   {(compare + note) / flush:6.1%}")
    print(f"opening a damaged one              {anew:8.3f} s   {anew / opening:5.1f} x")
    print(f"examining it by another process    {examine:8.3f} s   {examine / anew:5.1f} x making it anew")
    print(f"(filling it at first               {filling:8.3f} s)")


def _opened(place: Path) -> float:
    done = subprocess.run([sys.executable, __file__, "--open", str(place)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def _timed(does: Any) -> float:
    began = time.perf_counter()
    does()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
