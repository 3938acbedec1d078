"""The conversation: what the model reads, message by message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory.insight.recorded import Source, read_memory
from smolagents_memory.steps.kinds import is_prompt
from smolagents_memory.steps.texts import read_content, role_name, shown


@dataclass
class Message:
    """One message, as the model reads it.

    Attributes:
        role: "system", "user", "assistant", "tool-call" or "tool-response".
        content: Its text; images are in `images`.
        timestamp: When the step began that it comes from; for a task, when the step after it began.
        step: The position of that step in memory; None for the system prompt.
    """

    role: str
    content: str
    timestamp: datetime | None = None
    images: list[Any] = field(default_factory=list, repr=False)
    step: int | None = None


def conversation(memory: Source, role: str | None = None) -> list[Message]:
    """Every message that the model would read now, in order; with `role` only those of that role.

    >>> from smolagents.memory import TaskStep
    >>> [message] = conversation([TaskStep("Count to three.")])
    >>> message.role, message.content
    ('user', 'New task:\\nCount to three.')
    """
    recorded = read_memory(memory)
    prompt = recorded.system_prompt
    messages = [] if prompt is None else [Message("system", prompt)]
    for (index, step), timestamp in zip(enumerate(recorded.steps), times_of(recorded.steps), strict=True):
        for message in shown(step):
            text, images = read_content(message.content)
            messages.append(Message(role_name(message.role), text, timestamp, images, index))
    return messages if role is None else [message for message in messages if message.role == role]


def times_of(steps: Sequence[MemoryStep]) -> list[datetime | None]:
    """When each step began. A task has no time of its own: it was given when the step after it began."""
    times: list[datetime | None] = []
    following: datetime | None = None
    for step in reversed(steps):
        own = moment(started(step))
        if own is not None:
            following = own
        timed = hasattr(step, "timing") or hasattr(step, "created") or is_prompt(step)
        times.append(own if timed else following)
    times.reverse()
    return times


def started(step: MemoryStep) -> float | None:
    """When the step began, in seconds since 1970, if it says so."""
    value = getattr(getattr(step, "timing", None), "start_time", None) or getattr(step, "created", None)
    return value if isinstance(value, (int, float)) else None


def duration(step: MemoryStep) -> float | None:
    """How long the step took, in seconds, if it says so."""
    timing = getattr(step, "timing", None)
    begun, ended = getattr(timing, "start_time", None), getattr(timing, "end_time", None)
    return ended - begun if begun is not None and ended is not None else None


def moment(seconds: float | None) -> datetime | None:
    """Seconds since 1970 as a date with its time zone, UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=timezone.utc)
