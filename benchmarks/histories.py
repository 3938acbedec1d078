"""Histories as agents make them, for the benchmarks: 10 kB observations, and what callbacks do to earlier steps."""

from __future__ import annotations

import functools
import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from smolagents import CodeAgent
from smolagents.memory import ActionStep, SystemPromptStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import Timing, TokenUsage

from smolagents_memory.testing import ScriptedModel


OBSERVATION = 10_000
Edit = Callable[[list[Any]], None]


def plain(memory: list[Any]) -> None:
    """Nothing is edited."""


def prune_images(memory: list[Any]) -> None:
    """Only the newest two steps keep their image."""
    if len(memory) > 3 and memory[-3].observations_images:
        memory[-3].observations_images = None


def slide_truncation(memory: list[Any]) -> None:
    """The observation of the fifth step from the end is cut."""
    if len(memory) > 6 and memory[-6].observations:
        memory[-6].observations = memory[-6].observations[:300] + "\n[…]\n" + memory[-6].observations[-200:]


def drop_old(memory: list[Any]) -> None:
    """Only the newest 50 steps stay."""
    if len(memory) > 51:
        del memory[1]


EDITS: dict[str, Edit] = {
    "plain": plain,
    "images pruned": prune_images,
    "truncation slides": slide_truncation,
    "old steps dropped": drop_old,
}


def noise(rng: random.Random, length: int) -> str:
    """Text that looks like output and cannot be packed away to nothing."""
    return "".join(rng.choices(string.ascii_letters + string.digits + "    \n", k=length))


@functools.cache
def _pages() -> str:
    pages = sorted((Path(__file__).parent.parent / "docs").glob("*.md"))
    return "".join(page.read_text(encoding="utf-8") for page in pages)


def talk(rng: random.Random, length: int) -> str:
    """Text as people and models write it: a piece of this project's own pages."""
    start = rng.randrange(len(_pages()) - length)
    return _pages()[start : start + length]


def make_step(
    number: int,
    rng: random.Random,
    *,
    images: bool = False,
    observation: int = OBSERVATION,
    text: Callable[[random.Random, int], str] = noise,
) -> ActionStep:
    """A CodeAgent's step, as smolagents leaves it, without its input messages."""
    source = f"result_{number} = work({number})\nprint(result_{number})"
    output = f"Thought: I do part {number}.\n<code>\n{source}\n</code>"
    step = ActionStep(
        step_number=number,
        timing=Timing(1_700_000_000.0 + number, 1_700_000_001.0 + number),
        tool_calls=[ToolCall("python_interpreter", source, f"call_{number}")],
        model_output_message=ChatMessage(role=MessageRole.ASSISTANT, content=output, token_usage=TokenUsage(900, 50)),
        model_output=output,
        code_action=source,
        observations="Execution logs:\n" + text(rng, observation),
        token_usage=TokenUsage(900, 50),
    )
    if images:
        step.observations_images = [Image.frombytes("L", (40, 40), rng.randbytes(1600))]
    return step


def make_calling_step(number: int, rng: random.Random, *, observation: int = OBSERVATION) -> ActionStep:
    """A ToolCallingAgent's step, as smolagents leaves it, without its input messages."""
    arguments = {"query": f"part {number}", "limit": number}
    asked = ChatMessageToolCall(
        function=ChatMessageToolCallFunction("search", arguments), id=f"call_{number}", type="function"
    )
    usage = TokenUsage(900, 50)
    return ActionStep(
        step_number=number,
        timing=Timing(1_700_000_000.0 + number, 1_700_000_001.0 + number),
        tool_calls=[ToolCall("search", arguments, f"call_{number}")],
        model_output_message=ChatMessage(role=MessageRole.ASSISTANT, tool_calls=[asked], token_usage=usage),
        observations=noise(rng, observation),
        token_usage=usage,
    )


