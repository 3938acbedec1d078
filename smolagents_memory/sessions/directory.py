"""The row of a session: finding it, making it, claiming it, deleting it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table, delete, func, insert, literal, select, update

from smolagents_memory._errors import (
    DecodeError,
    SealError,
    SessionConflictError,
    SessionDamagedError,
    SessionNotFoundError,
)
from smolagents_memory._log import warn_of_loss
from smolagents_memory.database import tables
from smolagents_memory.database.chain import chain_anew, check_head, verify
from smolagents_memory.database.contents import copy_blobs, delete_orphans
from smolagents_memory.database.deleted import Gone, note_deleted
from smolagents_memory.database.engine import Database, alone
from smolagents_memory.database.envelope import Envelope, envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.owners import check_session, check_sessions, mark_session, no_session
from smolagents_memory.database.redacting import forget_redacted
from smolagents_memory.database.sealed import PERSON_OF_SESSION, Spot, of_session
from smolagents_memory.sessions import leases
from smolagents_memory.sessions.entries import Position
from smolagents_memory.sessions.leases import Lease


if TYPE_CHECKING:
    from smolagents_memory.sessions.labels import Labels


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
    return _found(connection, select(tables.sessions).where(tables.sessions.c.name == _key(connection, name)))


def find_to_write(connection: Connection, name: str) -> Any | None:
    """The row of a session, or None; until the transaction ends nobody else makes, claims, writes or deletes it."""
    alone(connection, f"session {name}")
    wanted = select(tables.sessions).where(tables.sessions.c.name == _key(connection, name))
    return _found(connection, wanted.with_for_update())


def _found(connection: Connection, wanted: Any) -> Any | None:
    row = connection.execute(wanted).one_or_none()
    if row is None:
        no_session(connection)
    return row


def _key(connection: Connection, name: str) -> bytes:
    return envelope_of(connection).name(name)


def name_of(connection: Connection, row: Any) -> str:
    """The name in a session's row."""
    return envelope_of(connection).read_name(row.name)


def get(connection: Connection, name: str) -> Any:
    """The row of a session; raises SessionNotFoundError."""
    row = find(connection, name)
    if row is None:
        raise SessionNotFoundError(f"there is no session {name!r}; SessionManager(…).list_sessions() names all")
    return trusted(connection, sound(row, name), name)


def trusted(connection: Connection, row: Any, name: str, runs: Iterable[Any] | None = None) -> Any:
    """The row of a session; SealError where a seal says that it, or a row of its runs, was changed."""
    sealed = envelope_of(connection).sealed
    if sealed is not None:
        check_head(sealed, name, row, runs)
    return row


def sound(row: Any, name: str) -> Any:
    """The row of a session, if what it says can be; SQLite keeps any kind of value in any column."""
    whole = all(type(number) is int for number in (row.id, row.revision, row.checkpoint))
    if not whole or not all(isinstance(each, (int, float)) for each in (row.created, row.updated)):
        raise SessionDamagedError(
            f"the row of session {name!r} is damaged; the other sessions are untouched: restore the newest backup"
        )
    return row


def make(
    connection: Connection,
    name: str,
    agent: dict[str, Any],
    labels: Callable[[], Mapping[str, Any]] = dict,
    **values: Any,
) -> int:
    """A new session's row; returns its id. The labels are made when it has a key."""
    now = time.time()
    envelope = envelope_of(connection)
    key = None if envelope.sealed is None else envelope.sealed.new(of_session(name))
    packed = envelope.pack(agent, agent_spot(name))
    row = {
        "name": envelope.name(name),
        "revision": 0,
        "checkpoint": 0,
        "agent": packed,
        "created": now,
        "updated": now,
    }
    made = insert(tables.sessions).values({**row, "seal_key": key, **labels(), **values})
    number = int(connection.execute(made.returning(tables.sessions.c.id)).scalar_one())
    chain_anew(connection, number, name)
    return number


