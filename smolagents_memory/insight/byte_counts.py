"""How many bytes a memory's images and copies of messages take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory.history.messages import InputMessages
from smolagents_memory.steps.kinds import images_of
from smolagents_memory.steps.texts import text_of
from smolagents_memory.steps.tokens import text_bytes


_BYTES_PER_PIXEL = {"I": 4, "F": 4, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}


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
        place = inputs.place if isinstance(inputs, InputMessages) else None
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
