"""InMemoryStore: memories in RAM, ranked as in the other stores."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

from smolagents_memory.codec.plain_json import pack, searchable, unpack
from smolagents_memory.search.ranked_texts import ranked
from smolagents_memory.search.words import words
from smolagents_memory.stores.base import (
    Hit,
    MemoryStore,
    Meta,
    Value,
    Where,
    checked_key,
    checked_meta,
    checked_query,
    checked_top_k,
)
from smolagents_memory.stores.filters import compiled


@dataclass(frozen=True)
class _Kept:
    value: Any  # a text as it is, anything else packed: so nobody can change it from outside
    is_text: bool
    meta: str
    words: str

    def unpacked(self) -> tuple[Any, dict[str, Any]]:
        return (self.value if self.is_text else unpack(self.value)), unpack(self.meta)


class InMemoryStore(MemoryStore[Value], Generic[Value]):
    """Memories in RAM, gone with the process. Any number of threads may use it.

    >>> store = InMemoryStore()
    >>> store.add("k1", "The deployment failed because the disk was full.", {"kind": "failure"})
    >>> [key for key, value, score in store.search("why did deploying fail?")]
    ['k1']
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return "InMemoryStore()"

    def add(self, key: str, value: Value, meta: Meta | None = None) -> None:
        self.add_many([(key, value, meta)])

    def add_many(self, items: Iterable[tuple[str, Value] | tuple[str, Value, Meta | None]]) -> int:
        new = []
        for key, value, *meta in items:
            is_text = isinstance(value, str)
            packed = value if is_text else pack(value)
            packed_meta = pack(checked_meta(meta[0] if meta else None), "metadata")
            kept = _Kept(packed, is_text, packed_meta, " ".join(words(searchable(value))))
            new.append((checked_key(key), kept))
        with self._lock:
            self._kept.update(new)
        return len(new)

    def get(self, key: str) -> Value | None:
        kept = self._kept.get(key)
        return None if kept is None else kept.unpacked()[0]

    def meta(self, key: str) -> dict[str, Any] | None:
        kept = self._kept.get(key)
        return None if kept is None else kept.unpacked()[1]

    def search(self, query: str, top_k: int = 5, where: Where | None = None) -> list[Hit[Value]]:
        fits, top_k = compiled(where), checked_top_k(top_k)
        with self._lock:
            there = dict(self._kept)
        hits: list[Hit[Value]] = []
        for key, score in ranked(checked_query(query), ((key, kept.words) for key, kept in there.items())):
            if len(hits) >= top_k:
                break
            value, meta = there[key].unpacked()
            if fits is None or fits(meta):
                hits.append(Hit(key, value, score, meta))
        return hits

    def forget(self, key: str) -> bool:
        with self._lock:
            return self._kept.pop(key, None) is not None

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def items(self) -> Iterator[tuple[str, Value, dict[str, Any]]]:
        with self._lock:
            there = list(self._kept.items())
        return ((key, *kept.unpacked()) for key, kept in there)

    def __len__(self) -> int:
        return len(self._kept)
