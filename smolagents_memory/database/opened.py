"""A place as this process has it open: one engine, whoever uses it, however many threads, also after a fork."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.pool import StaticPool

from smolagents_memory._errors import MissingExtraError
from smolagents_memory._files import make_folder, make_private
from smolagents_memory._forks import Lock, tell_in_child, uncut
from smolagents_memory._log import logger
from smolagents_memory.database.passwords import secret_options
from smolagents_memory.database.places import Place
from smolagents_memory.database.seal_state import keys_for
from smolagents_memory.database.sealed import Keys, Seals


FileId = tuple[int, int]
WAIT = 60.0  # seconds to wait for another writer
_POOL = {"sqlite": {"pool_size": 8, "max_overflow": 56}, "postgresql": {"pool_size": 8, "max_overflow": 24}}


class Opened:
    """The engine of a place, and what is known of what it leads to. Each place in RAM has one of its own."""

    by_key: ClassVar[weakref.WeakValueDictionary[str, Opened]] = weakref.WeakValueDictionary()
    recent: ClassVar[deque[Opened]] = deque(maxlen=8)  # kept open for whoever comes next
    opening: ClassVar[Lock] = Lock(threading.RLock)

    def __init__(self, place: Place) -> None:
        self.path, self.in_ram, self.sqlite = place.path, place.in_ram, place.sqlite
        self._url = place.url
        self._engines: list[Engine] = []  # none, or the one of this process
        self.lock, self._turn = Lock(threading.RLock), Lock(threading.RLock)
        self.file: FileId | None = None  # the file that was prepared
        self.prepared = False
        self.id = ""  # the random id of the place
        self.begun_with: WeakSet[Seals] = WeakSet()  # seals with which it was opened
        self._keys: dict[int, tuple[Any, ...]] = {}  # of a seal, by its id: the seal, what was read, the keys
        tell_in_child(self)
        weakref.finalize(self, _dispose, self._engines)

    @classmethod
    def of(cls, place: Place) -> Opened:
        """The one for a place in this process."""
        with cls.opening:
            held = (place.first or place).__dict__
            opened: Opened | None = held.get("_opened") if place.in_ram else cls.by_key.get(place.key)
            if opened is None:
                opened = cls(place)
                if place.in_ram:
                    held["_opened"] = opened
                else:
                    cls.by_key[place.key] = opened
            if not place.in_ram:
                cls.recent.append(opened)
            return opened

    @classmethod
    def forget_all(cls) -> None:
        """Close everything that nobody uses, as another process would begin."""
        with cls.opening:
            for opened in list(cls.by_key.values()):
                opened.close()
            cls.by_key.clear()
            cls.recent.clear()

    @property
    def engine(self) -> Engine:
        """The engine, made when it is first needed."""
        with self.lock:
            if not self._engines:
                self._engines.append(self._made())
            return self._engines[0]

    @contextmanager
    def begun(self, *, relaxed: bool, immediate: bool = False, **options: Any) -> Iterator[Connection]:
        """A transaction. In RAM all threads share one connection: one at a time."""
        engine = self.engine  # before `uncut`: whoever opens the place holds its lock, and then waits for who forks
        with self._turn if self.in_ram else nullcontext(), uncut(), engine.connect() as connection:
            connection = connection.execution_options(relaxed=relaxed, immediate=immediate, **options)
            with connection.begin():
                yield connection

    def keys_for(self, seal: Seals | None, state: str | None, shown: str) -> Keys | None:
        """The keys of the place, where it is sealed: looked for once, and again when they have changed."""
        if seal is None:
            return keys_for(None, state, self.id, shown)
        known = self._keys.get(id(seal))
        if known is None or known[:3] != (seal, state, self.id):
            known = self._keys[id(seal)] = (seal, state, self.id, keys_for(seal, state, self.id, shown))
        keys: Keys | None = known[3]
        return keys

    def file_now(self) -> FileId | None:
        """Which file is at the path."""
        try:
            found = self.path.stat() if self.path is not None else None
        except FileNotFoundError:
            found = None
        return None if found is None else (found.st_dev, found.st_ino)

    def close(self) -> None:
        """Close all connections; the next use opens new ones. What is in RAM stays."""
        with self.lock:
            if not self.in_ram:
                _dispose(self._engines)
                self.prepared = False
                self.begun_with.clear()

    def forked(self) -> None:
        """In a child: leave the parent's connections alone, open or closed; RAM is a copy of one's own."""
        if not self.in_ram:
            _of_parents.extend(self._engines)
            self._engines.clear()

    # -- engines -----------------------------------------------------------------------------------------------

    def _made(self) -> Engine:
        """The one place where an engine is made."""
        try:
            shown = self._url.difference_update_query(secret_options(self._url))  # in an engine's repr, too
            engine = create_engine(shown, **(self._for_sqlite() if self.sqlite else self._for_postgres()))
        except (ModuleNotFoundError, NoSuchModuleError):
            raise MissingExtraError("A place in Postgres", "postgres") from None
        if self.sqlite:
            # an engine that held this object would keep it, and all of its connections, for ever
            in_ram = self.in_ram
            event.listen(engine, "connect", lambda connection, _: _configure(connection, in_ram))
            event.listen(engine, "reset", lambda connection, *_: connection.close_cursors())
        event.listen(engine, "begin", _begin_sqlite if self.sqlite else _begin_postgres)
        return engine

    def _for_sqlite(self) -> dict[str, Any]:
        if self.path is not None:
            path = Path(os.path.realpath(self.path))
            make_folder(path.parent)
            make_private(path)
        pool: dict[str, Any] = {"poolclass": StaticPool} if self.in_ram else _POOL["sqlite"]
        return {"connect_args": {"check_same_thread": False, "timeout": WAIT, "factory": _Connection}, **pool}

    def _for_postgres(self) -> dict[str, Any]:
        waiting = {} if "connect_timeout" in self._url.query else {"connect_timeout": 10}  # else it is for ever
        connecting = {**waiting, **secret_options(self._url)}
        return {"pool_pre_ping": True, "connect_args": connecting, **_POOL["postgresql"]}


_of_parents: list[Engine] = []  # never used, never closed


def _dispose(engines: list[Engine]) -> None:
    with uncut():  # closing takes SQLite's locks, too, and comes whenever somebody's last place goes
        while engines:
            engines.pop().dispose()


class _Connection(sqlite3.Connection):
    """One whose cursors are closed when it is given back.

    One that was not read to its end, for an error came, and is still held by that, keeps its view of the database:
    whoever gets the connection next would read what was there then, and could not write.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()

    def cursor(self, *given: Any, **named: Any) -> Any:
        made = super().cursor(*given, **named)
        self._cursors.add(made)
        return made

    def close_cursors(self) -> None:
        for cursor in list(self._cursors):
            cursor.close()


