"""Objects that are not quite a MemoryStore: what they lack, what does not work without it, and how they are used."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.stores.base import Hit, MemoryStore, Meta, Where


NEEDED = ("add", "get", "search", "forget")
_LOST = {
    "items()": "what other or earlier processes wrote can be found, but does not fade, is not counted, purged or "
    "forgotten by filter, and lends nothing to its neighbours",
    "__len__()": "what others write is noticed only when it is found",
    "add(key, value, meta)": "importance, kind, source, times, use, pins and the archive are known to this process "
    "alone; so is who wrote it, and what others wrote does not come unasked",
}


def is_store(given: Any) -> bool:
    """Whether an object has at least what is needed of a store."""
    return all(callable(getattr(given, name, None)) for name in NEEDED)


def lost_by(store: Any) -> dict[str, str]:
    """What an object lacks of a MemoryStore, and what does not work without it.

    >>> from smolagents_memory import InMemoryStore
    >>> lost_by(InMemoryStore())
    {}
    """
    has = {
        "items()": hasattr(store, "items"),
        "__len__()": hasattr(store, "__len__"),
        "add(key, value, meta)": _takes(store.add, 3) and hasattr(store, "items"),
    }
    return {name: lost for name, lost in _LOST.items() if not has[name]}


def as_store(given: Any) -> MemoryStore[Any]:
    """The object itself if it is a MemoryStore, else one that makes do with what it has."""
    if isinstance(given, MemoryStore):
        return given
    if not is_store(given):
        raise UnsupportedValueError(f"{brief(given)} is no store: it needs {', '.join(NEEDED)}, items and a length")
    return Adapted(given)


class Adapted(MemoryStore[Any]):
    """An object with add, get, search and forget as a store. What it cannot list or keep is known to this process."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.abilities = frozenset(getattr(given, "abilities", ()))
        self._lists, self._keeps = hasattr(given, "items"), _takes(given.add, 3)
        self.keeps = self._lists and self._keeps  # the metadata; if not, it is known to this process alone
        self._known: dict[str, dict[str, Any]] = {}  # of what was written here

    def __repr__(self) -> str:
        return repr(self.given)

    def add(self, key: str, value: Any, meta: Meta | None = None) -> None:
        self.given.add(*((key, value, dict(meta or {})) if self._keeps else (key, value)))
        if not self.keeps:
            self._known[key] = dict(meta or {})

    def get(self, key: str) -> Any:
        return self.given.get(key)

    def search(self, query: str, top_k: int = 5, where: Where | None = None) -> list[Hit[Any]]:
        """`where` is left to whoever asks: a sketch of a store may not know it."""
        found = self.given.search(query, top_k) if _takes(self.given.search, 2) else self.given.search(query)
        return [_hit(each, place) for place, each in enumerate(found)]

    def forget(self, key: str) -> bool:
        self._known.pop(key, None)
        return bool(self.given.forget(key))

    def items(self) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        listed = self.given.items() if self._lists else [(key, self.get(key)) for key in list(self._known)]
        for key, value, *meta in listed:
            if value is not None:
                yield key, value, dict(self._known.get(key) or (meta[0] if meta else None) or {})
            elif not self._lists:
                self._known.pop(key, None)  # somebody else forgot it

    def __len__(self) -> int:
        return len(self.given) if hasattr(self.given, "__len__") else sum(1 for _ in self.items())

    def meta(self, key: str) -> dict[str, Any] | None:
        if key in self._known or not self._lists:
            return self._known.get(key)
        return super().meta(key)

    def purge(self) -> bool:
        """Have its bytes removed, where it can do that."""
        purge = getattr(self.given, "purge", None)
        return bool(purge()) if callable(purge) else True

    def close(self) -> None:
        close = getattr(self.given, "close", None)
        if callable(close):
            close()


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
