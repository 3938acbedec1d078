"""What belongs into one transaction of a journal, how it is written, and whether it is there."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from smolagents_memory.database import tables
from smolagents_memory.database.chain import Chain
from smolagents_memory.database.contents import insert_blobs
from smolagents_memory.database.envelope import Envelope, envelope_of
from smolagents_memory.database.opened import FileId
from smolagents_memory.database.sealed import Spot, of_session
from smolagents_memory.database.statements import Prepared
from smolagents_memory.sessions.leases import Lease
from smolagents_memory.sessions.step_records import Row


_sessions, _runs = tables.sessions.c, tables.runs.c
_OURS = update(tables.sessions).where(
    _sessions.id == bindparam("id_"),
    _sessions.revision == bindparam("before"),
    _sessions.writer == bindparam("owner_"),
)
_CHECKPOINT = func.coalesce(bindparam("anew", type_=_sessions.checkpoint.type), _sessions.checkpoint)
_CLAIM = Prepared(
    _OURS.values(revision=bindparam("now"), updated=bindparam("made"), checkpoint=_CHECKPOINT, head=bindparam("head_"))
)
_RECORD = Prepared(insert(tables.records), *tables.records.c.keys())
_CHANGES = Prepared(insert(tables.journal), *tables.journal.c.keys())
_FIRST_OF_RUN = Prepared(insert(tables.runs), *tables.runs.c.keys())
OF_RUN = ("state", "started", "ended", "steps", "input_tokens", "output_tokens")  # beside its number and its details
_RUN = Prepared(
    update(tables.runs)
    .where(_runs.session == bindparam("session_"), _runs.number == bindparam("number_"))
    .values({name: bindparam(name) for name in (*OF_RUN, "details")})
)


def run_spot(session: str, number: int) -> Spot:
    """Where what is noted of a run belongs."""
    return Spot("session_runs", session, number, "details")


@dataclass
class Entry:
    """What belongs into one transaction."""

    ops: list[Any] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    checkpoint: bool = False
    made: float = field(default_factory=time.time)

    def __bool__(self) -> bool:
        return bool(self.ops or self.rows or self.runs)


@dataclass
class Position:
    """Where a session's journal stands."""

    id: int
    revision: int
    next_record: int
    lease: Lease
    name: str
    file: FileId | None = None
    run: int = 0
    checkpoint: int = 0
    chain: Chain | None = None  # under a seal: where its rows stand

    @property
    def owner(self) -> bytes:
        """What the session's row must say for as long as we may write."""
        return self.lease.owner


def write_entry(
    connection: Connection, position: Position, entry: Entry, revision: int, blobs_known: set[str]
) -> tuple[Position, bytes] | None:
    """Write an entry: where the session stands then, and its changes as they lie there; None if it is another's."""
    envelope, name = envelope_of(connection), position.name
    chain = position.chain
    if envelope.sealed is not None and chain is not None:
        envelope.sealed.tell(of_session(name), chain.key)
    records = [_values(envelope, position, row, entry.made) for row in entry.rows]
    changes = envelope.pack(entry.ops, Spot("session_journal", name, revision, "changes"))
    runs = [
        {**run, "details": envelope.pack(run["details"], run_spot(name, run["number"]))} for run in entry.runs.values()
    ]
    checkpoint, head = revision if entry.checkpoint else position.checkpoint, None
    if envelope.sealed is not None and chain is not None:
        chain = chain.after(envelope.sealed, name, revision, changes, records, runs)
        head = chain.head(envelope.sealed, name, revision, checkpoint, entry.made)
    claim = {"id_": position.id, "owner_": position.owner, "before": revision - 1, "now": revision, "head_": head}
    claimed = _CLAIM.run(connection, {**claim, "made": entry.made, "anew": revision if entry.checkpoint else None})
    if claimed.rowcount != 1:
        return None
    for values in records:
        _RECORD.run(connection, values)
    fresh = {blob: data for blob, data in entry.blobs.items() if blob not in blobs_known}
    if fresh:
        insert_blobs(connection, position.id, name, fresh)
    _CHANGES.run(connection, {"session": position.id, "revision": revision, "changes": changes})
    for run in runs:
        _write_run(connection, position, run, revision)
    return replace(position, revision=revision, checkpoint=checkpoint, chain=chain), changes


def _values(envelope: Envelope, position: Position, row: Row, made: float) -> dict[str, Any]:
    spot = Spot("session_records", position.name, row.number, "fields")
    inputs = row.inputs
    return {
        **row.listed,
        "session": position.id,
        "number": row.number,
        "segment": row.segment,
        "fields": envelope.pack_bytes(row.fields, spot),
        "inputs": None if inputs is None else envelope.pack_bytes(inputs.encode(), spot._replace(column="inputs")),
        "created": made,
        "mark": None,
    }


def _write_run(connection: Connection, position: Position, run: dict[str, Any], revision: int) -> None:
    mine = {"session_": position.id, "number_": run["number"]}
    if _RUN.run(connection, {**run, **mine}).rowcount == 0:
        _FIRST_OF_RUN.run(connection, {**run, "session": position.id, "revision": revision})


def is_ours(connection: Connection, position: Position) -> bool:
    """Whether the session is where we left it, and nobody else's."""
    row = connection.execute(select(tables.sessions).where(_sessions.id == position.id)).one_or_none()
    return row is not None and (row.revision, row.writer) == (position.revision, position.owner)


def was_written(connection: Connection, position: Position, entry: Entry, revision: int, changes: bytes) -> bool:
    """Whether an entry is there: written by us, at this moment, with these changes.

    It waits for a transaction that the server has not ended yet although its client is gone.
    """
    row = connection.execute(
        select(tables.sessions).where(_sessions.id == position.id).with_for_update()
    ).one_or_none()
    if row is None or (row.revision, row.writer, row.updated) != (revision, position.owner, entry.made):
        return False
    journal = tables.journal.c
    there = select(journal.changes).where(journal.session == position.id, journal.revision == revision)
    return connection.execute(there).scalar() == changes