class LiveRun:
    """A real agent whose memory grows as a run makes it grow: the input, the step, its callbacks, the list.

    The model and the tools are left out: what they would take is not ours. So that a long run fits into memory, the
    messages of steps that are not edited are shared between the inputs, except with `fresh`, as smolagents makes them.
    """

    def __init__(
        self,
        edit: Edit = plain,
        *,
        stamped: bool = False,
        seed: int = 0,
        text: Callable[[random.Random, int], str] = noise,
    ) -> None:
        self.agent = CodeAgent(tools=[], model=ScriptedModel([]), verbosity_level=0)
        self.made: list[Any] = []
        self.edit = edit
        self._rng, self._text = random.Random(seed), text
        self._shown: dict[int, tuple[Any, list[ChatMessage]]] = {}
        if stamped:
            self.agent.step_callbacks.register(ActionStep, stamp)

    def begin(self) -> None:
        """The task comes."""
        self.made.append(TaskStep(task="Do all the parts, one after the other."))
        self.agent.memory.steps.append(self.made[-1])

    def next_step(self, *, fresh: bool = False) -> ActionStep:
        """The next step, with its input, before its callbacks."""
        memory, number = self.agent.memory, len(self.made)
        step = make_step(number, self._rng, images=self.edit is prune_images, text=self._text)
        if fresh:
            step.model_input_messages = self.agent.write_memory_to_messages()
        else:
            steps = (memory.system_prompt, *memory.steps)
            step.model_input_messages = [m for each in steps for m in _messages(each, self._shown)]
        return step

    def take(self, step: ActionStep) -> None:
        """What smolagents does at the end of a step; then what callbacks do to earlier steps."""
        self.agent.step_callbacks.callback(step, agent=self.agent)
        self.agent.memory.steps.append(step)
        self.made.append(step)
        self.edit(self.agent.memory.steps)

    def grow(self, count: int) -> None:
        """Go on to so many steps."""
        while len(self.made) <= count:
            self.take(self.next_step())


def stamp(step: ActionStep) -> None:
    """A callback that says when: it cuts and adds before the step reaches the memory."""
    step.observations = f"[2026-01-01 00:00:{step.step_number % 60:02} UTC]\n{step.observations}"


def make_history(count: int, edit: Edit, *, seed: int = 0) -> tuple[SystemPromptStep, list[Any]]:
    """All steps that a run of `count` steps made; each holds as input what the memory showed when it began."""
    rng = random.Random(seed)
    prompt = SystemPromptStep("You are an expert assistant. " * 200)
    memory: list[Any] = [TaskStep(task="Do all the parts, one after the other.")]
    everything = list(memory)
    shown: dict[int, tuple[Any, list[ChatMessage]]] = {}
    for number in range(1, count + 1):
        step = make_step(number, rng, images=edit is prune_images)
        step.model_input_messages = [m for each in (prompt, *memory) for m in _messages(each, shown)]
        memory.append(step)
        everything.append(step)
        edit(memory)
    return prompt, everything


def _messages(step: Any, shown: dict[int, tuple[Any, list[ChatMessage]]]) -> list[ChatMessage]:
    """What a step shows; rendered again only after an edit, so that a history of 1,000 steps fits into memory."""
    state = (getattr(step, "observations", None), getattr(step, "observations_images", None))
    known = shown.get(id(step))
    if known is None or known[0] != state:
        known = shown[id(step)] = (state, step.to_messages())
    return known[1]


def json_length(value: Any) -> int:
    """The bytes of a value as compact JSON."""
    return len(json.dumps(value, default=lambda other: other.tobytes().hex(), separators=(",", ":")).encode())


def distinct_content(prompt: SystemPromptStep, steps: list[Any]) -> int:
    """The bytes of what is there once: the steps without their input messages, the system prompt, the images, and
    the texts that were sent to the model and that no step shows any more."""
    total = len(prompt.system_prompt)
    shown = {prompt.system_prompt}
    images: dict[int, Any] = {}
    for step in steps:
        data = {key: value for key, value in step.dict().items() if key != "model_input_messages"}
        images.update((id(image), image) for image in data.pop("observations_images", None) or ())
        images.update((id(i), i) for i in getattr(step, "observations_images", None) or ())
        total += json_length(data)
        shown.update(part.get("text") for m in step.to_messages() for part in m.content)
    for step in steps:
        for message in getattr(step, "model_input_messages", None) or ():
            for part in message.content:
                if part["type"] == "image":
                    images[id(part["image"])] = part["image"]
                elif part["text"] not in shown:
                    shown.add(part["text"])
                    total += len(part["text"])
    return total + sum(len(i.tobytes()) for i in images.values() if not isinstance(i, bytes))
