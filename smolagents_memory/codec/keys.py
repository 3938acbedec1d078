"""Keys and members that are not trusted: hashing one, and many together, takes no longer than their number says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from smolagents_memory._errors import DecodeError
from smolagents_memory.codec.later import NotYet


COLLIDING = 200  # so many keys of one hash are no chance
_DEEPEST = 200  # what is nested deeper would end the process when it is hashed
_SIMPLE = frozenset((str, bytes, float, bool, type(None)))
_SMALL = 1024  # bits of an int that is hashed in no time


def is_simple(value: Any) -> bool:
    """Whether a key is hashed in no time, however often."""
    kind = type(value)
    return kind in _SIMPLE or (kind is int and value.bit_length() <= _SMALL)


class Weights:
    """How much there is to hash in keys; `parts_of` gives what the hash of one is made of.

    A part that is shared counts as often as it is met: so often it is hashed.
    """

    def __init__(self, parts_of: Callable[[Any], Iterable[Any]]) -> None:
        self._parts_of = parts_of
        self._known: dict[int, tuple[int, int, Any]] = {}  # weight, depth, and what it is of, kept alive

    def of(self, key: Any) -> int:
        """The weight of a key; DecodeError for one that would end the process."""
        begun: list[int] = []
        try:
            weight, depth = self._weigh(key, begun)
        except NotYet:  # it is weighed again when it is whole
            for place in begun:
                if not self._known[place][0]:
                    del self._known[place]
            raise
        if depth > _DEEPEST:
            raise DecodeError(f"a key that is nested {depth} deep")
        return weight

    def _weigh(self, key: Any, begun: list[int]) -> tuple[int, int]:
        known, pending = self._known, [(key, False)]
        while pending:
            each, ready = pending.pop()
            if known.get(id(each), (0,))[0]:
                continue
            if ready:
                inside = [known[id(part)] for part in self._parts_of(each)]
                own = 1 + _size(each) // 64
                depth = 1 + max((found[1] for found in inside), default=0)
                known[id(each)] = (own + sum(found[0] for found in inside), depth, each)
            elif id(each) in known:
                raise DecodeError("a key that holds itself")
            else:
                known[id(each)] = (0, 0, each)
                begun.append(id(each))
                pending.append((each, True))
                pending += [(part, False) for part in self._parts_of(each)]
        return known[id(key)][:2]


def _size(part: Any) -> int:
    """The bits of a part that Python goes through again with every hash."""
    if type(part) is int:
        return part.bit_length()
    if type(part) is Fraction:
        return 8 * (part.numerator.bit_length() + part.denominator.bit_length())  # which it inverts
    if type(part) is range:
        return sum(each.bit_length() for each in (part.start, part.stop, part.step))
    return 16 * len(part.pattern) if type(part) is re.Pattern else 0


class Hashes:
    """The hashes of one container's keys: many that are the same would make it as slow as the square of its size."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, key: Any) -> None:
        """One more key."""
        value = hash(key)
        count = self._counts[value] = self._counts.get(value, 0) + 1
        if count > COLLIDING:
            raise DecodeError(f"more than {COLLIDING} keys that have the same hash")


def check_hashes(keys: Iterable[Any]) -> None:
    """DecodeError where too many keys have the same hash."""
    hashes = Hashes()
    for key in keys:
        hashes.add(key)
