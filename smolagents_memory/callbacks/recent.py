"""KeepRecentSteps: a window over the newest steps."""

from __future__ import annotations

from typing import Any

from smolagents.memory import MemoryStep, TaskStep

from smolagents_memory.callbacks.calls import calls_of
from smolagents_memory.callbacks.history import History
from smolagents_memory.callbacks.per_step import PerStep
from smolagents_memory.callbacks.sizes import messages_of
from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.steps.marks import returned_text
from smolagents_memory.steps.pins import is_pinned


SAME = "[the same text as in a newer step]"
WORTH = 4 * len(SAME)  # a shorter text is not worth a pointer to another step


class KeepRecentSteps(StepCallback):
    """Keeps the newest steps and drops older ones, whole: a call never loses its answer.

    The system prompt, the tasks of the current run, pinned steps, summaries and the newest step always stay, beside
    the window.

    Args:
        n: How many steps stay; tasks are not counted.
        max_messages: At most so many messages in the prompt, the system prompt and all that stays included.
        max_tool_executions: At most so many tool calls in the window.
        one_copy: Where a longer text came back more than once, word for word, only the newest copy stays.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> model = ScriptedModel([*[code(f"print({n})") for n in range(5)], code("final_answer('done')")])
    >>> agent = CodeAgent(tools=[], model=model, step_callbacks=[KeepRecentSteps(3)], verbosity_level=0)
    >>> agent.run("Count.")
    'done'
    >>> [type(step).__name__ for step in agent.memory.steps]
    ['TaskStep', 'ActionStep', 'ActionStep', 'ActionStep']
    """

    acts_on = (MemoryStep,)

    def __init__(
        self,
        n: int | None = None,
        *,
        max_messages: int | None = None,
        max_tool_executions: int | None = None,
        one_copy: bool = False,
    ) -> None:
        limits = {"n": n, "max_messages": max_messages, "max_tool_executions": max_tool_executions}
        for limit, value in limits.items():
            if value is not None and value < 1:
                raise ValueError(f"{limit}={value} must be at least 1")
        self.n, self.max_messages, self.max_tool_executions = n, max_messages, max_tool_executions
        self.one_copy = one_copy

    def on_step(self, step: MemoryStep, history: History) -> None:
        """Drop what is outside the window."""
        history.drop(self._outside(history))
        if self.one_copy:
            _keep_one_copy(history)

    def _outside(self, history: History) -> list[MemoryStep]:
        if self.n is not None and len(history.steps) <= self.n and not (self.max_messages or self.max_tool_executions):
            return []
        droppable = history.droppable()
        kept = {id(step) for step in history.steps} - {id(step) for step in droppable}
        steps = sum(not isinstance(step, TaskStep) for step in history.steps[-1:])
        messages = 1 + sum(messages_of(step) for step in history.steps if id(step) in kept)
        executions = len(calls_of(history.steps[-1])) if history.steps else 0
        for index in range(len(droppable) - 1, -1, -1):
            step = droppable[index]
            steps += not isinstance(step, TaskStep)
            messages += messages_of(step)
            executions += len(calls_of(step))
            if (
                _over(steps, self.n)
                or _over(messages, self.max_messages)
                or _over(executions, self.max_tool_executions)
            ):
                return droppable[: index + 1]
        return []


def _over(count: int, limit: int | None) -> bool:
    return limit is not None and count > limit


def _keep_one_copy(history: History) -> None:
    newer: set[int] = set()
    step: Any
    for step in reversed(history.steps):
        fingerprint = _fingerprint(step)
        if fingerprint in newer and not is_pinned(step):
            step.observations = step.observations.replace(returned_text(step), SAME, 1)
        elif fingerprint is not None:
            newer.add(fingerprint)


def _hash(step: MemoryStep) -> int | None:
    observations = getattr(step, "observations", None)
    if not isinstance(observations, str) or len(observations) < WORTH or len(text := returned_text(step)) < WORTH:
        return None
    return hash(text)


_fingerprint = PerStep(_hash, "observations", "marks")
