"""Keeping memories in stores of the user's own: any MemoryStore, or an object with add, get, search and forget."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from smolagents_memory._errors import StoreError
from smolagents_memory.memory.keeping import Fits, Keeper
from smolagents_memory.memory.ranking import Ranker
from smolagents_memory.memory.recalling import DAY, Found
from smolagents_memory.stores.base import Hit
from smolagents_memory.stores.records import Record


FIELDS = "_memory"  # the metadata entry that holds a record's own fields


class StoreKeeper(Keeper):
    """Memories in a store for their texts and, if there is one, a second store that finds them by meaning.

    What a store cannot do (iterate, keep metadata) is done for the memories of this process, which are known here.
    """

    def __init__(self, long_term: Any, vector: Any, ranker: Ranker) -> None:
        self.long_term, self.vector, self.ranker = long_term, vector, ranker
        self._lock = threading.RLock()
        self._known: dict[str, Record] = {}

    def put(self, records: Sequence[Record], *, reinforce: set[str], show: bool | None = None) -> None:
        there = self.get_many([record.key for record in records])
        for record in records:
            old = there.get(record.key)
            if old is not None and record.key in reinforce:
                old.importance, old.touched = max(old.importance, record.importance), record.touched
                old.uses, old.archived = old.uses + 1, None
                old.meta = {**old.meta, **record.meta}
                self._write(old, indexed=True)
            else:
                if old is not None:
                    record.created, record.pinned, record.useful = old.created, old.pinned, old.useful
                self._write(record, indexed=True)

    def get_many(self, keys: Iterable[str]) -> dict[str, Record]:
        found = {}
        for key in keys:
            value = self.long_term.get(key)
            if value is not None:
                found[key] = self._record(key, value, self._meta(key))
        return found

    def records(self, *, archived: bool | None = False) -> Iterator[Record]:
        if hasattr(self.long_term, "items"):
            found = [self._record(key, value, meta) for key, value, meta in self.long_term.items()]
        else:
            with self._lock:
                found = [record for record in self._known.values() if self.long_term.get(record.key) is not None]
        for record in found:
            if archived is None or (record.archived is not None) == archived:
                yield record

    def recall(self, query: str, k: int, now: float, fits: Fits | None) -> list[Found]:
        wanted = max(self.ranker.candidates, k)
        lists = {"lexical": self._searched(self.long_term, query, wanted)}
        if self.vector is not None:
            lists["vector"] = self._searched(self.vector, query, wanted)
        weights = {
            "lexical": self.ranker.lexical if self.vector is not None else 1.0,
            "vector": 1 - self.ranker.lexical,
        }
        parts: dict[str, dict[str, float]] = {}
        best_scores: dict[str, float] = {}
        for name, hits in lists.items():
            top = max((hit.score for hit in hits), default=0.0)
            low = min((hit.score for hit in hits), default=0.0) if len(hits) >= wanted else 0.0
            for hit in hits:
                share = (hit.score - low) / (top - low) if top > low else 1.0
                parts.setdefault(hit.key, {})[name] = weights[name] * share
                best_scores[hit.key] = max(hit.score, best_scores.get(hit.key, 0.0))
        records = self.get_many(parts)
        found = []
        for key, record in records.items():
            if record.archived is None and (fits is None or fits(record.view())):
                more = {
                    "recency": self.ranker.recency_part((now - max(record.created, record.touched)) / DAY) / 4,
                    "importance": self.ranker.importance_part(record.importance) / 4,
                    "use": self.ranker.use_part(record.useful) / 4,
                }
                whole = {"lexical": 0.0, "vector": 0.0, "neighbour": 0.0, **parts[key], **more}
                found.append(Found(record, sum(whole.values()), whole, min(1.0, sum(parts[key].values()))))
        return sorted(found, key=lambda each: -each.score)[:k]

    def used(self, records: Sequence[Record], now: float, useful: float = 0.0) -> None:
        for record in self.get_many([record.key for record in records]).values():
            if FIELDS not in self._meta(record.key) and record.key not in self._known:
                continue  # somebody else's record, in a collection that existed before: it is only read
            if useful:
                record.useful += useful
            else:
                record.uses, record.touched = record.uses + 1, max(record.touched, now)
            self._write(record)

    def change(self, keys: Iterable[str], what: str, now: float) -> list[str]:
        changed = []
        for key in keys:
            if what == "forget":
                if self.vector is not None:
                    self.vector.forget(key)
                with self._lock:
                    self._known.pop(key, None)
                if self.long_term.forget(key):
                    changed.append(key)
                continue
            record = self.get_many([key]).get(key)
            if record is None or (
                (what == "archive") is (record.archived is not None) and what in ("archive", "restore")
            ):
                continue
            if what in ("pin", "unpin"):
                record.pinned = what == "pin"
            else:
                record.archived = now if what == "archive" else None
            self._write(record)
            changed.append(key)
        return changed

    def histories(self) -> Iterable[Record]:
        return self.records()

    def erase(self) -> bool:
        purge = getattr(self.long_term, "purge", None)
        return bool(purge()) if callable(purge) else True

    def reindex(self, *, show: bool | None = None) -> dict[str, int]:
        """Bring the vector store in line with the texts."""
        if self.vector is None:
            return {"embedded": 0, "rebuilt": 0}
        missing = [record for record in self.records() if self.vector.get(record.key) != record.value]
        for record in missing:
            _add(self.vector, record.key, record.value, record.meta)
        return {"embedded": len(missing), "rebuilt": 0}

    def stats(self) -> dict[str, Any]:
        records = list(self.records(archived=None))
        return {
            "memories": sum(record.archived is None for record in records),
            "archived": sum(record.archived is not None for record in records),
            "index": type(self.vector).__name__ if self.vector is not None else "words alone",
        }

    def close(self) -> None:
        for store in (self.long_term, self.vector):
            close = getattr(store, "close", None)
            if callable(close):
                close()

    # -- inside ------------------------------------------------------------------------------------------------

    def _write(self, record: Record, *, indexed: bool = False) -> None:
        with self._lock:
            self._known[record.key] = record
        fields = {name: value for name, value in asdict(record).items() if name not in ("key", "value", "meta", "id")}
        _add(self.long_term, record.key, record.value, {**record.meta, FIELDS: fields})
        if indexed and self.vector is not None:
            try:
                _add(self.vector, record.key, record.value, record.meta)
            except StoreError:
                self.long_term.forget(record.key)  # nothing half-written
                raise

    def _record(self, key: str, value: Any, meta: dict[str, Any]) -> Record:
        meta = dict(meta)
        fields = meta.pop(FIELDS, None)
        if fields is not None:
            return Record(key, value, meta, **fields)
        with self._lock:
            known = self._known.get(key)
        return known if known is not None and known.value == value else Record(key, value, meta)

    def _meta(self, key: str) -> dict[str, Any]:
        meta = getattr(self.long_term, "meta", None)
        return (meta(key) or {}) if callable(meta) else {}

    def _searched(self, store: Any, query: str, top_k: int) -> list[Hit[Any]]:
        hits = []
        for place, found in enumerate(_search(store, query, top_k)):
            hits.append(_hit(found, place))
        return hits


def _add(store: Any, key: str, value: Any, meta: dict[str, Any]) -> None:
    if _takes(store.add, 3):
        store.add(key, value, meta)
    else:
        store.add(key, value)


def _search(store: Any, query: str, top_k: int) -> Iterable[Any]:
    return store.search(query, top_k) if _takes(store.search, 2) else store.search(query)  # type: ignore[no-any-return]


def _takes(method: Any, count: int) -> bool:
    """Whether a method takes that many arguments: a sketch of a store may take fewer."""
    try:
        inspect.signature(method).bind(*range(count))
    except TypeError:
        return False
    return True


def _hit(found: Any, place: int) -> Hit[Any]:
    """A result, in whichever form a store gives it: our Hit, (key, value, score), (key, value), or a key."""
    if isinstance(found, Hit):
        return found
    if isinstance(found, str):
        return Hit(found, None, 1.0 / (1 + place))
    key, value, *score = found
    return Hit(key, value, float(score[0]) if score else 1.0 / (1 + place))
