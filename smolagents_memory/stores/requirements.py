"""What a filter asks of every memory that fits it, as far as SQL can look for that: what it means says `filters`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from smolagents_memory.stores.field_labels import COLUMNS, MANY, label, other, spelled
from smolagents_memory.stores.filters import operators_of


_MOST = 200  # values that one part of a filter may name
_ORDINARY = 1.0  # the importance that has no index
_LOWER, _UPPER = ("$gt", "$gte", "$eq", "$in"), ("$lt", "$lte", "$eq", "$in")
_UNKNOWN = ("origin", "trust")  # of a memory's own: neither columns with an index, nor labels


class Range(NamedTuple):
    """A column whose value lies between two, both included."""

    column: str
    least: float
    most: float


class Needed(NamedTuple):
    """A memory that fits has one of these labels, keys or sources, or lies in one of these ranges."""

    labels: frozenset[int] = frozenset()
    keys: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    ranges: tuple[Range, ...] = ()

    def or_else(self, more: Needed) -> Needed:
        """One of either."""
        labels, keys, sources, ranges = more
        return Needed(self.labels | labels, self.keys | keys, self.sources | sources, self.ranges + ranges)


def required(where: Mapping[str, Any] | None) -> list[Needed]:
    """What a memory must meet, all of it, to fit a filter that was read. It may fit none the less, or not.

    >>> [needed] = required({"key": {"$in": ["a", "b"]}, "year": {"$gt": 2020}})
    >>> sorted(needed.keys)
    ['a', 'b']
    """
    found: list[Needed] = []
    for name, wanted in (where or {}).items():
        if name == "$and":
            found += [needed for each in wanted for needed in required(each)]
        elif name == "$or":
            found += _one_of([required(each) for each in wanted])
        elif not name.startswith("$"):
            found += _of_field(name, operators_of(wanted))
    return found


def _one_of(parts: Sequence[list[Needed]]) -> list[Needed]:
    """Of each part that which is likely to be the rarest; nothing is known where nothing is of one of them."""
    if not all(parts):
        return []
    joined = Needed()
    for part in parts:
        joined = joined.or_else(min(part, key=lambda needed: (bool(needed.ranges), bool(needed.labels))))
    return [joined]


def _of_field(name: str, operators: Mapping[str, Any]) -> list[Needed]:
    if name in _UNKNOWN:
        return []
    if name in ("created", "importance"):
        return _between(name, operators)
    return [
        needed
        for values in (_values(*each) for each in operators.items())
        if values is not None and (needed := _among(name, values)) is not None
    ]


def _values(operator: str, operand: Any) -> list[Any] | None:
    """The values of which a field must have one."""
    if operator not in ("$eq", "$in"):
        return None
    values = [_as_text(each) for each in (operand if operator == "$in" else [operand])]
    return None if len(values) > _MOST or any(spelled(each) is None for each in values) else values


def _as_text(value: Any) -> Any:
    """A text of a class of its own, such as an enum's, that is equal to what other texts are."""
    return str.__str__(value) if isinstance(value, str) and type(value).__eq__ is str.__eq__ else value


def _among(name: str, values: Sequence[Any]) -> Needed | None:
    beside = frozenset((other(name), MANY))  # metadata takes the place of a memory's own field
    if name not in COLUMNS:
        return Needed(beside | {label(name, value) for value in values})
    if name == "source" and None in values:  # that may be most of them
        return None
    texts = frozenset(value for value in values if isinstance(value, str))
    return Needed(beside, keys=texts) if name == "key" else Needed(beside, sources=texts)


def _between(name: str, operators: Mapping[str, Any]) -> list[Needed]:
    """What is compared is rounded to a float, as the column is: that changes no order, and leaves nothing out."""
    least, most = -math.inf, math.inf
    for operator, operand in operators.items():
        bounds = [_bound(operator, each) for each in (operand if operator == "$in" else [operand])]
        numbers = [each for each in bounds if each is not None]
        if len(numbers) == len(bounds) and operator in _LOWER:
            least = max(least, min(numbers, default=math.inf))
        if len(numbers) == len(bounds) and operator in _UPPER:
            most = min(most, max(numbers, default=-math.inf))
    if (least, most) == (-math.inf, math.inf) or (name == "importance" and least <= _ORDINARY <= most):
        return []
    return [Needed(frozenset((other(name), MANY)), ranges=(Range(name, least, most),))]


def _bound(operator: str, value: Any) -> float | None:
    """The last float that may fit; None for what is no number."""
    if type(value) not in (int, float, bool) or value != value:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    beyond = {"$gt": math.inf, "$lt": -math.inf}.get(operator)
    return number if beyond is None or number != value else math.nextafter(number, beyond)
