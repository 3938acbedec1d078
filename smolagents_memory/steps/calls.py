"""What a step called, with what, and what came of it, whichever kind of agent made it and however it failed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from smolagents import AgentError
from smolagents.memory import ActionStep, MemoryStep

from smolagents_memory.steps.code_calls import calls_in, failing_statement, names_called
from smolagents_memory.steps.marks import mark_of, returned_text, unanswered


LOST = "no result was kept: the run was interrupted"
CODE = "python_interpreter"  # what a CodeAgent's step calls, whatever its code does


@dataclass
class Call:
    """A call that a step made, or that is written in its code.

    Attributes:
        tool, arguments, id: What was called, with what; the id that the model gave the call.
        result: What it gave: the value where the step holds it, else the text that came back.
        error: What went wrong; None if the call did what it was made for.
        joint: Several calls were made at once and their results are one text, which all of them have.
        lost: Nobody knows what came of it: another call of the step failed, or the run was interrupted.
    """

    tool: str
    arguments: Any
    id: str = ""
    result: Any = None
    error: str | None = None
    joint: bool = False
    lost: bool = False

    def __str__(self) -> str:
        """The call as code; a CodeAgent's is code already."""
        if isinstance(self.arguments, dict):
            return f"{self.tool}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"
        if self.tool == CODE and isinstance(self.arguments, str):
            return self.arguments
        return f"{self.tool}({'' if self.arguments is None else repr(self.arguments)})"


def call_parts(call: Any) -> tuple[str, Any, str]:
    """Name, arguments and id of a tool call: smolagents' own, a chat message's, or a plain dict."""
    function = _read(call, "function")
    owner = call if function is None else function
    return str(_read(owner, "name")), _read(owner, "arguments"), str(_read(call, "id") or "")


def _read(owner: Any, name: str) -> Any:
    return owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)


def calls_of(step: MemoryStep) -> list[tuple[str, Any, str]]:
    """Name, arguments and id of each call the step made. A failed step keeps them only in the model's message."""
    message = getattr(step, "model_output_message", None)
    return [
        call_parts(call) for call in getattr(step, "tool_calls", None) or getattr(message, "tool_calls", None) or ()
    ]


def called(step: MemoryStep, tools: frozenset[str]) -> bool:
    """Whether the step called one of these tools, be it by a tool call or from code."""
    if any(name in tools for name, _, _ in calls_of(step)):
        return True
    code = getattr(step, "code_action", None)
    return isinstance(code, str) and bool(names_called(code, dict.fromkeys(tools, ())))


def calls_made(step: ActionStep) -> Iterator[Call]:
    """The calls that the model made in a step, with what came of each."""
    asked, error = calls_of(step), error_of(step)
    blamed = {name for name, _, _ in asked if error is not None and (f"'{name}'" in error or f"tool {name}" in error)}
    never = unanswered(step)
    for place, (result, joint) in enumerate(_results(step, len(asked))):
        name, arguments, identity = asked[place]
        call = Call(name, _as_mapping(arguments), identity, result, joint=joint)
        if place in never:
            call.result, call.joint, call.lost, call.error = None, False, True, LOST
        elif error is not None and (not answer_was_refused(step) or name == "final_answer"):
            call.lost = bool(blamed) and name not in blamed
            call.error = f"no result was kept: {error}" if call.lost else error
        yield call


def calls_written(step: ActionStep, tools: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    """The calls of `tools` written in the step's code. Those behind the statement that failed did not run."""
    if not isinstance(step.code_action, str):
        return
    error = error_of(step)
    ran = error is None or answer_was_refused(step)
    failed_at = None if ran else failing_statement(step.code_action, error)
    for written in calls_in(step.code_action, tools):
        call = Call(written.name, written.arguments)
        if unanswered(step):
            call.lost, call.error = True, LOST
        elif ran:
            call.error = error if call.tool == "final_answer" else None
        elif failed_at is None or written.statement == failed_at:
            call.error = error
        elif written.statement > failed_at:
            call.error = "not reached: an earlier statement failed"
        yield call


def error_of(step: MemoryStep) -> str | None:
    """What went wrong in the step, a failure of the model itself included where it was noted."""
    error = getattr(step, "error", None)
    return (mark_of(step, "generation_error") or None) if error is None else str(error)


def answer_was_refused(step: ActionStep) -> bool:
    """A final_answer_check failed: the calls ran, their results are there, and only the answer was not accepted."""
    return type(step.error) is AgentError and bool(step.tool_calls)


def _results(step: ActionStep, count: int) -> list[tuple[Any, bool]]:
    """The result of each call, and whether it is one text for all of them."""
    if step.action_output is not None:
        return [(step.action_output, False)] * count
    text = returned_text(step) if mark_of(step, "added") else step.observations
    lines = text.splitlines() if isinstance(text, str) and count > 1 else []
    if len(lines) == count:  # upstream joins them by newlines, in the order of the calls it keeps
        return [(line, False) for line in lines]
    return [(text, count > 1)] * count


def _as_mapping(arguments: Any) -> Any:
    if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
        with suppress(ValueError):
            return json.loads(arguments)
    return arguments
