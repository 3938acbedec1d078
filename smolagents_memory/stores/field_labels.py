"""The labels of a memory: a number for each of its fields and what stands in there, by which SQL finds it again.

They tell of equality alone, and may tell too much, never too little: whoever looks by them looks at what he found. So
four bytes do, and what is neither text, number nor None has one label for all that a field may hold.
"""

from __future__ import annotations

import hashlib
import sys
from decimal import Decimal
from typing import Any

from smolagents_memory.stores.records import Record


LABELLER = "1"  # another one whenever a memory has other labels: all are then made anew
MOST = 64  # fields of a memory that are labelled one by one
COLUMNS = ("key", "source", "created", "importance")  # a memory's own, which SQL finds without labels
_NUMBERS = (int, float, bool, Decimal)
_ALIKE = sys.hash_info.modulus == 2**61 - 1  # what equal numbers have alike is then the same in every process


def labels_of(record: Record) -> set[int]:
    """What a filter may find a memory by; metadata that has the name of a column has one label for all values."""
    fields = {"kind": record.kind, **record.meta}
    if len(fields) > MOST:
        return {MANY}
    named = ((name, value) for name, value in fields.items() if isinstance(name, str))
    return {other(name) if name in COLUMNS else label(name, value) for name, value in named}


def label(name: str, value: Any) -> int:
    """The number of a field with what stands in it.

    >>> label("year", 2024) == label("year", 2024.0), label("year", 2024) == label("year", "2024")
    (True, False)
    """
    told = spelled(value)
    return other(name) if told is None else _number(name, told)


def other(name: str) -> int:
    """The number of a field with whatever has no label of its own."""
    return _number(name, "other")


def spelled(value: Any) -> str | None:
    """What is the same for all values that are equal; None for what such a thing is not known of."""
    if type(value) is str:
        return f"text {value}"
    if value is None:
        return "none"
    if type(value) in _NUMBERS and _ALIKE:
        try:
            return f"number {hash(value)}" if value == value else None
        except (ArithmeticError, TypeError):  # a signaling NaN
            return None
    return None


def _number(name: str, told: str) -> int:
    of, data = (each.encode("utf-16-le", "surrogatepass") for each in (name, told))  # two halves are one, as in JSON
    digest = hashlib.blake2b(len(of).to_bytes(8, "big") + of + data, digest_size=4).digest()
    return int.from_bytes(digest, "big", signed=True)


MANY = _number("", "many")  # of a memory with more fields than are labelled
