"""The records of one scope as they are read, each method of one state of the database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select, true

from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.ledger import check_rows, counted, trusted_scope
from smolagents_memory.database.many import chunks
from smolagents_memory.database.scopes import scope_of
from smolagents_memory.stores.counting import counts
from smolagents_memory.stores.fading import may_have_faded
from smolagents_memory.stores.narrowing import READ, narrowed, of_source
from smolagents_memory.stores.recalls import served
from smolagents_memory.stores.records import NEWEST, Record, ScopeInfo, Served
from smolagents_memory.stores.requirements import Needed
from smolagents_memory.stores.reusing import vectors_there
from smolagents_memory.stores.rows import (
    HISTORIES,
    RECORDS,
    every_record,
    history,
    is_sound,
    read_key,
    record_of,
    record_rows,
    scope_name,
    these_records,
)


_items = tables.items.c
_SCOPE = select(tables.scopes.c.id).where(tables.scopes.c.name == bindparam("name"))
AWAY = {None: true(), True: _items.archived.is_not(None), False: _items.archived.is_(None)}  # those that are, or not


class BankReader:
    """The memories of one scope in one database, as whoever reads them sees them."""

    def __init__(self, database: Database, scope: Mapping[str, Any] | None = None) -> None:
        self.database = database
        self.name = scope_name(scope)

    def scope_id(self, connection: Connection) -> int | None:
        """The scope's number; None before anything was written in it."""
        # not kept: a backup that is put back may bring other numbers
        envelope = envelope_of(connection)
        if envelope.sealed is not None:
            return trusted_scope(connection, envelope.sealed, self.name)
        return self.number_of(connection)

    def number_of(self, connection: Connection) -> int | None:
        """The same of one that is about to be emptied, whatever lies there."""
        name = envelope_of(connection).scope(self.name)
        found: int | None = connection.execute(_SCOPE, {"name": name}).scalar()
        return found

    def get(self, key: str) -> Record | None:
        """The memory under `key`, archived or not."""
        with self.database.reading() as connection:
            found = next(self.by_keys(connection, [key]), None)
            return found if found is not None and not found.damaged else None

    def get_many(self, keys: Iterable[str]) -> dict[str, Record]:
        """The memories that are there, by key."""
        with self.database.reading() as connection:
            found = self.by_keys(connection, list(keys))
            return {record.key: record for record in found if not record.damaged}

    def by_keys(self, connection: Connection, keys: Sequence[str]) -> Iterator[Record]:
        """Damaged ones too: they can be replaced, put away and forgotten."""
        envelope = envelope_of(connection)
        scope = self.scope_id(connection)
        if scope is None:
            return
        for some in chunks(keys):
            held = [envelope.key(self.name, key) for key in some]
            statement = RECORDS.where(_items.scope_id == scope, _items.key.in_(held))
            yield from (record_of(envelope, row) for row in record_rows(connection, statement))

    def known(
        self, keys: Sequence[str], source: str | None, texts: Collection[str], embedder: str, width: int | None
    ) -> tuple[set[str], dict[str, Any]]:
        """Which of some keys are there; and by text the vectors that their memories have, or others of a source."""
        with self.database.reading() as connection:
            found = [each for each in self.by_keys(connection, keys) if not each.damaged]
            there, scope = {each.key for each in found}, self.scope_id(connection)
            if scope is None or width is None:
                return there, {}
            found += self.of_source(connection, scope, source) if source is not None else []
            return there, vectors_there(connection, scope, found, texts, embedder, width)

    def of_source(self, connection: Connection, scope: int, source: str) -> list[Record]:
        name = envelope_of(connection).key(self.name, source, "source")
        mine = (_items.scope_id == scope, tables.sources.c.name == name)
        return these_records(connection, of_source(connection, scope, name), *mine)

    def records(self, *, archived: bool | None = False, wanted: Sequence[Needed] = ()) -> Iterator[Record]:
        """All memories in the order they were first added; `archived=None` gives the ones put away as well.

        With `wanted` those at least that meet it: the others need not be read.
        """
        among = None
        with self.database.reading() as connection:
            scope = self.scope_id(connection)
            if scope is not None:
                counted(connection, scope)  # under a seal
                among = narrowed(connection, scope, wanted, READ)
        found = every_record(self.database, _items.scope_id == scope, AWAY[archived], among=among)
        return (each for each in found if not each.damaged)

    def histories(self, now: float = 0.0, idle: float | None = None) -> list[Record]:
        """The memories that are not put away, without their texts: what forgetting needs to know.

        With `idle` those alone that may have faded by now: see `fading`.
        """
        with self.database.reading() as connection:
            scope = self.scope_id(connection)
            if scope is not None:
                check_rows(connection, scope)
            which = true() if idle is None else may_have_faded(now, idle)
            statement = HISTORIES.where(_items.scope_id == scope, AWAY[False], which)
            rows, envelope = connection.execute(statement).all(), envelope_of(connection)
            known = ((row, *read_key(envelope, self.name, row.key)) for row in rows if is_sound(row[1:]))
            return [
                Record(key, None, **history(row[1:], envelope, self.name)) for row, key, is_whole in known if is_whole
            ]

    def count(self, *, archived: bool | None = False) -> int:
        """How many memories there are."""
        with self.database.reading() as connection:
            scope = self.scope_id(connection)
            return 0 if scope is None else counts(connection, scope)[scope].of(archived)

    def scopes(self) -> list[ScopeInfo]:
        """All scopes that have memories in the place, by name."""
        table = tables.scopes.c
        with self.database.reading() as connection:
            there, read = counts(connection), envelope_of(connection).read_scope
            rows = connection.execute(select(table.id, table.name)).all()
            named = sorted((read(row.name), there[row.id]) for row in rows)
        return [ScopeInfo(scope_of(name), *count) for name, count in named if any(count)]

    def served(self, newest: int = NEWEST) -> Served:
        """How well recall served this scope, in all processes."""
        with self.database.reading() as connection:
            scope = self.scope_id(connection)
            return Served() if scope is None else served(connection, scope, newest)
