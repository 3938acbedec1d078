"""The whole database: purging it to the last byte, copying it, putting a copy back."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, text
from sqlalchemy.exc import ProgrammingError

from smolagents_memory._errors import NewerSchemaError, SessionStorageError
from smolagents_memory._log import logger
from smolagents_memory.database import tables
from smolagents_memory.database.contents import delete_orphans
from smolagents_memory.database.engine import Database
from smolagents_memory.database.migrating import backup_paths, copy_sqlite


_ROWS = 500  # in one statement
_PATIENCE = 5  # seconds to wait for readers


def purge(database: Database) -> None:
    """Leave no byte of what was deleted."""
    with database.writing() as connection:
        delete_orphans(connection)
    if database.path is not None:
        _purge_sqlite(database, database.path)
    elif not database.sqlite:
        with (
            database._faults_named("purged"),
            database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        ):
            _purge_postgres(database, connection)


def _purge_postgres(database: Database, connection: Connection) -> None:
    """Write the tables anew. The server's log is the server's own: it is left behind as far as we may."""
    _wait_for_readers(database, connection)
    connection.execute(text(f"SET lock_timeout = {1000 * _PATIENCE}"))
    for table in tables.metadata.sorted_tables:
        connection.execute(text(f"VACUUM FULL {table.name}"))
    kept = connection.execute(text("SHOW wal_recycle")).scalar() == "on"
    for statement in ("SELECT pg_switch_wal()", "CHECKPOINT"):
        try:
            connection.execute(text(statement))
        except ProgrammingError:  # not permitted to this user
            kept = True
    if kept:
        logger.warning(
            "%s: the tables are purged, but the server's own write-ahead log may hold bytes of what was deleted until "
            "it writes over them (with wal_recycle=off and a superuser purge() removes that log as well); archives, "
            "replicas and backups of the server are beyond its reach",
            database,
        )


def _wait_for_readers(database: Database, connection: Connection) -> None:
    """Rows stay in the tables for as long as somebody has a transaction that began before they were deleted."""
    now = connection.execute(text("SELECT CAST(pg_current_xact_id() AS text)")).scalar_one()
    earlier = text(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() "
        "AND age(backend_xmin) > age(CAST(CAST(:now AS xid8) AS xid))"
    )
    deadline = time.monotonic() + _PATIENCE
    while connection.execute(earlier, {"now": now}).scalar_one():
        if time.monotonic() > deadline:
            raise _prevented(database, "a transaction that began earlier is still open")
        time.sleep(0.05)


def _purge_sqlite(database: Database, path: Path) -> None:
    for copy in backup_paths(path):
        _erase(copy)
    database.close()  # our own idle connections must not be the reader that prevents it
    with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA secure_delete=ON")
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.OperationalError as error:
            raise _prevented(database, str(error)) from error
        except sqlite3.DatabaseError as error:
            raise SessionStorageError(f"{database} could not be purged: {error}") from error
    if busy:
        raise _prevented(database, "a reader still needs the log")


def _prevented(database: Database, why: str) -> SessionStorageError:
    return SessionStorageError(
        f"{database} could not be purged ({why}): somebody else has it open, and bytes of what was deleted may be "
        "left. The sessions are deleted; purge again when it is closed"
    )


def _erase(path: Path) -> None:
    """Overwrite a file, then remove it."""
    with path.open("r+b") as target:
        left = path.stat().st_size
        while left > 0:
            left -= target.write(bytes(min(left, 1 << 20)))
        target.flush()
        os.fsync(target.fileno())
    path.unlink()
    logger.info("erased %s, a copy from before a migration", path)


def backup(database: Database, path: Path) -> Path:
    """Copy a database into one SQLite file that replaces `path` when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    try:
        database.prepare()
        if database.path is not None:
            copy_sqlite(database.path, partial)
        else:
            target = Database.at(f"sqlite:///{partial}")
            with database.reading() as source, target.writing() as copy:
                _copy_rows(source, copy)
            target.close()
        with closing(sqlite3.connect(partial)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")  # one file, nothing beside it
        os.replace(partial, path)
    except sqlite3.Error as error:
        raise SessionStorageError(
            f"{database} could not be backed up to {path}: {error}; {path} is as it was"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return path


def restore_backup(database: Database, path: Path) -> None:
    """Make a database what a backup holds."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no backup {str(path)!r}")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute(f"SELECT version_num FROM {tables.VERSION_TABLE}").fetchone()
            whole = connection.execute("PRAGMA quick_check").fetchone()[0]
    except sqlite3.Error as error:
        raise SessionStorageError(f"{path} is no backup of sessions ({error}); {database} is as it was") from error
    if whole != "ok":
        raise SessionStorageError(f"{path} is damaged ({whole}); {database} is as it was")
    if found is None or found[0] > tables.HEAD:
        raise NewerSchemaError(f"{path} was made by a newer smolagents-memory; {database} is as it was")
    database.prepare()
    if found[0] == tables.HEAD:
        source = Database.at(f"sqlite:///{path}")
        with source.reading() as origin, database.writing() as target:
            for table in reversed(tables.metadata.sorted_tables):
                target.execute(delete(table))
            _copy_rows(origin, target)
            _go_on_counting(target)
        source.close()
        return
    raise SessionStorageError(
        f"{path} has the older schema {found[0]}: open it once with SessionManager to migrate it"
    )


def _copy_rows(source: Connection, target: Connection) -> None:
    for table in tables.metadata.sorted_tables:
        for part in source.execute(select(table)).mappings().partitions(_ROWS):
            target.execute(insert(table), [dict(row) for row in part])


def _go_on_counting(connection: Connection) -> None:
    """Postgres numbers new rows from a counter of its own, which copied rows do not move."""
    if connection.dialect.name != "postgresql":
        return
    for table in ("sessions", "blobs"):
        connection.execute(
            text(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), COALESCE(MAX(id), 0) + 1, false) FROM {table}"
            )
        )
