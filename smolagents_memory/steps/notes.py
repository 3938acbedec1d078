"""NoteStep: text in an agent's memory that is neither a task nor an action."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from smolagents.memory import MemoryStep
from smolagents.models import ChatMessage, MessageRole


@dataclass
class NoteStep(MemoryStep):
    """A summary, recalled memories, injected history: whatever the model should read besides tasks and actions.

    Args:
        text: What the model reads. An empty note shows nothing.
        kind: What sort of note it is: "note", "summary", "recalled", "history" or a word of your own.
        role: Under which role the model reads it.
        created: When it was made, in seconds since 1970.
        meta: Anything to remember about it; the model does not see this.

    >>> NoteStep("The service was restarted at noon.").to_messages()[0].content
    [{'type': 'text', 'text': 'The service was restarted at noon.'}]
    """

    text: str
    kind: str = "note"
    role: MessageRole = MessageRole.USER
    created: float = field(default_factory=time.time)
    meta: dict[str, Any] = field(default_factory=dict)

    def dict(self) -> dict[str, Any]:
        """The note as a plain dictionary, as smolagents' own steps give theirs."""
        return {
            "note": self.text,
            "kind": self.kind,
            "role": MessageRole(self.role).value,
            "created": self.created,
            "meta": self.meta,
        }

    def to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        """The note as one chat message; planning (`summary_mode`) reads it as well."""
        if not self.text:
            return []
        return [ChatMessage(role=self.role, content=[{"type": "text", "text": self.text}])]
