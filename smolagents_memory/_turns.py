"""Whose turn it is with an agent: its calls wait for each other, but for those that are made within one of them.

The thread alone does not say what a call is made within: a CodeAgent's code runs in a thread of its own, and so do
calls that a model asks for at once. So calls of tools are followed, which are told in the thread that makes them.
Where that thread is new, they are made by whoever has the turn with the agent that makes them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from smolagents_memory._errors import SessionError
from smolagents_memory._forks import in_child


class Turn:
    """A turn with an agent; `above` is the one within which it was asked for, and `by` for whom."""

    def __init__(self, agent: Any, above: Turn | None, by: Any = None) -> None:
        self.agent, self.above, self.by = agent, above, by

    def line(self) -> Iterator[Turn]:
        """This one, and all that it is within."""
        turn: Turn | None = self
        while turn is not None:
            yield turn
            turn = turn.above


class Stay:
    """What a thread does until this ends is within a turn; with the last of its stays a turn is over."""

    def __init__(self, turn: Turn, *, begins: bool = False) -> None:
        self.turn, self._begins, self._stack = turn, begins, _stack()
        self._stack.append(self)

    def end(self) -> None:
        """Maybe in another thread; done twice it does nothing."""
        if self in self._stack:
            self._stack.remove(self)
            if self._begins:
                with _changed:
                    _taken.remove(self.turn)
                    _changed.notify_all()


_changed = threading.Condition()
_taken: list[Turn] = []
_wanted: list[Turn] = []
_here = threading.local()


def _stack() -> list[Stay]:
    stack: list[Stay] = vars(_here).setdefault("stack", [])
    return stack


def within() -> list[Turn]:
    """The turns that this thread is within, the innermost first."""
    return [stay.turn for stay in reversed(_stack())]


def above(agent: Any) -> Turn | None:
    """What a call that an agent makes now is within."""
    with _changed:
        newest = [turn for turn in _taken if turn.agent is agent][-1:]
    return next(iter([*within(), *newest]), None)


def take(agent: Any, above: Turn | None, *, wait: bool, by: Any = None) -> Stay:
    """One's turn with an agent; within a turn with it that one. Raises SessionError where it would never come."""
    turn = Turn(agent, above, by)
    for outer in above.line() if above is not None else ():
        if outer.agent is agent:
            return Stay(outer)
    with _changed:
        _wanted.append(turn)
        try:
            while wait and any(other.agent is agent for other in _taken):
                if _waits_for_itself(turn):
                    raise SessionError(
                        f"the agent {getattr(agent, 'name', None)!r} is busy with a call that waits for this one: "
                        "agents call each other in a circle, from both ends at once. It was not called; "
                        "Session(…, concurrent_calls=True) lets calls of one agent run at the same time"
                    )
                _changed.wait()
            _taken.append(turn)
        finally:
            _wanted.remove(turn)
    return Stay(turn, begins=True)


def _waits_for_itself(wanted: Turn) -> bool:
    """Whether those whom it waits for wait, maybe through others, for a turn that it is within."""
    mine, waiting, seen = set(wanted.line()), [wanted], set()
    while waiting:
        for other in [turn for turn in _taken if turn.agent is waiting[-1].agent]:
            if other in mine:
                return True
            if other not in seen:
                seen.add(other)
                waiting[:0] = [turn for turn in _wanted if other in turn.line()]
        waiting.pop()
    return False


@in_child
def _in_child() -> None:
    """Whoever had a turn is not here."""
    global _changed
    _changed = threading.Condition()
    for known in (_taken, _wanted, _stack()):
        known.clear()
