"""What does importing the package cost? Next to `import smolagents`, in fresh processes, alternating.

    python benchmarks/import_cost.py [rounds]

The claim: at most 1.1 × `import smolagents`, for the package and for its most used names.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


STATEMENTS = {
    "import smolagents": "import smolagents",
    "import smolagents_memory": "import smolagents_memory",
    "… and save, load, observe": "import smolagents; from smolagents_memory import ObservedMemory, load_memory",
}


def seconds(statement: str) -> float:
    """The time of a fresh process that runs a statement."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main(rounds: int) -> bool:
    """Print the ratios; whether the claim holds."""
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(rounds):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    empty = statistics.median(seconds("pass") for _ in range(rounds))
    base = statistics.median(times["import smolagents"]) - empty
    ratios = {name: (statistics.median(each) - empty) / base for name, each in times.items()}
    for name, ratio in ratios.items():
        print(f"{name:28} {ratio:5.2f} × import smolagents")
    return all(ratio <= 1.1 for ratio in ratios.values())


if __name__ == "__main__":
    sys.exit(not main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
