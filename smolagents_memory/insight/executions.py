"""Tool executions: what was called, with what, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from smolagents import AgentError
from smolagents.memory import ActionStep

from smolagents_memory.insight.code_calls import calls_in, failing_statement
from smolagents_memory.insight.conversation import call_parts, duration, times_of
from smolagents_memory.insight.sources import Recorded, Source, read_memory


@dataclass
class ToolResult:
    """What came of a call.

    Attributes:
        success: Whether the call did what it was made for.
        result: What it gave: the value where memory holds it, else the text that the agent read.
        error: What went wrong, as the agent read it.
        execution_time: In seconds, if known. smolagents times whole steps, so for a call of an agent it is the
            step's time, the model's answer included.
        tool_name: The tool.
    """

    success: bool
    result: Any = None
    error: str | None = None
    execution_time: float | None = None
    tool_name: str = ""


@dataclass
class ToolExecution:
    """One call of a tool or a managed agent.

    Attributes:
        tool_name, params, result: What was called, with what, and what came of it.
        timestamp: When its step began.
        source: "call" for a call that the model made, "code" for one that is written in a CodeAgent's code. The
            latter is read, not observed: it may have run never or many times, and its own result is not recorded.
        joint: Several calls were made at once and memory keeps their results as one text, which all of them show.
        call_id: The id the model gave the call.
        step: The position of the step in memory.
    """

    tool_name: str
    params: Any
    result: ToolResult
    timestamp: datetime | None = field(default_factory=lambda: datetime.now(timezone.utc))
    source: Literal["call", "code"] = "call"
    joint: bool = False
    call_id: str = ""
    step: int | None = None


def tool_executions(memory: Source, tool: str | None = None) -> list[ToolExecution]:
    """Every call of a tool in memory, those inside a CodeAgent's code after the code that holds them.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> agent = CodeAgent([], ScriptedModel([code("final_answer(6 * 7)")]), verbosity_level=0)
    >>> agent.run("What is six times seven?")
    42
    >>> for execution in tool_executions(agent):
    ...     print(execution.source, execution.tool_name, execution.params, execution.result.success)
    call python_interpreter final_answer(6 * 7) True
    code final_answer {'answer': <source: 6 * 7>} True
    """
    recorded = read_memory(memory)
    executions: list[ToolExecution] = []
    for (index, step), timestamp in zip(enumerate(recorded.steps), times_of(recorded.steps), strict=True):
        if isinstance(step, ActionStep):
            for execution in (*calls_made(step), *_written(step, recorded)):
                execution.timestamp, execution.step = timestamp, index
                executions.append(execution)
    return [execution for execution in executions if tool in (None, execution.tool_name)]


def calls_made(step: ActionStep) -> Iterator[ToolExecution]:
    """The calls that the model made in a step. A failed step keeps them only in the model's message."""
    calls = step.tool_calls or getattr(step.model_output_message, "tool_calls", None) or ()
    parts = [call_parts(call) for call in calls]
    error = None if step.error is None else str(step.error)
    blamed = {name for name, _, _ in parts if error is not None and _names(error, name)}
    for (name, arguments, identity), (result, joint) in zip(parts, _results(step, len(parts)), strict=True):
        outcome = ToolResult(True, result, None, duration(step), name)
        if error is not None and (not answer_was_refused(step) or name == "final_answer"):
            lost = blamed and name not in blamed
            outcome.success, outcome.error = False, f"no result was kept: {error}" if lost else error
        yield ToolExecution(name, _as_mapping(arguments), outcome, joint=joint, call_id=identity)


def _names(error: str, tool: str) -> bool:
    return f"'{tool}'" in error or f"tool {tool}" in error


def answer_was_refused(step: ActionStep) -> bool:
    """A final_answer_check failed: the calls ran, their results are there, and only the answer was not accepted."""
    return type(step.error) is AgentError and bool(step.tool_calls)


def _results(step: ActionStep, count: int) -> list[tuple[Any, bool]]:
    """The result of each call, and whether it is one text for all of them."""
    if step.action_output is not None or count <= 1:
        whole = step.observations if step.action_output is None else step.action_output
        return [(whole, False)] * count
    lines = step.observations.splitlines() if isinstance(step.observations, str) else []
    if len(lines) == count:  # upstream joins them by newlines, in the order of the calls it keeps
        return [(line, False) for line in lines]
    return [(step.observations, True)] * count


def _as_mapping(arguments: Any) -> Any:
    if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
        try:
            return json.loads(arguments)
        except ValueError:
            return arguments
    return arguments


def _written(step: ActionStep, recorded: Recorded) -> Iterator[ToolExecution]:
    """The calls written in the step's code. Those behind the statement that failed did not run."""
    if not isinstance(step.code_action, str):
        return
    error = None if step.error is None else str(step.error)
    ran = error is None or answer_was_refused(step)
    failed_at = None if ran else failing_statement(step.code_action, error)
    for call in calls_in(step.code_action, recorded.tools):
        outcome = ToolResult(ran, tool_name=call.name)
        if not ran and failed_at is not None and call.statement < failed_at:
            outcome.success = True
        elif not ran and failed_at is not None and call.statement > failed_at:
            outcome.error = "not reached: an earlier statement failed"
        elif not ran:
            outcome.error = error
        elif error is not None and call.name == "final_answer":
            outcome.success, outcome.error = False, error
        yield ToolExecution(call.name, call.arguments, outcome, source="code")