def claim(
    database: Database, name: str, agent: dict[str, Any], *, take_over: bool, given: Labels | None = None
) -> Position:
    """Become the one who may write to a session, making it if need be; returns where it stands."""
    try:
        with _begun(database) as (connection, lease):
            return _claimed(connection, lease, name, agent, given, take_over=take_over)
    except SessionConflictError:
        if not _lapses(database, name):
            raise
    with _begun(database) as (connection, lease):
        return _claimed(connection, lease, name, agent, given, take_over=take_over)


def claim_call(database: Database, parent: Position, record: int, name: str, agent: dict[str, Any]) -> Position:
    """The same for a call of a managed agent, which is always a new session."""
    with _begun(database) as (connection, lease):
        taken = [name_of(connection, child).rpartition("/")[2] for child in children(connection, parent.id)]
        number = max((int(each) for each in taken if each.isdecimal()), default=0) + 1
        while find_to_write(connection, f"{parent.name}/{name}/{number}") is not None:  # somebody else's
            number += 1
        name = f"{parent.name}/{name}/{number}"
        person = connection.execute(select(tables.sessions.c.person).where(tables.sessions.c.id == parent.id)).scalar()
        theirs = {"person": person}
        make(
            connection,
            name,
            agent,
            lambda: _given_to(connection, name, theirs),
            parent=parent.id,
            parent_record=record,
        )
        return _claimed(connection, lease, name, agent, None, take_over=False)


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


def _claimed(
    connection: Connection, lease: Lease, name: str, agent: dict[str, Any], given: Labels | None, *, take_over: bool
) -> Position:
    row, sessions, envelope = find_to_write(connection, name), tables.sessions, envelope_of(connection)
    if row is not None and given is not None:
        given.refuse_another(envelope, row, name)
    if row is None:
        make(connection, name, agent, lambda: {} if given is None else given.columns(envelope, name))
        row = get(connection, name)
    elif (
        trusted(connection, sound(row, name), name)
        and not take_over
        and leases.is_alive(lease.database, connection, row)
    ):
        described = leases.describe(row.writer)
        raise SessionConflictError(
            f"session {name!r} is being written by process {described.get('process')} on {described.get('host')}. "
            "Nothing was changed: wait until it detaches, or fork the session; attach(agent, take_over=True) shuts "
            "the other one out"
        )
    ours = {"writer": lease.owner, "lease": leases.term(connection), "agent": envelope.pack(agent, agent_spot(name))}
    chain = verify(connection, row, name)
    connection.execute(update(sessions).where(sessions.c.id == row.id).values(ours))
    if given is not None:
        given.write(connection, row)
    mark_session(connection, row.id)
    record, run = _newest(connection, tables.records, row.id, -1), _newest(connection, tables.runs, row.id, 0)
    return Position(row.id, row.revision, record + 1, lease, name, lease.database.file, run, row.checkpoint, chain)


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
    rows = connection.execute(select(table).where(table.c.parent == session).order_by(table.c.id)).all()
    sealed = envelope_of(connection).sealed
    if sealed is not None:
        for row in rows:
            check_session(sealed, row)
    return list(rows)


def relabel(connection: Connection, session: Any, values: dict[str, Any]) -> None:
    """Write other labels into the row of a session. Whose it is, the calls of its managed agents are as well."""
    if not values:
        return
    table = tables.sessions
    connection.execute(update(table).where(table.c.id == session.id).values(values))
    mark_session(connection, session.id)
    for child in children(connection, session.id) if "person" in values else ():
        relabel(connection, child, _given_to(connection, name_of(connection, child), values))


