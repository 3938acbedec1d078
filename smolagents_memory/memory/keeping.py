"""Where an EnhancedAgentMemory keeps its memories: what it asks of that place, and the usual place, SQL."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.memory.ranking import Ranker
from smolagents_memory.memory.recalling import Found, Recall
from smolagents_memory.memory.reembedding import reembed
from smolagents_memory.search.progress import progress
from smolagents_memory.search.words import words
from smolagents_memory.stores.bank import Bank
from smolagents_memory.stores.records import Draft, Record
from smolagents_memory.stores.vault import Vault


CHUNK = 1000  # memories in one transaction of a long list
_UNWRITTEN = 64  # recalls whose traces wait in RAM before they are written together

Fits = Callable[[dict[str, Any]], bool]


class Keeper(ABC):
    """What a memory needs of the place where it keeps its records."""

    @abstractmethod
    def put(self, records: Sequence[Record], *, reinforce: set[str], show: bool | None = None) -> None:
        """Keep records in order. One that is there is strengthened if its key is in `reinforce`, else replaced."""

    @abstractmethod
    def get_many(self, keys: Iterable[str]) -> dict[str, Record]:
        """The records that are there, archived ones too."""

    @abstractmethod
    def records(self, *, archived: bool | None = False) -> Iterator[Record]:
        """All records in the order they were first added."""

    @abstractmethod
    def recall(self, query: str, k: int, now: float, fits: Fits | None) -> list[Found]:
        """The best records for a query."""

    @abstractmethod
    def used(self, records: Sequence[Record], now: float, useful: float = 0.0) -> None:
        """Note that records were recalled (`useful` 0), or that they helped or did not."""

    @abstractmethod
    def change(self, keys: Iterable[str], what: str, now: float) -> list[str]:
        """ "forget", "archive", "restore", "pin" or "unpin" records; the keys of those that this changed."""

    @abstractmethod
    def histories(self) -> Iterable[Record]:
        """The records that are not archived; their texts may be missing."""

    def decay_due(self, now: float, every: float) -> bool:
        """Whether forgetting should run now by itself."""
        return False

    @abstractmethod
    def erase(self) -> bool:
        """Make sure no byte of what was forgotten is left; False when that is not possible now."""

    @abstractmethod
    def reindex(self, *, show: bool | None = None) -> dict[str, int]:
        """Make every index whole: how many vectors were missing, and whether an index was made anew."""

    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """What there is to know about the place."""

    def flush(self) -> None:  # noqa: B027 — most places write at once
        """Write what waits in RAM."""

    @abstractmethod
    def close(self) -> None:
        """Write what waits and let go."""


class SqlKeeper(Keeper):
    """The usual place: texts and vectors in SQL, the indexes made from them, all in one vault."""

    def __init__(self, vault: Vault, scope: Mapping[str, Any] | None, ranker: Ranker) -> None:
        self.vault = vault
        self.bank = Bank(vault.database, scope)
        self._recall = Recall(vault, self.bank, ranker)
        self._lock = threading.Lock()
        self._uses: dict[int, tuple[float, float]] = {}
        self._inside = True
        vault.enter()

    def put(self, records: Sequence[Record], *, reinforce: set[str], show: bool | None = None) -> None:
        vectors = self.vault.vectors
        with progress("Remembering", len(records), show=show) as advance:
            for start in range(0, len(records), CHUNK):
                some = records[start : start + CHUNK]
                there = self.bank.get_many([record.key for record in some if record.key in reinforce])
                drafts = [Draft(r, " ".join(words(searchable(r.value))), reinforce=r.key in reinforce) for r in some]
                new = [draft for draft in drafts if draft.record.key not in there]
                if vectors is not None:
                    matrices = vectors.of_documents([searchable(draft.record.value) for draft in new])
                    for draft, matrix in zip(new, matrices, strict=True):
                        draft.vectors = matrix
                self.bank.put(drafts, vectors.name if vectors is not None else None)
                advance(len(some))
        if len(records) >= CHUNK:
            self.refresh()

    def get_many(self, keys: Iterable[str]) -> dict[str, Record]:
        return self.bank.get_many(keys)

    def records(self, *, archived: bool | None = False) -> Iterator[Record]:
        self.flush()
        return self.bank.records(archived=archived)

    def recall(self, query: str, k: int, now: float, fits: Fits | None) -> list[Found]:
        return self._recall(query, k, now=now, fits=fits, words_only=not self.vault.is_whole())

    def used(self, records: Sequence[Record], now: float, useful: float = 0.0) -> None:
        if useful:
            self.bank.touch({}, {record.id: useful for record in records})
            return
        with self._lock:
            for record in records:
                often, at = self._uses.get(record.id, (0.0, now))
                self._uses[record.id] = (often + 1, max(at, now))
            many = len(self._uses) >= _UNWRITTEN
        if many:
            self.flush()

    def flush(self) -> None:
        with self._lock:
            uses, self._uses = self._uses, {}
        if uses:
            self.bank.touch(uses)

    def change(self, keys: Iterable[str], what: str, now: float) -> list[str]:
        if what == "forget":
            return [record.key for record in self.bank.forget(keys)]
        if what == "archive":
            return self.bank.archive(keys, now)
        if what == "restore":
            return self.bank.restore(keys)
        return [key for key in keys if self.bank.pin(key, what == "pin")]

    def histories(self) -> Iterable[Record]:
        self.flush()
        return self.bank.histories()

    def decay_due(self, now: float, every: float) -> bool:
        return self.bank.take_turn(now, every)

    def erase(self) -> bool:
        return self.bank.erase()

    def refresh(self) -> None:
        """Bring the indexes up to date now, so that the next recall need not."""
        indexes = self.vault.indexes
        if indexes is not None:
            indexes.catch_up(self.bank.name)

    def reindex(self, *, show: bool | None = None) -> dict[str, int]:
        embedded = reembed(self.vault, show=show)
        rebuilt = self.vault.indexes.repair(self.bank.name) if self.vault.indexes is not None else 0
        return {"embedded": embedded, "rebuilt": rebuilt}

    def stats(self) -> dict[str, Any]:
        self.flush()
        indexes = self.vault.indexes
        return {
            "memories": self.bank.count(),
            "archived": self.bank.count(archived=True),
            "embedder": self.vault.vectors.name if self.vault.vectors is not None else None,
            "not embedded": self.vault.missing(),
            "index": indexes.serving(self.bank.name) if indexes is not None else "words alone",
            "leads": indexes.leads if indexes is not None else False,
        }

    def close(self) -> None:
        self.flush()
        with self._lock:
            inside, self._inside = self._inside, False
        if inside:
            self.vault.leave()