def _configure(connection: sqlite3.Connection, in_ram: bool) -> None:
    connection.text_factory = lambda data: str(data, "utf-8", "replace")  # a flipped bit must not hide whole tables
    connection.isolation_level = None  # transactions begin where we say so, not where sqlite3 guesses
    statements = ["PRAGMA secure_delete=ON", "PRAGMA foreign_keys=ON", "PRAGMA cache_size=-16000"]
    for statement in statements if in_ram else ["PRAGMA journal_mode=WAL", *statements]:
        _patiently(connection, statement)


def _patiently(connection: sqlite3.Connection, statement: str) -> None:
    """The switch to WAL says "locked" at once, whatever the timeout: try again for as long as that."""
    deadline = time.monotonic() + WAIT
    while True:
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                if "readonly" in str(error):
                    logger.debug("a database that can only be read: %s", error)
                    return
                raise
            time.sleep(0.01)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    level = "NORMAL" if options.get("relaxed") else "FULL"
    if connection.info.get("synchronous") != level:  # cannot be changed within a transaction
        connection.exec_driver_sql(f"PRAGMA synchronous={level}")
        connection.info["synchronous"] = level
    wait = options.get("wait") or WAIT
    if connection.info.get("wait", WAIT) != wait:
        connection.exec_driver_sql(f"PRAGMA busy_timeout={int(1000 * wait)}")
        connection.info["wait"] = wait
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("immediate") else "BEGIN")


def _begin_postgres(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("relaxed"):
        connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")
    if options.get("wait"):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(1000 * options['wait'])}")
