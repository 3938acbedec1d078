"""One database, SQLite or Postgres: connections, transactions, and bringing it to the newest schema."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from smolagents_memory._errors import MissingExtraError, NewerSchemaError, SessionStorageError
from smolagents_memory._log import logger
from smolagents_memory.database import tables


Durability = Literal["power", "process"]
FileId = tuple[int, int]
_WAIT = 30.0  # seconds to wait for another writer


class Database:
    """A database that sessions share. Get one with `Database.at(url)`: there is one for each URL in a process."""

    _open: ClassVar[dict[tuple[str, str, int], Database]] = {}
    _opening = threading.RLock()

    def __init__(self, url: URL, durability: Durability) -> None:
        self.url = url
        self.durability = durability
        self.sqlite = url.get_backend_name() == "sqlite"
        self.engine = _engine(url, durability)
        self._prepared = False
        self.file: FileId | None = None  # the file that was prepared

    @classmethod
    def at(cls, url: str | URL, durability: Durability = "power") -> Database:
        """The database at a URL, made and brought to the newest schema if need be."""
        parsed = _parsed(url)
        if durability not in ("power", "process"):
            raise ValueError(f'durability is "power" or "process", not {durability!r}')
        key = (parsed.render_as_string(hide_password=False), durability, os.getpid())  # a forked child opens anew
        with cls._opening:
            database = cls._open.get(key)
            if database is None:
                database = cls._open[key] = cls(parsed, durability)
        return database

    @property
    def path(self) -> Path | None:
        """The file of a SQLite database."""
        return Path(self.url.database) if self.sqlite and self.url.database not in (None, "", ":memory:") else None

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    # -- transactions ------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, file: FileId | None = None) -> Iterator[Connection]:
        """A connection that sees one state of the database from beginning to end; of that file and of no other."""
        with self._faults_named("read"):
            self.prepare(file)
            with self.engine.connect() as connection:
                if not self.sqlite:
                    connection = connection.execution_options(isolation_level="REPEATABLE READ")
                with connection.begin():
                    yield connection

    @contextmanager
    def writing(self, file: FileId | None = None) -> Iterator[Connection]:
        """A connection in a transaction that nobody else's can get in the way of; to that file and to no other."""
        with self._faults_named("written"):
            self.prepare(file)
            with self._immediate() as connection:
                yield connection

    @contextmanager
    def _immediate(self) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            connection = connection.execution_options(immediate=True)
            with connection.begin():
                yield connection

    @contextmanager
    def _faults_named(self, done: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
            raise SessionStorageError(
                f"{self} cannot be {done} ({type(cause).__name__}: {str(cause).strip()[:200]}). "
                "What is in memory is untouched; mend the database, then flush() writes what was missed"
            ) from error

    # -- the schema --------------------------------------------------------------------------------------------

    def prepare(self, file: FileId | None = None) -> None:
        """Make the tables, or bring older ones to the newest schema after a backup. Done once for each process.

        A `file` that was there before must be there still: nobody makes an empty database in its place.
        """
        found = self._file_now()
        if file is not None and file != found:
            raise FileNotFoundError("the file was deleted, moved or replaced since the session was attached")
        if self._prepared and found == self.file:
            return
        with self._opening, self._faults_named("opened"):
            if self._prepared:  # another file is there, or none
                self.engine.dispose()
                self._prepared = False
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._immediate() as connection:
                alone(connection, "schema")  # two first opens at once: the second waits here
                version = self._version(connection)
                if version is None:
                    self._refuse_foreign_tables(connection)
                    tables.metadata.create_all(connection)
                    stamp(connection)
            if version is not None and version != tables.HEAD:
                from smolagents_memory.database.migrating import migrate

                migrate(self, version)
            self.file = self._file_now()
            self._prepared = True

    def _file_now(self) -> FileId | None:
        """Which file is at the path."""
        try:
            found = self.path.stat() if self.path is not None else None
        except FileNotFoundError:
            found = None
        return None if found is None else (found.st_dev, found.st_ino)

    def _refuse_foreign_tables(self, connection: Connection) -> None:
        theirs = sorted(tables.metadata.tables.keys() & set(inspect(connection).get_table_names()))
        if theirs:
            raise SessionStorageError(
                f"{self} has a table {theirs[0]!r} that smolagents-memory did not make. Nothing was changed: keep "
                "sessions in a database of their own"
            )

    def _version(self, connection: Connection) -> str | None:
        if not inspect(connection).has_table(tables.VERSION_TABLE):
            return None
        found = connection.execute(text(f"SELECT version_num FROM {tables.VERSION_TABLE}")).scalar()
        if found is not None and found > tables.HEAD:
            raise NewerSchemaError(
                f"{self} has schema {found}, made by a newer smolagents-memory; this one knows up to {tables.HEAD}. "
                "Nothing was changed: pip install -U smolagents-memory"
            )
        return str(found) if found is not None else ""

    def version(self) -> str | None:
        """The schema that is there, without changing it."""
        with self._faults_named("read"), self.engine.connect() as connection:
            return self._version(connection)

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        self.engine.dispose()


def alone(connection: Connection, what: str) -> None:
    """Wait until no other transaction works at the same; SQLite has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        key = hashlib.blake2b(f"smolagents_memory {what}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        lock = text("SELECT pg_advisory_xact_lock(:key)")
        connection.execute(lock, {"key": int.from_bytes(key, "big", signed=True)})


def stamp(connection: Connection) -> None:
    """Say which schema is there."""
    connection.execute(text(f"CREATE TABLE {tables.VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text(f"INSERT INTO {tables.VERSION_TABLE} VALUES (:head)"), {"head": tables.HEAD})


def _parsed(url: str | URL) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError(
            f"{str(url)!r} is no database URL; it looks like sqlite:///folder/memory.db or "
            "postgresql://user:password@host/database"
        ) from None
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise ValueError(f"sessions are kept in SQLite or Postgres, not in {parsed.get_backend_name()!r}")
    if parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:"):
        parsed = parsed.set(database=os.path.abspath(str(parsed.database)))
    return parsed


def _engine(url: URL, durability: Durability) -> Engine:
    if url.get_backend_name() == "sqlite":
        memory = url.database in (None, "", ":memory:")
        options: dict[str, Any] = {"poolclass": StaticPool} if memory else {}
        engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": _WAIT}, **options)
        event.listen(engine, "connect", lambda connection, _: _configure_sqlite(connection, durability, memory))
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        waiting = {} if "connect_timeout" in url.query else {"connect_timeout": 10}  # psycopg's own is for ever
        engine = create_engine(url, pool_pre_ping=True, connect_args=waiting)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise MissingExtraError("a session in Postgres", "postgres") from None
    if durability == "process":
        event.listen(engine, "connect", _relax_postgres)
    return engine


def _configure_sqlite(connection: sqlite3.Connection, durability: Durability, memory: bool) -> None:
    connection.isolation_level = None  # transactions begin where we say so, not where sqlite3 guesses
    statements = [
        f"PRAGMA synchronous={'FULL' if durability == 'power' else 'NORMAL'}",
        "PRAGMA secure_delete=ON",
        "PRAGMA foreign_keys=ON",
    ]
    for statement in statements if memory else ["PRAGMA journal_mode=WAL", *statements]:
        _patiently(connection, statement)


def _patiently(connection: sqlite3.Connection, statement: str) -> None:
    """The switch to WAL says "locked" at once, whatever the timeout: try again for as long as that."""
    deadline = time.monotonic() + _WAIT
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
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _relax_postgres(connection: Any, _: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit TO off")
    connection.commit()
