"""The database of a place, SQLite or Postgres: transactions, faults told in our words, the newest schema."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from smolagents_memory._brief import brief
from smolagents_memory._errors import (
    NewerSchemaError,
    SessionStorageError,
    SmolagentsMemoryError,
    StoreFormatError,
    StoreUnavailableError,
)
from smolagents_memory.database import tables
from smolagents_memory.database.envelope import Envelope
from smolagents_memory.database.opened import FileId, Opened
from smolagents_memory.database.passwords import without_passwords
from smolagents_memory.database.places import Durability, Place
from smolagents_memory.database.seal_state import begin, keys_for, read_state


class Faults(NamedTuple):
    """In which words of our tree a part of the package tells what is wrong with a database."""

    unavailable: type[SmolagentsMemoryError]
    not_ours: type[SmolagentsMemoryError]
    kept: str


SESSIONS = Faults(
    SessionStorageError,
    SessionStorageError,
    "What is in memory is untouched; mend the database, then flush() writes what was missed",
)
MEMORIES = Faults(StoreUnavailableError, StoreFormatError, "Nothing was half-written")
SEAL = "seal"  # whoever writes shares this lock; who changes keys has it alone, before any other


class Database:
    """A place, opened by one who uses it: `reading()` and `writing()` give a connection inside a transaction.

    Any number of threads and processes may; in a forked child it is opened anew by itself. Two of one place in a
    process share their connections, and each tells faults in its own words.
    """

    def __init__(self, place: Place, faults: Faults = SESSIONS, *, as_it_lies: bool = False) -> None:
        self.place, self.faults = place, faults
        self.opened = Opened.of(place)
        self._as_it_lies = as_it_lies  # rows are copied, sealed or not: nobody reads a value

    @classmethod
    def at(cls, place: Any, durability: Durability | None = None, *, faults: Faults = SESSIONS) -> Database:
        """The database of a place, or of what names one; made and brought to the newest schema at its first use."""
        return cls(Place.of(place, durability), faults)

    def __str__(self) -> str:
        return str(self.place)

    def __repr__(self) -> str:
        return f"Database({str(self)!r})"

    @property
    def sqlite(self) -> bool:
        """Whether it is a SQLite database, in a file or in RAM."""
        return self.opened.sqlite

    @property
    def path(self) -> Path | None:
        """The file of a SQLite database."""
        return self.opened.path

    @property
    def file(self) -> FileId | None:
        """Which file it was when it was opened."""
        return self.opened.file

    @property
    def engine(self) -> Engine:
        """SQLAlchemy's, for what no transaction of ours can do."""
        return self.opened.engine

    # -- transactions ------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, file: FileId | None = None) -> Iterator[Connection]:
        """A connection that sees one state of the database from beginning to end; of that file and of no other."""
        with self._transaction("read", file, {} if self.sqlite else {"isolation_level": "REPEATABLE READ"}) as begun:
            yield begun

    @contextmanager
    def writing(self, file: FileId | None = None, *, wait: float | None = None) -> Iterator[Connection]:
        """A connection in a transaction that nobody else's can get in the way of; to that file and to no other.

        For others that write it waits as long as any writer does, or so many seconds.
        """
        with self._transaction("written", file, {"immediate": True, "wait": wait}) as begun:
            yield begun

    @contextmanager
    def _transaction(self, done: str, file: FileId | None, options: dict[str, Any]) -> Iterator[Connection]:
        with self.faults_named(done):
            self.prepare(file)
            relaxed = self.place.durability == "process"
            with self.opened.begun(relaxed=relaxed, **options) as connection:
                if options.get("immediate") and not self._as_it_lies:
                    alone(connection, SEAL, shared=True)
                yield connection if self._as_it_lies else self._with_envelope(connection)

    def _with_envelope(self, connection: Connection) -> Connection:
        keys = self.opened.keys_for(self.place.seal, read_state(connection), str(self))
        envelope = Envelope(self.opened.id, keys, str(self))
        connection = connection.execution_options(envelope=envelope)
        if envelope.sealed is not None:
            envelope.sealed.connection = connection
        return connection

    @contextmanager
    def faults_named(self, done: str) -> Iterator[None]:
        """What a database raises, in our words."""
        try:
            yield
        except SmolagentsMemoryError:
            raise
        except (SQLAlchemyError, sqlite3.Error, OSError, UnicodeDecodeError) as error:  # SQLite quotes what it found
            cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
            what = without_passwords(str(cause), self.place.url).strip()[:200]
            raised = self.faults.not_ours if "not a database" in what else self.faults.unavailable
            told = raised(f"{self} cannot be {done} ({type(cause).__name__}: {what}). {self.faults.kept}")
            raise told from (error if without_passwords(str(error), self.place.url) == str(error) else None)

    def check_seal(self, connection: Connection, shown: str) -> None:
        """Raise SealError unless what a connection leads to is sealed as this place is opened."""
        keys_for(self.place.seal, read_state(connection), self.place_id(connection), shown)

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        self.opened.close()

    # -- the schema --------------------------------------------------------------------------------------------

    def prepare(self, file: FileId | None = None) -> None:
        """Make the tables, or bring older ones to the newest schema after a backup. Done once for each process.

        A `file` that was there before must be there still: nobody makes an empty database in its place.
        """
        opened = self.opened
        with self.faults_named("opened"):  # no file can be called so, or a file stands where a folder should
            found = opened.file_now()
        if file is not None and file != found:
            raise FileNotFoundError("the file was deleted, moved or replaced since it was opened here")
        seal = None if self._as_it_lies else self.place.seal
        if opened.prepared and found == opened.file and (seal is None or seal in opened.begun_with):
            return
        with opened.lock, self.faults_named("opened"):
            if opened.prepared and found != opened.file:  # another file is there, or none
                opened.close()
            with opened.begun(relaxed=False) as connection:  # usually all is there, and nobody's turn is waited for
                version = self.version_in(connection)
            if version is None:
                version = self._made()
            if version != tables.HEAD:
                from smolagents_memory.database.migrating import migrate

                migrate(self, version)
            self.note_identity()
            if seal is not None:
                with self.immediate() as connection:
                    alone(connection, "schema")
                    begin(connection, seal, opened.id, str(self))
                opened.begun_with.add(seal)
            opened.file = opened.file_now()
            opened.prepared = True

    def _made(self) -> str:
        with self.immediate() as connection:
            alone(connection, "schema")  # two first opens at once: the second waits here
            version = self.version_in(connection)
            if version is None:
                self._refuse_foreign_tables(connection)
                tables.metadata.create_all(connection)
                stamp(connection)
                version = tables.HEAD
        return version

    @contextmanager
    def immediate(self) -> Iterator[Connection]:
        """A transaction that writes, whatever schema is there."""
        with self.opened.begun(relaxed=False, immediate=True) as connection:
            yield connection

    def note_identity(self) -> None:
        """Read the place's random id, and whether it is of a newer package after all."""
        with self.opened.begun(relaxed=False) as connection:
            self.version_in(connection)
            self.opened.id = self.place_id(connection)

    def place_id(self, connection: Connection) -> str:
        """The place's random id."""
        about = tables.about.c
        return connection.execute(select(about.value).where(about.name == "place")).scalar() or ""

    def _refuse_foreign_tables(self, connection: Connection) -> None:
        theirs = sorted(tables.metadata.tables.keys() & set(inspect(connection).get_table_names()))
        if theirs:
            raise self.faults.not_ours(
                f"{self} has a table {theirs[0]!r} that smolagents-memory did not make. Nothing was changed: keep "
                "sessions and memories in a database of their own"
            )

    def version_in(self, connection: Connection) -> str | None:
        """The schema that is there: None for nothing of ours, "" for memories alone, as 0.1.0 made them."""
        there = inspect(connection)
        version, memories = None, there.has_table(tables.about.name)
        if there.has_table(tables.VERSION_TABLE):
            version = connection.execute(text(f"SELECT version_num FROM {tables.VERSION_TABLE}")).scalar() or ""
        if memories:
            about = tables.about.c
            schema = connection.execute(select(about.value).where(about.name == "schema")).scalar()
            if not str(schema or 0).isdecimal():
                raise self.faults.unavailable(f"{self} is damaged: it names {brief(schema)} as its schema")
            self._refuse_newer(int(schema or 0) > tables.MEMORY_SCHEMA, f"{schema} of memories")
        self._refuse_newer((version or "") > tables.HEAD, version)
        return "" if version is None and memories else version

    def _refuse_newer(self, newer: bool, found: str | None) -> None:
        if newer:
            raise NewerSchemaError(
                f"{self} has schema {found}, made by a newer version of smolagents-memory; this one knows up to "
                f"{tables.HEAD}. Nothing was changed: pip install -U smolagents-memory"
            )

    def version(self) -> str | None:
        """The schema that is there, without changing it."""
        with self.faults_named("read"), self.opened.begun(relaxed=False) as connection:
            return self.version_in(connection)


def alone(connection: Connection, what: str, *, shared: bool = False) -> None:
    """Wait until no other transaction works at the same, or none that does not share it; SQLite has one writer."""
    if connection.dialect.name == "postgresql":
        key = hashlib.blake2b(f"smolagents_memory {what}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        lock = text(f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}(:key)")
        connection.execute(lock, {"key": int.from_bytes(key, "big", signed=True)})


def stamp(connection: Connection) -> None:
    """Say which schema is there, and which place it is."""
    connection.execute(text(f"CREATE TABLE {tables.VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text(f"INSERT INTO {tables.VERSION_TABLE} VALUES (:head)"), {"head": tables.HEAD})
    about = {"schema": str(tables.MEMORY_SCHEMA), "bank": secrets.token_hex(8), "place": secrets.token_hex(16)}
    connection.execute(insert(tables.about), [{"name": name, "value": value} for name, value in about.items()])
    connection.execute(insert(tables.changes).values(id=1, last=0))
