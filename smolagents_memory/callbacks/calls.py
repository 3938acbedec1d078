"""What a step did and what came of it, whichever kind of agent made it and however it failed."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from smolagents.memory import ActionStep, MemoryStep
from smolagents.utils import AgentGenerationError

from smolagents_memory.steps.marks import mark_of, returned_text, set_mark


# also where an agent prints an alert again; not what a monitored service calls an alert
_OWN_ALERT = re.compile(r"\[ALERT\] (Pattern detected: \d+ failures in last \d+ checks|Loop detected: .*)")


def calls_of(step: MemoryStep) -> list[tuple[str, Any]]:
    """The name and arguments of each call the step made; of each it asked for, where a call failed."""
    made = [(str(call.name), call.arguments) for call in getattr(step, "tool_calls", None) or ()]
    if made:
        return made
    asked = getattr(getattr(step, "model_output_message", None), "tool_calls", None) or ()
    return [(str(call.function.name), call.function.arguments) for call in asked]


def called(step: MemoryStep, tools: frozenset[str]) -> bool:
    """Whether the step called one of these tools, be it by a tool call or from code."""
    if any(name in tools for name, _ in calls_of(step)):
        return True
    code = getattr(step, "code_action", None)
    return isinstance(code, str) and any(re.search(rf"\b{re.escape(name)}\s*\(", code) for name in tools)


def action_text(step: MemoryStep) -> str:
    """What the step did, the same for the same calls, whatever their ids; "" if it did nothing."""
    calls = calls_of(step)
    if calls:
        return "\n".join(sorted(f"{name}({_plain(arguments)})" for name, arguments in calls))
    output = getattr(step, "model_output", None)
    return "" if output is None else str(output)


def result_text(step: MemoryStep) -> str:
    """What came back: the observation and the error, without anything that callbacks added."""
    parts = [_OWN_ALERT.sub("", returned_text(step))]
    parts += [str(error) for error in (getattr(step, "error", None), generation_error(step)) if error]
    return "\n".join(part for part in parts if part)


def has_failed(step: MemoryStep) -> bool:
    """Whether the step ended in an error."""
    return getattr(step, "error", None) is not None or bool(generation_error(step))


def generation_error(step: MemoryStep) -> str:
    """What the model's failure said, if it failed in this step.

    Such a step reaches callbacks with `error=None`, while the error is on its way out of the run: it is noted on the
    step, for later runs. Where nobody noted it, it shows by an input that got no output.
    """
    noted = mark_of(step, "generation_error")
    if noted is not None or not isinstance(step, ActionStep) or not _without_output(step):
        return noted or ""
    flying = sys.exc_info()[1]
    if isinstance(flying, AgentGenerationError):
        set_mark(step, "generation_error", str(flying))
        return str(flying)
    broken_off = isinstance(flying, GeneratorExit)  # by whoever read the stream
    return "the model gave no output" if step.model_input_messages and not broken_off else ""


def _without_output(step: ActionStep) -> bool:
    fields = (step.model_output_message, step.model_output, step.tool_calls, step.observations, step.error)
    return all(field is None for field in fields) and step.action_output is None


def _plain(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments, sort_keys=True, default=str)
    except (TypeError, ValueError):  # keys of several types, or a cycle
        return repr(arguments)
