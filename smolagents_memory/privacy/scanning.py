"""One text that is looked through, and where in it something may stand: found once, for all who look there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property


KIND = re.compile(r"[A-Z][A-Z0-9_]{0,31}")  # what may be called what
# digits with at most three signs between two of them
_NUMBERS = re.compile(r"[0-9](?:[ .\-/()\u00a0\u2010-\u2013]{0,3}[0-9]){6,400}")


class Scan:
    """A text, its small letters, and its numbers."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def small(self) -> str:
        """The text in small letters, each in its place."""
        return self.text.replace("\u0130", "i").lower()  # the one letter that becomes two

    @cached_property
    def numbers(self) -> list[tuple[int, int]]:
        """Where numbers of seven digits and more stand, however they are spaced."""
        return [match.span() for match in _NUMBERS.finditer(self.text)]

    def places(self, literal: str, *, small: bool = False) -> Iterator[int]:
        """Where a literal stands."""
        text = self.small if small else self.text
        at = text.find(literal)
        while at >= 0:
            yield at
            at = text.find(literal, at + len(literal))
