"""StepTool: the full original of a step that a callback cut."""

from __future__ import annotations

import weakref
from typing import Any

from smolagents import Tool


class StepTool(Tool):
    """Lets the agent read a step of its own again, whole, also one that was dropped. It cannot be saved.

    It needs nothing: the session that is attached to the agent makes itself known to it. Without one it looks for the
    agent whose tool it is, and reads what is in its memory, or in the session that was put there. Give each agent one
    of its own: it shows nobody another one's steps.

    Args:
        memory: The agent, its memory, or the Session that journals it.
        session: The Session: it has what callbacks cut and dropped. Left out, the one that is attached.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory import KeepRecentSteps, Session, StepTool
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> script = [code("print('page one')"), code("print('page two')"), code("final_answer(original_step(1))")]
    >>> agent = CodeAgent([StepTool()], ScriptedModel(script), step_callbacks=[KeepRecentSteps(1)], verbosity_level=0)
    >>> with Session("reader").attach(agent):
    ...     print(agent.run("Read."))
    Execution logs:
    page one
    Last output from code snippet:
    None
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
        self._told: list[tuple[weakref.ref[Any], Any]] = []  # agents that it is a tool of, and what journals them

    def forward(self, step: int, start: Any = None) -> str:
        """The step's text, at most some 20,000 characters of it at a time."""
        from smolagents_memory.tools.originals import agents_with, step_answer

        told = self._told
        if self.memory is None and self.session is None and not any(agent() is not None for agent, _ in told):
            told = [(weakref.ref(agent), None) for agent in agents_with(self)]  # no session has told whose it is
        return step_answer(self.memory, self.session, step, start, told)

    def attached(self, agent: Any, session: Any) -> None:
        """A session was attached to the agent whose tool this is."""
        others = [each for each in self._told if each[0]() is not None and each[0]() is not agent]
        self._told = [*others, (weakref.ref(agent), session)]

    def to_dict(self) -> dict[str, Any]:
        """Refused: the steps it reads live in this process."""
        from smolagents_memory._errors import ToolStateError

        raise ToolStateError("StepTool reads a live agent's steps, which cannot be saved; build it where it is used")
