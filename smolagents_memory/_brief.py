"""A stranger's value in an error of ours: short, and shown without trouble."""

from __future__ import annotations

import reprlib
from typing import Any


_MOST = 200  # characters
_short = reprlib.Repr()
_short.maxlevel, _short.maxstring, _short.maxother, _short.maxlist, _short.maxdict = 4, 60, 60, 4, 4


def brief(value: Any) -> str:
    """A value as Python writes it, however large or deep it is, and whatever its own `__repr__` does.

    >>> brief({"a": "b" * 1000})[:20], len(brief("b" * 1000))
    ("{'a': 'bbbbbbbbbbbbb", 60)
    """
    try:
        told = _short.repr(value)
    except Exception:  # noqa: BLE001 — a stranger's repr
        return f"a {type(value).__name__}"
    return told if len(told) <= _MOST else f"{told[: _MOST - 3]}..."
