"""RememberTool: keeps a text for later runs."""

from __future__ import annotations

from typing import Any

from smolagents import Tool


class RememberTool(Tool):
    """Lets the agent keep something in long-term memory. `memory` is as for RecallTool.

    >>> from smolagents_memory import EnhancedAgentMemory, RememberTool
    >>> RememberTool(EnhancedAgentMemory(vector=False))("The cat is called Mia.", key="cat")
    'Remembered as cat.'
    """

    name = "remember"
    description = (
        "Keeps a short, self-contained text in long-term memory for later runs: a fact, a preference, a lesson. "
        "The same text again strengthens it; a text under a key that exists replaces what was there."
    )
    inputs = {  # noqa: RUF012
        "text": {"type": "string", "description": "What to keep, understandable without this conversation."},
        "key": {
            "type": "string",
            "description": "A name to replace it by; made up if left out.",
            "nullable": True,
        },
        "importance": {"type": "number", "description": "1 is ordinary, 2 important, 0.5 minor.", "nullable": True},
        "replaces": {
            "type": "string",
            "description": "The key of a note that is true no longer; this one comes in its place.",
            "nullable": True,
        },
    }
    output_type = "string"

    def __init__(self, memory: Any = "./agent_memory", scope: Any = None) -> None:
        from smolagents_memory.tools.bound_memory import BoundMemory

        super().__init__()
        self.place = BoundMemory(memory, scope)

    def setup(self) -> None:
        """Open the memory."""
        self.place.open()
        super().setup()

    def forward(self, text: str, key: Any = None, importance: Any = None, replaces: Any = None) -> str:
        """Says under which key it was kept."""
        from smolagents_memory.tools.replies import remember_answer

        return remember_answer(self.place, text, key, importance, replaces)

    def to_dict(self) -> dict[str, Any]:
        """The tool as source, with the place it was built with."""
        from smolagents_memory.tools.bound_memory import with_place

        return with_place(self.place, super().to_dict())
