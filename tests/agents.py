"""Real agents with real histories, for tests of every part."""

from __future__ import annotations

from typing import Any

from PIL import Image
from smolagents import CodeAgent, Tool, ToolCallingAgent, tool

from smolagents_memory.testing import ScriptedModel, call, code


@tool
def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: The number.
    """
    return 2 * number


@tool
def fail(reason: str) -> str:
    """Fails.

    Args:
        reason: Why.
    """
    raise ValueError(reason)


class Picture(Tool):
    name = "picture"
    description = "Draws a picture."
    inputs: dict[str, Any] = {}
    output_type = "image"

    def forward(self) -> Image.Image:
        return Image.new("RGB", (8, 6), "blue")


CODE_SCRIPT = [
    "I plan to double, to fail, and to answer.",
    code("kept = double(number=21)\nprint(kept)", thought="I double."),
    code("fail(reason='on purpose')"),
    "No code at all.",
    code("final_answer(kept)"),
]
CALL_SCRIPT = [
    "I plan to double twice at once.",
    [call("double", number=1), call("double", number=2)],
    call("fail", reason="on purpose"),
    call("picture"),
    call("no_such_tool", a=[1, {"b": None}]),
    call("final_answer", answer="done"),
]


def code_agent(script: Any = None, **options: Any) -> CodeAgent:
    """A CodeAgent that plans, succeeds, fails, cannot be parsed, and answers."""
    options = {"tools": [double, fail], "verbosity_level": 0, "planning_interval": 10, **options}
    return CodeAgent(model=ScriptedModel(CODE_SCRIPT if script is None else script), **options)


def calling_agent(script: Any = None, **options: Any) -> ToolCallingAgent:
    """A ToolCallingAgent with parallel calls, errors and an image in its state."""
    options = {"tools": [double, fail, Picture()], "verbosity_level": 0, "planning_interval": 10, **options}
    return ToolCallingAgent(model=ScriptedModel(CALL_SCRIPT if script is None else script), **options)


def rendered(agent: Any) -> list[tuple[Any, Any]]:
    """What the model would be sent now."""
    return [(message.role, message.content) for message in agent.write_memory_to_messages()]


def photo(colour: str = "red", size: tuple[int, int] = (20, 10)) -> Image.Image:
    """A small picture."""
    return Image.new("RGB", size, colour)
