"""What all ready-made callbacks cost in a run of 1,000 steps, and what DropInputMessages saves in RAM.

    python benchmarks/callback_overhead.py [steps]

Exits with 1 where a limit is passed: a step's callbacks may cost at most twice at the end what they cost at step 10,
all callbacks together at most 10 % of the time that the same run takes by itself, and with DropInputMessages memory
must grow in proportion to the steps.
"""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from PIL import Image
from rich.console import Console
from smolagents import CodeAgent
from smolagents.memory import MemoryStep
from smolagents.monitoring import AgentLogger, LogLevel

from smolagents_memory import (
    AddContext,
    AlertOnFailures,
    AlertOnLoops,
    CaptureScreenshot,
    DropInputMessages,
    FitTokenBudget,
    KeepRecentSteps,
    PruneImages,
    SummarizeOldSteps,
    TimestampObservations,
    TruncateObservations,
)
from smolagents_memory.testing import ScriptedModel, code


OBSERVATION = 1000  # characters
SCREEN = Image.new("RGB", (320, 200))


def all_of_them() -> list[Any]:
    """Every callback, in the order the guide recommends."""
    summaries = ScriptedModel(itertools.repeat("what happened, in short"), record="none")
    return [
        AlertOnFailures(),
        AlertOnLoops(),
        TimestampObservations(),
        AddContext(lambda step: "usual latency: 60 ms"),
        CaptureScreenshot(lambda: SCREEN, keep_last=None),
        TruncateObservations(2000),
        DropInputMessages(),
        PruneImages(),
        KeepRecentSteps(30),
        SummarizeOldSteps(summaries),
        FitTokenBudget(20_000),
    ]


@dataclass
class Measured:
    """What a run took, and what of it was spent in callbacks."""

    seconds: float = 0.0
    per_step: list[float] = field(default_factory=list)
    per_callback: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    megabytes: list[float] = field(default_factory=list)

    def at(self, step: int, round_it: int = 5) -> float:
        """What the callbacks of a step cost about there, in microseconds."""
        return 1e6 * statistics.median(self.per_step[max(0, step - round_it) : step + round_it])


def script(steps: int) -> Iterator[str]:
    """A run that looks at something of some length, again and again."""
    for number in range(1, steps):
        yield code(f"print('{number} seen ' * {OBSERVATION // 10})")
    yield code("final_answer('done')")


def measure(steps: int, callbacks: list[Any], verbosity: LogLevel = LogLevel.INFO) -> Measured:
    """Run an agent of so many steps; it logs as it does by default, into nothing."""
    found = Measured()

    def timed(callback: Any) -> Callable[[MemoryStep, Any], None]:
        def call(step: MemoryStep, agent: Any) -> None:
            start = time.perf_counter()
            callback(step, agent=agent)
            spent = time.perf_counter() - start
            found.per_step[-1] += spent
            found.per_callback[type(callback).__name__] += spent

        return call

    def begin(step: MemoryStep) -> None:
        found.per_step.append(0.0)

    def weigh(step: MemoryStep) -> None:
        if len(found.per_step) % (steps // 4) == 0:
            found.megabytes.append(resident())

    with open(os.devnull, "w") as nothing:
        agent = CodeAgent(
            tools=[],
            model=ScriptedModel(script(steps), record="none"),
            max_steps=steps + 1,
            logger=AgentLogger(level=verbosity, console=Console(file=nothing, highlight=False)),
            step_callbacks=[begin, *map(timed, callbacks), weigh],
        )
        gc.collect()
        start = time.perf_counter()
        agent.run("Look at it, again and again.")
        found.seconds = time.perf_counter() - start
    return found


def resident() -> float:
    """Megabytes of this process in RAM; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 0.0


def in_a_process_of_its_own(steps: int, which: str) -> list[float]:
    """What a run with or without DropInputMessages has in RAM at each quarter of its steps."""
    command = [sys.executable, __file__, str(steps), which]
    return [float(line) for line in subprocess.check_output(command, text=True).split()]


def main(steps: int = 1000) -> int:
    """Measure, print, and judge."""
    alone, all_on = measure(steps, []), measure(steps, all_of_them())
    inside = sum(all_on.per_step)
    early, late = all_on.at(10), all_on.at(steps - 50, 50)
    print(f"{steps} steps of {OBSERVATION} characters, all {len(all_on.per_callback)} callbacks")
    for name, seconds in sorted(all_on.per_callback.items(), key=lambda item: -item[1]):
        print(f"  {name:<24}{1e6 * seconds / steps:8.0f} µs a step")
    print(f"cost at step 10: {early:.0f} µs, at step {steps}: {late:.0f} µs, {late / early:.2f} ×")
    print(
        f"the run by itself: {alone.seconds:.2f} s; with all callbacks {all_on.seconds:.2f} s, since memory stays lean"
    )
    share, of_lean = inside / alone.seconds, inside / (all_on.seconds - inside)
    print(f"in callbacks: {inside:.2f} s, {share:.1%} of the run by itself, {of_lean:.1%} of what the lean run takes")
    fewer = min(steps, 600)
    with_it, without = (in_a_process_of_its_own(fewer, which) for which in ("with", "without"))
    print(f"RAM in MB at each quarter of {fewer} steps, with DropInputMessages: {with_it}, without: {without}")
    growth = [after - before for before, after in itertools.pairwise(with_it)]
    linear = not any(with_it) or growth[-1] <= 2 * max(growth[0], 1)
    print("RAM grows in proportion to the steps" if linear else "RAM grows faster than the steps")
    return 0 if late <= 2 * early and share <= 0.1 and linear else 1


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    if len(sys.argv) > 2:
        chosen = [DropInputMessages()] if sys.argv[2] == "with" else []
        print("\n".join(f"{megabytes:.1f}" for megabytes in measure(count, chosen).megabytes))
    else:
        sys.exit(main(count))
