"""What does it cost to look at a long session? `analyze` of it next to reading its steps.

    python benchmarks/analyze_cost.py [steps [bytes of each observation]]

The claim: at most 1.5 × the time that reading the session takes, for 5,000 steps.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from histories import make_step
from smolagents import CodeAgent

from smolagents_memory import Session, analyze
from smolagents_memory.testing import ScriptedModel


def filled(url: str, count: int, observation: int) -> Session:
    """A session of that many steps, each journaled as it came, with the messages that its model call was sent."""
    rng = random.Random(0)
    agent = CodeAgent([], ScriptedModel([]), verbosity_level=-1)
    with Session("long", url, durability="process").attach(agent) as session:
        shown = agent.write_memory_to_messages()
        for number in range(1, count + 1):
            step = make_step(number, rng, observation=observation)
            step.model_input_messages = list(shown)
            agent.memory.steps.append(step)
            shown += step.to_messages()
    return session


def seconds(work: Callable[[], Any]) -> float:
    """The processor time of one call, begun without rubbish of the one before."""
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def ratio(session: Session, rounds: int = 5) -> tuple[float, float, float]:
    """How long reading and `analyze` take, in seconds, and how many times as long the latter; medians of turns."""
    session.steps(), analyze(session)  # once for what is imported
    turns = [(seconds(session.steps), seconds(lambda: analyze(session))) for _ in range(rounds)]
    reading, looking = median(turn[0] for turn in turns), median(turn[1] for turn in turns)
    return reading, looking, median(after / before for before, after in turns)


def main() -> None:
    """Print the figures."""
    given = [int(text) for text in sys.argv[1:]]
    count, observation = [*given, *(5_000, 2_000)[len(given) :]]
    with tempfile.TemporaryDirectory() as folder:
        session = filled(f"sqlite:///{Path(folder) / 'memory.db'}", count, observation)
        reading, looking, times = ratio(session)
        session.database.close()
    print(f"{count:,} steps with observations of {observation:,} bytes")
    print(f"read {reading:.2f} s · analyze {looking:.2f} s · ratio {times:.2f} (at most 1.5)")


if __name__ == "__main__":
    main()
