"""Does the default embedder embed as fast as its model runs? Ours and onnxruntime alone, on the same texts by turns.

    python benchmarks/embedding_speed.py [--rounds 3] [--seconds 4]

What is called onnxruntime's own: the same texts, tokenised beforehand, sorted by length, as arrays that are made
already, in batches of the size that turns out best, `session.run` and nothing else, on as many threads. Ours is all of
it: texts split into parts, tokenised, batched, run, pooled and made safe. The texts are made up, the same every time.
With `--cpu` the time of the processor is compared, for a machine on which others work.

The claim: for chat turns, mixed and long texts, at least 0.9 of onnxruntime's own throughput.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy
from journal_cost import CONSOLE, Claims

from smolagents_memory import MiniLMEmbedder
from smolagents_memory.search.cores import usable_cores
from smolagents_memory.search.embedding import Vectors
from smolagents_memory.search.minilm import VOCABULARY


KINDS = {"chat turns of 10 to 40 words": (10, 40), "mixed, of 5 to 200": (5, 200), "parts of 254 tokens": (254, 254)}
BUDGETS = (1, 256, 512, 1024, 2048, 4096)  # tokens in a batch

Batch = dict[str, Any]


def texts(count: int, least: int, most: int, seed: int = 5) -> list[str]:
    """Texts of words that are one token each."""
    chance = random.Random(seed)
    words = [word for word in VOCABULARY.read_text().split() if word.isascii() and word.isalpha() and len(word) > 2]
    return [" ".join(chance.choices(words, k=chance.randint(least, most))) for _ in range(count)]


def batches(encoded: list[list[int]], budget: int) -> list[Batch]:
    """Arrays as the model takes them: texts of one length together."""
    made: list[Batch] = []
    waiting: list[list[int]] = []
    for tokens in [*sorted(encoded, key=len), None]:
        if waiting and (tokens is None or (len(waiting) + 1) * len(tokens) > budget):
            ids = numpy.zeros((len(waiting), len(waiting[-1])), dtype=numpy.int64)
            for row, each in enumerate(waiting):
                ids[row, : len(each)] = each
            made.append({"input_ids": ids, "attention_mask": (ids > 0).astype(numpy.int64), "token_type_ids": ids * 0})
            waiting = []
        waiting += [tokens] if tokens is not None else []
    return made


def spent(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds."""
    begun = clock()
    work()
    return clock() - begun


def compare(claims: Claims, kind: str, rounds: int, seconds: float, clock: Any) -> None:
    """One kind of text, ours and theirs by turns; the rounds' medians."""
    embedder = MiniLMEmbedder()
    vectors = Vectors(embedder)
    session, tokenizer = embedder._load()
    few = texts(8, *KINDS[kind])
    embedder.embed_documents(few)
    count = max(16, int(seconds * len(few) / spent(lambda: embedder.embed_documents(few))))
    given = texts(count, *KINDS[kind])
    encoded = [tokenizer.encode(text).ids for text in given]
    theirs = {budget: batches(encoded, budget) for budget in BUDGETS}
    ways: dict[Any, Callable[[], Any]] = {"ours": lambda: vectors.of_documents(given)}
    ways |= {b: lambda b=b: [session.run(None, batch) for batch in theirs[b]] for b in BUDGETS}
    times: dict[Any, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in sorted(ways, key=str, reverse=bool(number % 2)):
            times[way].append(spent(ways[way], clock))
    best = min(BUDGETS, key=lambda budget: statistics.median(times[budget]))
    ours, own = statistics.median(times["ours"]), statistics.median(times[best])
    CONSOLE.print(
        f"{kind}: {count / ours:,.1f} texts/s; onnxruntime's own {count / own:,.1f}, in batches of {best} tokens; "
        f"ratio {own / ours:.2f}; others {[round(own / statistics.median(times[each]), 2) for each in BUDGETS]}"
    )
    claims.check(f"time to embed {kind}, to onnxruntime's own", ours / own, 1 / 0.9)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="that one round of one way takes, about")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    claims = Claims()
    CONSOLE.print(f"{usable_cores()} cores")
    for kind in KINDS:
        compare(claims, kind, options.rounds, options.seconds, clock)
    sys.exit(claims.failed > 0)


if __name__ == "__main__":
    main()
