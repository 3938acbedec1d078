"""The sessions that a place of the goldens is filled with: agents that live, and one that is killed.

Frozen: `make.py` ran this on the released code, and what it wrote is in `data`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import Picture, double, fail
from PIL import Image
from smolagents import CodeAgent, ToolCallingAgent, tool
from smolagents.memory import ActionStep, MemoryStep, TaskStep
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import Timing, TokenUsage

from smolagents_memory import (
    DropInputMessages,
    NoteStep,
    Session,
    SessionManager,
    TruncateObservations,
    TypedMemory,
    pin,
    save_memory,
)
from smolagents_memory.testing import ScriptedModel, call, code


NOW = 1_760_000_000.0
ODD_ID = "odd/id 42 ü \ud800"
ODD_TEXT = "NUL \x00, a lone \ud83d, an emoji 😀, \u2028 and a tab\t."
IMPORTS = ["collections", "dataclasses", "enum", "functools", "numpy.*", "pandas.*", "socket"]


@tool
def die(now: bool) -> str:
    """Ends this process, as a power cut would.

    Args:
        now: Whether to do so.
    """
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@dataclass
class Trip:
    city: str = ""
    notes: list[str] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    photo: bytes = b""


class Remark(MemoryStep):
    """A step class of somebody's own that was never registered."""

    def __init__(self, text: str) -> None:
        self.text = text

    def to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        return [ChatMessage(role=MessageRole.USER, content=self.text)]


# -- agents --------------------------------------------------------------------------------------------------------


def golden_coder(*script: Any, **options: Any) -> CodeAgent:
    tools = options.pop("tools", [double, fail, die])
    played = [code(each) if isinstance(each, str) else each for each in script]
    options = {"verbosity_level": -1, "additional_authorized_imports": IMPORTS, **options}
    return CodeAgent(tools=tools, model=ScriptedModel(played), **options)


def golden_caller(*script: Any, **options: Any) -> ToolCallingAgent:
    tools = [double, fail, Picture(), *options.pop("tools", [])]
    return ToolCallingAgent(tools=tools, model=ScriptedModel(script), verbosity_level=-1, **options)


def pictures() -> list[Image.Image]:
    """One of every mode that agents meet, small."""
    ramp = Image.linear_gradient("L").resize((7, 5))
    palette = ramp.convert("RGB").quantize(4)
    palette.info["transparency"] = 1
    sixteen = Image.new("I;16", (3, 2), 40_000)
    found = [ramp.convert(mode) for mode in ("RGB", "RGBA", "L", "LA", "1", "CMYK", "F", "I", "YCbCr", "HSV")]
    return [*found, palette, sixteen]


VARIABLES = [
    """
import collections
import numpy as np
import pandas as pd
kept = double(number=21)
numbers = [1, 2, 3]
same_numbers = numbers
table = {"numbers": numbers, "nan": float("nan"), "big": 10**40, 3: (1, {2, 3}), "bytes": b"\\x00\\xff" * 2000}
counted = collections.Counter("abracadabra")
ring = [1]
ring.append(ring)
array = np.arange(12, dtype="float32").reshape(3, 4)
large = np.arange(3000, dtype="int64")
frame = pd.DataFrame({"a": [1.5, 2.5, None], "b": pd.Series(["x", (1, 2), None], dtype="object")})
stamp = pd.Timestamp("2024-02-29T12:00:00", tz="UTC")
print("kept", kept)
""",
    """
from dataclasses import dataclass
from enum import Enum
from functools import partial
import socket

def label(prefix, sep=":", last="z"):
    return sep.join([prefix, last])

thrice = partial(label, "three", "-")

def twice(n, by=2):
    return by * n

class Shape:
    sides = 0
    def describe(self):
        return f"{self.sides} sides of {self.length}"

class Square(Shape):
    sides = 4
    def __init__(self, length):
        self.length = length

class Point:
    def __init__(self, x, y=2):
        self.x, self.y = x, y
    def norm(self):
        return self.x ** 2 + self.y ** 2

class Spot:
    x: int
    y: int = 4
Spot = dataclass(frozen=True)(Spot)

class Colour(Enum):
    RED = 1
    BLUE = 2

square = Square(5)
point = Point(3)
points = [point, point, Point(1, 1)]
spots = {Spot(1): "here"}
liked = Colour.BLUE
conn = socket.socket()
lazy = (n for n in numbers)
print("defined")
""",
    "numbers.append(4)\npoint.y = 10\nfail(reason='on purpose')",
    "forgotten = 1\ndel forgotten\nfinal_answer(twice(kept) + len(numbers))",
]
PROBE = """
final_answer({
    "kept": kept,
    "numbers": numbers,
    "aliases": [same_numbers is numbers, table["numbers"] is numbers, ring[1] is ring, points[0] is point],
    "table": table,
    "counted": dict(counted),
    "array": array,
    "large": [str(large.dtype), int(large.sum())],
    "frame": frame,
    "stamp": stamp,
    "twice": [twice(5), twice(5, by=3), label("a", last="b")],
    "square": [square.describe(), isinstance(square, Shape)],
    "point": [point.x, point.y, point.norm(), points[2].norm(), Point(7).y],
    "spot": [spots[Spot(1)], Spot(2, 3).y],
    "liked": [liked is Colour.BLUE, liked.value],
})
"""
LOST = ["conn", "lazy"]  # of the run that is killed
AFTER_THE_KILL = ["final_answer([progress, double(number=progress[-1]), tally(2)])"]
ANSWER_AFTER_THE_KILL = [[1, 2, 3], 6, 20]


