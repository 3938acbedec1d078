"""What callbacks know about a step, kept on the step itself as plain data, so that it is saved and loaded with it."""

from __future__ import annotations

import copy
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory.steps.kinds import kind_of


def mark_of(step: MemoryStep, name: str, default: Any = None) -> Any:
    """What is marked on the step under this name."""
    marks = getattr(step, "marks", None)
    return marks.get(name, default) if isinstance(marks, dict) else default


def set_mark(step: MemoryStep, name: str, value: Any) -> None:
    """Mark the step. `value` is plain JSON. The dict is replaced, not changed: a journal sees that by identity."""
    marks = getattr(step, "marks", None)
    step.__dict__["marks"] = {**(marks if isinstance(marks, dict) else {}), name: value}


CLOSED = "closed"  # a step that was left in the middle and taken up later: which of its calls have no result


def is_closed(step: MemoryStep) -> bool:
    """Whether the step was left in the middle, and what there is of its results was put there afterwards."""
    return mark_of(step, CLOSED) is not None


def unanswered(step: MemoryStep) -> list[int]:
    """The places of those calls of a step of which nobody knows what came: it was left in the middle of them."""
    places = mark_of(step, CLOSED)
    return places if isinstance(places, list) else []


def has_added(step: MemoryStep, key: str) -> bool:
    """Whether something was added to the step's text under this key."""
    return key in mark_of(step, "added", {})


def add_text(step: MemoryStep, key: str, text: str, *, in_front: bool = False) -> None:
    """Add a line to the step's text, or put it in the place of what was added under the same key before.

    What was added is remembered, so that nothing is added twice and `returned_text` can tell it from the rest.
    """
    field = kind_of(step).text
    if field is None:
        return
    added = mark_of(step, "added", {})
    before, now = added.get(key), getattr(step, field)
    if before and isinstance(now, str) and before in now:
        now = now.replace(before, text, 1) if in_front else text.join(now.rsplit(before, 1))
    elif not now:
        now = text
    else:
        now = f"{text} {now}" if in_front else f"{now}\n{text}"
    setattr(step, field, now)
    set_mark(step, "added", {**added, key: text})


def returned_text(step: MemoryStep) -> str:
    """The step's text as it came back, without what callbacks added to it."""
    text = getattr(step, kind_of(step).text or "", None)
    if not isinstance(text, str):
        return "" if text is None else str(text)
    for addition in mark_of(step, "added", {}).values():
        text = text.replace(addition, "", 1)
    return text.strip()


def as_it_came(step: MemoryStep, text: str | None = None) -> MemoryStep:
    """The step without what callbacks added to its text, or with this text: a copy, unless it is so already."""
    field = kind_of(step).text
    if field is None or (text is None and not mark_of(step, "added")):
        return step
    came = copy.copy(step)
    setattr(came, field, returned_text(step) if text is None else text)
    set_mark(came, "added", {})
    return came
