"""Records as rows: the statements that read them, and where a new one finds its place."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, insert, select, update

from smolagents_memory._brief import brief
from smolagents_memory._errors import DecodeError, StoreFormatError, UnsupportedValueError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.codec.plain_json import pack, unpack
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database, alone
from smolagents_memory.database.envelope import Envelope, as_key, envelope_of, from_key
from smolagents_memory.database.ledger import balance, check_whole
from smolagents_memory.database.many import CHUNK, chunks, last_of
from smolagents_memory.database.sealed import Spot
from smolagents_memory.stores.records import Draft, Record


POSITIONS = 2**24  # places a source has, a gap at the end included: sources are no neighbours

_items = tables.items.c
# what a row and a record have alike
_HISTORY = ("kind", "importance", "created", "touched", "uses", "useful", "pinned", "archived", "origin", "trust")
_ARCHIVED = _HISTORY.index("archived")
HISTORIES = select(_items.key, *(_items[name] for name in _HISTORY))
_MARKED = (
    _items.words,
    _items.word_count,
    _items.cues,
    _items.scope_id,
    _items.embedder_id,
    _items.mark,
)  # which a seal's marks need
RECORDS = (
    HISTORIES.add_columns(_items.id, _items.value, _items.form, _items.meta, _items.place, _items.made_of)
    .add_columns(tables.sources.c.name.label("source"), tables.scopes.c.name.label("scope"))
    .outerjoin(tables.sources, tables.sources.c.id == _items.source_id)
    .outerjoin(tables.scopes, tables.scopes.c.id == _items.scope_id)
)
_HELD = len(RECORDS.selected_columns)  # read by their places: by name it takes a third longer
BY_IDS = RECORDS.where(_items.id.in_(bindparam("ids", expanding=True)))


_SEALED_BY_IDS = BY_IDS.add_columns(*_MARKED)


def record_rows(connection: Connection, statement: Any, values: Mapping[str, Any] | None = None) -> Any:
    """Run a statement made of RECORDS: under a seal with the columns by which its rows are checked."""
    if envelope_of(connection).sealed is not None and statement is BY_IDS:
        statement = _SEALED_BY_IDS  # at every recall: to put it together takes longer than to run it
    elif envelope_of(connection).sealed is not None:
        there = set(statement.selected_columns.keys())
        statement = statement.add_columns(*(column for column in _MARKED if column.key not in there))
    return connection.execute(statement, values)


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


class Places:
    """Hands out the next place in each source, within one transaction."""

    def __init__(self, connection: Connection, scope: int, named: str) -> None:
        self._connection, self._scope, self._named = connection, scope, named
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
        name = envelope_of(self._connection).key(self._named, source, "source")
        where = (table.c.scope_id == self._scope, table.c.name == name)
        row = self._connection.execute(select(table.c.id, table.c.next).where(*where)).first()
        if row is not None:
            return [row.id, row.next]
        number = take_numbers(self._connection, 1)
        self._connection.execute(insert(table).values(id=number, scope_id=self._scope, name=name, next=0))
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
        balance(connection)


def whole(connection: Connection, rows: Iterable[Any]) -> Iterator[Record]:
    """Rows as records. A damaged one is named in a warning and left out."""
    envelope = envelope_of(connection)
    for record in (record_of(envelope, row) for row in rows):
        if not record.damaged:
            yield record


def record_of(envelope: Envelope, row: Any) -> Record:
    """A row as a record. Of a damaged one, which is named in a warning, all but what is lost."""
    name, *told, number, value, form, meta, place, made_of, source, scope = row[:_HELD]
    scope = envelope.read_scope(scope or "")
    if envelope.sealed is not None:
        check_whole(envelope.sealed, scope, row)
    key, is_whole = read_key(envelope, scope, name)
    source = None if source is None else read_key(envelope, scope, source, "source")[0]
    sound, why = is_sound(told), ""
    try:
        if not (is_whole and sound):
            raise DecodeError("its key, its kind or one of its numbers is none")
        value, meta = _contents(envelope, form, value, meta, scope, key)
        made_of = _made_of(envelope, made_of, scope, key)
    except (DecodeError, StoreFormatError, UnicodeDecodeError) as error:
        value, meta, made_of, why = "", {}, {}, str(error)
        warn_of_loss(
            f"the memory {key!r} of scope {scope!r} is damaged ({why}); it is left out of every result. What is "
            "remembered under its key replaces it, or forget it"
        )
    known = history(told, envelope, scope) if sound else {"archived": told[_ARCHIVED]}
    place = place if isinstance(place, int) else None
    return Record(key, value, meta, source=source, id=number, place=place, made_of=made_of, damaged=bool(why), **known)


def history(told: Sequence[Any], envelope: Envelope, scope: str) -> dict[str, Any]:
    """What a row tells of a memory's use, by name."""
    known = dict(zip(_HISTORY, told, strict=True))
    known["kind"] = envelope.read_text(known["kind"], kind_spot(scope))
    return known


