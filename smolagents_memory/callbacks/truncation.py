"""TruncateObservations: head and tail of what is too long."""

from __future__ import annotations

from smolagents.memory import MemoryStep

from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.callbacks.working_history import History
from smolagents_memory.steps.kinds import came_back, kind_of
from smolagents_memory.steps.marks import mark_of, set_mark
from smolagents_memory.steps.pins import is_pinned
from smolagents_memory.steps.texts import shorten


NOTICE = "\n[… {cut} of {total} characters cut; to read them, call again for just that part …]\n"


class TruncateObservations(StepCallback):
    """Keeps the head and the tail of long observations, and says how much was cut and how to get it back.

    An observation is never longer than `max_chars` afterwards, the notice included. Pinned steps stay whole.

    Args:
        max_chars: The most characters an observation may have.
        keep_last: So many of the newest steps stay whole; 1 lets the agent read each observation in full once.
        notice: What stands where text was cut; `{cut}`, `{total}` and `{step}` (its number) are filled in.
            Where the whole text is kept elsewhere, say here how the agent gets it.

    >>> from smolagents.memory import ActionStep
    >>> step = ActionStep(step_number=1, timing=None, observations="a" * 5000 + "z" * 5000)
    >>> TruncateObservations(140)(step)
    >>> print(step.observations)
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    [… 9,944 of 10,000 characters cut; to read them, call again for just that part …]
    zzzzzzzzzzzzzzzzzz
    """

    acts_on = (MemoryStep,)

    def __init__(self, max_chars: int, *, keep_last: int = 0, notice: str = NOTICE) -> None:
        if max_chars < 1 or keep_last < 0:
            raise ValueError(f"max_chars={max_chars} must be at least 1, keep_last={keep_last} at least 0")
        notice.format(cut="", total="", step="")  # a wrong placeholder is told now, not in the middle of a run
        self.max_chars, self.keep_last, self.notice = max_chars, keep_last, notice

    def on_step(self, step: MemoryStep, history: History) -> None:
        """Truncate every observation that is too long, this step's among them."""
        for old in history.steps[: len(history.steps) - self.keep_last]:
            truncate(old, self.max_chars, self.notice)


def truncate(step: MemoryStep, max_chars: int, notice: str = NOTICE) -> int:
    """Cut the middle out of a step's observation; returns how many characters it is shorter."""
    text = came_back(step)
    if not isinstance(text, str) or len(text) <= max_chars or is_pinned(step):
        return 0
    number = getattr(step, "step_number", "")
    short, total = shorten(text, max_chars, notice, was=mark_of(step, "cut_from", 0), step=number)
    setattr(step, kind_of(step).text or "", short)
    set_mark(step, "cut_from", total)
    return len(text) - len(short)
