"""What does a seal cost? The same recalls and the same run, sealed and not, by turns.

    python benchmarks/seal_cost.py --data conversations.json [--conversations 10] [--steps 300]

The file is the one of `recall_quality.py`. The claims:

- Recall gives the same memories in the same order with the same scores, by words alone and with vectors (searched
  exactly), and takes at most 1.3 × the time.
- A step of a journal takes at most 1.15 × the time, and a journal at most 1.1 × the bytes.
- 2,000 keys are wrapped by another master in less time than 100 of them were made.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from histories import LiveRun, noise, talk
from journal_cost import CONSOLE, Claims
from other_journals import checkpointed_size

from smolagents_memory import EnhancedAgentMemory, KeyManager, Place, Seal, Session
from smolagents_memory.privacy.sealing import PlaceKeys


BOTH = ("plain", "sealed")


def places(folder: Path) -> dict[str, Place]:
    """One of each."""
    seal = Seal(os.urandom(32), keyring=folder / "keys")
    return {"plain": Place(folder / "plain"), "sealed": Place(folder / "sealed", seal=seal)}


def recalls(claims: Claims, folder: Path, conversations: list[dict[str, Any]], *, vector: bool) -> None:
    """Every question of every conversation, asked in both places by turns."""
    times: dict[str, list[float]] = {name: [] for name in BOTH}
    asked = other = 0
    for number, conversation in enumerate(conversations):
        memories = {}
        for name, place in places(folder / str(number)).items():
            memory = memories[name] = EnhancedAgentMemory(
                place, scope={"user": "one"}, vector=vector, own_collection=sys.maxsize, clock=lambda: 1e9
            )
            memory.remember_many(
                {"text": f"[{t['date']}] {t['speaker']}: {t['text']}", "key": t["id"], "source": t["session"]}
                for t in conversation["turns"]
            )
            memory.recall("warm")
        for question in conversation["questions"]:
            found = {}
            for name in BOTH if asked % 2 else BOTH[::-1]:
                start = time.perf_counter()
                hits = memories[name].recall(question["question"], 10)
                times[name].append(time.perf_counter() - start)
                found[name] = [(hit.key, hit.score) for hit in hits]
            asked += 1
            other += found["plain"] != found["sealed"]
        for memory in memories.values():
            memory.close()
    what = "words and vectors" if vector else "words alone"
    middle, mean = ratio(times, statistics.median), ratio(times, statistics.fmean)
    CONSOLE.print(
        f"{asked:,} recalls by {what}: {1e3 * statistics.median(times['plain']):.2f} ms plain, "
        f"{1e3 * statistics.median(times['sealed']):.2f} ms sealed; on average {mean:.2f} ×"
    )
    claims.check(f"recalls by {what} that give another answer under a seal", other, 0, "of them")
    claims.check(f"a recall by {what} under a seal", middle, 1.3)


def journals(claims: Claims, folder: Path, steps: int) -> None:
    """The same steps into both places by turns."""
    for text in (talk, noise):
        runs = {}
        for name, place in places(folder / text.__name__).items():
            live = LiveRun(text=text)
            runs[name] = (live, Session("run", place).attach(live.agent), [])
            live.begin()
        for number in range(steps):
            for name in BOTH if number % 2 else BOTH[::-1]:
                live, _, spent = runs[name]
                step = live.next_step(fresh=True)
                start = time.perf_counter()
                live.take(step)
                spent.append(time.perf_counter() - start)
        sizes = {}
        for name, (_, session, _) in runs.items():
            session.detach()
            sizes[name] = checkpointed_size(session.database.path)
        times = {name: spent[steps // 6 :] for name, (_, _, spent) in runs.items()}
        claims.check(f"a step under a seal ({text.__name__})", ratio(times, statistics.median), 1.15)
        claims.check(f"its bytes ({text.__name__})", sizes["sealed"] / sizes["plain"], 1.1)


def rotation(claims: Claims, folder: Path) -> None:
    """Another master for 2,000 keys."""
    place = places(folder)["sealed"]
    manager = KeyManager(place)
    Session("one", place).attach(LiveRun().agent).detach()
    with manager.database.reading() as connection:
        keys: PlaceKeys = manager._sealed(connection)
    start = time.perf_counter()
    for number in range(2_000):
        keys.new(f"scope {number}")
        if number == 99:
            made = time.perf_counter() - start
    start = time.perf_counter()
    done = manager.rotate(Seal(os.urandom(32), keyring=folder / "keys"))
    spent = time.perf_counter() - start
    CONSOLE.print(f"{done:,} entries of the keyring wrapped anew in {spent:.2f} s")
    claims.check("wrapping 2,000 keys anew to making 100", spent / made, 1.0)


def ratio(times: dict[str, list[float]], of: Any) -> float:
    """Sealed to plain."""
    return float(of(times["sealed"]) / of(times["plain"]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--conversations", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    claims = Claims()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rotation(claims, folder / "rotation")
        journals(claims, folder, options.steps)
        if options.data is not None:
            conversations = json.loads(options.data.read_text())[: options.conversations]
            for vector in (False, True):
                recalls(claims, folder / f"recalls-{vector}", conversations, vector=vector)
    sys.exit(claims.failed > 0)


if __name__ == "__main__":
    main()
