"""One memory: as somebody says it, as it is kept, and as it is given back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.codec.plain_json import pack
from smolagents_memory.memory.trust import provenance_in
from smolagents_memory.stores.base import Hit, checked_key, checked_meta
from smolagents_memory.stores.records import USUAL, Record


_ITEM = {
    "text",
    "key",
    "importance",
    "meta",
    "source",
    "kind",
    "origin",
    "tools",
    "made_of",
    "trust",
    "sources",
    "replaces",
}


@dataclass(frozen=True)
class Memory(Hit[Any]):
    """A recalled memory: `.key .value .score .meta`, and `.parts` when it was explained."""

    kind: str = "memory"
    source: str | None = None
    created: float = 0.0
    importance: float = 1.0
    relevance: float = 0.0  # how sure it is, from 0 to 1, that it has to do with the query at all
    origin: str = "user"  # who wrote it: user, agent, tool, document or import
    trust: int = USUAL  # 0: comes when asked for; 1: unasked, too; 2: a person confirmed it
    tools: tuple[str, ...] = ()  # whose text it holds, or was made of
    archived: float | None = None  # since when it is put away
    pinned: bool = False

    __iter__ = Hit.__iter__


def as_record(item: str | Mapping[str, Any], now: float) -> tuple[Record, bool]:
    """An item as a record, and whether it came with a key of its own."""
    given: Mapping[str, Any] = {"text": item} if isinstance(item, str) else item
    if isinstance(given, Mapping) and "text" in given and not isinstance(given["text"], str):
        raise UnsupportedValueError(
            f"a memory is a text, not {brief(given['text'])}; nothing was written. What is in a file is kept by "
            "remember_document(path=…)"
        )
    if not isinstance(given, Mapping) or "text" not in given or set(given) - _ITEM:
        raise UnsupportedValueError(
            f"a memory is a text, or a mapping with text and any of {', '.join(sorted(_ITEM))}, not {brief(item)};"
            " nothing was written"
        )
    importance = given.get("importance")
    importance = 1.0 if importance is None else importance
    if isinstance(importance, bool) or not isinstance(importance, (int, float)) or not 0 <= importance < 1e9:
        raise UnsupportedValueError(f"importance is a number from 0, 1 being ordinary, not {brief(importance)}")
    source = given.get("source")
    if source is not None and not isinstance(source, str):
        raise UnsupportedValueError(f"a source is a text or None, not {brief(source)}; nothing was written")
    kind = given.get("kind") or "memory"
    if not isinstance(kind, str) or "\0" in kind or any("\ud800" <= letter <= "\udfff" for letter in kind):
        raise UnsupportedValueError(
            f"a kind is a text of whole characters, such as 'failure', not {brief(kind)}; nothing was written"
        )
    key, text, meta = given.get("key"), saying(given["text"], "written"), checked_meta(given.get("meta"))
    pack(meta, "metadata")
    origin, trust, made = provenance_in(given)
    record = Record(
        checked_key(key) if key is not None else f"m-{digest(text)}", text, meta, kind,
        source, float(importance), now, now, origin=origin, trust=trust, made_of=made,
    )  # fmt: skip
    return record, key is not None


def saying(text: str, done: str) -> str:
    """A text that says something."""
    if not text.strip():
        raise UnsupportedValueError(f"a memory is a text that says something, not {brief(text)}; nothing was {done}")
    return str.__str__(text)


def as_memory(record: Record) -> Memory:
    """A record that nobody looked for by a query."""
    return Memory(
        record.key, record.value, 0.0, record.meta, {}, record.kind, record.source, record.created, record.importance,
        origin=record.origin, trust=record.trust, tools=tuple(record.tools), archived=record.archived,
        pinned=record.pinned,
    )  # fmt: skip


def digest(text: str) -> str:
    """A short name for a text: the same text has the same."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
