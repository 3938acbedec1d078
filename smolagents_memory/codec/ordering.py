"""An order for what has none: the members of a set, by what they are and hold, asking no method of their classes."""

from __future__ import annotations

from itertools import islice
from types import FunctionType
from typing import Any

from smolagents_memory.codec.slots import held_by


_HEAPTYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that was made by a class statement
_MOST, _WITHIN = 1000, 20  # so many parts of a member are looked at, and so deep
_PLAIN = {type(None), type(...), bool, int, float, complex, str, bytes, range}
_LIBRARIES = {"datetime", "decimal", "fractions", "numpy", "pandas", "pathlib", "re", "uuid", "zoneinfo"}
_BODIES: tuple[Any, ...] = (str, int, float, bytes)


def order_of(member: Any) -> tuple[str, str]:
    """What a member of a set is sorted by: the same in every process, as far as it is told by what it holds.

    >>> sorted({(2, "b"), (2, "a"), 10}, key=order_of)
    [10, (2, 'a'), (2, 'b')]
    """
    return type(member).__name__, _told(member, [_MOST], 0)


def _told(value: Any, left: list[int], depth: int) -> str:
    kind = type(value)
    left[0] -= 1
    if left[0] < 0 or depth > _WITHIN:
        return ""
    if kind in _PLAIN or kind.__module__.partition(".")[0] in _LIBRARIES:
        return repr(value)
    if kind is FunctionType or issubclass(kind, type):
        return str(value.__qualname__)
    held = held_by(value) if kind.__flags__ & _HEAPTYPE else {}
    inside = [f"{name}={_told(held[name], left, depth + 1)}" for name in sorted(held)]
    return f"({', '.join(_body(kind, value, left, depth) + inside)})"


def _body(kind: Any, value: Any, left: list[int], depth: int) -> list[str]:
    """What it holds as one of Python's own types."""
    if issubclass(kind, tuple):
        return [_told(each, left, depth + 1) for each in islice(tuple.__iter__(value), left[0])]
    if issubclass(kind, frozenset):
        return sorted(_told(each, left, depth + 1) for each in islice(frozenset.__iter__(value), left[0]))
    return [base.__repr__(value) for base in _BODIES if issubclass(kind, base)]
