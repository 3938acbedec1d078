"""SessionManager: all sessions of one place."""

from __future__ import annotations

import datetime as dt
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from smolagents_memory._brief import brief
from smolagents_memory._errors import SessionConflictError, SessionDamagedError, SessionError
from smolagents_memory._files import named_file
from smolagents_memory._log import warn_of_loss
from smolagents_memory.database import maintenance, tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import Envelope, envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.owners import check_sessions
from smolagents_memory.database.places import Durability, Place
from smolagents_memory.database.redacting import journal_wording
from smolagents_memory.database.sealed import PERSON_OF_SESSION
from smolagents_memory.history.files import memory_of
from smolagents_memory.search.purging import purge
from smolagents_memory.sessions import directory, leases
from smolagents_memory.sessions.attachment import describe_agent, store
from smolagents_memory.sessions.labels import Labels, kept_labels
from smolagents_memory.sessions.runs import INTERRUPTED, described, sound_runs
from smolagents_memory.sessions.session import Session
from smolagents_memory.variables.runtime import VARIABLES_BUDGET, Runtime


@dataclass(frozen=True)
class SessionInfo:
    """What there is to know of a session without reading its steps.

    `state` is that of its newest run: "finished", "failed", "interrupted", "max_steps", "running", or "empty".
    """

    session_id: str
    state: str
    created: float
    updated: float
    runs: int
    steps: int
    input_tokens: int
    output_tokens: int
    last_task: str | None
    agent: dict[str, Any]
    user: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()


