"""Waiting for a session that somebody else is attached to, first come first served; and one session for an agent."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from smolagents_memory._brief import brief
from smolagents_memory._errors import SessionConflictError, SessionError
from smolagents_memory._forks import Lock, in_child
from smolagents_memory.sessions.attachment import Attachment
from smolagents_memory.upstream import who_watches


if TYPE_CHECKING:
    from smolagents_memory.sessions.session import Session


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


_taking: dict[int, Session] = {}  # agents that a session is just being put into
_lock = Lock()
in_child(_taking.clear)  # whoever did that is not here


@contextmanager
def free_for(agent: Any, session: Session) -> Iterator[None]:
    """No session is attached to the agent, and meanwhile no other one is put into it. Raises SessionError else."""
    with _lock:
        others = [each.session for each in who_watches(agent) if isinstance(each, Attachment)]
        others += [_taking[id(agent)]] if id(agent) in _taking else []
        if others:
            raise SessionError(
                f"this agent is attached to session {others[0].session_id!r} already, and session "
                f"{session.session_id!r} was left as it is: detach the other one first"
            )
        _taking[id(agent)] = session
    try:
        yield
    finally:
        _taking.pop(id(agent), None)