def tell_sessions(url: str, portable: Path) -> None:
    """Fill a database with sessions; at the end this process kills itself in the middle of a run."""
    manager = SessionManager(url)
    for story in (
        _variables,
        _calls,
        _managed,
        _images,
        _edits,
        _resets,
        _states,
        _endings,
        _odd_values,
        _whole_ones,
        _forks,
    ):
        for name, agent in story(url, manager, portable):
            save_memory(agent, portable / f"{name}.jsonl.gz")
    _killed(url)


Told = Iterator[tuple[str, Any]]


def _variables(url: str, manager: SessionManager, portable: Path) -> Told:
    agent = golden_coder(
        ChatMessage(role=MessageRole.ASSISTANT, content="I plan to define much."), *VARIABLES, "final_answer(kept + 1)"
    )
    agent.planning_interval = 10
    agent.state["user"] = {"name": "Ann", "visits": (1, 2)}
    with Session("code", url).attach(agent):
        assert agent.run("Define what you need.", reset=False, additional_args={"given": [1, 2]}) == 88
        agent.planning_interval = None
        assert agent.run("And one more?", reset=False) == 43
    failed = [step.error for step in agent.memory.steps if getattr(step, "error", None) is not None]
    assert len(failed) == 1
    yield "code", agent


def _calls(url: str, manager: SessionManager, portable: Path) -> Told:
    agent = golden_caller(
        "I plan to double twice at once.",
        [call("double", number=1), call("double", number=2)],
        call("fail", reason="on purpose"),
        call("picture"),
        call("no_such_tool", a=[1, {"b": None}]),
        "Neither call nor answer.",
        call("final_answer", answer="done"),
        planning_interval=10,
    )
    with Session("calling", url).attach(agent):
        assert agent.run("Call what there is.", reset=False) == "done"
    yield "calling", agent


def _managed(url: str, manager: SessionManager, portable: Path) -> Told:
    helper = golden_caller(
        call("double", number=4),
        call("final_answer", answer="eight"),
        name="helper",
        description="Doubles.",
    )
    worker = golden_coder(
        "found = helper(task='Double four.')\nprint(found)",
        "final_answer('the worker found eight')",
        "final_answer('and nothing more')",
        name="worker",
        description="Works.",
        managed_agents=[helper],
    )
    agent = golden_coder(
        "first = worker(task='Find it.')\nprint(first)",
        "second = worker(task='Find more.')\nprint(second)",
        "final_answer('all found')",
        managed_agents=[worker],
    )
    with Session("manager", url).attach(agent):
        assert agent.run("Have it found.", reset=False) == "all found"
    yield "manager", agent


def _images(url: str, manager: SessionManager, portable: Path) -> Told:
    def show(step: ActionStep, agent: Any) -> None:
        step.observations_images = pictures()[:3]

    agent = golden_coder("print('seen')", "final_answer('seen')", step_callbacks=[show])
    with Session("images", url).attach(agent):
        agent.run("Look at these.", images=pictures(), reset=False)
    yield "images", agent


def _edits(url: str, manager: SessionManager, portable: Path) -> Told:
    agent = golden_coder(
        *(f"print('long {n} ' * 400)" for n in range(4)),
        "final_answer('edited')",
        step_callbacks=[TruncateObservations(keep_last=1, max_chars=200), DropInputMessages(keep_last=1)],
    )
    session = Session("edited", url)
    with session.attach(agent):
        agent.run("Print much.", reset=False)
        steps = agent.memory.steps
        steps[1].observations = "written anew by hand"
        steps[2].model_output_message.content = "said otherwise by hand"
        pin(steps[3])
        session.flush()
        steps[3].observations = "edited after the flush"
        steps.insert(1, NoteStep("A note put in between.", kind="hint"))
        del steps[3]
        steps.append(Remark("of a class of somebody's own"))
    yield "edited", agent


def _resets(url: str, manager: SessionManager, portable: Path) -> Told:
    agent = golden_coder("x = 1", "final_answer(x)", "final_answer('second')", "final_answer('third')")
    with Session("reset", url).attach(agent):
        agent.run("The first.", reset=False)
        agent.run("The second.", reset=True)
        agent.run("The third.", reset=False)
    yield "reset", agent


