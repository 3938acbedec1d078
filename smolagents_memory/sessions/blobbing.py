"""Images and large bytes in the database: once for equal content, and gone with the last session that has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, exists, insert, select

from smolagents_memory._errors import DecodeError
from smolagents_memory.sessions.database import alone
from smolagents_memory.sessions.envelope import pack_bytes, unpack_bytes
from smolagents_memory.sessions.schema import blobs, session_blobs
from smolagents_memory.steps.blobs import LoadedBlobs


def insert_blobs(connection: Connection, session: int, data: Mapping[str, bytes]) -> None:
    """Keep blobs for a session; what is there already is shared."""
    alone(connection, "blobs")
    for name, content in data.items():
        key = bytes.fromhex(name)
        found = connection.execute(select(blobs.c.id).where(blobs.c.name == key)).scalar()
        if found is None:
            kept = insert(blobs).values(name=key, data=pack_bytes(content)).returning(blobs.c.id)
            found = connection.execute(kept).scalar_one()
        link = {"session": session, "blob": found}
        known = select(session_blobs.c.blob).filter_by(**link)
        if connection.execute(known).scalar() is None:
            connection.execute(insert(session_blobs), link)


def delete_orphans(connection: Connection) -> None:
    """Delete the blobs that no session has any more."""
    alone(connection, "blobs")
    connection.execute(delete(blobs).where(~exists().where(session_blobs.c.blob == blobs.c.id)))


class StoredBlobs(LoadedBlobs):
    """The blobs of a database, read when they are first needed."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection: Connection | None = connection

    def __missing__(self, name: Any) -> bytes:
        if self._connection is None:
            raise KeyError(name)
        try:
            key = bytes.fromhex(name)
        except (TypeError, ValueError):
            raise KeyError(name) from None
        found = self._connection.execute(select(blobs.c.data).where(blobs.c.name == key)).scalar()
        if found is None:
            raise KeyError(name)
        try:
            self[name] = unpack_bytes(found)
        except DecodeError as error:
            raise DecodeError(f"the content {name[:16]}… is damaged: {error}") from error
        return self[name]

    def let_go(self) -> None:
        """The connection goes back; what was read stays."""
        self._connection = None
