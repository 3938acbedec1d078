"""Eight threads recall and remember on 10,000 memories for a minute: errors, rates, p50 and p99.

python benchmarks/recall_threads.py [--seconds 60] [--memories 10000] [--threads 8]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time

from smolagents_memory import EnhancedAgentMemory
from smolagents_memory.testing.filling import varied_memories


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EnhancedAgentMemory(folder) as memory:
        memory.remember_many(varied_memories(options.memories))
        times: dict[str, list[float]] = {"recall": [], "remember": []}
        errors: list[BaseException] = []
        until = time.monotonic() + options.seconds

        def work(number: int) -> None:
            chosen = random.Random(number)
            while time.monotonic() < until:
                what = "remember" if chosen.random() < 0.2 else "recall"
                start = time.perf_counter()
                try:
                    if what == "remember":
                        memory.remember(f"thread {number} saw the pump at {chosen.random():.6f}")
                    else:
                        memory.recall(f"Why does ticket {chosen.randrange(10_000)} say the backup fails?", 5)
                except Exception as error:  # noqa: BLE001 — counted, and shown at the end
                    errors.append(error)
                times[what].append(time.perf_counter() - start)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(options.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for what, taken in times.items():
            taken.sort()
            p50, p99 = taken[len(taken) // 2] * 1000, taken[int(len(taken) * 0.99)] * 1000
            print(f"{what:9} {len(taken):6}   p50 {p50:7.1f} ms   p99 {p99:7.1f} ms")
        print(f"errors    {len(errors):6}   {errors[:1]}")


if __name__ == "__main__":
    main()
