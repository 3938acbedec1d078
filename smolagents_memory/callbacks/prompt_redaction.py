"""RedactPrompt: what the model sees, without what identifies people and opens doors."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.callbacks.working_history import History
from smolagents_memory.codec.values import scrubbed_value
from smolagents_memory.privacy.redaction import Redactor
from smolagents_memory.privacy.scrubbers import Scrubber, alone, known_to, scrubber_of
from smolagents_memory.steps.kinds import kind_of
from smolagents_memory.steps.marks import mark_of, set_mark


_NEWEST = 3  # steps that are looked at again: other callbacks may have added to them since


class RedactPrompt(StepCallback):
    """Takes personal data and secrets out of what the model sees from then on; a journal keeps the original.

    Texts, calls and errors are looked through, images are not. The first prompt of a run is written before any
    callback is called: hand a task on that is redacted already if it holds what the model must not see. Place it
    before what cuts texts, so that nothing is cut in two before it is known, and behind what adds to them.

    Args:
        redact: A `Redactor`, or a function of a text. By default what the agent's memory or session writes by, if its
            `Place` redacts, so that the same thing has the same placeholder in the prompt and in memory; else the
            usual one.

    >>> from smolagents.memory import ActionStep
    >>> step = ActionStep(step_number=1, timing=None, observations="Ann's mail is ann.lee@example.com.")
    >>> RedactPrompt()(step)
    >>> step.observations
    "Ann's mail is [EMAIL_...]."
    """

    acts_on = (MemoryStep,)

    def __init__(self, redact: Redactor | Callable[[str], str] | None = None) -> None:
        self._scrubber = scrubber_of(redact)
        self._usual = alone(Redactor())
        self._done: dict[int, weakref.ref[MemoryStep]] = {}

    def on_step(self, step: MemoryStep, history: History) -> None:
        """Redact every step that was not yet, and the newest ones again."""
        scrubber = self._scrubber or known_to(history.agent) or self._usual
        for at, each in enumerate(history.steps, start=_NEWEST - len(history.steps)):
            known = self._done.get(id(each))
            if at < 0 and known is not None and known() is each:
                continue
            redact_step(each, scrubber)
            forget = functools.partial(self._done.pop, id(each), None)
            self._done[id(each)] = weakref.ref(each, lambda _, forget=forget: forget())  # type: ignore[misc]
        keep = getattr(scrubber, "keep", None)  # what is taken out may be given back, under a seal
        if keep is not None:
            keep()


def redact_step(step: MemoryStep, scrubber: Scrubber) -> None:
    """Put placeholders into what a step shows the model."""
    kind = kind_of(step)
    for field in filter(None, (kind.said, kind.text)):
        _put(step, field, scrubbed_value(getattr(step, field, None), scrubber))
    if getattr(step, "tool_calls", None):
        calls = [_call(each, scrubber) for each in step.tool_calls]
        if any(new is not old for new, old in zip(calls, step.tool_calls, strict=True)):
            step.tool_calls = calls
    if isinstance(getattr(step, "error", None), BaseException):
        _put(step, "error", _error(step.error, scrubber))
    added = mark_of(step, "added")
    if added and (scrubbed := scrubbed_value(added, scrubber)) != added:
        set_mark(step, "added", scrubbed)


def _put(step: MemoryStep, field: str, value: Any) -> None:
    """Set a field to what is another value: what is the same stays the very same, and nothing is journaled."""
    before = getattr(step, field, None)
    if value is not before and not (isinstance(value, str) and value == before):
        setattr(step, field, value)


def _call(call: Any, scrubber: Scrubber) -> Any:
    arguments = getattr(call, "arguments", None)
    scrubbed = scrubbed_value(arguments, scrubber)
    if scrubbed is arguments or (isinstance(arguments, str) and scrubbed == arguments):
        return call
    new = copy.copy(call)
    new.arguments = scrubbed
    return new


def _error(error: BaseException, scrubber: Scrubber) -> BaseException:
    """The error, or one like it that says as much as may be said; none of its class's own code runs."""
    arguments = tuple(scrubber.text(each) if isinstance(each, str) else each for each in error.args)
    message = getattr(error, "message", None)
    told = scrubber.text(message) if isinstance(message, str) else message
    if arguments == error.args and told == message:
        return error
    new = type(error).__new__(type(error), *arguments)
    new.args = arguments
    new.__dict__.update({**error.__dict__, **({"message": told} if message is not None else {})})
    return new
