"""StepTool: the full original of a step that a callback cut."""

from __future__ import annotations

from typing import Any

from smolagents import Tool


class StepTool(Tool):
    """Lets the agent read a step of its own again, whole. It holds the live memory, so it cannot be saved.

    Args:
        memory: The agent's memory (`agent.memory`).
        session: The Session that journals it: it has what callbacks cut. Left out, the memory's own, if it has one.
    """

    name = "original_step"
    description = "Reads again, in full, what came back in an earlier step whose text was cut to save room."
    inputs = {  # noqa: RUF012
        "step": {"type": "integer", "description": "The number of the step."},
        "start": {"type": "integer", "description": "From which character on (0 if left out).", "nullable": True},
    }
    output_type = "string"

    def __init__(self, memory: Any = None, session: Any = None) -> None:
        super().__init__()
        self.memory = memory
        self.session = session

    def forward(self, step: int, start: Any = None) -> str:
        """The step's text, at most some 20,000 characters of it at a time."""
        from smolagents_memory.tools.replies import step_answer

        return step_answer(self.memory, self.session or getattr(self.memory, "session", None), step, start)

    def to_dict(self) -> dict[str, Any]:
        """Refused: the steps it reads live in this process."""
        from smolagents_memory._errors import ToolStateError

        raise ToolStateError("StepTool reads a live agent's steps, which cannot be saved; build it where it is used")
