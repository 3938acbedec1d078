"""How a value is put into Chroma, which takes flat metadata and clean text only, and how it comes back as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from smolagents_memory._errors import StoreFormatError
from smolagents_memory.codec.plain_json import pack, searchable, unpack


PACKED = "smolagents_memory"  # the metadata entry that holds key, value and metadata as they are
PART = "smolagents_memory_part"
PARTS = "smolagents_memory_parts"
KEY = "smolagents_memory_key"
ORDER = "smolagents_memory_order"
DOCUMENT = 20_000  # characters that Chroma's own full-text index gets; the whole is in the packed value


@dataclass(frozen=True)
class Row:
    """One row of a collection."""

    id: str
    owner: str
    vector: Any
    document: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One value: a row, and one more for each further part of a long text."""

    id: str
    text: str
    packed: str
    key: str
    flat: dict[str, Any]

    def rows(self, matrix: Any) -> Iterator[Row]:
        """Its rows, one a row of the matrix."""
        document = self.text[:DOCUMENT].encode("utf-8", "replace").decode().replace("\0", " ")
        metadata = {**self.flat, PACKED: self.packed, PART: 0, PARTS: len(matrix)}
        yield Row(self.id, self.id, matrix[0], document, metadata)
        for part in range(1, len(matrix)):
            metadata = {PART: part, PARTS: len(matrix), KEY: pack(self.key)}
            yield Row(f"{self.id}#{part}", self.id, matrix[part], "", metadata)


def id_of(key: str) -> str:
    """A key as an id that Chroma takes: as it is where it can be."""
    plain = key.isprintable() and "#" not in key and not key.startswith("=")
    return key if plain else "=" + key.encode("utf-8", "surrogatepass").hex()


def ids_of(name: str, metadata: Mapping[str, Any]) -> list[str]:
    """The ids of all rows of a value, from those of its first."""
    return [name, *(f"{name}#{part}" for part in range(1, int(metadata.get(PARTS, 1))))]


def entry_of(key: str, value: Any, meta: Mapping[str, Any]) -> Entry:
    """A value made ready. The metadata that Chroma could filter by is written beside the packed whole."""
    flat = {
        name: each
        for name, each in meta.items()
        if name.isprintable() and name and not name.startswith(("#", "chroma:", PACKED)) and _flat(each)
    }
    return Entry(id_of(key), searchable(value), pack([key, value, dict(meta)]), key, flat)


def entries_of(found: Mapping[str, Any], *, parts: bool = False) -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """What Chroma gave as (id, key, value, metadata). Rows that others wrote are taken as text and metadata.

    With `parts` the further parts of long texts come too, without their value.
    """
    for name, metadata, document in zip(found["ids"], found["metadatas"], found["documents"], strict=True):
        metadata = metadata or {}
        try:
            if metadata.get(PART):
                if parts:
                    yield name, unpack(metadata[KEY]), None, {}
            elif PACKED in metadata:
                key, value, meta = unpack(metadata[PACKED])
                yield name, key, value, meta
            else:
                yield name, name, document, dict(metadata)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreFormatError(f"the row {name!r} of the collection was changed by others ({error!r})") from error


def _flat(value: Any) -> bool:
    if type(value) is float:
        return value == value and abs(value) != float("inf")
    if type(value) is str:
        return value.isprintable()
    return type(value) in (int, bool) and abs(int(value)) < 2**62
