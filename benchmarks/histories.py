"""Histories as agents make them, for the benchmarks: 10 kB observations, and what callbacks do to earlier steps."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from typing import Any

from PIL import Image
from smolagents.memory import ActionStep, SystemPromptStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import Timing, TokenUsage


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


def make_step(number: int, rng: random.Random, *, images: bool = False, observation: int = OBSERVATION) -> ActionStep:
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
        observations="Execution logs:\n" + noise(rng, observation),
        token_usage=TokenUsage(900, 50),
    )
    if images:
        step.observations_images = [Image.frombytes("L", (40, 40), rng.randbytes(1600))]
    return step


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
