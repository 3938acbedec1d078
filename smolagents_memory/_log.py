"""Where the package says what nobody asked for: one logger, and warnings of what was lost."""

from __future__ import annotations

import logging
import time
import warnings

from smolagents_memory._errors import MemoryLossWarning
from smolagents_memory._forks import Lock


logger = logging.getLogger("smolagents_memory")

_PATIENCE = 10  # times as long as it took to fail
_SILENT = 600  # seconds: who fails now and then is not spoken of more often

_said: set[str] = set()
_lock = Lock()


def say_once(text: str) -> None:
    """Log a message the first time only."""
    with _lock:
        if text in _said:
            return
        _said.add(text)
    logger.warning(text)


def warn_of_loss(text: str, stacklevel: int = 4) -> None:
    """A MemoryLossWarning; where warnings are errors a line in the log: what can be read must not be lost to that."""
    try:
        warnings.warn(text, MemoryLossWarning, stacklevel=stacklevel)
    except MemoryLossWarning:
        logger.warning(text)


class Outage:
    """Somebody who is asked, and who may fail: that is said once, until they work again.

    Who is slow to fail is left in peace for a while: ten times as long as failing took.
    """

    def __init__(self) -> None:
        self.reason: str | None = None  # why there was no answer, when they were last asked
        self._said: float | None = None
        self._rests_until = 0.0

    @property
    def rests(self) -> bool:
        """Whether they are not to be asked now."""
        return time.monotonic() < self._rests_until

    def failed(self, error: BaseException, begun: float) -> None:
        """They were asked at `begun` (monotonic) and failed."""
        now = time.monotonic()
        self.reason = f"{type(error).__name__}: {error}"[:300]
        self._rests_until = now + _PATIENCE * (now - begun)

    def worked(self) -> None:
        """They answered."""
        self.reason = None
        if self._said is not None and time.monotonic() - self._said > _SILENT:
            self._said = None

    def wake(self) -> None:
        """Let them be asked now."""
        self._rests_until = 0.0

    def say(self, text: str) -> None:
        """Log what is done without them, unless that was said already."""
        if self._said is None:
            self._said = time.monotonic()
            logger.warning(text)
