"""DropInputMessages: the RAM of a long run grows with its steps, not with their square."""

from __future__ import annotations

from smolagents.memory import MemoryStep

from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.callbacks.working_history import History
from smolagents_memory.steps.kinds import drop_inputs_of
from smolagents_memory.steps.pins import is_pinned


class DropInputMessages(StepCallback):
    """Lets go of the copy of the whole prompt that every step keeps in `model_input_messages`.

    Nothing in the prompt changes: smolagents never reads these copies back. Pinned steps keep theirs.

    Args:
        keep_last: So many of the newest steps that have such a copy keep it, for a look at what the model saw.

    >>> from smolagents.memory import ActionStep
    >>> step = ActionStep(step_number=1, timing=None, model_input_messages=["the whole prompt"])
    >>> DropInputMessages(keep_last=0)(step)
    >>> print(step.model_input_messages)
    None
    """

    acts_on = (MemoryStep,)

    def __init__(self, keep_last: int = 1) -> None:
        if keep_last < 0:
            raise ValueError(f"keep_last={keep_last} must not be negative")
        self.keep_last = keep_last

    def on_step(self, step: MemoryStep, history: History) -> None:
        """Drop the copies of older steps."""
        drop_inputs(history, self.keep_last)


def drop_inputs(history: History, keep_last: int = 0) -> None:
    """Drop the input messages of all but the newest steps that have any."""
    having = [step for step in history.steps if step.__dict__.get("model_input_messages")]
    for step in having[: max(0, len(having) - keep_last)]:
        if not is_pinned(step):
            drop_inputs_of(step)
