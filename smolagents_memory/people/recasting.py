"""Every row of a place written anew: from plain to sealed, from sealed to plain, from one set of keys to another.

All of it is one transaction: whoever is killed in it leaves the place as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select, update

from smolagents_memory.codec.plain_json import searchable, unpack
from smolagents_memory.database import tables
from smolagents_memory.database.chain import chain_anew, verify
from smolagents_memory.database.contents import delete_orphans, insert_blobs
from smolagents_memory.database.envelope import Envelope, from_key
from smolagents_memory.database.ledger import check_all, marked_anew
from smolagents_memory.database.maintenance import index_words_anew
from smolagents_memory.database.many import chunks
from smolagents_memory.database.redacting import read_place_key, redacted_of, redacted_spot, write_place_key
from smolagents_memory.database.sealed import Spot, of_scope, of_session
from smolagents_memory.database.vectors import BOUND, open_vectors, vector_bytes
from smolagents_memory.search.cues import cues_of
from smolagents_memory.search.words import words
from smolagents_memory.sessions.labels import whole_labels
from smolagents_memory.stores.findable import change_labels
from smolagents_memory.stores.rows import kind_spot, these_records


Advance = Callable[[int], None]
_PARTS = (  # of a session: with the column that tells their rows apart, and those that hold envelopes
    (tables.records, "number", ("fields", "inputs")),
    (tables.journal, "revision", ("changes",)),
    (tables.runs, "number", ("details",)),
)


@dataclass
class Recast:
    """One place, while it is written anew. `before` reads what lies there, `after` writes what will."""

    connection: Connection
    before: Envelope
    after: Envelope
    advance: Advance

    def all(self) -> None:
        """Sessions first, then memories."""
        for sealed in (self.before.sealed, self.after.sealed):
            if sealed is not None:
                sealed.connection = self.connection
        self.connection.execute(delete(tables.labels))
        for row in self.connection.execute(select(tables.sessions).order_by(tables.sessions.c.id)).all():
            self._session(row)
        scopes = self.connection.execute(select(tables.scopes).order_by(tables.scopes.c.id)).all()
        for row in scopes:
            self._scope(row)
        self._use(self.after)
        key = read_place_key(self.connection, self.before)
        if key is not None:
            write_place_key(self.connection, self.after, key)
        delete_orphans(self.connection)
        index_words_anew(self.connection)
        for row in scopes:
            if self.after.sealed is not None:
                marked_anew(self.connection, row.id)
            else:
                self._labels(row.id)

    def _use(self, envelope: Envelope) -> None:
        self.connection.execution_options(envelope=envelope)

    # -- sessions ----------------------------------------------------------------------------------------------

    def _session(self, row: Any) -> None:
        self._use(self.before)
        name = self.before.read_name(row.name)
        verify(self.connection, row, name)
        blobs = list(self._blobs(row.id, name))
        key = None if self.after.sealed is None else self.after.sealed.new(of_session(name))
        values = {
            "name": self.after.name(name),
            "agent": self._moved(row.agent, Spot("sessions", name, "", "agent")),
            **whole_labels(self.before, row).columns(self.after, name),
            "seal_key": key,
            "head": None,
            "mark": None,
        }
        self.connection.execute(update(tables.sessions).where(tables.sessions.c.id == row.id).values(values))
        self._redacted(name, "session")
        for table, number, columns in _PARTS:
            self._rows_of(table, number, columns, row.id, name)
        self._use(self.after)
        self.connection.execute(delete(tables.session_blobs).where(tables.session_blobs.c.session == row.id))
        for each in blobs:  # under a seal each session has its own
            content = self._content(each, name)
            insert_blobs(self.connection, row.id, name, {hashlib.sha256(content).hexdigest(): content})
        chain_anew(self.connection, row.id, name)

    def _rows_of(self, table: Table, number: str, columns: tuple[str, ...], session: int, name: str) -> None:
        key = table.c[number]
        last: int | None = None
        while True:
            some = select(key, *(table.c[each] for each in columns)).where(table.c.session == session).order_by(key)
            rows = self.connection.execute((some if last is None else some.where(key > last)).limit(200)).all()
            if not rows:
                return
            for row in rows:
                spots = ((each, Spot(table.name, name, row[0], each)) for each in columns)
                values = {each: self._moved(getattr(row, each), spot) for each, spot in spots}
                if table is tables.records:
                    values["mark"] = None
                self.connection.execute(update(table).where(table.c.session == session, key == row[0]).values(values))
            last = rows[-1][0]
            self.advance(len(rows))

    def _blobs(self, session: int, name: str) -> Iterator[int]:
        links = tables.session_blobs.c
        yield from self.connection.scalars(select(links.blob).where(links.session == session).order_by(links.blob))

    def _content(self, blob: int, name: str) -> bytes:
        row = self.connection.execute(select(tables.blobs).where(tables.blobs.c.id == blob)).one()
        return self.before.unpack_bytes(row.data, Spot("blobs", name, bytes(row.name).hex(), "data"))

    # -- memories ----------------------------------------------------------------------------------------------

    def _scope(self, row: Any) -> None:
        self._use(self.before)
        name, connection = self.before.read_scope(row.name), self.connection
        if self.before.sealed is not None:
            check_all(connection, row.id)
        key = None
        if self.after.sealed is not None:
            key = self.after.sealed.new(of_scope(name))
            self.after.sealed.name_scope(row.id, name)
        self._sources(row.id, name)
        self._items(row.id, name)
        self._redacted(name)
        vectors = tables.vectors.c
        held = select(vectors.id).where(vectors.scope_id == row.id).order_by(vectors.id)
        for some in chunks(connection.scalars(held).all()):
            self._vectors(row.id, some)
        values = {"name": self.after.scope(name), "seal_key": key, "mark": None}
        connection.execute(update(tables.scopes).where(tables.scopes.c.id == row.id).values(values))

    def _sources(self, scope: int, name: str) -> None:
        sources = tables.sources
        for row in self.connection.execute(select(sources).where(sources.c.scope_id == scope)).all():
            source = self.before.read_key(name, row.name, "source")
            now = self.after.key(name, source, "source")
            self.connection.execute(update(sources).where(sources.c.id == row.id).values(name=now))

    def _items(self, scope: int, name: str) -> None:
        items = tables.items
        numbers = self.connection.scalars(
            select(items.c.id).where(items.c.scope_id == scope).order_by(items.c.id)
        ).all()
        for some in chunks(numbers, 200):
            for row in self.connection.execute(select(items).where(items.c.id.in_(some))).all():
                values = self._item(row, name)
                self.connection.execute(update(items).where(items.c.id == row.id).values(values))
            self.advance(len(some))

    def _labels(self, scope: int) -> None:
        """There are none under a seal."""
        items = tables.items.c
        for some in chunks(self.connection.scalars(select(items.id).where(items.scope_id == scope)).all()):
            records = these_records(self.connection, some)
            change_labels(self.connection, scope, [(each.id, None, each) for each in records if not each.damaged])

    def _item(self, row: Any, name: str) -> dict[str, Any]:
        key = self.before.read_key(name, row.key)
        spot = Spot("memory_items", name, key, "value")
        enveloped = row.form & tables.ENVELOPED
        value = self.before.unpack_bytes(row.value, spot) if enveloped else self.before.bare(row.value)
        text = from_key(value) if row.form & tables.TEXT else unpack(value.decode("ascii"))
        said = searchable(text)
        found = " ".join(words(said))
        spelled = self.after.words(name, found)
        meta = row.meta if enveloped or not row.meta else self.after.pack_bytes(row.meta, spot._replace(column="meta"))
        if enveloped and row.meta:
            meta = self._moved(row.meta, spot._replace(column="meta"))
        return {
            "key": self.after.key(name, key),
            "kind": self.after.text(self.before.read_text(row.kind, kind_spot(name)), kind_spot(name)),
            "form": row.form | tables.ENVELOPED,
            "value": self.after.pack_bytes(value, spot),
            "meta": meta,
            "made_of": self._moved(row.made_of, spot._replace(column="made_of")),
            "words": spelled,
            "word_count": found.count(" ") + bool(found),
            "cues": self.after.cues(name, spelled, cues_of(said).packed()),
            "mark": None,
        }

    def _vectors(self, scope: int, numbers: Any) -> None:
        vectors = tables.vectors
        self._use(self.before)
        statement = select(vectors.c.id, vectors.c.vector, *BOUND).where(vectors.c.id.in_(numbers))
        rows = self.connection.execute(statement).all()
        opened = open_vectors(self.connection, scope, rows)
        self._use(self.after)
        for row, data in zip(rows, opened, strict=True):
            bound = (row.item_id, row.part, row.parts, row.embedder_id)
            held = vector_bytes(self.connection, scope, bound, data)
            self.connection.execute(update(vectors).where(vectors.c.id == row.id).values(vector=held))

    def _redacted(self, name: str, of: str = "scope") -> None:
        """What was taken out of texts is kept under a seal alone."""
        redacted = tables.redacted
        mine = redacted.c.owner == redacted_of(self.before, name, of)
        rows = self.connection.execute(select(redacted).where(mine)).all()
        self.connection.execute(delete(redacted).where(mine))
        for row in rows if self.after.sealed is not None and not self.after.sealed.keys.signs else ():
            value = self._moved(row.value, redacted_spot(name, row.placeholder, of))
            now = {"owner": redacted_of(self.after, name, of), "placeholder": row.placeholder, "value": value}
            self.connection.execute(redacted.insert().values(now))

    def _moved(self, value: Any, spot: Spot) -> bytes | None:
        """The value of an envelope in another one."""
        return None if value is None else self.after.pack_bytes(self.before.unpack_bytes(value, spot), spot)


def rows_of_all(connection: Connection) -> int:
    """How many rows there are to write: for the progress bar."""
    counted = (tables.records, tables.journal, tables.runs, tables.items)
    return sum(connection.execute(select(func.count()).select_from(table)).scalar_one() for table in counted)
