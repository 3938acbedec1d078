"""Waiting for a session that somebody else is attached to: in this process first come first served."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import TypeVar

from smolagents_memory._brief import brief
from smolagents_memory._errors import SessionConflictError, SessionError
from smolagents_memory._forks import in_child


_Claimed = TypeVar("_Claimed")

_LOOK = 0.05  # seconds after which the first in a line looks again: whoever is attached may be another process
_changed = threading.Condition()
_lines: dict[Hashable, deque[object]] = {}


def when_free(what: Hashable, claim: Callable[[], _Claimed], wait: float) -> _Claimed:
    """What `claim` gives as soon as it raises no SessionConflictError, or after `wait` seconds that error.

    Who does not wait goes before nobody who does.
    """
    if not isinstance(wait, (int, float)) or isinstance(wait, bool) or math.isnan(wait) or wait < 0:
        raise SessionError(f"wait is a number of seconds from 0, not {brief(wait)}; nothing was attached")
    until = time.monotonic() + wait
    me = object()
    with _changed:
        line = _lines.setdefault(what, deque())
        line.append(me)
    try:
        _come_to_the_front(line, me, until)
        while True:
            try:
                return claim()
            except SessionConflictError:
                left = until - time.monotonic()
                if left <= 0:
                    raise
            time.sleep(min(_LOOK, left))
    finally:
        with _changed:
            line.remove(me)
            if not line and _lines.get(what) is line:
                del _lines[what]
            _changed.notify_all()


def _come_to_the_front(line: deque[object], me: object, until: float) -> None:
    with _changed:
        while line[0] is not me:
            left = until - time.monotonic()
            if left <= 0:
                raise SessionConflictError(
                    f"{line.index(me)} others in this process wait for this session, or are about to have it; nothing "
                    "was changed: wait longer, or fork the session"
                )
            _changed.wait(left)


@in_child
def _in_child() -> None:
    """Whoever waited is not here."""
    global _changed
    _changed = threading.Condition()
    _lines.clear()
