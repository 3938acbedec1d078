"""What runs taught and is not written yet: an interruption, or a place that is locked, costs none of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from smolagents_memory._errors import SmolagentsMemoryError, UnsupportedValueError
from smolagents_memory._log import logger
from smolagents_memory.memory.long_term import LongTerm


_MOST = 1000  # runs, of a place that has been out of reach for long


class Unwritten:
    """Waits for the place to take it."""

    def __init__(self, long_term: LongTerm) -> None:
        self._long_term = long_term
        self._waiting: deque[Sequence[dict[str, Any]]] = deque(maxlen=_MOST)

    def add(self, items: Sequence[dict[str, Any]]) -> None:
        """Keep these as soon as it can be done."""
        if items:
            self._waiting.append(items)

    def write(self) -> list[str]:
        """Write what waits; the keys. What fails waits on, behind the others, unless it can never be kept."""
        keys: list[str] = []
        while self._waiting:
            items = self._waiting.popleft()
            try:
                keys += self._long_term.remember(items)
            except UnsupportedValueError as error:
                logger.warning("some of what this run taught cannot be kept: %s", error)
            except SmolagentsMemoryError as error:
                self._waiting.append(items)
                again = "it is tried again when the next one ends, and when the memory is closed"
                logger.warning("what this run taught was not kept, and %s: %s", again, error)
                break
            except BaseException:
                self._waiting.append(items)
                raise
        return keys
