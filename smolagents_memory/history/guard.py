"""One at a time, and what takes long only when the next one may begin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class Guard:
    """A lock that its holder may take again. What its holder asks for `afterwards` is done once it is free.

    Args:
        last: What is done at the end of that, whoever it was.
    """

    def __init__(self, last: Callable[[], object]) -> None:
        self._last = last
        self._lock = threading.RLock()
        self._holder: int | None = None
        self._depth = 0
        self._work: list[Callable[[], object]] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holder = threading.get_ident()
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._depth -= 1
        work: list[Callable[[], object]] = []
        if not self._depth:
            self._holder, work, self._work = None, [*self._work, self._last], []
        self._lock.release()
        for each in work:
            each()

    def afterwards(self, work: Callable[[], object]) -> None:
        """Do this when this thread has let go, once however often it is asked for; now, if it holds nothing."""
        if self._holder != threading.get_ident():
            work()
        elif work not in self._work:
            self._work.append(work)