def golden_states() -> dict[str, TypedMemory[Any]]:
    """The typed states as they begin."""
    return {
        "trip": TypedMemory[Trip](Trip(), name="trip"),
        "counts": TypedMemory[dict]({}, name="counts"),
        "never changed": TypedMemory[int](7, name="never changed"),
    }


def _states(url: str, manager: SessionManager, portable: Path) -> Told:
    agent = golden_coder("final_answer(1)")
    states = golden_states()
    with Session("typed", url).attach(agent) as session:
        for state in states.values():
            session.keep(state)
        states["trip"].set(Trip("Rome", ["hot"]))
        agent.run("Go.", reset=False)
        states["trip"].set(Trip("Oslo", ["cold", ODD_TEXT], {(1, 2), (3, 4)}, bytes(range(256)) * 10))
        states["counts"].set({"visits": 3, "odd \ud800": float("inf"), "pair": (1, 2)})
    yield "typed", agent

    agent = golden_coder("kept = [1]", "final_answer(kept)", "final_answer(kept)")
    agent.state["note"] = (1, "kept")
    trip = golden_states()["trip"]
    with Session("typed and reset", url).attach(agent) as session:
        session.keep(trip)
        trip.set(Trip("Bern"))
        agent.run("Go.", reset=False)
        agent.run("Begin anew.", reset=True)  # what went before is written in one piece
    yield "typed and reset", agent


def _endings(url: str, manager: SessionManager, portable: Path) -> Told:
    agent = golden_coder("a = 20", ConnectionError("the provider is down"))
    try:
        with Session("failed", url).attach(agent):
            agent.run("Fail.", reset=False)
    except Exception as error:  # noqa: BLE001 — smolagents' own, whatever it is called
        assert "provider is down" in str(error)
    yield "failed", agent

    agent = golden_coder("a = 1", "a = 2", ChatMessage(role=MessageRole.ASSISTANT, content="out of steps"))
    with Session("max steps", url).attach(agent):
        agent.run("Too long.", reset=False, max_steps=2)
    yield "max steps", agent

    agent = golden_coder("a = 1", "final_answer(a)")
    agent.step_callbacks.register(ActionStep, lambda step, agent: agent.interrupt())
    try:
        with Session("interrupted", url).attach(agent):
            agent.run("Stop me.", reset=False)
    except Exception as error:  # noqa: BLE001
        assert "interrupted" in str(error).lower()
    yield "interrupted", agent

    with Session("empty", url).attach(golden_coder()):
        pass


def _odd_values(url: str, manager: SessionManager, portable: Path) -> Told:
    agent = golden_caller(
        call("fail", reason=ODD_TEXT),
        call("double", number=10**30),
        call("final_answer", answer={"nested": [1.5, None, {"deep": [[[True]]]}]}),
    )
    with Session(ODD_ID, url).attach(agent):
        agent.run(ODD_TEXT, reset=False)
        step = ActionStep(step_number=9, timing=Timing(start_time=NOW, end_time=NOW + 2), token_usage=TokenUsage(3, 4))
        step.action_output = {"set": {1, 2}, "nan": float("nan"), (1, 2): b"\x00bytes", "ring": []}
        step.action_output["ring"].append(step.action_output)
        step.error = None
        step.somebodys_own = "an attribute that smolagents does not know"
        agent.memory.steps.append(step)
        agent.memory.steps.append(TaskStep(task="put in by hand", task_images=[]))
    yield "odd", agent


def _whole_ones(url: str, manager: SessionManager, portable: Path) -> Told:
    agent = golden_coder("x = [1]", "final_answer(x)", "final_answer(x + [2])")
    agent.run("Live without a session.")
    manager.save_session(agent, "saved")
    agent.run("Live on.", reset=False)
    manager.save_session(agent, "saved")
    yield "saved", agent
    save_memory(agent, portable / "imported.jsonl")
    Session("imported", url).import_(portable / "imported.jsonl")


def _forks(url: str, manager: SessionManager, portable: Path) -> Told:
    session = manager.session("code")
    session.fork("fork")
    session.fork("fork of an earlier step", at=3)
    manager.session("images").fork("to be deleted").fork("fork of a deleted one")
    assert manager.delete_session("to be deleted")
    agent = golden_coder("final_answer(kept + 100)")
    with manager.session("fork").attach(agent):
        assert agent.run("Go another way.", reset=False) == 142
    yield "fork", agent


def _killed(url: str) -> None:
    agent = golden_coder(
        "import socket\nconn = socket.socket()\nprogress = [1]\nlazy = (n for n in progress)\n"
        "def tally(n):\n    return 10 * n",
        "progress.append(2)\nprogress.append(3)\nprint(progress)",
        "die(now=True)",
    )
    Session("killed", url).attach(agent)
    agent.run("Count, whatever happens.", reset=False, max_steps=7, images=pictures()[:1])
