"""The memory as it will be when the current step is in it, and the one way to take steps out of it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from itertools import repeat
from operator import is_
from typing import Any, TypeGuard

from smolagents.memory import ActionStep, AgentMemory, MemoryStep

from smolagents_memory._events import Events
from smolagents_memory.steps.kinds import is_action, is_final, is_note, is_task
from smolagents_memory.steps.marks import mark_of, returned_text, set_mark
from smolagents_memory.steps.notes import NoteStep
from smolagents_memory.steps.pins import is_pinned
from smolagents_memory.steps.texts import is_system


SUMMARY = "summary"
_guard = threading.RLock()
_turns: weakref.WeakKeyDictionary[AgentMemory, threading.RLock] = weakref.WeakKeyDictionary()


class History:
    """What a callback works on: the steps in memory and the current one, which smolagents appends afterwards.

    `steps` is a list of its own; the memory itself changes through `replace` and `drop` alone.
    """

    def __init__(self, step: MemoryStep, agent: Any = None) -> None:
        self.step, self.agent = step, agent
        self.steps: list[MemoryStep] = list(agent.memory.steps) if agent is not None else []
        if not is_final(step) and not any(map(is_, self.steps, repeat(step))):
            self.steps.append(step)

    def earlier_actions(self) -> Iterator[ActionStep]:
        """The action steps before the current one, newest first."""
        before = range(len(self.steps) - 1, -1, -1)
        at = next((index for index in before if self.steps[index] is self.step), len(self.steps))
        return filter(is_action, (self.steps[index] for index in before if index < at))

    def droppable(self, *, summaries: bool = False) -> list[MemoryStep]:
        """The steps that may go, oldest first: all but system messages, this run's tasks, pinned steps and the newest.

        Summaries stand for what was dropped before, so they go only when asked for.
        """
        tasks = self._first_task()
        return [
            step
            for index, step in enumerate(self.steps[:-1])
            if not (is_pinned(step) or (is_task(step) and index >= tasks) or is_system(step))
            and (summaries or not is_summary(step))
        ]

    def drop(self, steps: Iterable[MemoryStep]) -> int:
        """Take these steps out of the memory; returns how many were in it."""
        return self.replace(steps, ())

    def replace(self, steps: Iterable[MemoryStep], new: Iterable[MemoryStep]) -> int:
        """Put `new` where the first of these steps is and take them out; returns how many were taken out.

        The memory's list changes in place and once, however many steps go; what is appended meanwhile stays.
        """
        doomed = {id(step) for step in steps}
        if self.agent is None or not doomed:
            return 0
        with _turn_of(self.agent.memory):
            gone = _splice(self.agent.memory.steps, doomed, new := list(new))
        if gone:
            self._inherit(gone)
            _splice(self.steps, doomed, new)
            self.tell("pruned", what="steps", count=len(gone), steps=tuple(gone))
        return len(gone)

    def tell(self, event: str, **data: Any) -> None:
        """Tell the listeners of the agent's memory, where it has any."""
        events = getattr(getattr(self.agent, "memory", None), "events", None)
        if isinstance(events, Events):
            events.emit(event, self.agent, **data)

    def _first_task(self) -> int:
        """Where the current run's first task is.

        Step numbers restart with every run and steps may be gone, so the agent's own task decides; else the last
        task in memory, with those directly before it.
        """
        tasks = [index for index, step in enumerate(self.steps) if is_task(step)]
        if not tasks:
            return len(self.steps)
        wanted = getattr(self.agent, "task", None)
        if isinstance(wanted, str):
            for index in reversed(tasks):
                if returned_text(self.steps[index]) == wanted.strip():
                    return index
        first = tasks[-1]
        while first and is_task(self.steps[first - 1]):
            first -= 1
        return first

    def _inherit(self, gone: list[MemoryStep]) -> None:
        """Alerts keep what they know on the newest action step; where that went, the current step takes it over."""
        newest = next(self.earlier_actions(), None)
        known = mark_of(newest, "watching") if newest is not None and any(step is newest for step in gone) else None
        if known:
            set_mark(self.step, "inherited", known)


def _turn_of(memory: Any) -> threading.RLock:
    """Two callbacks on one memory (of a sub-agent that is called twice at once) take turns."""
    with _guard:
        return _turns.setdefault(memory, threading.RLock()) if isinstance(memory, AgentMemory) else _guard


def _splice(steps: list[MemoryStep], doomed: set[int], new: list[MemoryStep]) -> list[MemoryStep]:
    """Replace the doomed among `steps` by `new` in one change; returns them."""
    at = [index for index, step in enumerate(steps) if id(step) in doomed]
    if not at:
        return []
    span = slice(at[0], at[-1] + 1)
    gone = [steps[index] for index in at]
    steps[span] = [*new, *(step for step in steps[span] if id(step) not in doomed)]
    return gone


def is_summary(step: MemoryStep) -> TypeGuard[NoteStep]:
    """Whether the step is a summary that stands for dropped steps."""
    return is_note(step) and step.kind == SUMMARY
