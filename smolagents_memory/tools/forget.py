"""ForgetTool: deletes a memory by its key."""

from __future__ import annotations

from typing import Any

from smolagents import Tool


class ForgetTool(Tool):
    """Lets the agent delete a memory. `memory` is as for RecallTool.

    >>> from smolagents_memory import EnhancedAgentMemory, ForgetTool
    >>> ForgetTool(EnhancedAgentMemory(vector=False))("cat")
    "There is no memory under the key 'cat'; nothing was deleted."
    """

    name = "forget"
    description = "Deletes a note from long-term memory by its key, as recall shows it: for what is wrong or outdated."
    inputs = {"key": {"type": "string", "description": "The key of the note."}}  # noqa: RUF012
    output_type = "string"

    def __init__(self, memory: Any = "./agent_memory", scope: Any = None) -> None:
        from smolagents_memory.tools.bound_memory import BoundMemory

        super().__init__()
        self.place = BoundMemory(memory, scope)

    def setup(self) -> None:
        """Open the memory."""
        self.place.open()
        super().setup()

    def forward(self, key: str) -> str:
        """Says whether it was there."""
        from smolagents_memory.tools.replies import forget_answer

        return forget_answer(self.place, key)

    def to_dict(self) -> dict[str, Any]:
        """The tool as source, with the place it was built with."""
        from smolagents_memory.tools.bound_memory import with_place

        return with_place(self.place, super().to_dict())
