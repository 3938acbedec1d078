"""Tool executions: what was called, with what, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from smolagents_memory.insight.conversation import duration, times_of
from smolagents_memory.insight.recorded import Source, read_memory
from smolagents_memory.steps.calls import Call, calls_made, calls_written
from smolagents_memory.steps.kinds import is_action


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
        if is_action(step):
            made = [_execution(call, "call", duration(step)) for call in calls_made(step)]
            made += [_execution(call, "code", None) for call in calls_written(step, recorded.tools)]
            for execution in made:
                execution.timestamp, execution.step = timestamp, index
            executions += made
    return [execution for execution in executions if tool in (None, execution.tool_name)]


def _execution(call: Call, source: Literal["call", "code"], seconds: float | None) -> ToolExecution:
    outcome = ToolResult(call.error is None, call.result, call.error, seconds, call.tool)
    return ToolExecution(call.tool, call.arguments, outcome, source=source, joint=call.joint, call_id=call.id)
