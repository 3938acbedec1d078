"""Who may write to a session: one at a time, and a dead one is no obstacle.

A session's row names its writer by random tokens. Whether that one still lives is never guessed from a host's name
or a process's number; the operating system and the server know it:

- A process that writes at a place holds a lock on a file of its own there, and the kernel lets go of it when the
  process dies, in a container as well. It lies beside a SQLite database and not in it, where locks by `fcntl.lockf`
  are lost as soon as anybody in this process closes that file: SQLite, or a copy of the folder. That of `flock`
  belongs to the open file; a forked child, which shares it, closes its own and never unlocks it. One file a process,
  not a session: thousands may be attached, and which of them are is known within the process.
- In Postgres it also has a lease by the server's clock, which a thread renews. From the machine of the writer, whose
  temporary folder has the file, the lock says it at once; from elsewhere the lease does. One that lapsed and was not
  taken goes on.
- What is in RAM is this process's alone.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import secrets
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Float, cast, extract, func, select, update

from smolagents_memory._errors import DecodeError, SmolagentsMemoryError
from smolagents_memory._files import open_private
from smolagents_memory._forks import Lock, in_child
from smolagents_memory._json import parse_json
from smolagents_memory._locks import is_locked, lock_file
from smolagents_memory._log import logger
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database


LASTS, RENEWED = 15.0, 3.0  # seconds
_NOT_YET_LOCKED = 60.0  # seconds: a file that is younger may be about to be, or its leases may not have lapsed
_now = cast(extract("epoch", func.clock_timestamp()), Float)
_held: dict[str, Lease] = {}  # of this process, by their tokens
_present: dict[Path, Presence] = {}  # and where it is seen to live
_renewed: set[Any] = set()  # the places whose leases a thread renews
_lock = Lock(threading.RLock)


class Presence:
    """A locked file by which others see that this process lives, while it has leases at a place."""

    def __init__(self, name: Path) -> None:
        self.name, self.token = name, secrets.token_hex(8)
        self.leases: set[str] = set()
        self._path = _path(name, self.token)
        self._handle = open_private(self._path, _mode(name))
        try:
            lock_file(self._handle, alone=True)
        except OSError:
            self.end()
            raise

    @classmethod
    def at(cls, database: Database) -> Presence | None:
        """The one at a place. None for RAM, and on a machine whose temporary folder has no room for it."""
        name = _name(database)
        if name is None:
            return None
        found = _present.get(name)
        if found is None or not found._is_there():
            try:
                found = _present[name] = cls(name)
            except OSError:
                if database.sqlite:
                    raise
            if not database.sqlite:  # beside a SQLite database the next writer of the session removes it
                sweep(database)
        return found

    def renew(self) -> None:
        """It is as young as its leases: one whose process was killed is not removed before they lapse."""
        with contextlib.suppress(OSError):  # the temporary folder was emptied
            os.utime(self._path)

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except OSError:  # the folder was deleted, and maybe made anew
            return False

    def leave(self, token: str) -> None:
        """A lease is over; with the last one the file goes."""
        self.leases.discard(token)
        if not self.leases:
            if _present.get(self.name) is self:
                del _present[self.name]
            self.end()

    def end(self) -> None:
        """Unlock and remove the file."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file. That unlocks it, unless a parent has it open as well."""
        os.close(self._handle)


class Lease:
    """The right to write to one session of a database, from now until it is released."""

    def __init__(self, database: Database) -> None:
        self.database, self._token = database, secrets.token_hex(8)
        with _lock:
            self.presence = Presence.at(database)
            _held[self._token] = self
            owner = {"token": self._token, "host": socket.gethostname(), "process": os.getpid()}
            if self.presence is not None:
                self.presence.leases.add(self._token)
                owner["lock"] = self.presence.token
            self.owner = json.dumps(owner).encode()
            if not database.sqlite and database.opened not in _renewed:
                _renewed.add(database.opened)
                name = "smolagents-memory leases"
                threading.Thread(target=_renew, args=(database,), name=name, daemon=True).start()

    @property
    def is_inherited(self) -> bool:
        """Whether it belongs to the process that this one was forked from."""
        return not self.owner

    def release(self) -> None:
        """Give it back; done twice it does nothing."""
        with _lock:
            if _held.pop(self._token, None) is not None and self.presence is not None:
                self.presence.leave(self._token)