def is_sound(told: Sequence[Any]) -> bool:
    """Whether what a row tells of a memory's use is what it should be: see `database.columns`."""
    return bool(told[0]) and all(map(math.isfinite, told[1 : _ARCHIVED - 1])) and math.isfinite(told[_ARCHIVED] or 0.0)


def kind_spot(scope: str) -> Spot:
    """Where the kind of a memory belongs."""
    return Spot("memory_items", scope, "", "kind")


def read_key(envelope: Envelope, scope: str, data: bytes, column: str = "key") -> tuple[str, bool]:
    """The string that bytes stand for, and whether they do; else one that is like it."""
    return readable(data, lambda data: envelope.read_key(scope, data, column))


def readable(data: bytes, read: Callable[[bytes], str]) -> tuple[str, bool]:
    """The name that bytes stand for, and whether they do; else one that is like it."""
    try:
        key = read(data)
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), False
    return key, bool(key)


def _contents(
    envelope: Envelope, form: int, value: bytes, meta: bytes, scope: str, key: str
) -> tuple[Any, dict[str, Any]]:
    if form & tables.ENVELOPED:
        value = envelope.unpack_bytes(value, Spot("memory_items", scope, key, "value"))
        none = not meta  # most memories have none, and it is read faster so; a seal's mark is of this, too
        meta = b"{}" if none else envelope.unpack_bytes(meta, Spot("memory_items", scope, key, "meta"))
    else:
        value, meta = envelope.bare(value), envelope.bare(meta)
    return from_key(value) if form & tables.TEXT else unpack(value.decode("ascii")), unpack(meta.decode("ascii"))


def _made_of(envelope: Envelope, data: bytes | None, scope: str, key: str) -> dict[str, list[str]]:
    if data is None:  # most were made of nothing
        return {}
    found = unpack(envelope.unpack_bytes(data, Spot("memory_items", scope, key, "made_of")).decode("ascii"))
    return {name: [str(each) for each in named] for name, named in found.items()}


def these_records(connection: Connection, ids: Sequence[int], *which: ColumnElement[bool]) -> list[Record]:
    """Memories by their numbers, in their order; damaged and archived ones too."""
    envelope, found = envelope_of(connection), RECORDS.where(*which).order_by(_items.id)
    return [
        record_of(envelope, row)
        for some in chunks(ids)
        for row in record_rows(connection, found.where(_items.id.in_(some)))
    ]


def every_record(
    database: Database, *which: ColumnElement[bool], among: Sequence[int] | None = None
) -> Iterator[Record]:
    """All memories of all scopes, or some, in the order they were first added; damaged and archived ones too."""
    for some in chunks(among or ()):
        with database.reading() as connection:
            found = these_records(connection, some, *which)
        yield from found
    if among is not None:
        return
    last = 0
    while True:
        with database.reading() as connection:
            statement = RECORDS.where(_items.id > last, *which).order_by(_items.id).limit(CHUNK)
            envelope = envelope_of(connection)
            records = [record_of(envelope, row) for row in record_rows(connection, statement).all()]
            last = last_of([record.id for record in records], last) if records else last
        if not records:
            return
        yield from records


def row_of(envelope: Envelope, draft: Draft, scope: int, name: str) -> dict[str, Any]:
    """A draft as the columns of its row, without its id and place."""
    record, count = draft.record, word_count(draft.words)
    named = {"scope_id": scope, "key": envelope.key(name, record.key), "words": draft.words, "word_count": count}
    named["cues"] = envelope.cues(name, draft.words, draft.cues)
    kind = envelope.text(record.kind, kind_spot(name))
    told = {each: getattr(record, each) for each in _HISTORY}
    return {**told, **contents(envelope, record, name), **named, "kind": kind, "archived": None}


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
        "meta": envelope.pack_bytes(meta, spot._replace(column="meta")) if record.meta else b"",
        "made_of": envelope.pack_bytes(pack(record.made_of).encode("ascii"), spot._replace(column="made_of"))
        if record.made_of
        else None,
    }
