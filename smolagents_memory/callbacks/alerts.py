"""What AlertOnFailures and AlertOnLoops share: judge each step once, alert once, and stay quiet until it is over."""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from smolagents.memory import MemoryStep
from smolagents.utils import AgentGenerationError

from smolagents_memory.callbacks.step_callback import StepCallback, name_of
from smolagents_memory.callbacks.working_history import History
from smolagents_memory.steps.calls import calls_of, error_of
from smolagents_memory.steps.kinds import is_action, kind_of
from smolagents_memory.steps.marks import add_text, mark_of, returned_text, set_mark


# also where an agent prints an alert again; not what a monitored service calls an alert
_OWN_ALERT = re.compile(r"\[ALERT\] (Pattern detected: \d+ failures in last \d+ checks|Loop detected: .*)")


@dataclass(frozen=True)
class Alert:
    """What `on_alert` is given. It prints as one line: "failures at step 6: [ALERT] Pattern detected: …".

    Attributes:
        kind: "failures" or "loop".
        message: What the agent reads.
        count: How many failures, or how many repetitions.
        step: The step that set it off.
        agent: Whose step it is.
    """

    kind: str
    message: str
    count: int
    step: MemoryStep = field(repr=False)
    agent: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        name = getattr(self.agent, "name", None)
        of = f" of {name!r}" if name else ""
        return " ".join(f"{self.kind} at {name_of(self.step)}{of}: {self.message}".split())

    @property
    def step_number(self) -> int | None:
        """The number of the step; it starts again with every run."""
        return getattr(self.step, "step_number", None)


class Watch(StepCallback):
    """Judges each action step once and alerts when what it has seen begins to amount to something.

    What it has seen is kept on the newest step, not in the callback: so it is saved and restored with the memory,
    begins anew with it, serves any number of agents, and still knows about steps that were dropped or truncated.
    """

    kind: str
    span: int

    def __init__(self, on_alert: Callable[[Alert], object] | None, name: str) -> None:
        self.on_alert, self.name = on_alert, name

    @abstractmethod
    def judge(self, step: MemoryStep) -> Any:
        """What is remembered about a step: plain JSON."""

    @abstractmethod
    def weigh(self, seen: list[Any]) -> tuple[int, str] | None:
        """A count and a message if what was seen, oldest first, calls for an alert."""

    def on_step(self, step: MemoryStep, history: History) -> None:
        """Judge the step, and alert if it is the one that makes the difference."""
        if self.name in mark_of(step, "watching", {}):
            return
        seen, alerting = self._before(step, history)
        seen = [*seen, self.judge(step)][-self.span :]
        weight = self.weigh(seen)
        known = {"seen": seen, "alerting": weight is not None}
        set_mark(step, "watching", {**mark_of(step, "watching", {}), self.name: known})
        if weight is not None and not alerting:
            self._alert(step, history, *weight)

    def _before(self, step: MemoryStep, history: History) -> tuple[list[Any], bool]:
        inherited = mark_of(step, "inherited", {}).get(self.name)
        if inherited:
            return inherited["seen"], inherited["alerting"]
        unjudged: list[Any] = []
        for earlier in history.earlier_actions():
            known = mark_of(earlier, "watching", {}).get(self.name)
            if known is not None:
                return [*known["seen"], *reversed(unjudged)], known["alerting"]
            unjudged.append(self.judge(earlier))
            if len(unjudged) == self.span:
                break
        return unjudged[::-1], False

    def _alert(self, step: MemoryStep, history: History, count: int, message: str) -> None:
        add_text(step, f"alert:{self.name}", message)
        alert = Alert(self.kind, message, count, step, history.agent)
        history.tell("alert", alert=alert)
        if self.on_alert is not None:
            self.on_alert(alert)


def action_text(step: MemoryStep) -> str:
    """What the step did, the same for the same calls, whatever their ids; "" if it did nothing."""
    calls = calls_of(step)
    if calls:
        return "\n".join(sorted(f"{name}({_plain(arguments)})" for name, arguments, _ in calls))
    output = getattr(step, kind_of(step).said or "", None)
    return "" if output is None else str(output)


def result_text(step: MemoryStep) -> str:
    """What came back: the observation and the error, without anything that callbacks added."""
    return "\n".join(filter(None, (_OWN_ALERT.sub("", returned_text(step)), failure_of(step))))


def failure_of(step: MemoryStep) -> str | None:
    """The step's error, or what the model's failure said.

    The step of such a failure reaches callbacks without an error, which is on its way out of the run: it is noted on
    the step, for later runs. Where nobody noted it, it shows by an input that got no output.
    """
    known = error_of(step)
    if known is not None or mark_of(step, "generation_error") is not None or not is_action(step):
        return known
    held = (step.model_output_message, step.model_output, step.tool_calls, step.observations, step.action_output)
    if any(value is not None for value in held):
        return None
    flying = sys.exc_info()[1]
    if isinstance(flying, AgentGenerationError):
        set_mark(step, "generation_error", str(flying))
        return str(flying)
    broken_off = isinstance(flying, GeneratorExit)  # by whoever read the stream
    return "the model gave no output" if step.model_input_messages and not broken_off else None


def _plain(arguments: Any) -> str:
    return repr(sorted(arguments.items(), key=str)) if isinstance(arguments, dict) else str(arguments)
