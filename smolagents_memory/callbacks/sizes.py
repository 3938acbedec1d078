"""What stands round the steps in an agent's prompts, in estimated tokens."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from smolagents.agents import MultiStepAgent
from smolagents.models import get_tool_json_schema

from smolagents_memory.steps.tokens import text_tokens
from smolagents_memory.upstream import prompts_round_steps


@dataclass(frozen=True)
class Frame:
    """The estimated tokens round the steps: what stands before and after them, and the schemas of tools."""

    around: float = 0.0
    schemas: float = 0.0

    @property
    def tokens(self) -> float:
        """Both together."""
        return self.around + self.schemas


_frames: weakref.WeakKeyDictionary[Any, tuple[Any, Frame]] = weakref.WeakKeyDictionary()


def frame_of(agent: Any) -> Frame:
    """The frame of the agent's prompts, worked out once per task.

    Planning and the answer at the step limit put templates in the system prompt's place; the largest counts.
    """
    if agent is None:
        return Frame()
    system = str(agent.memory.system_prompt.system_prompt)
    if not isinstance(agent, MultiStepAgent):
        return Frame(text_tokens(system))
    state = (system, agent.task, len(agent.tools), len(agent.managed_agents), agent.planning_interval)
    known = _frames.get(agent)
    if known is None or known[0] != state:
        around = max(text_tokens(text) for text in (system, *prompts_round_steps(agent)))
        known = _frames[agent] = (state, Frame(around, text_tokens("".join(_schemas(agent)))))
    return known[1]


def _schemas(agent: Any) -> list[str]:
    """A ToolCallingAgent sends schemas beside the messages; a CodeAgent has its tools in the system prompt."""
    return [str(get_tool_json_schema(tool)) for tool in getattr(agent, "tools_and_managed_agents", ())]
