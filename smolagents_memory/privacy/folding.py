"""A text as recognisers read it: what is written in several ways is written in one, and is found where it stood."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass


_SPACES = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DASHES = "\u2010\u2011\u2012\u2013\u2212\ufe63"  # no longer ones: those stand between parts of a sentence
_UNSEEN = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
_NOTHING = _UNSEEN + "".join(map(chr, range(0x300, 0x370)))  # and what stands above a letter of its own
_READ_AS = {
    **dict.fromkeys(_SPACES, " "),
    **dict.fromkeys(_DASHES, "-"),
    **dict.fromkeys(_NOTHING, ""),
    **{chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)},
}
_SPACE_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
# one sign, an escape as JSON and Python write it (also within one another), the colours of a terminal
# (all of it begins with one of a set of signs, for which a text is searched quickly)
_ODD = re.compile(
    rf"[{_SPACES}{_DASHES}{_NOTHING}\uff01-\uff5e\\\x1b]"
    r"(?:(?<![\\\x1b])|(?<=(?<!\\)\\)\\*[nrt\"']|(?<=\x1b)\[[0-9;]{0,16}m)"
)


@dataclass(frozen=True)
class Folded:
    """A text as it is read, and where in the text as it is written each part of it stands."""

    text: str
    _cuts: tuple[int, ...] = ()  # places behind which something is missing
    _gone: tuple[int, ...] = ()  # how many characters are, up to there

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where it is written what is read here."""
        return (start, end) if not self._cuts else (self._place(start), self._place(end - 1) + 1)

    def _place(self, at: int) -> int:
        cut = bisect_right(self._cuts, at)
        return at + (self._gone[cut - 1] if cut else 0)


def folded(text: str) -> Folded:
    """A text as it is read.

    >>> folded("４１１１\\u00a01111").text, folded(r'{\\"a\\": 1}\\n').text
    ('4111 1111', '{"a": 1}\\n')
    """
    if text.isascii() and "\\" not in text and "\x1b" not in text:
        return Folded(text)
    parts: list[str] = []
    cuts: list[int] = []
    gone: list[int] = []
    at = missing = 0
    for match in _ODD.finditer(text):
        start, end = match.span()
        new = _READ_AS.get(match[0])
        if new is None:
            new = " " if text[start] == "\x1b" else _SPACE_ESCAPES.get(text[end - 1], text[end - 1])
        parts += text[at:start], new
        at = end
        if len(new) != end - start:
            missing += end - start - len(new)
            cuts.append(end - missing)
            gone.append(missing)
    return Folded("".join([*parts, text[at:]]), tuple(cuts), tuple(gone)) if parts else Folded(text)
