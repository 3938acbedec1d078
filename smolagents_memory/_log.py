"""Where the package says what nobody asked for: one logger, and warnings of what was lost."""

from __future__ import annotations

import logging
import threading
import warnings

from smolagents_memory._errors import MemoryLossWarning


logger = logging.getLogger("smolagents_memory")

_said: set[str] = set()
_lock = threading.Lock()


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
