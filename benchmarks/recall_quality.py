"""How good recall is on conversations with questions whose evidence is known, next to BM25 alone and vectors alone.

    python benchmarks/recall_quality.py --data conversations.json [--tune 3] [--no-category 5]

The file: `[{"id", "turns": [{"id", "session", "date", "speaker", "text"}], "questions": [{"question", "category",
"evidence": [turn id]}]}]`. Each turn is one memory (its text after date and speaker), each session one source. The
figures are the share of a question's evidence among the first k, averaged over questions; no language model is used.
The first `--tune` conversations are those the weights were chosen on; the others are reported apart.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smolagents_memory import EnhancedAgentMemory, InMemoryStore
from smolagents_memory.search.embedding import Vectors, default_embedder


Ranking = Callable[[str, int], list[str]]
ROWS = ("BM25 alone", "vectors alone", "recall, vectors off", "recall")


def rankings(turns: list[dict[str, Any]]) -> dict[str, Ranking]:
    """The four ways to rank one conversation's turns."""
    texts = {turn["id"]: f"[{turn['date']}] {turn['speaker']}: {turn['text']}" for turn in turns}
    items = [{"text": texts[turn["id"]], "key": turn["id"], "source": turn["session"]} for turn in turns]
    words = InMemoryStore()
    words.add_many(texts.items())
    embedder = default_embedder()
    assert embedder is not None, "pip install 'smolagents-memory[offline]'"
    vectors = Vectors(embedder)
    ids, matrix = list(texts), None
    whole, lexical = EnhancedAgentMemory(), EnhancedAgentMemory(vector=False)
    whole.remember_many(items)
    lexical.remember_many(items)

    def by_vectors(query: str, k: int) -> list[str]:
        nonlocal matrix
        if matrix is None:
            matrix = [rows[0] for rows in vectors.of_documents(list(texts.values()))]
        asked = vectors.of_query(query)[1][-1]
        return [ids[n] for n in sorted(range(len(ids)), key=lambda n: -float(matrix[n] @ asked))[:k]]

    return {
        "BM25 alone": lambda query, k: [hit.key for hit in words.search(query, k)],
        "vectors alone": by_vectors,
        "recall, vectors off": lambda query, k: [hit.key for hit in lexical.recall(query, k)],
        "recall": lambda query, k: [hit.key for hit in whole.recall(query, k)],
    }


def figures(found: list[str], evidence: set[str]) -> tuple[float, float, float, float]:
    """R@5, R@10, R@20 and the reciprocal rank of the first."""
    shares = [len(evidence & set(found[:k])) / len(evidence) for k in (5, 10, 20)]
    first = next((1 / place for place, key in enumerate(found, 1) if key in evidence), 0.0)
    return shares[0], shares[1], shares[2], first


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tune", type=int, default=3, help="how many of the first conversations were tuned on")
    parser.add_argument("--no-category", default="5", help="a category of questions to leave out")
    options = parser.parse_args()
    results: dict[str, list[tuple[int, tuple[float, ...]]]] = {row: [] for row in ROWS}
    start = time.perf_counter()
    for number, conversation in enumerate(json.loads(options.data.read_text())):
        ways = rankings(conversation["turns"])
        for question in conversation["questions"]:
            evidence = set(question["evidence"])
            if evidence and str(question["category"]) != options.no_category:
                for row in ROWS:
                    results[row].append((number, figures(ways[row](question["question"], 20), evidence)))
    for title, wanted in (
        ("all", lambda n: True),
        (f"the {options.tune} tuned on", lambda n: n < options.tune),
        ("the others", lambda n: n >= options.tune),
    ):
        count = sum(wanted(n) for n, _ in results["recall"])
        print(f"\n{title}: {count} questions\n| | R@5 | R@10 | R@20 | MRR |\n|---|---|---|---|---|")
        for row in ROWS:
            chosen = [figure for n, figure in results[row] if wanted(n)]
            means = [sum(column) / len(chosen) for column in zip(*chosen, strict=True)] if chosen else [0.0] * 4
            print(f"| {row} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
