"""Which memories are the same once more: what runs left that did the same again, and texts in the same words.

Nothing else counts as the same without somebody who reads it: texts that contradict each other ("before the backup",
"after the backup") lie nearer to each other, by words and by meaning, than those that say the same in other words.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from smolagents_memory.stores.records import OF_AGENTS, Record


# between what was asked or done and what came of it, in the texts of `experiences`
_PARTED = {
    "action": re.compile(" → "),
    "failure": re.compile(" failed: "),
    "outcome": re.compile(r"\n(?=Outcome: |Solved\.)"),
    "unsolved": re.compile(r"\n(?=Not solved)"),
    "solution": re.compile(r"\nCode that solved it:\n"),
}
_WHEN = re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?\b|\b\d{1,2}:\d\d(?::\d\d)?\b")
_WORD, _NUMBER = re.compile(r"\w+"), re.compile(r"\d+")
_ALIKE = 0.5  # the share of their words that two results have in common
_READ = 4000  # characters of a result
_RIVALS = 50  # that one is compared with
_ROUND_WORDS, _STOPS = "\"'()", ".,;:!"  # a question is another matter; before a word stops belong to it: .env, .5
_OWN_KEY = re.compile(r"m-[0-9a-f]{16}")


class Told(NamedTuple):
    """A memory, as far as it is compared: the matter of all that may be the same, and what came of it."""

    matter: Hashable
    came: frozenset[str] = frozenset()

    def is_like(self, other: Told) -> bool:
        """Whether one of the two is enough."""
        if self.matter != other.matter:
            return False
        every = len(self.came | other.came)
        return not every or len(self.came & other.came) >= _ALIKE * every


def told_by(record: Record) -> Told | None:
    """What is compared of a memory; None for one that always stands by itself.

    That is a part of a document, what was given a key by somebody, who may ask for it, and what is no text.
    """
    if not isinstance(record.value, str) or not record.counts:
        return None
    if record.kind == "document" or not _OWN_KEY.fullmatch(record.key):
        return None
    whose = (record.kind, record.origin, record.trust, tuple(sorted(record.tools)))
    if record.kind not in OF_AGENTS:
        said = [_bare(each) for each in record.value.casefold().split()]
        return Told((*whose, *said)) if any(map(_WORD.search, said)) else None
    parted = _PARTED.get(record.kind)
    head, *came = [record.value] if parted is None else parted.split(record.value, maxsplit=1)
    words = _WORD.findall(_NUMBER.sub("0", came[0][:_READ].casefold())) if came else ()
    return Told((*whose, *_WHEN.sub(" ", head).split()), frozenset(words))


def _bare(word: str) -> str:
    """Without what stands round it; signs that stand by themselves say something, as in "git add ."."""
    return word.lstrip(_ROUND_WORDS).rstrip(_ROUND_WORDS + _STOPS) or word


class Apart:
    """Takes of those that are the same one, the first."""

    def __init__(self) -> None:
        self._taken: dict[Hashable, list[Told]] = {}
        self.dropped = 0

    def takes(self, record: Record) -> bool:
        """Whether none like it was taken before. What people said always is."""
        told = told_by(record) if record.kind in OF_AGENTS else None
        if told is None:
            return True
        rivals = self._taken.setdefault(told.matter, [])
        if any(told.is_like(each) for each in rivals[:_RIVALS]):
            self.dropped += 1
            return False
        rivals.append(told)
        return True


def groups(records: Iterable[Record]) -> list[list[str]]:
    """The keys of those that are the same once more, two of them or more, in the order in which they came."""
    known: dict[Hashable, list[tuple[Told, list[str]]]] = {}
    for record in records:
        told = told_by(record)
        if told is None:
            continue
        rivals = known.setdefault(told.matter, [])
        like = next((keys for each, keys in rivals[:_RIVALS] if told.is_like(each)), None)
        if like is None:
            rivals.append((told, [record.key]))
        else:
            like.append(record.key)
    return [keys for rivals in known.values() for _, keys in rivals if len(keys) > 1]
