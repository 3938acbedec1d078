"""What recall costs beside its raw parts, at 1,000, 10,000 and 100,000 memories.

    python benchmarks/recall_cost.py [--sizes 1000 10000 100000] [--scopes 2000]

For each size, in one run on one machine: embedding the query, a raw Chroma query, a raw FTS5 query with the same
words, and `recall(k=10)`; writing against embedding plus raw Chroma; opening against opening Chroma; a scope of two
thirds and one of a hundred; many scopes. Vectors are synthetic beyond `--embedded` texts (embedding 100,000 texts
takes minutes and is the same for both sides), but every query is embedded for real.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import chromadb
import numpy
from chromadb.config import Settings

from smolagents_memory import EnhancedAgentMemory, MiniLMEmbedder
from smolagents_memory.search.words import query_words
from smolagents_memory.testing.filling import varied_memories


class Quick:
    """The real embedder for queries; for the mass of texts, a cheap vector near one of some real ones."""

    name = MiniLMEmbedder.name
    dimensions = 384

    def __init__(self, real: MiniLMEmbedder, texts: Sequence[str]) -> None:
        self.real = real
        self.bases = real.embed_documents(texts)
        self.random = numpy.random.default_rng(1)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """Noise round real vectors."""
        chosen = self.bases[self.random.integers(0, len(self.bases), len(texts))]
        rows = chosen + self.random.normal(0, 0.02, chosen.shape)
        return (rows / numpy.linalg.norm(rows, axis=1, keepdims=True)).astype(numpy.float32)

    def embed_query(self, text: str) -> Any:
        """The real vector."""
        return self.real.embed_query(text)

    def split(self, text: str) -> list[str]:
        """One part: what is measured here is the store."""
        return [text]


def p50(work: Callable[[str], object], queries: Sequence[str]) -> float:
    """The median time in ms, after a round to warm up."""
    for query in queries:
        work(query)
    times = []
    for query in queries:
        start = time.perf_counter()
        work(query)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def raw_chroma(folder: Path) -> Any:
    """A plain collection."""
    client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
    return client.get_or_create_collection("raw", embedding_function=None, configuration={"hnsw": {"space": "cosine"}})


def raw_fts(texts: Sequence[str]) -> sqlite3.Connection:
    """A plain FTS5 table."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE VIRTUAL TABLE raw USING fts5(t, tokenize='porter unicode61')")
    base.executemany("INSERT INTO raw(t) VALUES (?)", [(text,) for text in texts])
    base.execute("INSERT INTO raw(raw) VALUES ('optimize')")
    return base


def measure(size: int, real: MiniLMEmbedder, folder: Path) -> None:
    """One size."""
    items = list(varied_memories(size))
    texts = [item["text"] for item in items]
    quick = Quick(real, texts[:300])
    queries = _queries(items)
    vectors = quick.embed_documents(texts)
    collection = raw_chroma(folder / "raw")

    def fill_raw() -> None:
        for start in range(0, size, 1000):
            ids = [str(n) for n in range(start, min(size, start + 1000))]
            collection.upsert(ids=ids, embeddings=vectors[start : start + 1000])

    raw_seconds, _ = timed(fill_raw)
    memory = EnhancedAgentMemory(folder / "memory", embedder=quick)
    own_seconds, _ = timed(lambda: memory.remember_many(items, show_progress=False))
    per_text = timed(lambda: real.embed_documents(texts[:200]))[0] / 200
    base = raw_fts(texts)

    def fts(query: str) -> Any:
        any_word = " OR ".join(f'"{word}"' for words in query_words(query) for word in words.split())
        return base.execute("SELECT rowid FROM raw WHERE raw MATCH ? ORDER BY rank LIMIT 10", (any_word,)).fetchall()

    asked = {query: real.embed_query(query) for query in queries}
    parts = {
        "embedding the query": p50(real.embed_query, queries),
        "raw Chroma, top 10": p50(
            lambda query: collection.query(query_embeddings=[asked[query]], n_results=10, include=["distances"]),
            queries,
        ),
        "raw FTS5, top 10": p50(fts, queries),
    }
    whole = p50(lambda query: _forgetful(memory).recall(query, 10), queries)
    allowed = 1.25 * sum(parts.values()) + 3
    print(f"\n{size:,} memories")
    for name, value in parts.items():
        print(f"  {name:28} {value:8.2f} ms")
    print(
        f"  {'recall(k=10)':28} {whole:8.2f} ms   allowed {allowed:.2f}   {'ok' if whole <= allowed else 'TOO SLOW'}"
    )
    cached = p50(lambda query: memory.recall(query, 10), queries)
    print(f"  {'the same, query known':28} {cached:8.2f} ms")
    embedding = per_text * size
    ratio = (embedding + raw_seconds) / (embedding + own_seconds)
    print(
        f"  remember_many {own_seconds:.1f} s, raw Chroma {raw_seconds:.1f} s, embedding all {embedding:.0f} s: "
        f"{ratio:.2f} of the raw rate {'ok' if ratio >= 0.8 else 'TOO SLOW'}"
    )
    _opening(memory, quick, folder, queries)