@in_child
def _in_child() -> None:
    """A parent's leases are none of the child's: what is written with one here finds no session."""
    for presence in {lease.presence for lease in _held.values() if lease.presence is not None}:
        presence.close()
    for lease in _held.values():
        lease.owner = b""
    for known in (_held, _present, _renewed):
        known.clear()


def describe(owner: bytes | None) -> dict[str, Any]:
    """Who that is, as far as can be told from it."""
    try:
        described = parse_json(bytes(owner)) if isinstance(owner, (bytes, memoryview)) else None
    except DecodeError:
        return {}
    return described if isinstance(described, dict) else {}


def is_alive(database: Database, connection: Connection, session: Any) -> bool:
    """Whether the writer that a session's row names may still be writing."""
    here = _is_alive_here(database, session)
    return _runs(connection, session) if here is None else here


def is_alive_elsewhere(database: Database, connection: Connection, session: Any) -> bool:
    """Whether nothing but the lease says that somebody may still be writing."""
    return _is_alive_here(database, session) is None and _runs(connection, session)


def term(connection: Connection) -> Any:
    """Until when a lease that is taken or renewed now lasts; None where a lock is all that is needed."""
    return _now + LASTS if connection.dialect.name == "postgresql" else None


def sweep(database: Database) -> None:
    """Remove the files that killed writers left."""
    name = _name(database)
    found = name.parent.glob(f"{glob.escape(name.name)}.*.lock") if name is not None else ()
    for path in found:
        with contextlib.suppress(OSError):  # it went meanwhile
            if re.search(r"\.[0-9a-f]{16}\.lock$", path.name) and _is_old(path) and is_locked(path) is False:
                path.unlink()


def _is_alive_here(database: Database, session: Any) -> bool | None:
    """Whether it lives, as far as this machine knows; None where it does not."""
    owner = describe(session.writer)
    with _lock:
        if owner.get("token") in _held:
            return True
    name, lock = _name(database), owner.get("lock")
    if not isinstance(lock, str) or not re.fullmatch("[0-9a-f]{16}", lock):  # it becomes part of a path
        locked = None
    else:
        locked = None if name is None else is_locked(_path(name, lock), unreadable=True if database.sqlite else None)
    if not database.sqlite:  # its file stays: without it the lease of a dead one would count until it lapses
        return locked
    if locked is False and name is not None:
        _path(name, str(lock)).unlink(missing_ok=True)
    return bool(locked)


def _runs(connection: Connection, session: Any) -> bool:
    left = 0.0 if session.lease is None else session.lease - connection.execute(select(_now)).scalar_one()
    return bool(0 < left <= LASTS)  # by a clock that was set back it would last for ever


def _name(database: Database) -> Path | None:
    """What the names of all files begin with by which processes are seen to live at a place."""
    if not database.sqlite:
        return Path(tempfile.gettempdir()) / "smolagents_memory"
    return None if database.path is None else Path(os.path.realpath(database.path))


def _path(name: Path, token: str) -> Path:
    return name.with_name(f"{name.name}.{token}.lock")


def _mode(name: Path) -> int:
    """For its owner alone; beside a database that others may read, for them as well, as SQLite's own files are."""
    return 0o600 | (name.stat().st_mode & 0o666 if name.is_file() else 0)


def _is_old(path: Path) -> bool:
    """Whether it is about to be locked no more, and its leases have lapsed."""
    return time.time() - path.stat().st_mtime > _NOT_YET_LOCKED


def _renew(database: Database) -> None:
    """Renew the leases of a place for as long as there are any."""
    sessions = tables.sessions
    while True:
        time.sleep(RENEWED)
        with _lock:
            mine = [lease for lease in _held.values() if lease.database.opened is database.opened]
            if not mine:
                _renewed.discard(database.opened)
                return
            for presence in {lease.presence for lease in mine if lease.presence is not None}:
                presence.renew()
            owners = [lease.owner for lease in mine]
        try:
            with database.writing() as connection:
                ours = update(sessions).where(sessions.c.writer.in_(owners))
                connection.execute(ours.values(lease=term(connection)))
        except SmolagentsMemoryError as error:
            logger.debug("leases are not renewed, and go on unless somebody takes them: %s", error)
