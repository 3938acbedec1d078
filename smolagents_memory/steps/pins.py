"""Pins: steps that no callback may prune."""

from __future__ import annotations

from typing import TypeVar

from smolagents.memory import MemoryStep


Step = TypeVar("Step", bound=MemoryStep)


def pin(step: Step) -> Step:
    """Keep this step as it is: nothing here drops, truncates or summarises it. Returns the step.

    The pin is part of the step: it is saved with it and comes back with it.

    >>> from smolagents.memory import TaskStep
    >>> is_pinned(pin(TaskStep(task="Never forget this.")))
    True
    """
    step.__dict__["pinned"] = True
    return step


def unpin(step: Step) -> Step:
    """Let callbacks prune this step again. Returns the step."""
    step.__dict__.pop("pinned", None)
    return step


def is_pinned(step: MemoryStep) -> bool:
    """Whether the step is pinned."""
    return bool(getattr(step, "pinned", False))
