"""What a forked child lets go of: its parent's connections, leases and turns, and locks whose holders are not here."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
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


@in_child
def _tell() -> None:
    for thing in list(_things):
        thing.forked()
