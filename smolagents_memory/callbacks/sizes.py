"""How much of a prompt a step takes: its messages, and its tokens as an estimate."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from smolagents.agents import MultiStepAgent
from smolagents.memory import ActionStep, MemoryStep, PlanningStep, TaskStep
from smolagents.models import get_tool_json_schema

from smolagents_memory.callbacks.messages import parts_of, shown
from smolagents_memory.callbacks.per_step import PerStep
from smolagents_memory.steps.notes import NoteStep
from smolagents_memory.upstream import prompts_round_steps


IMAGE_TOKENS = 1000
RENDERED = {  # what of a step is sent
    ActionStep: ("model_output", "tool_calls", "observations", "observations_images", "error"),
    PlanningStep: ("plan",),
    TaskStep: ("task", "task_images"),
    NoteStep: ("text",),
}


def messages_of(step: MemoryStep) -> int:
    """How many messages the step is in the prompt."""
    if isinstance(step, ActionStep):
        parts = (step.model_output, step.tool_calls, step.observations, step.error)
        return sum(part is not None for part in parts) + bool(step.observations_images)
    if isinstance(step, (PlanningStep, TaskStep)):
        return 2 if isinstance(step, PlanningStep) else 1
    if isinstance(step, NoteStep):
        return 1 if step.text else 0
    return len(shown(step))


def text_tokens(text: str) -> float:
    """Four bytes a token: four characters of English, one and a third of Chinese."""
    return len(text if text.isascii() else text.encode("utf-8", "surrogatepass")) / 4


def message_tokens(messages: list[Any]) -> float:
    """The estimated tokens of some messages."""
    parts = parts_of(messages)
    texts = [str(part["text"]) for part in parts if "text" in part]
    return text_tokens("".join(texts)) + 0.25 * len(texts) + IMAGE_TOKENS * (len(parts) - len(texts))


def _step_tokens(step: MemoryStep) -> float:
    return message_tokens(shown(step))


_known_tokens = {cls: PerStep(_step_tokens, *fields) for cls, fields in RENDERED.items()}


def step_tokens(step: MemoryStep) -> float:
    """The estimated tokens of a step, worked out anew only when it has changed."""
    return _known_tokens.get(type(step), _step_tokens)(step)


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
