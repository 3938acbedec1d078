"""The trace of a run: what the agent thought, planned, did and saw."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from smolagents.memory import ActionStep, MemoryStep

from smolagents_memory.insight.conversation import times_of
from smolagents_memory.insight.recorded import Source, read_memory
from smolagents_memory.privacy.scrubbers import rule
from smolagents_memory.steps.calls import Call, calls_made
from smolagents_memory.steps.kinds import is_action, is_plan
from smolagents_memory.steps.texts import text_of


StepType = Literal["PLAN", "THINK", "ACT", "OBSERVE"]


@dataclass
class ReasoningStep:
    """One move of the agent.

    Attributes:
        step_type: "PLAN" a plan, "THINK" what the model wrote around its action, "ACT" code or a tool call,
            "OBSERVE" what came back, errors included.
        content: Its text.
        timestamp: When its step began.
        tool_name: For "ACT": what was called.
        step: The position of the step in memory.
    """

    step_type: StepType
    content: str
    timestamp: datetime | None = field(default_factory=lambda: datetime.now(timezone.utc))
    tool_name: str | None = None
    step: int | None = None


@dataclass
class Todo:
    """An item of a plan.

    Attributes:
        content: What is to be done.
        done: Whether the plan ticks it off: `[x]`, ✓ or struck through.
        step: The position of the plan in memory.
    """

    content: str
    done: bool = False
    step: int | None = None


def reasoning(memory: Source, step_type: StepType | None = None, *, redact: Any = None) -> list[ReasoningStep]:
    """What the agent thought, planned, did and saw, in order; with `step_type` only moves of that type.

    With `redact` (True, a `Redactor`, a function of a text) their texts are redacted; by default where the memory's or
    the session's own place redacts, and False for never.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> script = [code("final_answer(6 * 7)", thought="A product.")]
    >>> agent = CodeAgent([], ScriptedModel(script), verbosity_level=0)
    >>> agent.run("What is six times seven?")
    42
    >>> [(move.step_type, move.content) for move in reasoning(agent)][:2]
    [('THINK', 'Thought: A product.'), ('ACT', 'final_answer(6 * 7)')]
    """
    recorded, told = read_memory(memory), rule(redact, memory)
    trace: list[ReasoningStep] = []
    for (index, step), timestamp in zip(enumerate(recorded.steps), times_of(recorded.steps), strict=True):
        for move in moves_of(step):
            move.timestamp, move.step, move.content = timestamp, index, told(move.content)
            trace.append(move)
    return [move for move in trace if step_type in (None, move.step_type)]


def moves_of(step: MemoryStep, calls: Sequence[Call] | None = None) -> Iterator[ReasoningStep]:
    """What the agent thought, planned, did and saw in one step, whose calls may be known; without when and where."""
    if is_plan(step):
        yield ReasoningStep("PLAN", text_of(step.plan), None)
    if not is_action(step):
        return
    thought = thought_of(step)
    if thought:
        yield ReasoningStep("THINK", thought, None)
    for call in calls_made(step) if calls is None else calls:
        yield ReasoningStep("ACT", str(call), None, call.tool)
    if step.observations is not None:
        yield ReasoningStep("OBSERVE", text_of(step.observations), None)
    if step.error is not None:
        yield ReasoningStep("OBSERVE", f"{type(step.error).__name__}: {step.error}", None)


def thought_of(step: ActionStep) -> str:
    """What the model wrote besides its code."""
    text = text_of(step.model_output).strip()
    if text.startswith("{"):  # structured outputs: {"thought": …, "code": …}
        try:
            return str(json.loads(text)["thought"]).strip()
        except (ValueError, KeyError, TypeError):
            return text
    if not isinstance(step.code_action, str):
        return text
    first_line = step.code_action.strip().partition("\n")[0]
    begins = text.find(first_line) if first_line else -1
    tag = re.search(r"<code>|```(?:py|python)?\s*$", text, re.MULTILINE)
    if tag is not None and (begins < 0 or tag.start() < begins):
        return text[: tag.start()].strip()
    return re.sub(r"\s*[<`]\S*$", "", text[:begins].rstrip()).strip() if begins >= 0 else text


def todos(memory: Source, *, redact: Any = None) -> list[Todo]:
    """The items of the newest plan; `redact` as for `reasoning`.

    Where the plan has a heading with the word "plan", its items are those below; numbered items come before bullets.

    >>> from smolagents.memory import PlanningStep
    >>> plan = "## 1. Facts\\n- it rains\\n## 2. Plan\\n1. [x] take a coat\\n2. go"
    >>> [(todo.content, todo.done) for todo in todos([PlanningStep([], None, plan, None)])]
    [('take a coat', True), ('go', False)]
    """
    steps = read_memory(memory).steps
    plans = [(index, step) for index, step in enumerate(steps) if is_plan(step)]
    if not plans:
        return []
    index, newest = plans[-1]
    return [_todo(item, index) for item in _items(rule(redact, memory)(text_of(newest.plan)))]


_HEADING = re.compile(r"^\s*(?:#+\s*|\*\*)(?=.*\bplan\b).*$", re.IGNORECASE | re.MULTILINE)
_NUMBERED = re.compile(r"^\s*(?:#+\s*)?(?:\d+\s*\.\s*)*\d+\s*[.)]\s+(?P<item>\S.*?)\s*$", re.MULTILINE)
_BULLET = re.compile(r"^\s*[-*+•]\s+(?P<item>\S.*?)\s*$", re.MULTILINE)
_BOX = re.compile(r"^\[(?P<mark>[ xX✓✔])\]\s*|^(?P<tick>[✓✔☑✅])\s*|^(?P<empty>[☐])\s*")


def _items(plan: str) -> list[str]:
    headings = list(_HEADING.finditer(plan))
    body = plan[headings[-1].end() :] if headings else plan
    for form in (_NUMBERED, _BULLET):
        items = [match["item"] for match in form.finditer(body)]
        if items:
            return items
    return []


def _todo(item: str, step: int) -> Todo:
    box = _BOX.match(item)
    done = bool(box and ((box["mark"] or "").strip() or box["tick"]))
    text = item[box.end() :] if box else item
    struck = re.fullmatch(r"~~(.*)~~", text)
    if struck:
        return Todo(struck[1], True, step)
    return Todo(text, done, step)
