"""Real agents with scripted models, and what must hold of everything their models were sent."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any, ClassVar

from PIL import Image
from rich.console import Console
from smolagents import CodeAgent, Tool, ToolCallingAgent
from smolagents.memory import ActionStep, MemoryStep, TaskStep
from smolagents.models import ChatMessage, MessageRole, get_clean_message_list, tool_role_conversions
from smolagents.monitoring import AgentLogger

from smolagents_memory import (
    AddContext,
    AlertOnFailures,
    AlertOnLoops,
    CaptureScreenshot,
    DropInputMessages,
    FitTokenBudget,
    KeepRecentSteps,
    PruneImages,
    RedactPrompt,
    StepCallback,
    SummarizeOldSteps,
    TimestampObservations,
    TruncateObservations,
    compose,
)
from smolagents_memory.testing import ScriptedModel


def picture(shade: int = 0, side: int = 4) -> Image.Image:
    return Image.new("RGB", (side, side), (shade % 256, 0, 0))


def summarizer() -> ScriptedModel:
    return ScriptedModel(("a summary of what happened" for _ in itertools.count()), record="none")


STAMPING: dict[str, Callable[[], StepCallback]] = {
    "timestamps": lambda: TimestampObservations(clock=lambda: 1794981600),
    "context": lambda: AddContext(lambda step: "usual latency: 60 ms", label="baseline"),
    "screenshots": lambda: CaptureScreenshot(picture, keep_last=2),
    "failures": lambda: AlertOnFailures(threshold=2, window=5),
    "loops": lambda: AlertOnLoops(repeats=2),
    "redaction": lambda: RedactPrompt(),
}
PRUNING: dict[str, Callable[[], StepCallback]] = {
    "images": lambda: PruneImages(keep_last=1),
    "shrunk images": lambda: PruneImages(keep_last=1, max_side=2),
    "truncation": lambda: TruncateObservations(120),
    "recent": lambda: KeepRecentSteps(2),
    "recent messages": lambda: KeepRecentSteps(max_messages=9, max_tool_executions=3, one_copy=True),
    "inputs": lambda: DropInputMessages(keep_last=1),
    "budget": lambda: FitTokenBudget(2500, observation_chars=100),
    "summaries": lambda: SummarizeOldSteps(summarizer(), keep_last=2, every=2),
}
EVERY = {**STAMPING, **PRUNING}


def everything() -> StepCallback:
    """All of them, in the order the guide recommends."""
    return compose(*(make() for make in EVERY.values()))


def quiet_logger() -> AgentLogger:
    """A logger whose output can be read."""
    return AgentLogger(level=0, console=Console(file=StringIO(), width=400))


def logged(agent: Any) -> str:
    return agent.logger.console.file.getvalue()


def code_agent(script: Any, **options: Any) -> CodeAgent:
    return CodeAgent(tools=options.pop("tools", []), model=ScriptedModel(script), logger=quiet_logger(), **options)


def calling_agent(script: Any, **options: Any) -> ToolCallingAgent:
    tools = options.pop("tools", [Look(), Broken()])
    return ToolCallingAgent(tools=tools, model=ScriptedModel(script), logger=quiet_logger(), **options)


class Look(Tool):
    name = "look"
    description = "Looks at a place."
    inputs: ClassVar[dict[str, Any]] = {"place": {"type": "string", "description": "Where to look."}}
    output_type = "string"

    def forward(self, place: str) -> str:
        return f"at {place} there is: " + place * 40


class Broken(Tool):
    name = "broken"
    description = "Always fails."
    inputs: ClassVar[dict[str, Any]] = {}
    output_type = "string"

    def forward(self) -> str:
        raise RuntimeError("503 Service Unavailable")


def check_sent(agent: Any, first_of_run: int = 0) -> None:
    """Every call was valid for a provider, began with a system prompt and held the run's task."""
    for call in agent.model.calls[first_of_run:]:
        assert call.messages[0].role in (MessageRole.SYSTEM, MessageRole.USER)  # a first plan is asked for by a user
        assert str(agent.task) in call.text
        check_valid(call.messages)


def check_valid(messages: list[ChatMessage]) -> None:
    """After smolagents' own merging no role repeats, and every call has its answer before the next call."""
    roles = [message["role"] for message in get_clean_message_list(messages, tool_role_conversions)]
    assert all(one != other for one, other in itertools.pairwise(roles))


def check_pairs(steps: list[MemoryStep]) -> None:
    for step in steps:
        if isinstance(step, ActionStep) and step.tool_calls:
            sent = [message.role for message in step.to_messages()]
            assert MessageRole.TOOL_CALL in sent
            assert MessageRole.TOOL_RESPONSE in sent[sent.index(MessageRole.TOOL_CALL) :]


def tasks(agent: Any) -> list[str]:
    return [step.task for step in agent.memory.steps if isinstance(step, TaskStep)]


def images_in(steps: list[MemoryStep]) -> Iterator[Any]:
    for step in steps:
        yield from getattr(step, "task_images", None) or ()
        yield from getattr(step, "observations_images", None) or ()
