"""What is said to a memory, as it may be written: redacted where its place asks for that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, TypeVar

from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.codec.values import scrubbed_value
from smolagents_memory.database.redacting import Redaction
from smolagents_memory.stores.records import Record


Given = TypeVar("Given")
_LISTS = ("made_of", "tools", "sources", "replaces")  # of names, given in any way
_OWN_KEY = re.compile(r"[md]-[0-9a-f]{16}(-\d{1,10})?")  # made of a text that was redacted already


class Said:
    """One memory's texts, keys, metadata, questions and filters; as they are where nothing is redacted."""

    def __init__(self, redaction: Redaction | None) -> None:
        self.redaction = redaction
        self._asking = None if redaction is None else redaction.asking()

    def text(self, text: str) -> str:
        """A text that is written."""
        return text if self.redaction is None else self.redaction.text(text)

    def value(self, value: Given) -> Given:
        """Metadata that is written, however deep."""
        changed: Given = scrubbed_value(value, self.redaction)
        return changed

    def key(self, key: str) -> str:
        """A key or a source by which something is looked up. One that this package made is what it is."""
        return key if self._asking is None or _OWN_KEY.fullmatch(key) else self._asking.text(key)

    def query(self, query: Any) -> Any:
        """A question."""
        return self._asking.text(query) if self._asking is not None and isinstance(query, str) else query

    def filter(self, where: Given) -> Given:
        """A filter, which names metadata as it was written."""
        changed: Given = scrubbed_value(where, self._asking)
        return changed

    def item(self, item: Any) -> Any:
        """One thing to remember, each of its fields; what a text knows of its tools goes with it."""
        if self.redaction is None:
            return item
        if isinstance(item, str):
            tools = getattr(item, "tools", None)
            text = self.redaction.text(item)
            return text if tools is None else {"text": text, "tools": tools}
        if not isinstance(item, Mapping):
            return self.value(item)
        tools = {} if item.get("tools") else {"tools": getattr(item.get("text"), "tools", None)}
        return {**{name: self._field(name, each) for name, each in item.items()}, **tools}

    def _field(self, name: str, given: Any) -> Any:
        if name == "key" and isinstance(given, str):
            return given if _OWN_KEY.fullmatch(given) else self.text(given)
        if name in _LISTS and isinstance(given, Iterable) and not isinstance(given, (str, Mapping)):
            given = list(given)
        return self.text(given) if isinstance(given, str) else self.value(given)

    # -- what may be given back ----------------------------------------------------------------------------------

    def keep(self) -> None:
        """What was found is about to be written."""
        if self.redaction is not None:
            self.redaction.keep()

    def keep_only(self, records: Iterable[Record]) -> None:
        """What these memories do not hold any more need not be given back."""
        if self.redaction is not None and self.redaction.is_sealed:
            self.redaction.keep_only(chain.from_iterable(map(_texts, records)))


def _texts(record: Record) -> tuple[str, ...]:
    return tuple(map(searchable, (record.key, record.value, record.meta, record.source, record.kind, record.made_of)))
