"""What is said to a memory, as it may be written: redacted where its place asks for that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, TypeVar

from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.codec.values import scrubbed_value
from smolagents_memory.database.redacting import Redaction
from smolagents_memory.privacy.redaction import FAILED
from smolagents_memory.privacy.scrubbers import Scrubber
from smolagents_memory.stores.records import KINDS, ORIGINS, Record


Given = TypeVar("Given")
_LISTS = ("made_of", "tools", "sources", "replaces")  # of names, given in any way
_OWN_WORDS = {"kind": frozenset(KINDS), "origin": frozenset(ORIGINS)}  # by field: no redactor is asked about them
_OPERATORS = frozenset(
    ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$exists", "$and", "$or", "$not")
)
_OF_FILTERS = _OPERATORS | frozenset(Record.__dataclass_fields__)
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
        """A filter, which names metadata as it was written; what failed would fit all else that did."""
        if self._asking is None:
            return where
        words = _Words(self._asking)
        changed: Given = scrubbed_value(where, words)
        return refused("a filter", "looked for or changed") if words.failed else changed

    def source(self, source: str, done: str) -> str:
        """A source by which something is replaced or deleted."""
        said = self.key(source) if done == "deleted" else self.text(source)
        return refused("a source", done) if said == FAILED != source else said

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
        said = {name: self._field(name, each) for name, each in item.items()}
        if said.get("key") == FAILED:  # others have failed, too: each gets the key that its text has
            del said["key"]
        return {**said, **tools}

    def _field(self, name: str, given: Any) -> Any:
        if name == "key" and isinstance(given, str):
            return given if _OWN_KEY.fullmatch(given) else self.text(given)
        if isinstance(given, str) and given in _OWN_WORDS.get(name, ()):
            return given
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


def refused(what: str, done: str) -> Any:
    """Raise UnsupportedValueError: it names something, and nobody knows what is left of it."""
    raise UnsupportedValueError(
        f"{what} could not be redacted (the warning says why), and what it names is not known; nothing was {done}"
    )


class _Words:
    """What takes things out of a filter's texts, and leaves the package's own words."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber, self.failed = scrubber, False

    def text(self, text: str) -> str:
        return text if text in _OF_FILTERS else self._noted(text, self._scrubber.text(text))

    def under(self, name: str, text: str) -> str:
        own = text in _OPERATORS or any(text in _OWN_WORDS.get(each, ()) for each in name.split())
        return text if own else self._noted(text, self._scrubber.under(name, text))

    def _noted(self, text: str, said: str) -> str:
        self.failed |= said == FAILED != text
        return said


def _texts(record: Record) -> tuple[str, ...]:
    return tuple(map(searchable, (record.key, record.value, record.meta, record.source, record.kind, record.made_of)))
