"""InMemoryStore: memories in RAM, ranked as in the other stores."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any, Generic

from smolagents_memory.stores.base import Hit, Item, MemoryStore, Meta, Value, Where, checked_key, entries
from smolagents_memory.stores.kept import Kept, found


class InMemoryStore(MemoryStore[Value], Generic[Value]):
    """Memories in RAM, gone with the process. Any number of threads may use it.

    >>> store = InMemoryStore()
    >>> store.add("k1", "The deployment failed because the disk was full.", {"kind": "failure"})
    >>> [key for key, value, score in store.search("why did deploying fail?")]
    ['k1']
    """

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return "InMemoryStore()"

    def add(self, key: str, value: Value, meta: Meta | None = None) -> None:
        self.add_many([(key, value, meta)])

    def add_many(self, items: Iterable[Item[Value]]) -> int:
        new = [(key, Kept.of(value, meta)) for key, value, meta in entries(items)]
        with self._lock:
            self._kept.update(new)
        return len(new)

    def get(self, key: str) -> Value | None:
        kept = self._kept.get(checked_key(key))
        return None if kept is None else kept.unpacked()[0]

    def meta(self, key: str) -> dict[str, Any] | None:
        kept = self._kept.get(checked_key(key))
        return None if kept is None else kept.unpacked()[1]

    def search(self, query: str, top_k: int = 5, where: Where | None = None) -> list[Hit[Value]]:
        with self._lock:
            there = dict(self._kept)
        return found(query, top_k, where, ((key, kept.words) for key, kept in there.items()), there.get)

    def forget(self, key: str) -> bool:
        with self._lock:
            return self._kept.pop(checked_key(key), None) is not None

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def items(self) -> Iterator[tuple[str, Value, dict[str, Any]]]:
        with self._lock:
            there = list(self._kept.items())
        return ((key, *kept.unpacked()) for key, kept in there)

    def __len__(self) -> int:
        return len(self._kept)
