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
from typing import Any

from histories import OBSERVATION, make_step
from smolagents import CodeAgent, tool

from smolagents_memory import Session, analyze
from smolagents_memory.testing import ScriptedModel


@tool
def work(number: int) -> str:
    """What the code of every step calls: its calls are read from the code.

    Args:
        number: The part.
    """
    return f"part {number}"


def filled(url: str, count: int, observation: int) -> Session:
    """A session of that many steps, each journaled as it came, with the messages that its model call was sent."""
    rng = random.Random(0)
    agent = CodeAgent([work], ScriptedModel([]), verbosity_level=-1)
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
    """How long reading and `analyze` take at their best, in seconds, and how many times as long the latter.

    The best of several turns: what else the machine does can only add to either.
    """
    assert analyze(session).tools.in_code == {"work": len(session.steps())}  # and all is imported now
    turns = [(seconds(session.steps), seconds(lambda: analyze(session))) for _ in range(rounds)]
    reading, looking = min(turn[0] for turn in turns), min(turn[1] for turn in turns)
    return reading, looking, looking / reading


def main() -> None:
    """Print the figures."""
    given = [int(text) for text in sys.argv[1:]]
    count, observation = [*given, *(5_000, OBSERVATION)[len(given) :]]
    with tempfile.TemporaryDirectory() as folder:
        session = filled(f"sqlite:///{Path(folder) / 'memory.db'}", count, observation)
        reading, looking, times = ratio(session)
        session.database.close()
    print(f"{count:,} steps with observations of {observation:,} bytes")
    print(f"read {reading:.2f} s · analyze {looking:.2f} s · ratio {times:.2f} (at most 1.5)")


if __name__ == "__main__":
    main()
