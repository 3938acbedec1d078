"""What it costs to make something of a value, known before it is made: in bytes, or in what takes as long."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any


_OWN = (str, bytes, bytearray, list, tuple, set, frozenset, dict, deque)
_DIGIT = 30  # bits
_AT_ONCE = 4  # digits that are multiplied in the time in which a byte is made something of


def size_of(value: Any) -> int:
    """The bytes of a copy of one of Python's own values, without its parts."""
    return sys.getsizeof(value) if type(value) in _OWN or type(value) is int else 0


def count_of(value: Any) -> int:
    """How many come out of one of Python's own values when it is gone through; a range says more than it holds."""
    if type(value) is range:
        try:
            return len(value)
        except OverflowError:
            return sys.maxsize
    base: Any = next((base for base in _OWN if isinstance(value, base)), None)
    return 0 if base is None else int(base.__len__(value))


def division(dividend: int, divisor: int) -> int:
    """Dividing and shortening multiply each digit of the one with each of the other."""
    return int.bit_length(dividend) // _DIGIT * (int.bit_length(divisor) // _DIGIT) // _AT_ONCE
