"""Under a seal: the marks of the rows that say whose all other rows are, made with the place's own key.

A row that was changed is found by no name, or by another one. So where nothing is found the others are looked at: if
one of them is not as it was written, what is missing may have been taken away, and that is an error, not an empty
answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, func, select, update

from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.sealed import Sealed


_TAG = 8  # bytes at the end of a sealed value by which it is known again
MARK = 16
_MOST = 1000  # rows that are looked at where nothing was found
_s, _scopes = tables.sessions.c, tables.scopes.c
_FIXED = ("id", "name", "created", "parent", "parent_record", "seal_key", "person")
_VALUES = ("agent", "labels")
_SESSIONS = select(*(_s[name] for name in (*_FIXED, "mark"))).add_columns(
    *(func.substr(_s[name], func.length(_s[name]) - _TAG + 1).label(name) for name in _VALUES)
)
_SCOPES = select(_scopes.id, _scopes.name, _scopes.seal_key, _scopes.mark)


def mark_session(connection: Connection, session: int) -> None:
    """Mark the row of a session that this process has just written."""
    sealed = envelope_of(connection).sealed
    if sealed is not None:
        row = connection.execute(_SESSIONS.where(_s.id == session)).one()
        connection.execute(update(tables.sessions).where(_s.id == session).values(mark=_of_session(sealed, row)))


def check_session(sealed: Sealed, row: Any) -> None:
    """Raise SealError unless what a session's row says of it is as it was written."""
    if row.mark != _of_session(sealed, row):
        raise sealed.refused("the row of a session", "it does not have the mark that it was written with")


def mark_of_scope(sealed: Sealed, row: Any) -> bytes:
    """What stands at the end of the mark of a scope."""
    return sealed.mark_of_place("scope", row.id, row.name, row.seal_key)


def check_sessions(connection: Connection, most: int | None = None) -> None:
    """Raise SealError unless the rows of all sessions, or of so many, are as they were written."""
    sealed = envelope_of(connection).sealed
    if sealed is not None:
        deque(session_rows(connection, sealed, most), 0)


def check_scopes(connection: Connection, most: int | None = None) -> None:
    """The same of scopes."""
    sealed = envelope_of(connection).sealed
    if sealed is not None:
        deque(scope_rows(connection, sealed, most), 0)


def session_rows(connection: Connection, sealed: Sealed, most: int | None = None) -> Iterator[Any]:
    """The rows of sessions, the newest first; SealError at one that is not as it was written."""
    for row in connection.execute(_SESSIONS.order_by(_s.id.desc()).limit(most)):
        check_session(sealed, row)
        yield row


def scope_rows(connection: Connection, sealed: Sealed, most: int | None = None) -> Iterator[Any]:
    """The same of scopes."""
    for row in connection.execute(_SCOPES.order_by(_scopes.id.desc()).limit(most)):
        if not isinstance(row.mark, bytes) or row.mark[-MARK:] != mark_of_scope(sealed, row):
            raise sealed.refused("the row of a scope", "it does not have the mark that it was written with")
        yield row


def no_session(connection: Connection) -> None:
    """None was found of a name: raise SealError if that may be because its row was changed."""
    check_sessions(connection, _MOST)


def no_scope(connection: Connection) -> None:
    """The same of scopes."""
    check_scopes(connection, _MOST)


def _of_session(sealed: Sealed, row: Any) -> bytes:
    values = [getattr(row, name) for name in _VALUES]
    tags = [each[-_TAG:] if isinstance(each, bytes) else each for each in values]
    return sealed.mark_of_place("session", *(getattr(row, name) for name in _FIXED), *tags)
