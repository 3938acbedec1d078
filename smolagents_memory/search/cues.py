"""What kind of answer a text can be, told from its form when it is written: recall weighs it with what is asked.

Who asks when something was looks for a time, who asks for a person or a place for a name; a question is seldom an
answer. The words by which this is told are data, one table a language; where no table fits, nothing is told.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from smolagents_memory.search.words import words


MOST_NAMES = 3  # more of them tell no more
MOST_FIRST = 0.2  # nor does a larger share of I and we
_LOOKED_AT = 20_000  # characters: of a longer text the beginning tells, and its end whether it is a question
_END = 50
_QUESTION_WORDS = 40  # at most, of a query that is one question
_PACKED = struct.Struct(">HBBBB")
_QUESTION, _TIMES, _NAMES, _CHANGE = 1, 2, 2, 16  # bits, and by how many names are shifted
_FINEST = 1000  # parts of a share that are kept apart
_DATE = r"\s*(?:\[[^\]\n]{0,80}\]\s*)?"
_HEAD = re.compile(_DATE + r"(?:([^\W\d_][\w .'’-]{0,40}):\s)?")
_WORD = re.compile(r"\w+")
_ASKING = ("?", "？", "؟", "\u037e", "՞")  # the last but one is Greek
_CLOSING = " \t\n\"'”’»)]*_"


@dataclass(frozen=True)
class Language:
    """By which words a language asks for a time, a name, or the past; tells a time, a change; speaks of oneself."""

    asks_time: re.Pattern[str]
    asks_name: re.Pattern[str]
    asks_past: re.Pattern[str]
    times: re.Pattern[str]
    change: re.Pattern[str]
    names: re.Pattern[str]
    first: frozenset[str]


def _any(*spelled: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(' '.join(spelled).split())})\b".replace("+", r"\s+"), re.IGNORECASE)


ENGLISH = Language(
    asks_time=_any(
        "when  (?:what|which)+(?:date|day|month|year|time)  how+(?:long|often|recently)",
    ),
    asks_name=_any(
        "who whom whose where which",
        "what+(?:city|country|place|name|book|movie|song|game|company|brand|band|state)",
    ),
    asks_past=_any("did was were had"),
    change=_any(
        "now recently since reached improved latest new moved switched added instead anymore no+longer",
        r"updat\w* chang\w* increas\w* decreas\w* reduc\w* extend\w* adjust\w* reschedul\w* postpon\w* cancel\w*",
    ),
    times=_any(
        "yesterday today tonight tomorrow ago since recently last next",
        "hours? minutes days? weeks? weekend months? years? morning afternoon evening night",
        "monday tuesday wednesday thursday friday saturday sunday spring summer autumn fall winter",
        "january february march april may june july august september october november december (?:19|20)\\d\\d",
    ),
    names=re.compile(r"(?<![.!?\]:]\s)(?<!^)\b[A-Z][a-z]\w*"),  # within a sentence
    first=frozenset("i me my mine myself we us our ours".split()),  # noqa: SIM905 — as they are said
)
LANGUAGES = (ENGLISH,)


class Cues(NamedTuple):
    """What the form of a text tells.

    Args:
        words: How many it has, without the date and the speaker's label that it may begin with.
        question: Whether it ends in a question.
        times: Whether it tells a time.
        names: How many words within its sentences are written like names.
        first: Which share of its words speaks of who says it.
        change: Whether it tells that something is no longer as it was.
        label: Where the label of who speaks stands among its stems: the first, and how many.
    """

    words: int = 1
    question: bool = False
    times: bool = False
    names: int = 0
    first: float = 0.0
    change: bool = False
    label: tuple[int, int] = (0, 0)

    def packed(self) -> bytes:
        """In few bytes."""
        flags = _QUESTION * self.question | _TIMES * self.times | self.names << _NAMES | _CHANGE * self.change
        return _PACKED.pack(self.words, flags, round(self.first * _FINEST), *self.label)

    @classmethod
    def unpacked(cls, data: bytes) -> Cues | None:
        """What bytes tell; None where they are not some that were packed."""
        if len(data) != _PACKED.size:
            return None
        count, flags, first, at, length = _PACKED.unpack(data)
        names, changed = flags >> _NAMES & MOST_NAMES, bool(flags & _CHANGE)
        told = bool(flags & _QUESTION), bool(flags & _TIMES), names, first / _FINEST, changed
        return cls(count, *told, (at, length))

    def speaker(self, stems: str) -> list[str]:
        """The stems of the label, of all stems of the text joined by spaces."""
        at, length = self.label
        return stems.split(maxsplit=at + length)[at : at + length] if length else []


class Asked(NamedTuple):
    """What a query asks for."""

    time: bool = False
    name: bool = False
    past: bool = False


def cues_of(text: str) -> Cues:
    """What the form of a text tells.

    >>> cues_of("[8 May, 2023] Caroline: I went to a support group in Boston yesterday.")
    Cues(words=9, question=False, times=True, names=1, first=0.111, change=False, label=(3, 1))
    >>> cues_of("What did you do?").question
    True
    """
    looked_at = text[:_LOOKED_AT]
    head = _HEAD.match(looked_at)
    assert head is not None  # each part of it may be missing
    body = looked_at[head.end() :]
    spoken = _WORD.findall(body)
    count = max(1, len(spoken))
    first = max(sum(each.lower() in language.first for each in spoken) for language in LANGUAGES)
    return Cues(
        min(count, 65_535),
        text[-_END:].rstrip(_CLOSING).endswith(_ASKING),
        any(language.times.search(body) for language in LANGUAGES),
        max(_many(language.names, body) for language in LANGUAGES),
        round(min(first / count, MOST_FIRST) * _FINEST) / _FINEST,
        any(language.change.search(body) for language in LANGUAGES),
        _label(looked_at, head) if head[1] else (0, 0),
    )


def asked_by(query: str) -> Asked:
    """What kind of answer a query asks for; a long one is an instruction, and asks for many things at once.

    >>> asked_by("When did Caroline go to the support group?")
    Asked(time=True, name=False, past=True)
    """
    if len(query.split(maxsplit=_QUESTION_WORDS)) > _QUESTION_WORDS:
        return Asked()
    return Asked(
        any(language.asks_time.search(query) for language in LANGUAGES),
        any(language.asks_name.search(query) for language in LANGUAGES),
        any(language.asks_past.search(query) for language in LANGUAGES),
    )


def _many(pattern: re.Pattern[str], text: str) -> int:
    """How often a pattern is met, up to as often as it tells something."""
    return sum(1 for _ in islice(pattern.finditer(text), MOST_NAMES))


def _label(text: str, head: re.Match[str]) -> tuple[int, int]:
    at, length = len(words(text[: head.start(1)])), len(words(head[1]))
    return (at, length) if at < 256 and 0 < length < 256 else (0, 0)
