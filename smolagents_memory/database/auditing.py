"""Under a seal: everything gone along once, owner by owner, as nobody who reads a part of it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, select

from smolagents_memory._errors import DecodeError, SealError
from smolagents_memory.database import tables
from smolagents_memory.database.chain import verify
from smolagents_memory.database.contents import read_all_blobs
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.ledger import OF_SCOPE, check_all, check_scope, check_vectors
from smolagents_memory.database.sealed import Spot


_PARTS = (  # of a session: the column that tells their rows apart, and those that hold envelopes
    (tables.records, "number", ("fields", "inputs")),
    (tables.journal, "revision", ("changes",)),
    (tables.runs, "number", ("details",)),
)


def audited(database: Database) -> Iterator[tuple[str, str | None]]:
    """Every session and scope, and what is wrong with it, if anything is."""
    with database.reading() as connection:
        sessions = connection.execute(select(tables.sessions).order_by(tables.sessions.c.id)).all()
        scopes = connection.execute(select(*OF_SCOPE).order_by(tables.scopes.c.id)).all()
    for row in sessions:
        yield _looked_at(database, row, "session", _session)
    for row in scopes:
        yield _looked_at(database, row, "scope", _scope)


def _looked_at(
    database: Database, row: Any, kind: str, look: Callable[[Connection, Any], str]
) -> tuple[str, str | None]:
    name = f"{kind} {row.id}"
    try:
        with database.reading() as connection:
            read = envelope_of(connection).read_name if kind == "session" else envelope_of(connection).read_scope
            name = f"{kind} {read(row.name)!r}"
            look(connection, row)
    except (SealError, DecodeError) as error:
        return name, str(error)
    return name, None


def _session(connection: Connection, row: Any) -> str:
    envelope = envelope_of(connection)
    name = envelope.read_name(row.name)
    verify(connection, row, name)
    for value, column in ((row.agent, "agent"), (row.labels, "labels")):
        if value is not None:
            envelope.unpack_bytes(value, Spot("sessions", name, "", column))
    for table, key, columns in _PARTS:
        held = select(table.c[key], *(table.c[each] for each in columns)).where(table.c.session == row.id)
        for number, *values in connection.execute(held):
            for value, column in zip(values, columns, strict=True):
                if value is not None:
                    envelope.unpack_bytes(value, Spot(table.name, name, number, column))
    read_all_blobs(connection, row.id, name)
    return name


def _scope(connection: Connection, row: Any) -> str:
    envelope = envelope_of(connection)
    assert envelope.sealed is not None
    name = envelope.read_scope(row.name)
    check_scope(envelope.sealed, row, name)
    envelope.sealed.name_scope(row.id, name)
    check_all(connection, row.id)
    check_vectors(connection, row.id)
    return name
