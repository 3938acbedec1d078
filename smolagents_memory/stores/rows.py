"""Records as rows: the statements that read them, and where a new one finds its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from smolagents_memory.stores import schema
from smolagents_memory.stores.packing import pack, to_bytes, to_text, unpack
from smolagents_memory.stores.records import Draft, Record


POSITIONS = 2**24  # places a source has, a gap at the end included: sources are no neighbours
CHUNK = 500  # ids in one statement

_items = schema.items.c
_COLUMNS = (
    _items.id, _items.key, _items.value, _items.is_text, _items.meta, _items.kind, _items.place,
    _items.importance, _items.created, _items.touched, _items.uses, _items.useful, _items.pinned, _items.archived,
    schema.sources.c.name.label("source"),
)  # fmt: skip
RECORDS = select(*_COLUMNS).outerjoin(schema.sources, schema.sources.c.id == _items.source_id)
BY_KEY = RECORDS.where(_items.scope_id == bindparam("scope"), _items.key == bindparam("name"))
BY_IDS = RECORDS.where(_items.id.in_(bindparam("ids", expanding=True)))


def scope_name(scope: Mapping[str, Any] | None) -> str:
    """The one spelling of a scope, whatever the order of its entries; "" for none."""
    if scope is None:
        return ""
    if not isinstance(scope, Mapping):
        raise TypeError(f"a scope is a mapping such as {{'user': 'u1'}} or None, not {scope!r:.80}")
    for name, value in scope.items():
        if not isinstance(name, str) or not isinstance(value, (str, int)):
            raise TypeError(f"a scope maps texts to texts or whole numbers, not {name!r:.40} to {value!r:.40}")
    return json.dumps(dict(scope), sort_keys=True, separators=(",", ":"))


class Places:
    """Hands out the next place in each source, within one transaction."""

    def __init__(self, connection: Connection, scope: int) -> None:
        self._connection, self._scope = connection, scope
        self._sources: dict[str, list[int]] = {}  # name → its number, its next position

    def next(self, source: str | None) -> dict[str, Any]:
        if source is None:
            return {"source_id": None, "place": None}
        known = self._sources.get(source)
        if known is None:
            known = self._sources[source] = self._find(source)
        number, position = known
        known[1] += 1
        return {"source_id": number, "place": number * POSITIONS + min(position, POSITIONS - 4)}

    def kept(self, old: Record, source: str | None) -> dict[str, Any]:
        if source == old.source and source is not None and old.place is not None:
            return {"source_id": old.place // POSITIONS, "place": old.place}
        return self.next(source)

    def save(self) -> None:
        for number, position in self._sources.values():
            self._connection.execute(update(schema.sources).where(schema.sources.c.id == number).values(next=position))

    def _find(self, source: str) -> list[int]:
        table = schema.sources
        where = (table.c.scope_id == self._scope, table.c.name == to_bytes(source))
        row = self._connection.execute(select(table.c.id, table.c.next).where(*where)).first()
        if row is not None:
            return [row.id, row.next]
        number = take_numbers(self._connection, 1)
        self._connection.execute(insert(table).values(id=number, scope_id=self._scope, name=to_bytes(source), next=0))
        return [number, 0]


def take_numbers(connection: Connection, count: int) -> int:
    """The first of `count` numbers nobody else gets. Others that write wait here until this transaction ends."""
    changes = schema.changes
    last: Any = connection.execute(
        update(changes).where(changes.c.id == 1).values(last=changes.c.last + count).returning(changes.c.last)
    ).scalar()
    return int(last) - count + 1


def embedder_id(connection: Connection, name: str) -> int:
    """The number of an embedder's name, given when it is first seen."""
    table = schema.embedders
    found: Any = connection.execute(select(table.c.id).where(table.c.name == name)).scalar()
    if found is None:
        found = take_numbers(connection, 1)
        connection.execute(insert(table).values(id=found, name=name))
    return int(found)


def record_of(row: Any) -> Record:
    """A row as a record."""
    value = to_text(row.value) if row.is_text else unpack(bytes(row.value).decode("ascii"))
    return Record(
        key=to_text(row.key), value=value, meta=unpack(row.meta), kind=row.kind,
        source=None if row.source is None else to_text(row.source), importance=row.importance, created=row.created,
        touched=row.touched, uses=row.uses, useful=row.useful, pinned=row.pinned, archived=row.archived,
        id=row.id, place=row.place,
    )  # fmt: skip


def row_of(draft: Draft, scope: int) -> dict[str, Any]:
    """A draft as the columns of its row, without its id and place."""
    record = draft.record
    is_text = isinstance(record.value, str)
    return {
        "scope_id": scope,
        "key": to_bytes(record.key),
        "value": to_bytes(record.value) if is_text else pack(record.value).encode("ascii"),
        "is_text": is_text,
        "meta": pack(record.meta, "metadata"),
        "kind": record.kind,
        "importance": record.importance,
        "created": record.created,
        "touched": record.touched,
        "uses": record.uses,
        "useful": record.useful,
        "pinned": record.pinned,
        "archived": None,
        "words": draft.words,
        "word_count": draft.words.count(" ") + bool(draft.words),
    }


def chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Pieces small enough for one statement."""
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]


def numbered(connection: Connection, statement: str, ids: Sequence[int], **numbers: int) -> list[Any]:
    """The rows of a statement with `{ids}` in it. Only numbers ever go into its text."""
    rows: list[Any] = []
    for some in chunks(ids):
        named = {name: int(number) for name, number in numbers.items()}
        text = statement.format(ids=",".join([str(int(each)) for each in some]), **named)
        rows.extend(connection.exec_driver_sql(text).all())
    return rows
