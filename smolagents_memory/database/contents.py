"""Images and large bytes in the database: once for equal content, and gone with the last session that has them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sqlalchemy import Connection, delete, exists, insert, select

from smolagents_memory.database.engine import alone
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.sealed import Spot
from smolagents_memory.database.tables import blobs, session_blobs


def insert_blobs(connection: Connection, session: int, owner: str, data: Mapping[str, bytes]) -> None:
    """Keep blobs for a session, which is called `owner`; what is there already is shared.

    Under a seal each session has its own: they go with its key.
    """
    alone(connection, "blobs")
    envelope = envelope_of(connection)
    for name, content in data.items():
        key = envelope.blob(name, owner)
        found = connection.execute(select(blobs.c.id).where(blobs.c.name == key)).scalar()
        if found is None:
            kept = (
                insert(blobs)
                .values(name=key, data=envelope.pack_bytes(content, _spot(owner, key)))
                .returning(blobs.c.id)
            )
            found = connection.execute(kept).scalar_one()
        link = {"session": session, "blob": found}
        known = select(session_blobs.c.blob).filter_by(**link)
        if connection.execute(known).scalar() is None:
            connection.execute(insert(session_blobs), link)


def delete_orphans(connection: Connection) -> None:
    """Delete the blobs that no session has any more."""
    alone(connection, "blobs")
    connection.execute(delete(blobs).where(~exists().where(session_blobs.c.blob == blobs.c.id)))


def read_blob(connection: Connection, owner: str, name: str) -> bytes | None:
    """The bytes of that name in a session, None where there are none; damaged ones raise DecodeError."""
    envelope = envelope_of(connection)
    try:
        key = envelope.blob(name, owner)
    except (TypeError, ValueError):
        return None
    found = connection.execute(select(blobs.c.data).where(blobs.c.name == key)).scalar()
    return None if found is None else envelope.unpack_bytes(found, _spot(owner, key))


def read_all_blobs(connection: Connection, session: int, owner: str) -> None:
    """Read all that a session has once: what is damaged raises DecodeError or SealError."""
    envelope = envelope_of(connection)
    theirs = select(blobs.c.name, blobs.c.data).join(session_blobs, session_blobs.c.blob == blobs.c.id)
    for row in connection.execute(theirs.where(session_blobs.c.session == session)):
        envelope.unpack_bytes(row.data, _spot(owner, bytes(row.name)))


def copy_blobs(connection: Connection, source: int, before: str, session: int, now: str) -> None:
    """Under a seal: give a session its own copies of another one's blobs."""
    envelope = envelope_of(connection)
    theirs = select(blobs.c.name, blobs.c.data).join(session_blobs, session_blobs.c.blob == blobs.c.id)
    for row in connection.execute(theirs.where(session_blobs.c.session == source)).all():
        content = envelope.unpack_bytes(row.data, _spot(before, bytes(row.name)))
        insert_blobs(connection, session, now, {hashlib.sha256(content).hexdigest(): content})


def _spot(owner: str, key: bytes) -> Spot:
    return Spot("blobs", owner, key.hex(), "data")
