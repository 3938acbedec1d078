"""How much of a prompt a text, a message or a step takes: bytes, messages, and tokens as an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from smolagents.memory import MemoryStep

from smolagents_memory.steps.kinds import exact_kind, kind_of
from smolagents_memory.steps.per_step import PerStep
from smolagents_memory.steps.texts import parts_in, shown


IMAGE_TOKENS = 1000


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


_known = PerStep(_measured, lambda step: kind_of(step).shown)


def size_of(step: MemoryStep) -> Size:
    """What the step takes in the prompt, worked out anew only when it has changed."""
    # a subclass may show other fields than those that are known
    return _measured(step) if exact_kind(step) is None else _known(step)


def messages_of(step: MemoryStep) -> int:
    """How many messages the step is in the prompt."""
    return size_of(step).messages


def step_tokens(step: MemoryStep) -> float:
    """The estimated tokens of a step."""
    return size_of(step).tokens
