"""Images and large bytes in the database: once for equal content, and gone with the last session that has them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, delete, exists, insert, select

from smolagents_memory.database.engine import alone
from smolagents_memory.database.envelope import Spot, envelope_of
from smolagents_memory.database.tables import blobs, session_blobs


def insert_blobs(connection: Connection, session: int, data: Mapping[str, bytes]) -> None:
    """Keep blobs for a session; what is there already is shared."""
    alone(connection, "blobs")
    envelope = envelope_of(connection)
    for name, content in data.items():
        key = bytes.fromhex(name)
        found = connection.execute(select(blobs.c.id).where(blobs.c.name == key)).scalar()
        if found is None:
            kept = insert(blobs).values(name=key, data=envelope.pack_bytes(content, _spot(name))).returning(blobs.c.id)
            found = connection.execute(kept).scalar_one()
        link = {"session": session, "blob": found}
        known = select(session_blobs.c.blob).filter_by(**link)
        if connection.execute(known).scalar() is None:
            connection.execute(insert(session_blobs), link)


def delete_orphans(connection: Connection) -> None:
    """Delete the blobs that no session has any more."""
    alone(connection, "blobs")
    connection.execute(delete(blobs).where(~exists().where(session_blobs.c.blob == blobs.c.id)))


def read_blob(connection: Connection, name: str) -> bytes | None:
    """The bytes of that name, None where there are none; damaged ones raise DecodeError."""
    try:
        key = bytes.fromhex(name)
    except (TypeError, ValueError):
        return None
    found = connection.execute(select(blobs.c.data).where(blobs.c.name == key)).scalar()
    return None if found is None else envelope_of(connection).unpack_bytes(found, _spot(name))


def _spot(name: str) -> Spot:
    return Spot("blobs", "", name, "data")
