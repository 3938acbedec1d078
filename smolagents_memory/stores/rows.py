"""Records as rows: the statements that read them, and where a new one finds its place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, insert, select, update

from smolagents_memory._brief import brief
from smolagents_memory._errors import DecodeError, StoreFormatError, UnsupportedValueError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.codec.plain_json import pack, unpack
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database, alone
from smolagents_memory.database.envelope import Envelope, Spot, as_key, envelope_of, from_key
from smolagents_memory.database.many import CHUNK, last_of
from smolagents_memory.stores.records import Draft, Record


POSITIONS = 2**24  # places a source has, a gap at the end included: sources are no neighbours

_items = tables.items.c
# what a row and a record have alike
_HISTORY = ("kind", "importance", "created", "touched", "uses", "useful", "pinned", "archived", "origin", "trust")
HISTORIES = select(_items.key, *(_items[name] for name in _HISTORY))
RECORDS = (
    HISTORIES.add_columns(_items.id, _items.value, _items.form, _items.meta, _items.place, _items.made_of)
    .add_columns(tables.sources.c.name.label("source"), tables.scopes.c.name.label("scope"))
    .outerjoin(tables.sources, tables.sources.c.id == _items.source_id)
    .outerjoin(tables.scopes, tables.scopes.c.id == _items.scope_id)
)
BY_KEY = RECORDS.where(tables.scopes.c.name == bindparam("in_scope"), _items.key == bindparam("of_key"))
BY_IDS = RECORDS.where(_items.id.in_(bindparam("ids", expanding=True)))


def scope_name(scope: Mapping[str, Any] | None) -> str:
    """The one spelling of a scope, whatever the order of its entries; "" for none."""
    if scope is None:
        return ""
    if not isinstance(scope, Mapping):
        raise UnsupportedValueError(f"a scope is a mapping such as {{'user': 'u1'}} or None, not {brief(scope)}")
    for name, value in scope.items():
        if not isinstance(name, str) or not isinstance(value, (str, int)):
            raise UnsupportedValueError(
                f"a scope maps texts to texts or whole numbers, not {brief(name)} to {brief(value)}"
            )
    try:
        spelled = json.dumps(dict(scope), sort_keys=True, separators=(",", ":"))
        faithful = json.loads(spelled) == dict(scope)
    except ValueError:  # a whole number of thousands of digits
        raise UnsupportedValueError(f"a scope is at most some thousand characters long; not {brief(scope)}") from None
    if not faithful:
        raise UnsupportedValueError(
            f"the scope {brief(scope)} holds two halves of a character side by side, which would be the same scope as "
            "that with the whole character: decode the text that it comes from as UTF-16"
        )
    return spelled


def scope_of(name: str) -> dict[str, Any] | None:
    """The scope that is spelled so; None for the one without a name. What is damaged is shown as it lies there."""
    if not name:
        return None
    try:
        found = json.loads(name)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"damaged": name}


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
            self._connection.execute(update(tables.sources).where(tables.sources.c.id == number).values(next=position))

    def _find(self, source: str) -> list[int]:
        table = tables.sources
        where = (table.c.scope_id == self._scope, table.c.name == as_key(source))
        row = self._connection.execute(select(table.c.id, table.c.next).where(*where)).first()
        if row is not None:
            return [row.id, row.next]
        number = take_numbers(self._connection, 1)
        self._connection.execute(insert(table).values(id=number, scope_id=self._scope, name=as_key(source), next=0))
        return [number, 0]


def take_numbers(connection: Connection, count: int) -> int:
    """The first of `count` numbers nobody else gets. Others that write wait here until this transaction ends."""
    changes = tables.changes
    last: Any = connection.execute(
        update(changes).where(changes.c.id == 1).values(last=changes.c.last + count).returning(changes.c.last)
    ).scalar()
    if not isinstance(last, int) or last < count:
        raise StoreFormatError(
            "the place has lost count of its changes: nothing can be written. Nothing was changed; restore the newest "
            "backup: SessionManager(…).restore_backup(path)"
        )
    return last - count + 1


def embedder_id(connection: Connection, name: str) -> int:
    """The number of an embedder's name, given when it is first seen."""
    table = tables.embedders
    found: Any = connection.execute(select(table.c.id).where(table.c.name == name)).scalar()
    if found is None:
        found = take_numbers(connection, 1)
        connection.execute(insert(table).values(id=found, name=name))
    return int(found)


@contextmanager
def writing_memories(database: Database) -> Iterator[Connection]:
    """A transaction in which nobody else writes memories."""
    with database.writing() as connection:
        alone(connection, "memories")
        yield connection


def whole(connection: Connection, rows: Iterable[Any]) -> Iterator[Record]:
    """Rows as records. A damaged one is named in a warning and left out."""
    envelope = envelope_of(connection)
    for record in (record_of(envelope, row) for row in rows):
        if not record.damaged:
            yield record


