"""One kind of thing that is looked for in texts, and how it is: where it may stand, and whether it is one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, cast

from smolagents_memory.privacy.scanning import KIND, Scan


_BESIDE = 60  # characters on either side in which a word may stand that says what a number is
_BEFORE = 220  # and in which the beginning of what is found by its middle is looked for
_AHEAD, _BEHIND = 4, 24  # characters around digits that stand close together
_WITHIN = 128  # characters of what was none in which one is looked for: so that time grows with a text
_BEGINNING = re.compile(r"(?<![0-9A-Za-z])[0-9A-Za-z(+]")


@dataclass(frozen=True)
class Recogniser:
    """One kind of thing that is taken out of texts.

    Args:
        name: What its placeholders are called: capitals, digits and underscores.
        pattern: A regular expression. Bound what it repeats: it is tried at every character of texts of any length,
            unless it is said where.
        check: Says of what the pattern found whether it is one, by its checksum perhaps.
        group: The part of the pattern that is taken out, where the rest is only what stands around it.
        at: Literals at which the pattern begins: it is tried there alone, which is far faster.
        before: What stands before those and belongs to it, as a pattern of the text read backwards.
        numbers: Whether the pattern is looked for only where digits stand close together.
        beside: A pattern of which something must stand near.

    >>> staff = Recogniser("STAFF_ID", r"\\bE-\\d{6}\\b", check=lambda found: found != "E-000000")
    >>> from smolagents_memory import Redactor
    >>> [found.value for found in Redactor(also=[staff]).find("E-000000 and E-123456")]
    ['E-123456']
    """

    name: str
    pattern: str | re.Pattern[str]
    check: Callable[[str], object] | None = None
    group: int = 0
    at: str | tuple[str, ...] = field(default=(), kw_only=True)
    before: str | re.Pattern[str] | None = field(default=None, kw_only=True)
    numbers: bool = field(default=False, kw_only=True)
    beside: str | re.Pattern[str] | None = field(default=None, kw_only=True)
    also_as_written: ClassVar[bool] = False  # where a text is read otherwise than it is written

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not KIND.fullmatch(self.name):
            raise ValueError(f"a recogniser's name is made of capitals, digits and _, not {self.name!r:.60}")
        if self.check is not None and not callable(self.check):
            raise ValueError(f"the check of {self.name} is a function of what was found, not {self.check!r:.60}")
        try:
            compiled = re.compile(self.pattern)
        except (re.error, TypeError) as error:
            raise ValueError(f"the pattern of {self.name} is no regular expression: {error}") from error
        if not 0 <= self.group <= compiled.groups:
            raise ValueError(f"the pattern of {self.name} has no group {self.group!r:.20}")
        object.__setattr__(self, "pattern", compiled)
        object.__setattr__(self, "at", (self.at,) if isinstance(self.at, str) else tuple(self.at))
        for name in ("before", "beside"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else re.compile(given))

    def spans(self, scan: Scan) -> Iterator[tuple[int, int]]:
        """Where there is one."""
        pattern = cast("re.Pattern[str]", self.pattern)
        if self.at:
            for literal in cast("tuple[str, ...]", self.at):
                if literal in scan.text:
                    yield from self._begun_at(literal, pattern, scan)
            return
        places = ((max(0, start - _AHEAD), end + _BEHIND) for start, end in scan.numbers)
        for at, until in places if self.numbers else [(0, len(scan.text))]:
            yield from self._between(at, until, pattern, scan)

    def one(self, scan: Scan, start: int, end: int) -> tuple[int, int] | None:
        """What of a match is one, if any."""
        if start >= end or (self.check is not None and not self.check(scan.text[start:end])):
            return None
        beside = cast("re.Pattern[str] | None", self.beside)
        near = beside is None or beside.search(scan.text, max(0, start - _BESIDE), end + _BESIDE)
        return (start, end) if near else None

    def under(self, name: str, text: str) -> Iterator[tuple[int, int]]:
        """Where there is one in what stands under a name in a mapping, as far as the name says so."""
        yield from ()

    def _between(self, at: int, until: int, pattern: re.Pattern[str], scan: Scan) -> Iterator[tuple[int, int]]:
        """Those in a part of the text; what only begins as one may hold another: `2027 4111 1111 1111 1111`."""
        while at <= until and (match := pattern.search(scan.text, at, until)):  # one of nothing may be at the end
            found, at = self.one(scan, *match.span(self.group)), max(match.end(), match.start() + 1)
            if found is not None:
                yield found
            elif match.end() - match.start() <= _WITHIN:
                another = _BEGINNING.search(scan.text, match.start() + 1, match.end())
                at = at if another is None else another.start()

    def _begun_at(self, literal: str, pattern: re.Pattern[str], scan: Scan) -> Iterator[tuple[int, int]]:
        done = 0
        for at in scan.places(literal):
            match = pattern.match(scan.text, at) if at >= done else None
            if match is None:
                continue
            start, end = match.span(self.group)
            if self.before is not None:
                before = cast("re.Pattern[str]", self.before).match(scan.text[max(0, at - _BEFORE) : at][::-1])
                if before is None:
                    continue
                start = at - before.end()
            found = self.one(scan, start, end)
            if found is not None:
                yield found
            if found is not None or end - start > _WITHIN:
                done = end
