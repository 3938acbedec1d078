"""PerStep: a value worked out once for each step and again only when the step has changed."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from smolagents.memory import MemoryStep


Value = TypeVar("Value")


class PerStep(Generic[Value]):
    """Remembers what `work_out(step)` gave while its `fields(step)` hold the same objects, and keeps none alive.

    This is what keeps callbacks cheap in long runs: a step's text and images are gone through once, not at every
    later step, and yet an edit, a reset or a restored memory is noticed, because nothing depends on positions.
    """

    def __init__(
        self, work_out: Callable[[MemoryStep], Value], fields: Callable[[MemoryStep], tuple[str, ...] | None]
    ) -> None:
        self._work_out, self._fields = work_out, fields
        self._known: dict[int, tuple[weakref.ref[MemoryStep], list[Any], Value]] = {}

    def __call__(self, step: MemoryStep) -> Value:
        """The step's value."""
        held, fields = step.__dict__, self._fields(step)
        if fields is None:  # nobody knows when it changes
            return self._work_out(step)
        # which object each is and how long: one that takes a freed one's place has another length
        state = [
            (id(value), len(value)) if isinstance(value := held.get(field), (str, list)) else id(value)
            for field in fields
        ]
        known = self._known.get(id(step))
        if known is not None and known[0]() is step and known[1] == state:
            return known[2]
        value, key, entries = self._work_out(step), id(step), self._known
        entries[key] = (weakref.ref(step, lambda _: entries.pop(key, None)), state, value)
        return value