def record_of(envelope: Envelope, row: Any) -> Record:
    """A row as a record. Of a damaged one, which is named in a warning, all but what is lost."""
    key, is_whole = read_key(row.key)
    source = None if row.source is None else read_key(row.source)[0]
    value: Any = ""
    meta: dict[str, Any] = {}
    made_of: Any = {}
    why = "" if is_whole and is_sound(row) else "its key, its kind or one of its numbers is none"
    try:
        if not why:
            value, meta = _contents(envelope, row, row.scope or "", key)
            made_of = _made_of(envelope, row.made_of, row.scope or "", key)
    except (DecodeError, StoreFormatError, UnicodeDecodeError) as error:
        value, meta, why = "", {}, str(error)
    if why:
        warn_of_loss(
            f"the memory {key!r} of scope {row.scope!r} is damaged ({why}); it is left out of every result. What is "
            "remembered under its key replaces it, or forget it"
        )
    place = row.place if isinstance(row.place, int) else None
    told = history(row) if is_sound(row) else {"archived": row.archived}
    return Record(key, value, meta, source=source, id=row.id, place=place, made_of=made_of, damaged=bool(why), **told)


def history(one: Any) -> dict[str, Any]:
    """What a row tells of a memory's use, or a record for its row."""
    return {name: getattr(one, name) for name in _HISTORY}


def is_sound(row: Any) -> bool:
    """Whether what a row tells of a memory's use is what it should be: see `database.columns`."""
    numbers = (row.importance, row.created, row.touched, row.uses, row.useful, row.archived or 0.0)
    return bool(row.kind) and all(map(math.isfinite, numbers))


def read_key(data: bytes) -> tuple[str, bool]:
    """The string that bytes stand for, and whether they do; else one that is like it."""
    try:
        key = from_key(data)
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), False
    return key, bool(key)


def _contents(envelope: Envelope, row: Any, scope: str, key: str) -> tuple[Any, dict[str, Any]]:
    if row.form & tables.ENVELOPED:
        value = envelope.unpack_bytes(row.value, Spot("memory_items", scope, key, "value"))
        none = not row.meta and not envelope.sealed  # most memories have none, and it is read faster so
        meta = b"{}" if none else envelope.unpack_bytes(row.meta, Spot("memory_items", scope, key, "meta"))
    else:
        value, meta = envelope.bare(row.value), envelope.bare(row.meta)
    return from_key(value) if row.form & tables.TEXT else unpack(value.decode("ascii")), unpack(meta.decode("ascii"))


def _made_of(envelope: Envelope, data: bytes | None, scope: str, key: str) -> dict[str, list[str]]:
    if data is None:  # most were made of nothing
        return {}
    found = unpack(envelope.unpack_bytes(data, Spot("memory_items", scope, key, "made_of")).decode("ascii"))
    return {name: [str(each) for each in named] for name, named in found.items()}


def every_record(database: Database, *which: ColumnElement[bool]) -> Iterator[Record]:
    """All memories of all scopes, or some, in the order they were first added; damaged and archived ones too."""
    last = 0
    while True:
        with database.reading() as connection:
            statement = RECORDS.where(_items.id > last, *which).order_by(_items.id).limit(CHUNK)
            records = [record_of(envelope_of(connection), row) for row in connection.execute(statement)]
            last = last_of([record.id for record in records], last) if records else last
        if not records:
            return
        yield from records


def row_of(envelope: Envelope, draft: Draft, scope: int, name: str) -> dict[str, Any]:
    """A draft as the columns of its row, without its id and place."""
    record, count = draft.record, word_count(draft.words)
    named = {"scope_id": scope, "key": as_key(record.key), "words": draft.words, "word_count": count}
    return {**history(record), **contents(envelope, record, name), **named, "archived": None}


def word_count(words: str) -> int:
    """How many stems a text has, given as these joined by spaces."""
    return words.count(" ") + bool(words)


def contents(envelope: Envelope, record: Record, scope: str) -> dict[str, Any]:
    """The columns for what a person or a model wrote; `scope` is its name."""
    is_text = isinstance(record.value, str)
    value = as_key(record.value) if is_text else pack(record.value).encode("ascii")
    spot = Spot("memory_items", scope, record.key, "value")
    meta = pack(record.meta, "metadata").encode("ascii")
    return {
        "form": tables.ENVELOPED | (tables.TEXT if is_text else 0),
        "value": envelope.pack_bytes(value, spot),
        "meta": envelope.pack_bytes(meta, spot._replace(column="meta")) if record.meta or envelope.sealed else b"",
        "made_of": envelope.pack_bytes(pack(record.made_of).encode("ascii"), spot._replace(column="made_of"))
        if record.made_of
        else None,
    }
