"""How well recall serves: how often it finds something, how often that helps, and whether this falls off."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smolagents_memory._log import logger


WINDOW = 20  # recalls that are compared with as many before
_DROP = 0.6  # a ratio below this share of the one before is a drift


@dataclass
class Asked:
    """One recall: the keys it gave, and whether one of them helped."""

    keys: tuple[str, ...]
    useful: bool = False


class Serving:
    """Counts recalls of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: deque[Asked] = deque(maxlen=50 * WINDOW)
        self._total = 0
        self._warned_at = 0

    def asked(self, keys: Sequence[str]) -> None:
        """A recall gave these keys; none is a miss."""
        with self._lock:
            self._asked.append(Asked(tuple(keys)))
            self._total += 1
        self._warn()

    def judged(self, key: str, useful: bool) -> None:
        """The newest recall that gave `key` helped, or did not."""
        with self._lock:
            for asked in reversed(self._asked):
                if key in asked.keys:
                    asked.useful = asked.useful or useful
                    return

    def stats(self) -> dict[str, Any]:
        """Ratios over all recalls and over time, in windows."""
        with self._lock:
            asked = list(self._asked)
        windows = [asked[start : start + WINDOW] for start in range(0, len(asked), WINDOW)]
        return {
            "recalls": self._total,
            "hit ratio": _ratio([bool(each.keys) for each in asked]),
            "useful ratio": _ratio([each.useful for each in asked]),
            "hit ratio over time": [_ratio([bool(each.keys) for each in window]) for window in windows],
            "useful ratio over time": [_ratio([each.useful for each in window]) for window in windows],
            "drift": self._drift(asked),
        }

    def _drift(self, asked: list[Asked]) -> str | None:
        if len(asked) < 2 * WINDOW:
            return None
        before, last = asked[-2 * WINDOW : -WINDOW], asked[-WINDOW:]
        for what, of in (("hit", lambda each: bool(each.keys)), ("useful", lambda each: each.useful)):
            then, now = _ratio(map(of, before)) or 0.0, _ratio(map(of, last)) or 0.0
            if then >= 0.25 and now < _DROP * then:
                return f"the {what} ratio of the last {WINDOW} recalls is {now:.2f}, after {then:.2f} in those before"
        return None

    def _warn(self) -> None:
        with self._lock:
            due = self._total - self._warned_at >= WINDOW
            drift = self._drift(list(self._asked)) if due else None
            if drift:
                self._warned_at = self._total
        if drift:
            logger.warning("recall serves less well than it did: %s", drift)


def _ratio(values: Any) -> float | None:
    values = list(values)
    return sum(values) / len(values) if values else None
