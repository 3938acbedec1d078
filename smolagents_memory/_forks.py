"""What a forked child lets go of: its parent's connections, leases and turns, and locks whose holders are not here.

What must not be cut in two is done within `uncut`: whoever forks waits until other threads are through with it.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar


_Hook = TypeVar("_Hook", bound=Callable[[], None])
_things: weakref.WeakSet[Any] = weakref.WeakSet()


def in_child(hook: _Hook) -> _Hook:
    """Have a function called in every child that is forked; where nothing is forked, never."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=hook)
    return hook


def tell_in_child(thing: Any) -> None:
    """Have a thing's `forked()` called in every child that is forked, for as long as somebody has the thing."""
    _things.add(thing)


class Lock:
    """A lock that is free in a forked child, whoever held it. `make` is what makes it, such as `threading.RLock`."""

    def __init__(self, make: Callable[[], Any] = threading.Lock) -> None:
        self._make, self._lock = make, make()
        tell_in_child(self)

    def forked(self) -> None:
        """In a child: the holder is not here."""
        self._lock = self._make()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        with suppress(RuntimeError):  # it was this very thread that forked within
            self._lock.release()


@in_child
def _tell() -> None:
    for thing in list(_things):
        thing.forked()


_PATIENCE = 10.0  # seconds: then it is forked all the same
_gate = threading.Condition()
_within: Counter[int] = Counter()  # threads that are in the middle of something
_forking: int | None = None  # the thread that is about to fork


@contextmanager
def uncut() -> Iterator[None]:
    """Nobody else forks meanwhile. SQLite in a child would believe for ever what it knew of a thread's locks here."""
    me = threading.get_ident()
    with _gate:
        while _forking not in (None, me) and not _within[me]:
            _gate.wait()
        _within[me] += 1
    try:
        yield
    finally:
        with _gate:  # garbage that is collected amid these lines may close a database: it comes and goes in here too
            if _within[me] > 1:
                _within[me] -= 1
            else:
                _gate.notify_all()  # they look once the gate is free
                _within.pop(me, None)


def _wait_for_others() -> None:
    global _forking
    me, until = threading.get_ident(), time.monotonic() + _PATIENCE
    with _gate:
        while _forking is not None and _gate.wait(max(0.0, until - time.monotonic())):
            pass
        _forking = me
        while _within.keys() - {me} and _gate.wait(max(0.0, until - time.monotonic())):
            pass


def _go_on() -> None:
    global _forking
    with _gate:
        _forking = None
        _gate.notify_all()


@in_child
def _begin_alone() -> None:
    global _gate, _forking
    me = threading.get_ident()
    _gate, _forking, mine = threading.Condition(), None, _within[me]
    _within.clear()
    if mine:
        _within[me] = mine


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_others, after_in_parent=_go_on)