def _forgetful(memory: EnhancedAgentMemory) -> EnhancedAgentMemory:
    """The memory, with no query's vector remembered: each is embedded anew."""
    memory.long_term.keeper.vault.vectors._queries.clear()  # type: ignore[attr-defined]
    return memory


def _queries(items: list[dict[str, Any]]) -> list[str]:
    chosen = random.Random(3)
    texts = (chosen.choice(items)["text"].split() for _ in range(60))
    return ["What is known of " + " ".join(words[:12][-8:]) + "?" for words in texts]


def _opening(memory: EnhancedAgentMemory, quick: Quick, folder: Path, queries: Sequence[str]) -> None:
    vault = memory.long_term.keeper.vault  # type: ignore[attr-defined]
    memory.close()
    vault.close()
    del memory, vault
    code = (
        "import sys, time\n"
        "sys.path.insert(0, {here!r})\n"
        "import chromadb, numpy\n"
        "from chromadb.config import Settings\n"
        "import smolagents_memory.memory.enhanced\n"
        "from smolagents_memory import EnhancedAgentMemory, MiniLMEmbedder\n"
        "real = MiniLMEmbedder(); asked = real.embed_query({query!r})\n"
        "t = time.perf_counter()\n"
        "c = chromadb.PersistentClient({raw!r}, settings=Settings(anonymized_telemetry=False))\n"
        "c.get_collection('raw', embedding_function=None).query(query_embeddings=[asked], n_results=10)\n"
        "raw = time.perf_counter() - t; t = time.perf_counter()\n"
        "m = EnhancedAgentMemory({own!r}, embedder=real); m.recall({query!r}, 10)\n"
        "own = time.perf_counter() - t\n"
        "print(f'  open and first query: {{own:.2f}} s, raw Chroma {{raw:.2f}} s '\n"
        '      f\'({{"ok" if own <= raw + 1 else "TOO SLOW"}})\', m.stats().index)\n'
    )
    import subprocess
    import sys

    here = str(Path(__file__).resolve().parent.parent)
    source = code.format(here=here, query=queries[0], raw=str(folder / "raw"), own=str(folder / "memory"))
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    print(done.stdout.rstrip() or done.stderr)


def scopes(size: int, real: MiniLMEmbedder, folder: Path, many: int) -> None:
    """A scope of two thirds, one of a hundred, and many small ones."""
    items = list(varied_memories(size))
    quick = Quick(real, [item["text"] for item in items[:300]])
    queries = _queries(items)
    most = EnhancedAgentMemory(folder / "scoped", embedder=quick, scope={"user": "most"})
    rest = EnhancedAgentMemory(folder / "scoped", embedder=quick)
    few = EnhancedAgentMemory(folder / "scoped", embedder=quick, scope={"user": "few"})
    most.remember_many(items[: 2 * size // 3], show_progress=False)
    rest.remember_many(items[2 * size // 3 :], show_progress=False)
    few.remember_many(items[:100], show_progress=False)
    print(f"\nscopes among {size:,} memories (query known, so that embedding it does not hide the difference)")
    for name, memory in (("two thirds of all", most), ("the rest, default scope", rest), ("a hundred", few)):
        print(f"  {name:28} {p50(lambda query, memory=memory: memory.recall(query, 10), queries):8.2f} ms")
    EnhancedAgentMemory(folder / "scoped", embedder=quick)
    one, _ = timed(lambda: EnhancedAgentMemory(folder / "scoped", embedder=quick, scope={"n": -1}))
    seconds, _ = timed(
        lambda: [EnhancedAgentMemory(folder / "scoped", embedder=quick, scope={"n": n}) for n in range(many)]
    )
    print(f"  opening {many} scopes {seconds:.2f} s, one {one:.3f} s {'ok' if seconds <= one + 1 else 'TOO SLOW'}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--scopes", type=int, default=2_000)
    options = parser.parse_args()
    real = MiniLMEmbedder()
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            measure(size, real, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        scopes(max(options.sizes), real, Path(folder), options.scopes)


if __name__ == "__main__":
    main()