def _given_to(connection: Connection, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the row of a call's session says of whose it is. Under a seal its labels do as well; else it has none."""
    envelope, person = envelope_of(connection), values["person"]
    if envelope.sealed is None or person is None:
        return {"person": person}
    user = envelope.read_name(person, PERSON_OF_SESSION)
    return {"person": person, "labels": envelope.pack({"user": user}, labels_spot(name))}


def remove(connection: Connection, *sessions: int) -> None:
    """Delete sessions and those of their managed agents' calls."""
    others = set(sessions)
    families = [_family(connection, each, others) for each in sessions]
    every = list(chain.from_iterable(families))
    names = _readable(connection, every)
    named = ([(session, names[session]) for session in each if session in names] for each in families)
    note_deleted(connection, (_gone(connection, each) for each in named if each))
    for name in names.values():
        forget_redacted(connection, name, "session")
    for some in chunks(every):
        for table in _PARTS:
            connection.execute(delete(table).where(table.c.session.in_(some)))
        connection.execute(delete(tables.sessions).where(tables.sessions.c.id.in_(some)))
    delete_orphans(connection)


def _family(connection: Connection, session: int, others: Collection[int]) -> list[int]:
    """A session and those of its managed agents' calls, but for others that are deleted by themselves."""
    family = [session]
    for each in family:  # grows while it is read: calls have calls
        theirs = select(tables.sessions.c.id).where(tables.sessions.c.parent == each)  # damaged ones, too
        family.extend(child for child in connection.scalars(theirs) if child not in others)
    return family


def _readable(connection: Connection, sessions: Sequence[int]) -> dict[int, str]:
    """What sessions are called, but for those whose names are damaged."""
    there, found = tables.sessions.c, {}
    for some in chunks(sessions):
        for row in connection.execute(select(there.id, there.name).where(there.id.in_(some))).all():
            with suppress(DecodeError, SealError):
                found[row.id] = name_of(connection, row)
    return found


def _gone(connection: Connection, family: Sequence[tuple[int, str]]) -> Gone:
    person = connection.execute(select(tables.sessions.c.person).where(tables.sessions.c.id == family[0][0])).scalar()
    user = None
    with suppress(DecodeError, SealError):
        user = None if person is None else envelope_of(connection).read_name(person, PERSON_OF_SESSION)
    return Gone([of_session(name) for _, name in family], user)


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
    before, envelope = name_of(connection, source), envelope_of(connection)
    sealed = envelope.sealed is not None
    verify(connection, source, before)
    agent = described_agent(envelope, source)
    labels = lambda: {"person": source.person, "labels": _labelled_anew(envelope, source, name)}  # noqa: E731
    made = make(connection, name, agent, labels, revision=until, checkpoint=checkpoint)
    for table in _PARTS[sealed:]:
        columns = [column for column in table.c if column.name != "session"]
        rows = select(literal(made, table.c.session.type), *columns).where(table.c.session == source.id)
        if "revision" in table.c:
            rows = rows.where(table.c.revision <= until)
        if table is tables.records and last_record is not None:
            rows = rows.where(table.c.number <= last_record)
        connection.execute(insert(table).from_select(["session", *(column.name for column in columns)], rows))
    if sealed:
        copy_blobs(connection, source.id, before, made, name)
        _seal_anew(connection, made, before, name)
        chain_anew(connection, made, name)
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


def _labelled_anew(envelope: Envelope, source: Any, name: str) -> bytes | None:
    """The labels of a session for a copy of it."""
    if source.labels is None:
        return None
    before = envelope.read_name(source.name)
    labels = envelope.unpack_if_whole(source.labels, labels_spot(before), f"the labels of session {before!r}")
    return envelope.pack(labels, labels_spot(name)) if labels else None


def agent_spot(name: str) -> Spot:
    """Where what is noted of a session's agent belongs."""
    return Spot("sessions", name, "", "agent")


def labels_spot(name: str) -> Spot:
    """Where a session's title and tags belong."""
    return Spot("sessions", name, "", "labels")


def described_agent(envelope: Envelope, row: Any) -> dict[str, Any]:
    """What is noted of a session's agent."""
    name = envelope.read_name(row.name)
    return envelope.unpack_if_whole(row.agent, agent_spot(name), f"what is noted of the agent of session {name!r}")


def names(connection: Connection) -> list[str]:
    """The names of all sessions that are not calls of managed agents."""
    table = tables.sessions
    check_sessions(connection)
    return sorted(named(connection, connection.scalars(select(table.c.name).where(table.c.parent.is_(None)))))


def named(connection: Connection, keys: Iterable[Any]) -> Iterator[str]:
    """The names of sessions; one that is damaged is left out, and said."""
    for key in keys:
        try:
            yield envelope_of(connection).read_name(key)
        except DecodeError as error:
            warn_of_loss(f"the name of a session is damaged ({error}); it is left out")
