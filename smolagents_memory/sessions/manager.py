"""SessionManager: all sessions of one place."""

from __future__ import annotations

import datetime as dt
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from smolagents_memory._brief import brief
from smolagents_memory._errors import SessionConflictError, SessionDamagedError, SessionError
from smolagents_memory._files import named_file
from smolagents_memory._log import warn_of_loss
from smolagents_memory.database import maintenance, tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import Envelope, from_key
from smolagents_memory.database.places import Durability, Place
from smolagents_memory.history.files import memory_of
from smolagents_memory.search.purging import purge
from smolagents_memory.sessions import directory, leases
from smolagents_memory.sessions.attachment import describe_agent, store
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

    def session(self, session_id: str) -> Session:
        """One of the sessions, or a new one."""
        return Session(session_id, self.database.place)

    def save_session(self, agent: Any, session_id: str) -> None:
        """Make a session hold what the agent's memory holds now; what it holds already is not written again.

        For an agent that runs for long, `Session.attach` keeps every step as it happens.
        """
        runtime = Runtime(agent, VARIABLES_BUDGET) if hasattr(agent, "state") else None
        store(self.session(session_id), memory_of(agent), describe_agent(agent), runtime)

    def load_session(self, agent: Any, session_id: str) -> bool:
        """Put a session into an agent. Returns whether there is one of that id."""
        return self.session(session_id).restore(agent)

    def list_sessions(self) -> list[str]:
        """The ids of all sessions, sorted; those of managed agents' calls belong to their parents."""
        with self.database.reading() as connection:
            return directory.names(connection)

    def sessions(self) -> list[SessionInfo]:
        """What there is to know of every session, the one that was used last first."""
        runs, sessions = tables.runs, tables.sessions
        with self.database.reading() as connection:
            found: dict[int, list[Any]] = {}
            for run in connection.execute(select(runs).order_by(runs.c.number)):
                found.setdefault(run.session, []).append(run)
            newest_first = select(sessions).where(sessions.c.parent.is_(None)).order_by(sessions.c.updated.desc())
            listed = list(connection.execute(newest_first))
            written = {row.id for row in listed if leases.is_alive(self.database, connection, row)}
        return [
            _info(self.database.envelope, row, sound_runs(found.get(row.id, []), name), row.id in written)
            for row in listed
            for name in directory.named([row.name])
            if _is_sound(row, name)
        ]

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
            names = list(directory.named(connection.scalars(old)))
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


def _is_sound(row: Any, name: str) -> bool:
    try:
        return directory.sound(row, name) is row
    except SessionDamagedError as error:
        warn_of_loss(f"{error}. It is left out of the list")
        return False


def _info(envelope: Envelope, row: Any, runs: list[Any], alive: bool) -> SessionInfo:
    name = from_key(row.name)
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
    )
