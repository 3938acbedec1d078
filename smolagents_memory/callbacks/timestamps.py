"""TimestampObservations: when something was seen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone, tzinfo
from zoneinfo import ZoneInfo

from smolagents.memory import ActionStep, MemoryStep, PlanningStep

from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.callbacks.working_history import History
from smolagents_memory.steps.kinds import kind_of
from smolagents_memory.steps.marks import add_text, has_added


class TimestampObservations(StepCallback):
    """Puts the time before each observation, so that the agent knows when it saw what.

    Once per step, however often it runs. A step without an observation stays as it is. Registered for planning
    steps too (see `everywhere`), it stamps plans.

    Args:
        format: For `strftime`; without it ISO 8601 in seconds.
        tz: The time zone: a `tzinfo` or a name such as "Europe/Berlin".
        clock: What gives the time, as seconds since 1970 or a datetime; without it the system's clock.

    >>> from smolagents.memory import ActionStep
    >>> step = ActionStep(step_number=1, timing=None, observations="200 OK")
    >>> TimestampObservations(clock=lambda: 1794981600)(step)
    >>> step.observations
    '[2026-11-18T06:00:00+00:00] 200 OK'
    """

    acts_on = (ActionStep, PlanningStep)

    def __init__(
        self,
        format: str | None = None,
        tz: tzinfo | str = timezone.utc,
        clock: Callable[[], float | datetime] | None = None,
    ) -> None:
        self.format = format
        self.tz = ZoneInfo(tz) if isinstance(tz, str) else tz
        self.clock = clock

    def on_step(self, step: MemoryStep, history: History) -> None:
        """Put the time before the step's observation or plan."""
        if getattr(step, kind_of(step).text or "", None) and not has_added(step, "time"):
            add_text(step, "time", f"[{self._now()}]", in_front=True)

    def _now(self) -> str:
        now = self.clock() if self.clock else datetime.now(self.tz)
        if not isinstance(now, datetime):
            now = datetime.fromtimestamp(now, self.tz)
        moment = now.replace(tzinfo=self.tz) if now.tzinfo is None else now.astimezone(self.tz)
        return moment.strftime(self.format) if self.format else moment.isoformat(timespec="seconds")
