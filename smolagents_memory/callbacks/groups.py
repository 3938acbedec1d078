"""Several callbacks as one, a group for every class of step, and the check that smolagents will call them rightly."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory._errors import CallbackSignatureError
from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.callbacks.working_history import History
from smolagents_memory.upstream import gets_step_alone


AnyCallback = Callable[..., Any]


def compose(*callbacks: AnyCallback) -> StepCallback:
    """One callback that calls these in order. One that fails is logged once, and the others are still called.

    >>> def say(step, agent):
    ...     print("step", step.step_number)
    >>> from smolagents.memory import ActionStep
    >>> compose(say, lambda step: print("again", step.step_number))(ActionStep(step_number=3, timing=None))
    step 3
    again 3
    """
    return _Group(callbacks)


def everywhere(*callbacks: AnyCallback) -> dict[type[MemoryStep], list[AnyCallback]]:
    """Register callbacks for every class of step: `step_callbacks=everywhere(…)`. A plain list reaches actions only.

    Each callback picks the steps that concern it: planning steps cost tokens and RAM too, and a final answer is the
    last chance to tidy up before the next run.

    >>> from smolagents_memory import DropInputMessages, FitTokenBudget
    >>> sorted(cls.__name__ for cls in everywhere(FitTokenBudget(8000), DropInputMessages()))
    ['MemoryStep']
    """
    return {MemoryStep: [compose(*callbacks)]}


def takes_step_only(callback: AnyCallback) -> bool:
    """Whether smolagents gives this callback the step alone; raises CallbackSignatureError if it calls it wrongly."""
    name = getattr(callback, "__qualname__", None) or type(callback).__name__
    if isinstance(callback, type):
        raise CallbackSignatureError(f"{name} is a class; register an object of it: {name}(…)")
    if not callable(callback):
        raise CallbackSignatureError(f"a {name} cannot be called; {_RIGHT}")
    called = callback if inspect.isroutine(callback) else type(callback).__call__
    if inspect.iscoroutinefunction(called) or inspect.isgeneratorfunction(called):
        raise CallbackSignatureError(f"{name} is asynchronous or a generator, so it would never run; {_RIGHT}")
    signature = inspect.signature(callback)
    alone = gets_step_alone(callback)
    try:
        signature.bind(None) if alone else signature.bind(None, agent=None)
    except TypeError as wrong:
        call = "callback(step)" if alone else "callback(step, agent=agent)"
        raise CallbackSignatureError(
            f"{name}{signature} would fail: smolagents calls it as {call}: {wrong}; {_RIGHT}"
        ) from None
    return alone


_RIGHT = "write `def callback(step, agent)` (the second parameter must be called `agent`) or `def callback(step)`"


class _Group(StepCallback):
    acts_on = (MemoryStep,)

    def __init__(self, callbacks: tuple[AnyCallback, ...]) -> None:
        self.members = [(callback, takes_step_only(callback)) for callback in callbacks]

    def on_step(self, step: MemoryStep, history: History) -> None:
        """Call each member as smolagents would."""
        for callback, step_only in self.members:
            try:
                callback(step) if step_only else callback(step, agent=history.agent)
            except Exception as defect:  # noqa: BLE001 - logged; one member's failure is not the others'
                self.report(defect, step, history.agent, f"found that {callback!r} failed")
