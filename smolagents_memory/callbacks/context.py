"""AddContext: what the agent should know beside what it saw."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory._errors import CallbackSignatureError
from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.callbacks.working_history import History
from smolagents_memory.steps.marks import add_text, has_added
from smolagents_memory.steps.texts import shorten


class AddContext(StepCallback):
    """Adds to each step's observation what `provider` returns for it: a status, a baseline, a maintenance window.

    Args:
        provider: Called with the step, or with the step and `agent`, once per step. What it returns is added as
            text; None and "" add nothing.
        max_chars: The most that is added; longer text is cut in the middle.
        label: What stands before it. Give each AddContext of an agent its own.

    >>> from smolagents.memory import ActionStep
    >>> step = ActionStep(step_number=1, timing=None, observations="latency 480 ms")
    >>> AddContext(lambda step: "usual latency: 60 ms", label="baseline")(step)
    >>> print(step.observations)
    latency 480 ms
    [baseline] usual latency: 60 ms
    """

    def __init__(self, provider: Callable[..., Any], *, max_chars: int = 1000, label: str = "context") -> None:
        signature = inspect.signature(provider)
        self.with_agent = "agent" in signature.parameters
        try:
            signature.bind(None, agent=None) if self.with_agent else signature.bind(None)
        except TypeError as wrong:
            raise CallbackSignatureError(
                f"the provider {signature} cannot be called with a step: {wrong}; write `def provider(step)` or "
                "`def provider(step, agent)`"
            ) from None
        self.provider, self.max_chars, self.label = provider, max_chars, label

    def on_step(self, step: MemoryStep, history: History) -> None:
        """Ask the provider and add what it returns."""
        key = f"context:{self.label}"
        if has_added(step, key):
            return
        context = self.provider(step, agent=history.agent) if self.with_agent else self.provider(step)
        if context is not None and (text := shorten(str(context), self.max_chars)[0]):
            add_text(step, key, f"[{self.label}] {text}")
