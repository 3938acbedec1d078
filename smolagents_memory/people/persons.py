"""People: all that is kept of a person in one place, listed, exported, erased."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from smolagents_memory._errors import PlaceError, SessionNotFoundError
from smolagents_memory._files import named_file, replacing
from smolagents_memory._progress import progress
from smolagents_memory.database import tables
from smolagents_memory.database.belongings import refuse_databases_in_use
from smolagents_memory.database.copies import noted, refuse_own_files
from smolagents_memory.database.engine import Database
from smolagents_memory.people.archive import write_archive
from smolagents_memory.people.erasing import Erasure, erase
from smolagents_memory.people.whose import Person, checked_user, everybody, of_person


class People:
    """The people of whom something is kept in a folder or a database.

    A person is the `user` of a session (`Session(…, user="ann")`) and the entry `user` of a scope
    (`EnhancedAgentMemory(…, scope={"user": "ann"})`), a whole number there being the same person as its digits. What
    lies in a store of your own (Redis, Chroma by URL, what was given as `long_term=` or `vector_store=`) is not
    reached: its own `clear` is. Nor are sessions and scopes without a user, whatever was written in them.

    Args:
        place: A folder, a file, a database URL, or a `Place`.

    >>> from smolagents_memory import EnhancedAgentMemory, ObservedMemory, People, SessionManager
    >>> SessionManager("agent_memory").save_session(ObservedMemory("Be kind."), "trip", user="ann")
    >>> with EnhancedAgentMemory("agent_memory", scope={"user": "ann"}, vector=False) as memory:
    ...     key = memory.remember("Ann wants short answers.")
    >>> people = People("agent_memory")
    >>> [(each.user, each.sessions, each.memories) for each in people.list()]
    [('ann', 1, 1)]
    >>> people.export("ann", "ann.zip").name
    'ann.zip'
    >>> print(people.erase("ann"))
    erased of 'ann': 1 session and 1 memory; a search found nothing that is left
    >>> people.list()
    []
    """

    def __init__(self, place: Any = "agent_memory") -> None:
        self.database = Database.at(place)

    def __repr__(self) -> str:
        return f"People({str(self.database)!r})"

    def list(self) -> list[Person]:
        """Everybody of whom something is kept, by name: how many sessions and memories, and their times."""
        with self.database.reading() as connection:
            return everybody(connection)

    def export(self, user: str, file: str | os.PathLike[str]) -> Path:
        """Write all that is kept of a person into one .zip archive, for them to read, or to take along.

        It holds a README, a file of JSON Lines for each session with every step of its transcript, one with all
        memories, archived ones too, and the pictures. It is for its owner alone (0600); a file of that name is
        replaced when the archive is whole. Of whom nothing is kept, nothing is written: SessionNotFoundError.
        """
        user, path = checked_user(user), Path(os.path.realpath(named_file(file)))
        refuse_own_files(self.database.place, path)
        refuse_databases_in_use(path)
        with self._there().reading() as connection:
            theirs = of_person(connection, user)
            items = tables.items.c
            counted = select(func.count()).where(items.scope_id.in_([row.id for row in theirs.scopes]))
            total = len(theirs.sessions) + int(connection.execute(counted.select_from(tables.items)).scalar() or 0)
        if not theirs:
            raise SessionNotFoundError(
                f"nothing is kept of {user!r} in {self.database}, and nothing was written; People(…).list() names all"
            )
        if path.is_file():
            with contextlib.suppress(OSError):  # what takes its place has its rights
                path.chmod(0o600)
        with (
            replacing(path, lambda partial: noted(self.database.place, partial)) as partial,
            progress("Exporting", total, unit="sessions and memories") as advance,
        ):
            write_archive(partial, self.database, theirs, advance)
        return path

    def erase(self, user: str) -> Erasure:
        """Delete all that is kept of a person, leave no byte of it, and search the place for what is left.

        Sessions with those of managed agents' calls, typed state and variables; the memories of all their scopes,
        archived ones too, with whatever they were found by. While somebody writes to one of the sessions nothing is
        erased: SessionConflictError. Killed, or prevented from purging by who has the place open (which is raised),
        erase again: it goes on where it stopped. Of whom nothing is kept, nothing is done, and the report is empty.

        The name may stand in what is somebody else's, or nobody's: the report says where, and that is left alone.
        """
        user = checked_user(user)
        return erase(self._there(), user)

    def _there(self) -> Database:
        """The database, if there is one: of a place that was misspelt nobody is told that nothing is kept there."""
        path = self.database.path
        if path is not None and not path.exists():
            raise PlaceError(f"there is no place {self.database}: nothing was looked for, made or changed")
        return self.database
