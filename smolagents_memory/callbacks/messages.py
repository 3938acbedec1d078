"""The parts of chat messages, whatever form their content has."""

from __future__ import annotations

from typing import Any

from smolagents.memory import MemoryStep


IMAGE_FIELDS = ("task_images", "observations_images")


def shown(step: MemoryStep) -> list[Any]:
    """The step's messages; its texts and images as one message if smolagents itself could not show it."""
    try:
        messages: list[Any] = step.to_messages()
    except Exception:  # noqa: BLE001 - arguments in a cycle, a plan of None: whatever an odd step's rendering raises
        values = step.__dict__.values()
        images = [image for field in IMAGE_FIELDS for image in step.__dict__.get(field) or ()]
        content = [{"type": "text", "text": "\n".join(value for value in values if isinstance(value, str))}]
        return [{"content": [*content, *({"type": "image", "image": image} for image in images)]}]
    return messages


def content_of(message: Any) -> Any:
    """The content of a ChatMessage, or of one that is a plain dict."""
    return message.get("content") if isinstance(message, dict) else getattr(message, "content", None)


def parts_of(messages: list[Any]) -> list[dict[str, Any]]:
    """Every text and image of the messages, in order."""
    try:  # an input is as long as the memory, and nearly always as smolagents makes it
        return [part for message in messages for part in message.content if part.get("type")]
    except (AttributeError, TypeError):
        contents = [content_of(message) for message in messages]
    whole = [[{"type": "text", "text": content}] if isinstance(content, str) else content for content in contents]
    parts = [part for content in whole if isinstance(content, (list, tuple)) for part in content]
    return [part for part in parts if isinstance(part, dict) and part.get("type")]


def text_of(messages: list[Any]) -> str:
    """The texts of the messages, a line each, with a word in the place of each image."""
    return "\n".join(str(part.get("text", "[image]")) for part in parts_of(messages))
