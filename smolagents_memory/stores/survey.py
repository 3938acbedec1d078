"""What recall must know of a store as a whole: how many texts hold a word, and which memories are neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.search.lexical import Lexicon
from smolagents_memory.search.words import words
from smolagents_memory.stores.records import Record
from smolagents_memory.stores.rows import POSITIONS


class Survey:
    """Counts and places of the records it was told of. Those of a part of a store stand for the whole."""

    def __init__(self) -> None:
        self.at: dict[int, str] = {}  # place → key
        self.archived = self.texts = self._words = 0
        self._counts: Counter[str] = Counter()
        self._known: dict[str, tuple[str | None, int | None]] = {}  # key → its source, its place
        self._sources: dict[str, list[int]] = {}  # name → its number, its next position
        self._numbers: dict[str, int] = {}  # of the keys, in the order in which they were heard of
        self._keys: list[str] = []

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    @property
    def heard_of(self) -> int:
        """How many keys it has numbers for."""
        return len(self._keys)

    def number(self, key: str) -> int:
        """The number of a memory, as long as this survey is in use: of what was written later it is higher."""
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return self._numbers[key]

    def key(self, number: int) -> str:
        """The key of a number that was given."""
        return self._keys[number]

    def numbers(self) -> list[int]:
        """Of all that it was told of and that is not gone."""
        return [self._numbers[key] for key in self._known]

    def place(self, key: str) -> int | None:
        """Source and position in one number: neighbours are one apart."""
        return self._known.get(key, (None, None))[1]

    def lexicon(self, wanted: Collection[str]) -> Lexicon:
        """How often these words occur."""
        counts = {stem: self._counts[stem] for word in wanted for stem in word.split() if self._counts[stem]}
        return Lexicon(self.texts, self._words / max(1, self.texts), counts)

    def note(self, new: Record | None, old: Record | None = None) -> None:
        """A record is new, took an old one's place, or (None) is gone."""
        if old is not None and old.key in self._known:
            self._count(old, -1)
            if new is None:
                self.at.pop(self._known.pop(old.key)[1] or 0, None)
        if new is not None:
            self.number(new.key)
            self._known[new.key] = (new.source, self._placed(new))
            self._count(new, 1)

    def _count(self, record: Record, sign: int) -> None:
        if record.archived is not None:
            self.archived += sign
            return
        found = words(searchable(record.value))
        self.texts += sign
        self._words += sign * len(found)
        for word in set(found):
            self._counts[word] += sign

    def _placed(self, record: Record) -> int | None:
        source, place = self._known.get(record.key, (None, None))
        if record.source != source:
            self.at.pop(place or 0, None)
            place = None if record.source is None else self._next(record.source)
        if place is not None:
            self.at[place] = record.key
        return place

    def _next(self, source: str) -> int:
        known = self._sources.setdefault(source, [len(self._sources) + 1, 0])
        known[1] += 1
        return known[0] * POSITIONS + min(known[1], POSITIONS - 4)
