"""The conversation: what the model reads, message by message."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from smolagents.memory import ActionStep, FinalAnswerStep, MemoryStep, PlanningStep, SystemPromptStep, ToolCall
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory.insight.sources import Source, read_memory


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
    messages = [*_prompt(recorded.system_prompt), *_said(recorded.steps)]
    return messages if role is None else [message for message in messages if message.role == role]


def _prompt(system_prompt: str | None) -> Iterator[Message]:
    if system_prompt is not None:
        yield Message("system", system_prompt)


def _said(steps: Sequence[MemoryStep]) -> Iterator[Message]:
    for (index, step), timestamp in zip(enumerate(steps), times_of(steps), strict=True):
        for message in messages_of(step):
            text, images = parts_of(message.content)
            yield Message(role_name(message.role), text, timestamp, images, index)


def role_name(role: Any) -> str:
    """A role as plain text, however it was written."""
    return str(getattr(role, "value", role))


def messages_of(step: MemoryStep) -> list[ChatMessage]:
    """What the step shows to the model, also for steps made by hand that upstream cannot render."""
    if isinstance(step, FinalAnswerStep):
        return [ChatMessage(role=MessageRole.ASSISTANT, content=[{"type": "text", "text": str(step.output)}])]
    if isinstance(step, ActionStep):
        step = _renderable(step)
    elif isinstance(step, PlanningStep) and not isinstance(step.plan, str):
        step = copy.copy(step)
        step.plan = text_of(step.plan)
    try:
        rendered: list[ChatMessage] = step.to_messages()
    except NotImplementedError:  # a step class that shows nothing to the model
        return []
    except (RecursionError, TypeError, ValueError, AttributeError):
        # arguments that upstream cannot turn into JSON, such as a list that holds itself: as Python shows them
        if not isinstance(step, ActionStep) or not step.tool_calls:
            raise
        step = copy.copy(step)
        parts = [call_parts(call) for call in step.tool_calls or ()]
        step.tool_calls = [ToolCall(name, repr(arguments), identity) for name, arguments, identity in parts]
        rendered = step.to_messages()
    return rendered


def _renderable(step: ActionStep) -> ActionStep:
    output_fits = step.model_output is None or isinstance(step.model_output, str)
    calls_fit = all(hasattr(call, "dict") for call in step.tool_calls or ())
    if output_fits and calls_fit:
        return step
    step = copy.copy(step)
    if not output_fits:
        step.model_output = text_of(step.model_output)
    if not calls_fit:
        step.tool_calls = [ToolCall(*call_parts(call)) for call in step.tool_calls]
    return step


def call_parts(call: Any) -> tuple[str, Any, str]:
    """Name, arguments and id of a tool call: smolagents' own, a chat message's, or a plain dict."""
    function = _read(call, "function")
    owner = call if function is None else function
    return str(_read(owner, "name")), _read(owner, "arguments"), str(_read(call, "id") or "")


def _read(owner: Any, name: str) -> Any:
    return owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)


def text_of(content: Any) -> str:
    """The text in a message's content."""
    return parts_of(content)[0]


def parts_of(content: Any) -> tuple[str, list[Any]]:
    """The text and the images in a message's content, whatever form it has."""
    if content is None:
        return "", []
    if isinstance(content, str):
        return content, []
    if not isinstance(content, (list, tuple)):
        return str(content), []
    texts, images = [], []
    for part in content:
        if not isinstance(part, dict):
            texts.append(str(part))
        elif "image" in part:
            images.append(part["image"])
        elif part.get("text") is not None:
            texts.append(str(part["text"]))
    return "\n".join(texts), images


def times_of(steps: Sequence[MemoryStep]) -> list[datetime | None]:
    """When each step began. A task has no time of its own: it was given when the step after it began."""
    times: list[datetime | None] = []
    following: datetime | None = None
    for step in reversed(steps):
        own = moment(started(step))
        if own is not None:
            following = own
        timed = hasattr(step, "timing") or hasattr(step, "created") or isinstance(step, SystemPromptStep)
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
