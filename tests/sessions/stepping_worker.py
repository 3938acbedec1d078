"""What the processes of test_stepping_with_sessions.py run: an agent step by step, killed after some of them.

    python stepping_worker.py kind url steps

It goes on with what the session holds, or begins the task, makes so many steps and dies by SIGKILL; if it reaches the
answer before, it prints that with what the model would read.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from smolagents import CodeAgent, MultiStepAgent, Tool, ToolCallingAgent

from smolagents_memory import Session, iter_steps
from smolagents_memory.testing import ScriptedModel, call, code


TASK = "Count the apples."
PLAN = "1. Buy them.\n2. Count them."


class Buy(Tool):
    name = "buy"
    description = "Buys fruit."
    inputs = {"what": {"type": "string", "description": "What."}, "count": {"type": "integer", "description": "Many."}}
    output_type = "integer"

    def forward(self, what: str, count: int) -> int:
        if what == "stones":
            raise ValueError("that is no fruit")
        return count


CODE = [
    PLAN,
    code("import math\nfrom collections import Counter\nbasket = Counter(apples=buy('apples', 4))\nlen(basket)"),
    code("def heavier(basket, by=2):\n    return {what: math.floor(n * by) for what, n in basket.items()}\n1"),
    code("seen = [basket]\nbuy('stones', 1)"),
    PLAN,
    code("basket['apples'] += limit\nheavy = heavier(basket)\nprint(heavy)"),
    "No code at all.",
    code("seen[0]['pears'] = 1\nfinal_answer([dict(basket), heavy, seen[0] is basket])"),
]
CALLS = [
    PLAN,
    call("buy", "id_1", what="apples", count=4),
    [call("buy", "id_2", what="apples", count=4), call("buy", "id_3", what="pears", count=1)],
    call("buy", "id_4", what="stones", count=1),
    PLAN,
    call("no_such_tool", "id_5", a=1),
    "No call at all.",
    call("final_answer", "id_6", answer={"apples": 9}),
]
KINDS: dict[str, tuple[type[MultiStepAgent], list[Any], int]] = {
    "code": (CodeAgent, CODE, 3),
    "calls": (ToolCallingAgent, CALLS, 3),
}


def made(kind: str, said: int = 0) -> MultiStepAgent:
    """The agent, whose model has said so much already."""
    cls, script, planning = KINDS[kind]
    options = {"additional_authorized_imports": ["math", "collections"]} if cls is CodeAgent else {}
    return cls(
        [Buy()], ScriptedModel(script[said:]), planning_interval=planning, max_steps=9, verbosity_level=-1, **options
    )


def main(kind: str, url: str, count: int) -> None:
    """Make `count` steps and die, or print how it ended."""
    session = Session("s", url)
    held = session.steps() if session.exists() else []
    agent = made(kind, said=max(0, len(held) - 1))
    with session.attach(agent):
        steps = iter_steps(agent) if held else iter_steps(agent, TASK, additional_args={"limit": 5})
        for number, _ in enumerate(steps, 1):
            if number == count:
                os.kill(os.getpid(), signal.SIGKILL)
        messages = [[message.role.value, message.content] for message in agent.write_memory_to_messages()]
        state = {name: repr(value) for name, value in agent.state.items()}
        print(json.dumps({"answer": steps.answer, "messages": messages, "state": state}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
