"""What answer is in here, which task is still without one, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smolagents import AgentMaxStepsError
from smolagents.memory import ActionStep, MemoryStep

from smolagents_memory.steps.calls import calls_of
from smolagents_memory.steps.code_calls import is_reached
from smolagents_memory.steps.kinds import is_action, is_task
from smolagents_memory.steps.marks import is_closed, mark_of


@dataclass(frozen=True)
class Answer:
    """A run's answer; in an object of its own, for the answer may well be None."""

    value: Any


def answer_of(steps: Sequence[MemoryStep], state: Mapping[str, Any] | None = None) -> Answer | None:
    """The answer that the last action in `steps` holds, if it ended its run.

    A ToolCallingAgent records only the text of its answer, to which callbacks may have added a time or the like; the
    call's own argument is taken where it says the same, or what it names in the agent's `state`.

    A step that nobody marked, of a loop by hand over `agent.step`, ended its run if its calls say so.
    """
    last = last_action(steps)
    if last is None or not (last.is_final_answer or isinstance(last.error, AgentMaxStepsError) or _ended(last)):
        return None
    if last.action_output is not None or last.code_action is not None:
        return Answer(last.action_output)
    observed = last.observations
    given = next((arguments for name, arguments, _ in calls_of(last) if name == "final_answer"), None)
    if not isinstance(given, dict):
        return Answer(observed)
    argument = given.get("answer")
    if state is not None and isinstance(argument, str) and argument in state:
        return Answer(state[argument])
    said = str(argument).strip()
    return Answer(argument if said == observed or (said and said in (observed or "")) else observed)


def _ended(step: ActionStep) -> bool:
    """Whether a step without a mark gave a final answer all the same."""
    if step.error is not None or is_closed(step):  # what stands in a closed one was not given by its calls
        return False
    if isinstance(step.code_action, str):
        return is_reached(step.code_action, "final_answer") and step.observations is not None
    given = next((arguments for name, arguments, _ in calls_of(step) if name == "final_answer"), None)
    said = str(given.get("answer")).strip() if isinstance(given, dict) else ""
    return bool(said) and said in str(step.observations or "")


def outcome(steps: Sequence[MemoryStep]) -> tuple[str | None, str | None]:
    """The final answer, or why there is none."""
    last = last_action(steps)
    if last is None:
        return None, "nothing was done"
    answer = None if isinstance(last.error, AgentMaxStepsError) else answer_of([last])
    if answer is not None:
        return str(answer.value), None
    if last.error is None:
        return None, mark_of(last, "generation_error") or "it was interrupted"
    given = f"; the answer given was: {last.action_output}" if last.action_output is not None else ""
    return None, f"{type(last.error).__name__}: {last.error}{given}"


def last_action(steps: Sequence[MemoryStep]) -> ActionStep | None:
    """The last action in `steps`."""
    return next(filter(is_action, reversed(steps)), None)


def last_task(steps: Sequence[MemoryStep]) -> int | None:
    """The position of the last task in `steps`."""
    return next((at for at in range(len(steps) - 1, -1, -1) if is_task(steps[at])), None)


def current_task(steps: Sequence[MemoryStep]) -> int | None:
    """The position of the last task in `steps`, if it has no answer yet."""
    begun = last_task(steps)
    return None if begun is None or answer_of(steps[begun:]) is not None else begun


def last_number(steps: Sequence[MemoryStep]) -> int:
    """The highest step number among `steps`, 0 if there is none."""
    return max((step.step_number for step in filter(is_action, steps) if isinstance(step.step_number, int)), default=0)
