"""What AlertOnFailures and AlertOnLoops share: judge each step once, alert once, and stay quiet until it is over."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory.callbacks.history import History
from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.steps.marks import add_text, mark_of, set_mark


@dataclass(frozen=True)
class Alert:
    """What `on_alert` is given.

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
    step: MemoryStep
    agent: Any = None

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
