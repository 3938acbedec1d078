"""KeepRecentSteps: a window over the newest steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from smolagents.memory import MemoryStep

from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.callbacks.working_history import History
from smolagents_memory.steps.calls import calls_of
from smolagents_memory.steps.kinds import came_back, is_task, kind_of
from smolagents_memory.steps.marks import returned_text
from smolagents_memory.steps.per_step import PerStep
from smolagents_memory.steps.pins import is_pinned
from smolagents_memory.steps.tokens import messages_of


SAME = "[the same text as in a newer step]"
WORTH = 4 * len(SAME)  # a shorter text is not worth a pointer to another step


class KeepRecentSteps(StepCallback):
    """Keeps the newest steps and drops older ones, whole: a call never loses its answer.

    The system prompt, system messages that were added, the tasks of the current run, pinned steps, summaries and the
    newest step always stay, beside the window.

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
        droppable, newest = history.droppable(), history.steps[-1:]
        going = {id(step) for step in droppable}
        measures: list[tuple[int | None, Callable[[MemoryStep], int], list[MemoryStep], int]] = [
            (self.n, lambda step: not is_task(step), newest, 0),
            (self.max_messages, messages_of, [step for step in history.steps if id(step) not in going], 1),
            (self.max_tool_executions, lambda step: len(calls_of(step)), newest, 0),
        ]
        outside = 0
        for limit, measure, staying, before in measures:
            if limit is not None:
                counts = accumulate(map(measure, reversed(droppable)), initial=before + sum(map(measure, staying)))
                fitting = sum(count <= limit for count in counts) - 1  # steps beside what stays in any case
                outside = max(outside, len(droppable) - max(0, fitting))
        return droppable[:outside]


def _keep_one_copy(history: History) -> None:
    newer: set[int] = set()
    for step in reversed(history.steps):
        fingerprint = _fingerprint(step)
        if fingerprint in newer and not is_pinned(step):
            setattr(step, kind_of(step).text or "", came_back(step).replace(returned_text(step), SAME, 1))
        elif fingerprint is not None:
            newer.add(fingerprint)


def _hash(step: MemoryStep) -> int | None:
    seen = came_back(step)
    if not isinstance(seen, str) or len(seen) < WORTH or len(text := returned_text(step)) < WORTH:
        return None
    return hash(text)


_fingerprint = PerStep(_hash, lambda step: (kind_of(step).text or "", "marks"))
