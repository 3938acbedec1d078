"""How good recall is on conversations with questions whose evidence is known, next to BM25 alone and vectors alone.

    python benchmarks/recall_quality.py locomo.json realtalk-part.json beam-part.json --known known-items.json

Each file: `[{"id", "turns": [{"id", "session", "date", "speaker", "text"}], "questions": [{"question", "category",
"evidence": [turn id]}]}]`. Each turn is one memory (its text after date and speaker), each session one source. The
figures are the share of a question's evidence among the first k, averaged over questions; no language model is used.
Questions of another conversation are foreign: nothing should be brought unasked for them. `--known` names quotations
that must bring their own turn back: `[{"conversation", "turn", "words": [from, to], "query"}]`.

It ends with 1 where a figure is below what was reached when the weights were chosen (`REACHED`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean as mean
from typing import Any

from smolagents_memory import EnhancedAgentMemory, InMemoryStore
from smolagents_memory.memory.learning import RELEVANT
from smolagents_memory.search.embedding import Vectors, default_embedder


Ranking = Callable[[str, int], list[str]]
ROWS = ("BM25 alone", "vectors alone", "recall, vectors off", "recall")
REACHED = {  # R@10 of recall and of recall by words alone, by the name of the file
    "locomo": (0.80, 0.75),
    "realtalk-part": (0.61, 0.58),
    "beam-part": (0.62, 0.53),
}
KNOWN = (0.95, 0.87, 0.82)  # quotations of short, middling and long texts that bring their own turn back
UPDATES = ("knowledge_update", "contradiction_resolution")
GATES = (0.5, 0.6, 0.7, 0.8)
CURRENT = 0.8  # questions of these kinds for which the newest evidence comes before the oldest


def rankings(turns: list[dict[str, Any]]) -> tuple[dict[str, Ranking], EnhancedAgentMemory]:
    """The four ways to rank one conversation's turns, and the memory that holds them."""
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

    ways: dict[str, Ranking] = {
        "BM25 alone": lambda query, k: [hit.key for hit in words.search(query, k)],
        "vectors alone": by_vectors,
        "recall, vectors off": lambda query, k: [hit.key for hit in lexical.recall(query, k)],
        "recall": lambda query, k: [hit.key for hit in whole.recall(query, k)],
    }
    return ways, whole


def figures(found: list[str], evidence: set[str]) -> tuple[float, float, float, float]:
    """R@5, R@10, R@20 and the reciprocal rank of the first."""
    shares = [len(evidence & set(found[:k])) / len(evidence) for k in (5, 10, 20)]
    first = next((1 / place for place, key in enumerate(found, 1) if key in evidence), 0.0)
    return shares[0], shares[1], shares[2], first


Ways = dict[str, Ranking]


class Study:
    """What was measured on one file."""

    def __init__(self, path: Path, known: list[dict[str, Any]], leave_out: str) -> None:
        self.name = path.stem
        self.conversations = json.loads(path.read_text())
        self.found: dict[str, list[tuple[float, ...]]] = {row: [] for row in ROWS}
        self.known: dict[tuple[int, ...], list[bool]] = {}
        self.kept: dict[float, list[float]] = {gate: [] for gate in GATES}  # of the evidence, among five
        self.foreign: dict[float, list[bool]] = {gate: [] for gate in GATES}  # questions for which something came
        self.current: list[bool] = []
        memories = []
        for conversation in self.conversations:
            ways, memory = rankings(conversation["turns"])
            asked = [each for each in conversation["questions"] if str(each["category"]) != leave_out]
            self._ask(ways, [each for each in asked if each["evidence"]], conversation["turns"])
            for each in known:
                if each["conversation"] == conversation["id"]:
                    self.known.setdefault(tuple(each["words"]), []).append(
                        each["turn"] in ways["recall"](each["query"], 10)
                    )
            memories.append((memory, [each for each in asked if each["evidence"]]))
        self._be_silent(memories)

    def _ask(self, ways: Ways, asked: list[dict[str, Any]], turns: list[dict[str, Any]]) -> None:
        place = {turn["id"]: number for number, turn in enumerate(turns)}
        for question in asked:
            evidence = set(question["evidence"])
            for row in ROWS:
                self.found[row].append(figures(ways[row](question["question"], 20), evidence))
            if question["category"] in UPDATES and len(evidence) > 1:
                ranked = ways["recall"](question["question"], 10)
                oldest, newest = min(evidence, key=place.__getitem__), max(evidence, key=place.__getitem__)
                before = ranked[: ranked.index(oldest)] if oldest in ranked else ranked
                self.current.append(newest in before)

    def _be_silent(self, memories: list[tuple[EnhancedAgentMemory, list[dict[str, Any]]]]) -> None:
        for number, (memory, asked) in enumerate(memories):
            for question in asked:
                hits, evidence = memory.recall(question["question"], 5), set(question["evidence"])
                best = max((hit.relevance for hit in hits), default=0.0)
                share = len(evidence & {hit.key for hit in hits if hit.relevance >= RELEVANT}) / len(evidence)
                for gate in GATES:
                    self.kept[gate].append(share if best >= gate else 0.0)
            for question in memories[(number + 1) % len(memories)][1] if len(memories) > 1 else ():
                best = max((hit.relevance for hit in memory.recall(question["question"], 5)), default=0.0)
                for gate in GATES:
                    self.foreign[gate].append(best >= gate)

    def told(self) -> list[str]:
        """Print what was measured; the figures that are too low."""
        low = []
        print(f"\n{self.name}: {len(self.found['recall'])} questions")
        print("| | R@5 | R@10 | R@20 | MRR |\n|---|---|---|---|---|")
        for row in ROWS:
            means = [mean(column) for column in zip(*self.found[row], strict=True)]
            print(f"| {row} | " + " | ".join(f"{each:.3f}" for each in means) + " |")
            least = dict(zip(("recall", "recall, vectors off"), REACHED.get(self.name, (0.0, 0.0)), strict=True))
            if means[1] < least.get(row, 0.0):
                low.append(f"{self.name}, {row}: R@10 {means[1]:.3f}, not {least[row]}")
        print("what is brought unasked, by the relevance that the best must reach (others 0.3):")
        for gate in GATES:
            foreign = f"{mean(self.foreign[gate]):.2f}" if self.foreign[gate] else "none asked"
            print(
                f"  {gate:.1f}: {mean(self.kept[gate]):.2f} of the evidence among five; foreign questions: {foreign}"
            )
        for (words, held), least_held in zip(sorted(self.known.items()), KNOWN, strict=False):
            print(f"quotations of texts of {words[0]} to {words[1]} words that bring it back: {mean(held):.3f}")
            low += [f"quotations of {words}: {mean(held):.3f}, not {least_held}"] if mean(held) < least_held else []
        if self.current:
            print(f"newest before oldest evidence where something changed: {mean(self.current):.2f}")
            low += [f"newest first: {mean(self.current):.2f}, not {CURRENT}"] if mean(self.current) < CURRENT else []
        return low


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--known", type=Path, help="quotations that must bring their own turn back")
    parser.add_argument("--no-category", default="5", help="a category of questions to leave out")
    options = parser.parse_args()
    start = time.perf_counter()
    known = json.loads(options.known.read_text()) if options.known else []
    low = [each for path in options.data for each in Study(path, known, options.no_category).told()]
    print(f"\n{time.perf_counter() - start:.0f} s in all", *low, sep="\n")
    sys.exit(bool(low))


if __name__ == "__main__":
    main()
