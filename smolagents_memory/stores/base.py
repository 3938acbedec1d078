"""What a store of memories is: six methods, results that unpack, and everything else derived from them."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar, cast

from smolagents_memory._brief import brief
from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.search.parts import bounded_query
from smolagents_memory.stores.filters import Check, compiled


Value = TypeVar("Value")
Meta = Mapping[str, Any]
Where = Mapping[str, Any]
Item: TypeAlias = tuple[str, Value] | tuple[str, Value, Meta | None]


@dataclass(frozen=True)
class Hit(Generic[Value]):
    """One result of a search. It unpacks as `key, value, score` and carries the metadata as `.meta`.

    >>> key, value, score = Hit("k1", "The key is under the mat.", 0.75)
    >>> key, score
    ('k1', 0.75)
    """

    key: str
    value: Value
    score: float
    meta: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)  # what the score is made of, where it was asked for

    def __iter__(self) -> Iterator[Any]:
        return iter((self.key, self.value, self.score))


class MemoryStore(ABC, Generic[Value]):
    """Keeps values under keys and finds them by words or by meaning.

    A store of your own needs these six methods; the rest is derived. `smolagents_memory.testing.StoreConformance`
    proves it. Everything is kept faithfully, or refused with a `StoreError` and nothing is half-written.
    """

    #: What this store can do beyond the contract: "filters", "vectors", "ttl", "persistent".
    abilities: frozenset[str] = frozenset({"filters"})

    @abstractmethod
    def add(self, key: str, value: Value, meta: Meta | None = None) -> None:
        """Keep `value` under `key`; what was there before is replaced, its metadata too."""

    @abstractmethod
    def get(self, key: str) -> Value | None:
        """The value under `key`, or None."""

    @abstractmethod
    def search(self, query: str, top_k: int = 5, where: Where | None = None) -> list[Hit[Value]]:
        """The values that fit `query` best, best first; `where` filters by metadata."""

    @abstractmethod
    def forget(self, key: str) -> bool:
        """Drop what is under `key`; whether there was anything."""

    @abstractmethod
    def items(self) -> Iterator[tuple[str, Value, dict[str, Any]]]:
        """Every key, value and metadata, in the order they were first added. Changes meanwhile do no harm."""

    @abstractmethod
    def __len__(self) -> int:
        """How many values there are."""

    # -- derived; a store overrides what it can do faster ------------------------------------------------------

    def add_many(self, items: Iterable[Item[Value]]) -> int:
        """Add `(key, value)` or `(key, value, meta)` one after the other; returns how many."""
        count = 0
        for item in entries(items):
            self.add(*item)
            count += 1
        return count

    def get_many(self, keys: Iterable[str]) -> dict[str, Value]:
        """The values that are there, by key."""
        found = ((key, self.get(key)) for key in checked_keys(keys))
        return {key: value for key, value in found if value is not None}

    def forget_many(self, keys: Iterable[str]) -> int:
        """Drop several; returns how many were there."""
        return sum(self.forget(key) for key in checked_keys(keys))

    def meta(self, key: str) -> dict[str, Any] | None:
        """The metadata under `key`, or None."""
        return next((meta for each, _, meta in self.items() if each == key), None)

    def clear(self) -> None:
        """Drop everything."""
        self.forget_many(list(self))

    def purge(self) -> bool:
        """Make sure that no byte of what was forgotten is left, where that can be done; False when it cannot now."""
        return True

    def close(self) -> None:
        """Let go of files and connections. The store may be used again and opens them anew."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.meta(key) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for key, _, _ in self.items())

    def __bool__(self) -> bool:
        return True  # an empty store is a store

    def __enter__(self) -> MemoryStore[Value]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def asked(query: object, top_k: object, where: Where | None) -> tuple[str, int, Check | None]:
    """The query, the number of results, and what says whether metadata fits; None when everything does."""
    return checked_query(query), checked_top_k(top_k), compiled(where)


def entries(items: Iterable[Item[Value]]) -> Iterator[tuple[str, Value, dict[str, Any]]]:
    """Each item's key, value and metadata, if they can be."""
    for item in _listed("items are a list of (key, value)", items):
        if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
            raise UnsupportedValueError(f"an item is (key, value) or (key, value, meta), not {brief(item)}")
        key, value, *meta = item
        yield checked_key(key), value, checked_meta(meta[0] if meta else None)


def checked_key(key: object) -> str:
    """The key, if it can be one: any text but the empty one."""
    if not isinstance(key, str) or not key:
        raise UnsupportedValueError(
            f"a key is a text of at least one character, not {brief(key)}; nothing was written"
        )
    return key


def checked_keys(keys: Iterable[object]) -> list[str]:
    """The keys, if they can be some: a text alone is one key, and not a list of its letters."""
    if isinstance(keys, str):
        raise UnsupportedValueError(f"a list of keys is needed, not one text: [{brief(keys)}]")
    return [checked_key(key) for key in _listed("keys are a list of texts", keys)]


def _listed(what: str, given: Iterable[Any]) -> Iterator[Any]:
    try:
        return iter(given)
    except TypeError:
        raise UnsupportedValueError(f"{what}, not {brief(given)}") from None


_MOST = 2**31 - 1  # results, which every database can count


def checked_top_k(top_k: object) -> int:
    """The number of results, if it can be one."""
    try:
        wanted = operator.index(cast("int", top_k))
    except TypeError:
        wanted = None
    if wanted is None or isinstance(top_k, bool):
        raise UnsupportedValueError(f"top_k is a whole number, not {brief(top_k)}")
    return min(max(0, wanted), _MOST)


def checked_query(query: object) -> str:
    """The query, if it can be one: any text. Of a very long one both ends, so that it takes a bounded time."""
    if not isinstance(query, str):
        raise UnsupportedValueError(f"a query is a text, not a {type(query).__name__}")
    return bounded_query(query)


def checked_meta(meta: object) -> dict[str, Any]:
    """Metadata as a dictionary of its own."""
    if meta is None:
        return {}
    if not isinstance(meta, Mapping) or not all(isinstance(name, str) for name in meta):
        raise UnsupportedValueError(
            f"metadata is a mapping whose keys are texts, not {brief(meta)}; nothing was written"
        )
    return dict(meta)
