"""The parts of chat messages, whatever form their content has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def content_of(message: Any) -> Any:
    """The content of a ChatMessage, or of one that is a plain dict."""
    return message.get("content") if isinstance(message, dict) else getattr(message, "content", None)


def parts_of(messages: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Every text and image of the messages, in order."""
    for message in messages:
        content = content_of(message)
        if isinstance(content, str):
            yield {"type": "text", "text": content}
        elif isinstance(content, (list, tuple)):
            for part in content:
                if isinstance(part, dict):
                    yield part


def text_of(messages: Iterable[Any]) -> str:
    """The texts of the messages, a line each, with a word in the place of each image."""
    return "\n".join(str(part.get("text", "[image]")) for part in parts_of(messages))
