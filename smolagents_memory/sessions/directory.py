"""The row of a session: finding it, making it, claiming it, deleting it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, literal, select, update

from smolagents_memory._errors import DecodeError, SessionConflictError, SessionDamagedError, SessionNotFoundError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.database import tables
from smolagents_memory.database.contents import delete_orphans
from smolagents_memory.database.engine import Database, alone
from smolagents_memory.database.envelope import Envelope, Spot, as_key, envelope_of, from_key
from smolagents_memory.sessions import leases
from smolagents_memory.sessions.entries import Position
from smolagents_memory.sessions.leases import Lease


_LOOK = 0.2  # seconds
_LAST_WORDS = 1.0  # seconds in which a server may still commit what a writer had sent when it was killed
_PARTS = (tables.session_blobs, tables.records, tables.journal, tables.runs)
_SEALED = (  # with the column that tells their rows apart
    (tables.records, "number", ("fields", "inputs")),
    (tables.journal, "revision", ("changes",)),
    (tables.runs, "number", ("details",)),
)


def find(connection: Connection, name: str) -> Any | None:
    """The row of a session, or None."""
    return connection.execute(select(tables.sessions).where(tables.sessions.c.name == as_key(name))).one_or_none()


def find_to_write(connection: Connection, name: str) -> Any | None:
    """The row of a session, or None; until the transaction ends nobody else makes, claims, writes or deletes it."""
    alone(connection, f"session {name}")
    wanted = select(tables.sessions).where(tables.sessions.c.name == as_key(name))
    return connection.execute(wanted.with_for_update()).one_or_none()


def get(connection: Connection, name: str) -> Any:
    """The row of a session; raises SessionNotFoundError."""
    row = find(connection, name)
    if row is None:
        raise SessionNotFoundError(f"there is no session {name!r}; SessionManager(…).list_sessions() names all")
    return sound(row, name)


def sound(row: Any, name: str) -> Any:
    """The row of a session, if what it says can be; SQLite keeps any kind of value in any column."""
    whole = all(type(number) is int for number in (row.id, row.revision, row.checkpoint))
    if not whole or not all(isinstance(each, (int, float)) for each in (row.created, row.updated)):
        raise SessionDamagedError(
            f"the row of session {name!r} is damaged; the other sessions are untouched: restore the newest backup"
        )
    return row


def make(connection: Connection, name: str, agent: dict[str, Any], **values: Any) -> int:
    """A new session's row; returns its id."""
    now = time.time()
    packed = envelope_of(connection).pack(agent, agent_spot(name))
    row = {"name": as_key(name), "revision": 0, "checkpoint": 0, "agent": packed, "created": now, "updated": now}
    made = insert(tables.sessions).values({**row, **values}).returning(tables.sessions.c.id)
    return int(connection.execute(made).scalar_one())


def claim(database: Database, name: str, agent: dict[str, Any], *, take_over: bool) -> Position:
    """Become the one who may write to a session, making it if need be; returns where it stands."""
    try:
        with _begun(database) as (connection, lease):
            return _claimed(connection, lease, name, agent, take_over=take_over)
    except SessionConflictError:
        if not _lapses(database, name):
            raise
    with _begun(database) as (connection, lease):
        return _claimed(connection, lease, name, agent, take_over=take_over)


def claim_call(database: Database, parent: Position, record: int, name: str, agent: dict[str, Any]) -> Position:
    """The same for a call of a managed agent, which is always a new session."""
    with _begun(database) as (connection, lease):
        taken = [from_key(child.name).rpartition("/")[2] for child in children(connection, parent.id)]
        number = max((int(each) for each in taken if each.isdecimal()), default=0) + 1
        while find_to_write(connection, f"{parent.name}/{name}/{number}") is not None:  # somebody else's
            number += 1
        name = f"{parent.name}/{name}/{number}"
        make(connection, name, agent, parent=parent.id, parent_record=record)
        return _claimed(connection, lease, name, agent, take_over=False)


@contextmanager
def _begun(database: Database) -> Iterator[tuple[Connection, Lease]]:
    """A transaction in which a session is claimed."""
    with database.faults_named("written"):
        database.prepare()  # the folder, too
        lease = Lease(database)
    try:
        with database.writing() as connection:
            yield connection, lease
    except BaseException:
        lease.release()
        raise


def _claimed(connection: Connection, lease: Lease, name: str, agent: dict[str, Any], *, take_over: bool) -> Position:
    row, sessions = find_to_write(connection, name), tables.sessions
    if row is None:
        make(connection, name, agent)
        row = get(connection, name)
    elif sound(row, name) and not take_over and leases.is_alive(lease.database, connection, row):
        described = leases.describe(row.writer)
        raise SessionConflictError(
            f"session {name!r} is being written by process {described.get('process')} on {described.get('host')}. "
            "Nothing was changed: wait until it detaches, or fork the session; attach(agent, take_over=True) shuts "
            "the other one out"
        )
    packed = envelope_of(connection).pack(agent, agent_spot(name))
    ours = {"writer": lease.owner, "lease": leases.term(connection), "agent": packed}
    connection.execute(update(sessions).where(sessions.c.id == row.id).values(ours))
    record, run = _newest(connection, tables.records, row.id, -1), _newest(connection, tables.runs, row.id, 0)
    return Position(row.id, row.revision, record + 1, lease, name, lease.database.file, run)


