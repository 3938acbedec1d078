"""What recall costs at a million memories, in any process, and how much of what is near it finds.

    python benchmarks/recall_at_a_million.py [--memories 1000000] [--folder DIR]

Texts are of made-up words, as often as words are (Zipf); vectors are synthetic too, in clusters, for to embed so many
takes hours. All are written by `remember_many`, as anybody does. Then processes of their own open the place: with no
file of the index beside it, with one, and while another process has Chroma's folder. Each tells how long opening and
the first recall took, recalls for queries of words of middle rank, its RAM above that of the imports, and which share
of the forty nearest vectors it finds (the last one). A folder that is there already is measured as it is.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy


sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

PIECE = 150_000  # memories in one call: too many for Chroma, which takes its time to write
VOCABULARY = 50_000
CLUSTERS = 2_000
DIMENSIONS = 384
QUERIES = 100
_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]


def word(rank: int) -> str:
    """The word that is the so many most frequent one."""
    spelled = ""
    rank += len(_SYLLABLES)
    while rank:
        rank, syllable = divmod(rank, len(_SYLLABLES))
        spelled += _SYLLABLES[syllable]
    return spelled + "x"  # which no stem is cut from


class Clustered:
    """Vectors in clusters, each cluster with directions of its own; a query lies where a text could."""

    name = "clustered, synthetic"
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        random_ = numpy.random.default_rng(1)
        self.centres = random_.normal(0, 1, (CLUSTERS, DIMENSIONS)).astype(numpy.float32)
        self.centres /= numpy.linalg.norm(self.centres, axis=1, keepdims=True)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """The same for the same list of texts."""
        clusters = [zlib.crc32(text.encode()) % CLUSTERS for text in texts]
        random_ = numpy.random.default_rng(zlib.crc32(texts[0].encode()))
        noise = random_.standard_normal((len(texts), DIMENSIONS), dtype=numpy.float32) * (1.0 / DIMENSIONS**0.5)
        rows = self.centres[clusters] + noise
        return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)

    def embed_query(self, text: str) -> Any:
        """Likewise."""
        return self.embed_documents([text])[0]

    def split(self, text: str) -> list[str]:
        """One part."""
        return [text]


def texts(count: int) -> Iterator[str]:
    """So many texts of eight to twenty words."""
    random_ = numpy.random.default_rng(2)
    shares = 1.0 / numpy.arange(10, VOCABULARY + 10)
    shares /= shares.sum()
    words = [word(rank) for rank in range(VOCABULARY)]
    for start in range(0, count, 10_000):
        some = min(10_000, count - start)
        lengths = random_.integers(8, 21, some)
        drawn = iter(random_.choice(VOCABULARY, lengths.sum(), p=shares).tolist())
        for length in lengths:
            yield " ".join(words[next(drawn)] for _ in range(length))


def queries() -> list[str]:
    """Four words of middle rank each."""
    chosen = random.Random(3)
    return [" ".join(word(chosen.randrange(1_000, 5_000)) for _ in range(4)) for _ in range(QUERIES)]


def fill(folder: Path, count: int) -> None:
    """Write so many memories."""
    from smolagents_memory import EnhancedAgentMemory

    begun, every = time.perf_counter(), texts(count)
    with EnhancedAgentMemory(folder, embedder=Clustered()) as memory:
        for start in range(0, count, PIECE):
            some = min(PIECE, count - start)
            memory.remember_many(
                ({"text": next(every), "key": f"m{start + n}"} for n in range(some)), show_progress=False
            )
            print(f"\r  {start + some:,} written, {time.perf_counter() - begun:.0f} s", end="", file=sys.stderr)
        print(file=sys.stderr)
        writing = time.perf_counter() - begun
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{count:,} memories: written in {writing:.0f} s, {size / 1e9:.2f} GB on disk", flush=True)


def ram() -> float:
    """Of this process, in MB."""
    import psutil

    return float(psutil.Process().memory_info().rss / 1e6)


def measure(folder: Path) -> dict[str, Any]:
    """What a process of its own sees."""
    import chromadb  # noqa: F401 — what every process of the package imports sooner or later

    from smolagents_memory import EnhancedAgentMemory
    from smolagents_memory.search.full_text import SqliteText
    from smolagents_memory.search.indexes import Indexes

    asked, embedder = queries(), Clustered()
    imported = ram()
    spent = {"vectors": watched(Indexes, "nearest"), "words": watched(SqliteText, "candidates")}
    begun = time.perf_counter()
    memory = EnhancedAgentMemory(folder, embedder=embedder)
    opened = time.perf_counter()
    memory.recall(asked[0], 10)
    first = time.perf_counter()
    waited = whole(memory)
    for times in spent.values():
        times.clear()
    taken = []
    for query in asked[1:]:
        start = time.perf_counter()
        memory.recall(query, 10)
        taken.append(1000 * (time.perf_counter() - start))
    told = {
        "opening s": opened - begun,
        "first recall s": first - opened,
        "whole after s": waited,
        "p50 ms": statistics.median(taken),
        "p95 ms": statistics.quantiles(taken, n=20)[-1],
        **{f"p50 of {name} ms": 1000 * statistics.median(times) for name, times in spent.items()},
        "RAM above imports MB": ram() - imported,
        "index": memory.stats().index,
        "leads": memory.stats().leads,
    }
    if not told["leads"]:  # it takes a minute, and an index finds the same everywhere
        told["share of the nearest 40"] = share(memory, embedder, asked)
    memory.close()
    return told


def watched(kind: Any, name: str) -> list[float]:
    """How long each call of a method takes from now on."""
    times: list[float] = []
    method = getattr(kind, name)

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return method(*arguments)
        finally:
            times.append(time.perf_counter() - start)

    setattr(kind, name, timed)
    return times


def whole(memory: Any) -> float:
    """Seconds until all vectors are in the index."""
    begun, index = time.perf_counter(), memory.long_term.keeper.vault.indexes.of_name("")
    while getattr(index, "_behind", None) is not None and index._behind.is_alive():
        time.sleep(0.05)
    return time.perf_counter() - begun


def share(memory: Any, embedder: Clustered, asked: Sequence[str]) -> float:
    """Of the forty vectors nearest to a query, which share its index finds."""
    from sqlalchemy import text

    indexes = memory.long_term.keeper.vault.indexes
    matrix = numpy.stack([embedder.embed_query(query) for query in asked]).astype(numpy.float32)
    with memory.long_term.keeper.vault.database.reading() as connection:
        best: list[list[tuple[float, int]]] = [[] for _ in asked]
        rows = connection.execute(text("SELECT id, vector FROM memory_vectors").execution_options(stream_results=True))
        for some in rows.partitions(20_000):
            ids = [row.id for row in some]
            cosines = numpy.frombuffer(b"".join(row.vector for row in some), "f4").reshape(len(some), -1) @ matrix.T
            for each, column in zip(best, cosines.T, strict=True):
                top = numpy.argpartition(-column, 39)[:40] if len(column) > 40 else range(len(column))
                each[:] = sorted([*each, *((float(column[n]), ids[n]) for n in top)], reverse=True)[:40]
        scope, live, last = connection.execute(
            text("SELECT id, live, (SELECT last FROM memory_changes) FROM memory_scopes WHERE name = ''")
        ).one()
        found = [indexes.nearest(connection, scope, live, last, row[None, :], 40)[0] for row in matrix]
    return statistics.fmean(
        len(got.keys() & {number for _, number in each}) / len(each) for got, each in zip(found, best, strict=True)
    )


def in_a_process(folder: Path) -> None:
    """Measure in a process of its own, and print."""
    done = subprocess.run([sys.executable, __file__, "--measure", str(folder)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    for name, value in json.loads(done.stdout.splitlines()[-1]).items():
        print(f"  {name:26} {value:10.3f}" if isinstance(value, float) else f"  {name:26} {value!s:>10}", flush=True)


def compare(folder: Path) -> None:
    """Processes in the three situations."""
    from smolagents_memory import EnhancedAgentMemory

    for path in folder.glob("*.bits"):
        path.unlink()
    print("\na process that leads Chroma's folder, no file of the index")
    in_a_process(folder)
    print("\nthe same, with the file" if any(folder.glob("*.bits")) else "\nthe same, again")
    in_a_process(folder)
    with EnhancedAgentMemory(folder, embedder=Clustered()):
        print("\na second process")
        in_a_process(folder)


def main() -> None:
    """Fill, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where they are kept; else in one that is deleted afterwards")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "memory.db").exists():
            fill(folder, options.memories)
        compare(folder)


if __name__ == "__main__":
    main()
