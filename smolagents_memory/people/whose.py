"""What is a person's: their sessions, with those of managed agents' calls, and the scopes of their memories."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select

from smolagents_memory._brief import brief
from smolagents_memory._errors import DecodeError, UnsupportedValueError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.ledger import check_all
from smolagents_memory.database.owners import check_scopes, check_sessions
from smolagents_memory.database.scopes import scope_of, user_of
from smolagents_memory.database.sealed import PERSON_OF_SESSION
from smolagents_memory.sessions import directory
from smolagents_memory.stores.rows import readable


@dataclass(frozen=True)
class Person:
    """Somebody of whom something is kept: how much, and when it was first and last added to; see `People.list`.

    >>> Person("ann", sessions=2, memories=3).user
    'ann'
    """

    user: str
    sessions: int = 0
    memories: int = 0  # archived ones as well
    first: float | None = None  # seconds since 1970
    last: float | None = None


@dataclass
class Theirs:
    """The rows that are one person's: sessions, before those of their calls, and scopes."""

    user: str
    sessions: list[Any] = field(default_factory=list)
    scopes: list[Any] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.sessions or self.scopes)

    @property
    def own(self) -> list[Any]:
        """The sessions that are no calls within another one of these."""
        there = {row.id for row in self.sessions}
        return [row for row in self.sessions if row.parent not in there]

    @property
    def numbers(self) -> list[int]:
        """Those of the sessions."""
        return [row.id for row in self.sessions]


def session_name(connection: Connection, row: Any) -> str:
    """The name in a session's row; what is damaged as it can be read."""
    return readable(bytes(row.name), envelope_of(connection).read_name)[0]


def checked_user(user: Any) -> str:
    """The name of a person."""
    if not isinstance(user, str):
        raise UnsupportedValueError(
            f"a person is named by a text, a whole number as one too ('7'), not by {brief(user)}; nothing was done"
        )
    return user


def of_person(connection: Connection, user: str) -> Theirs:
    """All that is a person's in the place that a connection leads to."""
    table, scopes, envelope = tables.sessions, tables.scopes, envelope_of(connection)
    check_sessions(connection)
    check_scopes(connection)
    mine = (
        select(table)
        .where(table.c.person == envelope.name(user, PERSON_OF_SESSION))
        .order_by(table.c.created, table.c.id)
    )
    rows = {row.id: row for row in connection.execute(mine)}
    for row in (found := list(rows.values())):  # grows while it is read: calls have calls
        new = [child for child in directory.children(connection, row.id) if child.id not in rows]
        rows.update({child.id: child for child in new})
        found.extend(new)
    named = connection.execute(select(scopes).where(scopes.c.name != "").order_by(scopes.c.id))
    theirs = [row for row in named if user_of(scope_of(envelope.read_scope(row.name))) == user]
    return Theirs(user, found, theirs)


def everybody(connection: Connection) -> list[Person]:
    """Everybody of whom something is kept, by name."""
    found: dict[str, list[tuple[int, int, Any, Any]]] = {}
    sessions, items, scopes = tables.sessions.c, tables.items.c, tables.scopes
    envelope = envelope_of(connection)
    check_sessions(connection)
    if envelope.sealed is not None:  # also of when each was used last, which its head tells
        for row in connection.execute(select(tables.sessions)):
            directory.trusted(connection, row, directory.name_of(connection, row))
    for scope in connection.scalars(select(scopes.c.id)).all():
        check_all(connection, scope)
    counted = select(sessions.person, func.count(), func.min(sessions.created), func.max(sessions.updated))
    mine = counted.where(sessions.person.is_not(None), sessions.parent.is_(None)).group_by(sessions.person)
    for person, count, first, last in connection.execute(mine):
        try:
            found.setdefault(envelope.read_name(person, PERSON_OF_SESSION), []).append((count, 0, first, last))
        except DecodeError as error:
            warn_of_loss(f"the name of a person is damaged ({error}); {count} sessions of theirs are left out")
    counted = select(scopes.c.name, func.count(items.id), func.min(items.created), func.max(items.touched))
    joined = counted.select_from(scopes).outerjoin(tables.items, items.scope_id == scopes.c.id)
    for name, count, first, last in connection.execute(joined.where(scopes.c.name != "").group_by(scopes.c.name)):
        user = user_of(scope_of(envelope.read_scope(name)))
        if user is not None:
            found.setdefault(user, []).append((0, count, first, last))
    return [_summed(user, found[user]) for user in sorted(found)]


def _summed(user: str, parts: list[tuple[int, int, Any, Any]]) -> Person:
    firsts, lasts = ([part[at] for part in parts if _is_time(part[at])] for at in (2, 3))
    sessions, memories = (sum(part[at] for part in parts) for at in (0, 1))
    return Person(user, sessions, memories, min(firsts, default=None), max(lasts, default=None))


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