def _lapses(database: Database, name: str) -> bool:
    """Wait for a writer on another machine to renew its lease, or to let it lapse: whether the session is free now."""
    lease, heard_out = None, time.monotonic() + _LAST_WORDS
    while True:
        with database.reading() as connection:
            row = find(connection, name)
            if row is None or not leases.is_alive(database, connection, row):
                return True
            if not leases.is_alive_elsewhere(database, connection, row) or row.lease != (lease or row.lease):
                return False
            if time.monotonic() >= heard_out:
                lease = row.lease
        time.sleep(_LOOK)


def let_go(database: Database, position: Position) -> None:
    """Let others write."""
    sessions = tables.sessions
    try:
        with database.writing(position.file) as connection:
            mine = (sessions.c.id == position.id, sessions.c.writer == position.owner)
            connection.execute(update(sessions).where(*mine).values(writer=None, lease=None))
    finally:
        position.lease.release()


def _newest(connection: Connection, table: Table, session: int, none: int) -> int:
    """The highest number of a session's records or runs."""
    last = connection.execute(select(func.max(table.c.number)).where(table.c.session == session)).scalar()
    if last is not None and type(last) is not int:
        raise SessionDamagedError(f"the numbers of {table.name} are damaged: restore the newest backup")
    return none if last is None else last


def children(connection: Connection, session: int) -> list[Any]:
    """The sessions of the managed agents' calls that were made in a session, oldest first."""
    table = tables.sessions
    return list(connection.execute(select(table).where(table.c.parent == session).order_by(table.c.id)))


def remove(connection: Connection, session: int) -> None:
    """Delete a session and those of its managed agents' calls."""
    for child in children(connection, session):
        remove(connection, child.id)
    for table in _PARTS:
        connection.execute(delete(table).where(table.c.session == session))
    connection.execute(delete(tables.sessions).where(tables.sessions.c.id == session))
    delete_orphans(connection)


def copy(
    connection: Connection, source: Any, name: str, *, until: int | None = None, last_record: int | None = None
) -> int:
    """A new session that holds all that another one holds, or held at a revision; its blobs are shared.

    `last_record` is the newest record that was there at that revision.
    """
    until = source.revision if until is None else until
    if find_to_write(connection, name) is not None:
        raise SessionConflictError(f"there is a session {name!r} already; choose another name, or delete it first")
    checkpoint = int(source.checkpoint) if source.checkpoint <= until else 0  # of older ones nobody knows where
    agent = described_agent(envelope_of(connection), source)
    made = make(connection, name, agent, revision=until, checkpoint=checkpoint)
    for table in _PARTS:
        columns = [column for column in table.c if column.name != "session"]
        rows = select(literal(made, table.c.session.type), *columns).where(table.c.session == source.id)
        if "revision" in table.c:
            rows = rows.where(table.c.revision <= until)
        if table is tables.records and last_record is not None:
            rows = rows.where(table.c.number <= last_record)
        connection.execute(insert(table).from_select(["session", *(column.name for column in columns)], rows))
    if envelope_of(connection).sealed:
        _seal_anew(connection, made, from_key(source.name), name)
    return made


def _seal_anew(connection: Connection, session: int, before: str, now: str) -> None:
    """Values are sealed for the session that has them."""
    envelope = envelope_of(connection)
    for table, key, names in _SEALED:
        mine = table.c.session == session
        for row in connection.execute(select(table).where(mine)).mappings().all():
            spots = [(name, Spot(table.name, before, row[key], name)) for name in names if row[name] is not None]
            anew = {
                name: envelope.pack_bytes(envelope.unpack_bytes(row[name], spot), spot._replace(owner=now))
                for name, spot in spots
            }
            connection.execute(update(table).where(mine, table.c[key] == row[key]).values(anew))


def agent_spot(name: str) -> Spot:
    """Where what is noted of a session's agent belongs."""
    return Spot("sessions", name, "", "agent")


def described_agent(envelope: Envelope, row: Any) -> dict[str, Any]:
    """What is noted of a session's agent."""
    name = from_key(row.name)
    return envelope.unpack_if_whole(row.agent, agent_spot(name), f"what is noted of the agent of session {name!r}")


def names(connection: Connection) -> list[str]:
    """The names of all sessions that are not calls of managed agents."""
    table = tables.sessions
    return sorted(named(connection.scalars(select(table.c.name).where(table.c.parent.is_(None)))))


def named(keys: Iterable[Any]) -> Iterator[str]:
    """The names of sessions; one that is damaged is left out, and said."""
    for key in keys:
        try:
            yield from_key(key)
        except DecodeError as error:
            warn_of_loss(f"the name of a session is damaged ({error}); it is left out")
