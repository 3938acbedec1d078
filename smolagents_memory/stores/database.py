"""One engine a database and process: how it is opened, read and written so that threads and processes get along."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from smolagents_memory._errors import (
    MissingExtraError,
    SmolagentsMemoryError,
    StoreError,
    StoreFormatError,
    StoreUnavailableError,
)
from smolagents_memory.stores.schema import prepare


BUSY = 60  # seconds a writer waits for its turn

_open: WeakValueDictionary[str, Database] = WeakValueDictionary()
_open_lock = threading.Lock()


def database_url(path_or_url: str | os.PathLike[str] | None) -> URL:
    """The SQLAlchemy URL of a file, a URL, or (None) of memory in RAM."""
    if path_or_url is None:
        return make_url("sqlite://")
    given = os.fspath(path_or_url)
    if "://" in given:
        url = make_url(given.replace("postgres://", "postgresql://", 1))
        return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
    return URL.create("sqlite", database=given)


def open_database(path_or_url: str | os.PathLike[str] | None) -> Database:
    """The one Database for it in this process: a thousand memories share its connections."""
    url = database_url(path_or_url)
    file = _file(url)
    if url.get_backend_name() == "sqlite" and file is None:
        return Database(url)  # each is a memory of its own
    name = str(file) if file else url.render_as_string(hide_password=False)
    with _open_lock:
        database = _open.get(name)
        if database is None or (file and not file.exists()):
            database = _open[name] = Database(url)
        with translated(database):
            database.engine()  # a closed one is opened, and looked at, again
        return database


def _file(url: URL) -> Path | None:
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database)).absolute()


class Database:
    """A database of memories: `read()` and `write()` give a connection inside a transaction.

    In a forked child it is opened anew by itself. A failure comes out as an error of our own tree, and a failed
    `write()` has written nothing.
    """

    def __init__(self, url: URL) -> None:
        self.url = url
        self._sqlite = url.get_backend_name() == "sqlite"
        self.file = _file(url)
        self.in_ram = self._sqlite and self.file is None
        self._lock = threading.RLock()
        self._engine: tuple[int, Engine] | None = None
        self._ram_lock = threading.RLock()
        with translated(self):
            self.engine()

    def __repr__(self) -> str:
        return f"Database({self.url.render_as_string(hide_password=True)!r})"

    def engine(self) -> Engine:
        """The engine of this process."""
        held = self._engine
        if held is None or held[0] != os.getpid():
            with self._lock:
                held = self._engine
                if held is None or held[0] != os.getpid():
                    if held is not None:
                        if self.in_ram:
                            return held[1]  # a fork has its own copy of the memory in RAM
                        held[1].dispose(close=False)
                    engine = self._create()
                    prepare(engine)
                    held = self._engine = (os.getpid(), engine)
        return held[1]

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees one state of the database, whatever others write meanwhile."""
        with self._turn(), translated(self), self.engine().connect() as plain:
            connection = plain if self._sqlite else plain.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A connection that alone may write; all of it is kept when the block ends, nothing when it raises."""
        with self._turn(), translated(self), self.engine().connect() as plain:
            connection = plain.execution_options(write=True)
            with connection.begin():
                if not self._sqlite:  # as SQLite's write transaction does, let one write at a time
                    connection.exec_driver_sql("SELECT last FROM memory_changes WHERE id = 1 FOR UPDATE")
                yield connection

    def close(self) -> None:
        """Close the connections; the next use opens them again. Memory in RAM stays."""
        with self._lock:
            if self._engine is not None and self._engine[0] == os.getpid() and not self.in_ram:
                self._engine[1].dispose()
                self._engine = None

    def vacuum(self) -> bool:
        """Rewrite the files so that nothing deleted is left in them; False when a reader prevents that."""
        with self._turn(), translated(self), self.engine().connect() as connection:
            raw: Any = connection.connection.driver_connection
            if not self._sqlite:
                connection.rollback()
                raw.autocommit = True
                try:
                    raw.execute("VACUUM FULL")
                finally:
                    raw.autocommit = False
                return True
            raw.execute("VACUUM")
            busy = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            return not busy

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """In RAM all threads share one connection: one at a time."""
        if not self.in_ram:
            yield
            return
        with self._ram_lock:
            yield

    def _create(self) -> Engine:
        if self._sqlite:
            return self._create_sqlite()
        try:
            return create_engine(self.url, pool_size=8, max_overflow=24, pool_pre_ping=True)
        except ModuleNotFoundError as error:
            if self.url.get_backend_name() == "postgresql":
                raise MissingExtraError("A Postgres URL", "postgres") from error
            raise StoreUnavailableError(f"{self!r} needs a driver that is not installed: {error}") from error

    def _create_sqlite(self) -> Engine:
        options: dict[str, Any] = {"connect_args": {"timeout": BUSY, "check_same_thread": False}}
        if self.in_ram:
            options["poolclass"] = StaticPool
        else:
            assert self.file is not None
            self.file.parent.mkdir(parents=True, exist_ok=True)
            options |= {"pool_size": 8, "max_overflow": 56}
        engine = create_engine(self.url if self.in_ram else URL.create("sqlite", database=str(self.file)), **options)
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin)
        return engine


def _set_up(connection: sqlite3.Connection, record: object) -> None:
    connection.isolation_level = None  # we begin transactions ourselves
    deadline = time.monotonic() + BUSY
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:  # the switch to WAL does not wait, whatever the timeout says
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute("PRAGMA cache_size=-16000")


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


@contextmanager
def translated(database: Database) -> Iterator[None]:
    """What a database raises, in the words of our own tree."""
    try:
        yield
    except SmolagentsMemoryError:
        raise
    except (SQLAlchemyError, OSError) as error:
        raise _translation(database, error) from error


def _translation(database: Database, error: Exception) -> StoreError:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    what = f"{type(cause).__name__}: {str(cause)[:300]}"
    if isinstance(error, DatabaseError) and not isinstance(error, OperationalError) and "not a database" in what:
        return StoreFormatError(
            f"{database!r} is not a database of memories, or is damaged ({what}); it was left as is"
        )
    return StoreUnavailableError(f"{database!r} could not be read or written ({what}); nothing was half-written")
