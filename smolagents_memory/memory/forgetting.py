"""The forgetting curve: strength falls with time, and rises with use and importance."""

from __future__ import annotations

import math
from dataclasses import dataclass

from smolagents_memory._brief import brief
from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.stores.records import Record


DAY = 86_400.0


@dataclass(frozen=True)
class ForgettingCurve:
    """How fast memories fade.

    Args:
        half_life: Days without use after which an ordinary memory is half as strong.
        floor: Strength below which `decay()` archives a memory.
        grace: Days a memory stays archived before `purge()` deletes it.
        every: Days between two times that forgetting runs by itself when a memory is opened; 0 means never.

    >>> curve = ForgettingCurve(half_life=30)
    >>> curve.strength(Record("k", "text", created=0, touched=0), now=30 * DAY)
    0.5
    """

    half_life: float = 60.0
    floor: float = 0.05
    grace: float = 90.0
    every: float = 1.0

    def __post_init__(self) -> None:
        for name in ("half_life", "floor", "grace", "every"):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, (int, float)) or not given >= 0:
                raise UnsupportedValueError(f"{name} is a number from 0, not {brief(given)}")
        if not self.half_life:
            raise UnsupportedValueError("half_life is a number of days above 0: math.inf for what never fades")

    def strength(self, record: Record, now: float) -> float:
        """From 1, fresh, towards 0. Doubling its uses or importance makes it last once more as long."""
        if record.pinned:
            return 1.0
        idle = max(0.0, now - max(record.created, record.touched)) / DAY
        lasting = (1 + math.log2(1 + max(0.0, record.uses))) * max(0.25, 1 + math.log2(max(record.importance, 0.1)))
        return math.pow(2.0, -idle / (self.half_life * lasting))

    @property
    def idle(self) -> float | None:
        """Seconds without use that an ordinary memory outlasts, by which a database chooses; None for what differs."""
        own = type(self).strength is ForgettingCurve.strength and type(self).faded is ForgettingCurve.faded
        if not own or not 0 < self.floor < 1 or not 0 < self.half_life < math.inf:
            return None
        return self.half_life * DAY * math.log2(1 / self.floor)

    def faded(self, record: Record, now: float) -> bool:
        """Whether it is time to archive it."""
        return not record.pinned and record.archived is None and self.strength(record, now) < self.floor

    def over(self, record: Record, now: float) -> bool:
        """Whether it was archived so long ago that it may be deleted."""
        return not record.pinned and record.archived is not None and now - record.archived >= self.grace * DAY
