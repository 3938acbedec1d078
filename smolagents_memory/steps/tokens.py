"""How large things are: a text, a message, a step, its images; in bytes, and in tokens as an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from smolagents.memory import MemoryStep

from smolagents_memory.steps.kinds import images_of, shown_fields
from smolagents_memory.steps.per_step import PerStep
from smolagents_memory.steps.texts import parts_in, shown, text_of


IMAGE_TOKENS = 1000
_BYTES_PER_PIXEL = {"I": 4, "F": 4, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}


class Size(NamedTuple):
    """What a step takes in the prompt."""

    messages: int
    tokens: float


def text_bytes(text: str) -> int:
    """The bytes of a text in UTF-8; what no encoding allows (a lone surrogate) counts three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def text_tokens(text: str) -> float:
    """Four bytes a token: four characters of English, one and a third of Chinese."""
    return text_bytes(text) / 4


def message_tokens(messages: Sequence[Any]) -> float:
    """The estimated tokens of some messages."""
    parts = parts_in(messages)
    texts = [str(part["text"]) for part in parts if "text" in part]
    return text_tokens("".join(texts)) + 0.25 * len(texts) + IMAGE_TOKENS * (len(parts) - len(texts))


def _measured(step: MemoryStep) -> Size:
    messages = shown(step)
    return Size(len(messages), message_tokens(messages))


size_of = PerStep(_measured, shown_fields)
"""What a step takes in the prompt, worked out anew only when it has changed."""


def messages_of(step: MemoryStep) -> int:
    """How many messages the step is in the prompt."""
    return size_of(step).messages


def step_tokens(step: MemoryStep) -> float:
    """The estimated tokens of a step."""
    return size_of(step).tokens


def image_bytes(steps: Sequence[MemoryStep]) -> int:
    """The bytes of the pixels of every image in the steps; one that several steps share counts once."""
    distinct = {id(image): image for step in steps for image in images_of(step)}
    return sum(_pixel_bytes(image) for image in distinct.values())


def _pixel_bytes(image: Any) -> int:
    size, mode = getattr(image, "size", None), getattr(image, "mode", None)
    if not isinstance(size, tuple) or mode is None:
        return 0
    width, height = size
    if mode == "1":
        return int((width + 7) // 8 * height)
    return int(width * height * _BYTES_PER_PIXEL.get(mode, len(image.getbands())))


def input_copy_bytes(steps: Sequence[MemoryStep]) -> int:
    """The bytes of text in what each step keeps of its model call's input: every message before it, again.

    Lists of a loaded history that nobody has looked at are measured where they are stored, and stay unmade.
    """
    stored: dict[int, list[int]] = {}
    total = 0
    for step in steps:
        inputs = getattr(step, "model_input_messages", None)
        place = getattr(inputs, "place", None)
        if place is None:
            total += sum(map(_content_bytes, inputs or ()))
        else:
            messages, at = place
            if id(messages) not in stored:
                stored[id(messages)] = messages.totals(_content_bytes)
            total += stored[id(messages)][at]
    return total


def _content_bytes(message: Any) -> int:
    return text_bytes(text_of(getattr(message, "content", message)))
