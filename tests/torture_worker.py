"""What the killed processes of test_torture.py run: an agent under a session, which tells its parent of every step.

The model reads from the messages alone how far the work has come: each step carries a mark, its task and its number
in it, and the model answers with what comes after the last mark it sees. So it goes on after any restore, and makes
a step twice if the restore lost one.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import time
import traceback
from pathlib import Path
from typing import Any

from PIL import Image
from smolagents import CodeAgent, Tool, ToolCallingAgent
from smolagents.memory import ActionStep, PlanningStep

from smolagents_memory import ObservedMemory, PruneImages, Session, TimestampObservations, TruncateObservations
from smolagents_memory.testing import ScriptedModel, call, code


STAMP = TimestampObservations()
SHAPE = [STAMP, PruneImages(keep_last=2), TruncateObservations(160, keep_last=2)]
TASKS = 3
STEPS = 5
MARK = re.compile(r"mark\W{1,4}(\d{3})")
FILLER = "An observation that is long enough to be cut. " * 8


class Work(Tool):
    """Notes each execution in a file, beyond the reach of any kill."""

    name = "work"
    description = "Works."
    inputs = {
        "mark": {"type": "integer", "description": "Which step."},
        "part": {"type": "integer", "description": "Which call of it."},
    }
    output_type = "string"

    def __init__(self, done: Path, life: int) -> None:
        super().__init__()
        self._done, self._life = done, life

    def forward(self, mark: int, part: int) -> str:
        with self._done.open("a") as file:
            file.write(f"{self._life} {mark} {part}\n")
        time.sleep(random.random() * 0.004)
        return f"{mark}.{part} {FILLER}"


class Picture(Tool):
    name = "picture"
    description = "Draws a picture."
    inputs = {"mark": {"type": "integer", "description": "Its colour."}}
    output_type = "image"

    def forward(self, mark: int) -> Image.Image:
        return Image.new("RGB", (8, 6), (mark % 256, mark // 256, 7))


class Refuse(Tool):
    name = "refuse"
    description = "Fails."
    inputs = {"reason": {"type": "string", "description": "Why."}}
    output_type = "string"

    def forward(self, reason: str) -> str:
        raise ValueError(reason)


def next_output(kind: str, messages: list[Any]) -> Any:
    """What the model answers to these messages."""
    text = "\n".join(
        part.get("text", "")
        for message in messages[1:] or messages
        for part in (message.content if isinstance(message.content, list) else [{"text": message.content}])
    )
    task = max(int(number) for number in re.findall(r"Torture (\d)\.", text))
    if "<end_plan>" in text:
        return f"I plan to do what is left of {task}."
    seen = [int(mark) for mark in MARK.findall(text)]
    step = max((mark % 100 for mark in seen if mark // 100 == task), default=0) + 1
    mark = task * 100 + step
    return code_output(mark, step) if kind == "code" else call_output(mark, step)


def code_output(mark: int, step: int) -> str:
    source = {
        1: f"def first(text):\n    return int(text[:3])\ntotal = first(work(mark={mark}, part=1))",
        2: f"print(work(mark={mark}, part=1))\ntotal += first(work(mark={mark}, part=2))",
        3: f"total += {mark}\nrefuse(reason='no')",
        4: f"class Box:\n    size = {mark}\ntotal += first(work(mark={mark}, part=1)) + Box.size",
        5: "final_answer(total)",
    }[step]
    return code(source, thought=f"mark {mark}")


def call_output(mark: int, step: int) -> Any:
    return {
        1: call("work", f"c{mark}", mark=mark, part=1),
        2: [call("work", f"c{mark}a", mark=mark, part=1), call("work", f"c{mark}b", mark=mark, part=2)],
        3: call("refuse", f"c{mark}", reason=f"no mark {mark}"),
        4: call("picture", f"c{mark}", mark=mark),
        5: call("final_answer", f"c{mark}", answer=f"The answer with mark {mark}."),
    }[step]


def make_agent(
    kind: str, done: Path, life: int = 0, *, work: type[Work] = Work, answer: Any = next_output, **options: Any
) -> Any:
    agent_class = {"code": CodeAgent, "calls": ToolCallingAgent}[kind]

    def script() -> Any:
        while True:
            yield lambda messages: answer(kind, messages)

    return agent_class(
        tools=[work(done, life), Refuse(), Picture()],
        model=ScriptedModel(script(), record="none"),
        step_callbacks={ActionStep: SHAPE, PlanningStep: [STAMP]},
        planning_interval=2,
        verbosity_level=-1,
        **options,
    )


def untimed(record: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+\d:Z]*", "<time>", record)


def record(agent: Any) -> str:
    """All that the model would be sent now, to the byte and to the pixel."""

    def plain(value: Any) -> Any:
        if isinstance(value, Image.Image):
            return [value.mode, value.size, hashlib.sha256(value.tobytes()).hexdigest()]
        return repr(value)

    messages = [[message.role, message.content] for message in agent.write_memory_to_messages()]
    return json.dumps(messages, default=plain)


def live(conn: Any, url: str, kind: str, done: Path, life: int) -> None:
    """One life of the agent: restore, go on where the one before was killed, to the end."""
    try:
        conn.send(("end", go_on(conn, url, kind, done, life)))
    except BaseException:  # noqa: BLE001 — the parent raises it
        conn.send(("failed", traceback.format_exc()))
    conn.close()


def picture_of(task: int) -> Image.Image:
    return Image.new("RGB", (10, 10), (0, task, 0))


def go_on(conn: Any, url: str, kind: str, done: Path, life: int) -> Any:
    random.seed(f"{done}{life}")
    agent = make_agent(kind, done, life)
    agent.memory = memory = ObservedMemory(agent.system_prompt)
    tell = {"active": False}

    def told(what: str) -> None:
        if tell["active"]:
            conn.send((what, record(agent)))

    memory.on_first("steps_changed", lambda event: told("about to keep"))  # hears it before the session does
    session = Session("tortured", url)
    with session.attach(agent):
        memory.on("steps_changed", lambda event: told("kept"))  # and after it
        conn.send(("restored", record(agent)))
        tell["active"] = True
        begun = len(session.runs())
        if begun:
            session.resume(agent)
        for task in range(begun + 1, TASKS + 1):
            agent.run(f"Torture {task}.", reset=False, images=[picture_of(task)], max_steps=STEPS + 1)
    return record(agent), [(run.state, run.answer, run.steps) for run in session.runs()]