class SessionManager:
    """All sessions of a folder or of a database.

    Args:
        storage: The place: a folder, which gets a file `memory.db`, a file, a database URL, or a `Place`.
        durability: As for `Session`.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory import SessionManager
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> agent = CodeAgent(tools=[], model=ScriptedModel([code("final_answer(1)")]), verbosity_level=0)
    >>> agent.run("Answer one.")
    1
    >>> manager = SessionManager("agent_memory")
    >>> manager.save_session(agent, "user-7")
    >>> manager.list_sessions()
    ['user-7']
    >>> other = CodeAgent(tools=[], model=ScriptedModel([]), verbosity_level=0)
    >>> manager.load_session(other, "user-7"), len(other.memory.steps)
    (True, 2)
    """

    def __init__(
        self, storage: str | os.PathLike[str] | Place = "agent_memory", *, durability: Durability | None = None
    ) -> None:
        self.database = Database.at(storage, durability)

    def __repr__(self) -> str:
        return f"SessionManager({str(self.database)!r})"

    def session(
        self, session_id: str, *, user: str | None = None, title: str | None = None, tags: Iterable[str] = ()
    ) -> Session:
        """One of the sessions, or a new one; see `Session` for whose it is, its title and its tags."""
        return Session(session_id, self.database.place, user=user, title=title, tags=tags)

    def save_session(
        self,
        agent: Any,
        session_id: str,
        *,
        user: str | None = None,
        title: str | None = None,
        tags: Iterable[str] = (),
    ) -> None:
        """Make a session hold what the agent's memory holds now; what it holds already is not written again.

        For an agent that runs for long, `Session.attach` keeps every step as it happens.
        """
        runtime = Runtime(agent, VARIABLES_BUDGET) if hasattr(agent, "state") else None
        session = self.session(session_id, user=user, title=title, tags=tags)
        store(session, memory_of(agent), describe_agent(agent), runtime)

    def load_session(self, agent: Any, session_id: str) -> bool:
        """Put a session into an agent. Returns whether there is one of that id."""
        return self.session(session_id).restore(agent)

    def list_sessions(
        self, *, user: str | None = None, tags: Iterable[str] = (), title: str | None = None
    ) -> list[str]:
        """The ids of all sessions, sorted; those of managed agents' calls belong to their parents.

        Those of one person alone (`user`), that have all of the `tags`, that have this in their `title` in any case.
        """
        wanted = Labels.of(user, title, tags)
        said = journal_wording(self.database) if wanted.title or wanted.tags else None
        with self.database.reading() as connection:
            if wanted == Labels():
                return directory.names(connection)
            return sorted(directory.named(connection, (row.name for row, _ in _listed(connection, wanted, said))))

    def sessions(
        self, *, user: str | None = None, tags: Iterable[str] = (), title: str | None = None
    ) -> list[SessionInfo]:
        """What there is to know of every session, or of those that `list_sessions` names; the one used last first."""
        wanted = Labels.of(user, title, tags)
        said = journal_wording(self.database) if wanted.title or wanted.tags else None
        with self.database.reading() as connection:
            listed = _listed(connection, wanted, said)
            found = _runs_of(connection, None if wanted == Labels() else [row.id for row, _ in listed])
            infos = []
            for row, labels in listed:
                for name in directory.named(connection, [row.name]):
                    runs = found.get(row.id, [])
                    directory.trusted(connection, row, name, runs)
                    if _is_sound(row, name):
                        alive = leases.is_alive(self.database, connection, row)
                        told = sound_runs(runs, name)
                        infos.append(_info(envelope_of(connection), name, row, labels, told, alive))
            return infos

    def delete_session(self, session_id: str) -> bool:
        """Delete a session. Returns whether there was one; see `purge` for the last byte of it."""
        return self.session(session_id).delete()

    def expire(self, older_than: dt.timedelta | float) -> list[str]:
        """Delete the sessions that were not used for so long (seconds, or a timedelta); returns their ids.

        Sessions that somebody is attached to stay.
        """
        seconds = _seconds(older_than)
        sessions = tables.sessions
        with self.database.reading() as connection:
            unused = sessions.c.updated < time.time() - seconds
            old = select(sessions.c.name).where(sessions.c.parent.is_(None), unused)
            names = list(directory.named(connection, connection.scalars(old)))
        expired = []
        for name in names:
            try:
                if self.delete_session(name):
                    expired.append(name)
            except SessionConflictError:
                continue  # in use after all
        return expired

    def purge(self) -> None:
        """Make sure that no byte of what was deleted is left in the database, its log, or copies from migrations.

        Raises SessionStorageError, and says so, when somebody who has the database open prevents it. On Postgres
        the write-ahead log belongs to the server: unless it has `wal_recycle=off` and this user may make a
        checkpoint, bytes may stay in it until they are written over, and a warning in the log says so. Copies that
        you made yourself (`backup`, `export`) are yours to delete.
        """
        leases.sweep(self.database)
        purge(self.database)

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Copy the whole database into one SQLite file, also while it is in use; of Postgres as well.

        A file of that name is replaced when the copy is whole; the database itself never is (PlaceError).
        """
        return maintenance.backup(self.database, named_file(path))

    def restore_backup(self, path: str | os.PathLike[str]) -> None:
        """Make the database what a backup holds. What is there now is replaced; no byte of the backup is changed."""
        maintenance.restore_backup(self.database, named_file(path))


def _seconds(given: Any) -> float:
    try:
        seconds = given.total_seconds() if isinstance(given, dt.timedelta) else float(given)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not seconds >= 0:  # NaN is neither; and a session that was used in the future is none that nobody used
        raise SessionError(
            f"older_than is a timedelta or a number of seconds, 0 or more, not {brief(given)}; nothing was deleted"
        )
    return float(seconds)


def _listed(
    connection: Connection, wanted: Labels, said: Callable[[str, str], str] | None
) -> list[tuple[Any, Labels]]:
    """The rows of the sessions that are looked for, with their labels, the one that was used last first."""
    table, envelope = tables.sessions, envelope_of(connection)
    check_sessions(connection)
    mine = select(table).where(table.c.parent.is_(None)).order_by(table.c.updated.desc())
    if wanted.user is not None:
        mine = mine.where(table.c.person == envelope.name(wanted.user, PERSON_OF_SESSION))
    rows = [(row, kept_labels(envelope, row)) for row in connection.execute(mine)]
    if said is None:
        return [(row, labels) for row, labels in rows if wanted.fits(labels)]
    names = {row.name: name for row, _ in rows for name in directory.named(connection, [row.name])}
    wording = {row.name: partial(said, names[row.name]) for row, _ in rows if row.name in names}
    return [(row, labels) for row, labels in rows if wanted.fits(labels, wording.get(row.name))]


def _runs_of(connection: Connection, sessions: list[int] | None) -> dict[int, list[Any]]:
    """The rows of the runs of these sessions, or of all."""
    table = tables.runs
    all_runs = select(table).order_by(table.c.number)
    parts = [all_runs] if sessions is None else (all_runs.where(table.c.session.in_(ids)) for ids in chunks(sessions))
    found: dict[int, list[Any]] = {}
    for part in parts:
        for run in connection.execute(part):
            found.setdefault(run.session, []).append(run)
    return found


def _is_sound(row: Any, name: str) -> bool:
    try:
        return directory.sound(row, name) is row
    except SessionDamagedError as error:
        warn_of_loss(f"{error}. It is left out of the list")
        return False


def _info(envelope: Envelope, name: str, row: Any, labels: Labels, runs: list[Any], alive: bool) -> SessionInfo:
    last = described(runs[-1], envelope, name, alive=alive) if runs else None
    return SessionInfo(
        session_id=name,
        state=last.state if last else ("empty" if row.revision == 0 else INTERRUPTED),
        created=row.created,
        updated=row.updated,
        runs=len(runs),
        steps=sum(run.steps for run in runs),
        input_tokens=sum(run.input_tokens for run in runs),
        output_tokens=sum(run.output_tokens for run in runs),
        last_task=last.task if last else None,
        agent=directory.described_agent(envelope, row),
        user=labels.user,
        title=labels.title,
        tags=labels.tags,
    )
