"""The whole place, sessions and memories: purging it to the last byte, copying it, putting a copy back."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, delete, func, insert, select, text, union, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import ProgrammingError

from smolagents_memory._errors import DecodeError, NewerSchemaError, SealError, SmolagentsMemoryError
from smolagents_memory._files import replacing
from smolagents_memory._log import logger
from smolagents_memory.database import tables
from smolagents_memory.database.belongings import refuse_databases_in_use
from smolagents_memory.database.contents import delete_orphans
from smolagents_memory.database.copies import erase_copies, noted, passing, refuse_own_files
from smolagents_memory.database.deleted import Gone, note_deleted
from smolagents_memory.database.direct import opened_directly
from smolagents_memory.database.engine import Database, alone
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.migrating import copy_sqlite
from smolagents_memory.database.places import Place
from smolagents_memory.database.scopes import scope_of, user_of
from smolagents_memory.database.sealed import of_scope


_ROWS = 500  # in one statement
_LARGEST = 200_000  # characters of words: a tsvector takes a megabyte
_PATIENCE = 5  # seconds to wait for readers
_ATTEMPTS = 5  # to copy a file while nobody writes to it


def purge(database: Database) -> None:
    """Leave no byte of what was deleted."""
    with _told_soon(database), database.writing(wait=_PATIENCE) as connection:
        alone(connection, "memories")
        delete_orphans(connection)
        _forget_empty_scopes(connection)
        drop_lost_labels(connection)
        used = select(tables.items.c.source_id).where(tables.items.c.source_id.is_not(None))
        connection.execute(delete(tables.sources).where(tables.sources.c.id.not_in(used)))
        if database.sqlite:  # deleted words stay in FTS5's segments until these are merged
            connection.exec_driver_sql("INSERT INTO memory_words(memory_words) VALUES ('optimize')")
    with database.faults_named("purged"):
        erase_copies(database.place)
    if database.path is not None:
        _purge_sqlite(database, database.path)
    elif not database.sqlite:
        with (
            _told_soon(database),
            database.faults_named("purged"),
            database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        ):
            _purge_postgres(database, connection)


def _forget_empty_scopes(connection: Connection) -> None:
    """A scope that holds nothing any more is a name, of a person maybe."""
    scopes = tables.scopes.c
    held = select(tables.items.c.id).where(tables.items.c.scope_id == scopes.id)
    empty = (scopes.name != "") & ~held.exists()
    names = {row.id: row.name for row in connection.execute(select(scopes.id, scopes.name).where(empty))}
    note_deleted(connection, _gone(connection, names.values()))
    for some in chunks(list(names)):
        connection.execute(delete(tables.recalls).where(tables.recalls.c.scope_id.in_(some)))
        connection.execute(delete(tables.scopes).where(scopes.id.in_(some)))


def _gone(connection: Connection, names: Iterable[str]) -> Iterator[Gone]:
    envelope = envelope_of(connection)
    for name in names:
        with suppress(DecodeError, SealError):  # a damaged name is nobody's
            read = envelope.read_scope(name)
            yield Gone([of_scope(read)], user_of(scope_of(read)))


def drop_lost_labels(connection: Connection) -> None:
    """Those of no memory, if there are any: of one that was damaged it is not known which it had."""
    labels = tables.labels.c
    held = select(tables.items.c.id).where(tables.items.c.id == labels.item_id)
    connection.execute(delete(tables.labels).where(~held.exists()))


@contextmanager
def _told_soon(database: Database) -> Iterator[None]:
    """Whoever prevents a purge by a lock is named as one who reads the log is."""
    try:
        yield
    except database.faults.unavailable as error:
        if any(each in str(error) for each in ("database is locked", "lock timeout")):
            raise _prevented(database, "a transaction of somebody else holds a lock") from error
        raise


def _purge_postgres(database: Database, connection: Connection) -> None:
    """Write the tables anew. The server's log is the server's own: it is left behind as far as we may."""
    _wait_for_readers(database, connection)
    connection.execute(text(f"SET lock_timeout = {1000 * _PATIENCE}"))
    try:
        for name in [*tables.metadata.tables, "memory_words"]:
            connection.execute(text(f"VACUUM FULL {name}"))
    finally:  # the next one who has this connection has the patience of all
        connection.execute(text("RESET lock_timeout"))
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
    database.close()  # our own idle connections must not be the reader that prevents it
    with opened_directly(path, timeout=_PATIENCE, isolation_level=None) as connection:
        try:
            connection.execute("PRAGMA secure_delete=ON")
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.OperationalError as error:
            raise _prevented(database, str(error)) from error
        except sqlite3.DatabaseError as error:
            raise database.faults.unavailable(f"{database} could not be purged: {error}") from error
    if busy:
        raise _prevented(database, "a reader still needs the log")


def _prevented(database: Database, why: str) -> SmolagentsMemoryError:
    return database.faults.unavailable(
        f"{database} could not be purged ({why}): somebody else has it open, and bytes of what was deleted may be "
        "left. What was deleted is deleted; purge again when it is closed"
    )


def backup(database: Database, path: Path) -> Path:
    """Copy a database into one SQLite file that replaces `path` when it is whole."""
    path = Path(os.path.realpath(path))
    refuse_own_files(database.place, path)
    refuse_databases_in_use(path)
    try:
        with replacing(path, lambda partial: noted(database.place, partial)) as partial:
            database.prepare()
            if database.path is not None:
                copy_sqlite(database.path, partial)
            else:
                target = _file(database, partial)
                with database.reading() as source, target.writing() as copy:
                    _replace_rows(source, copy)
                target.close()
            with opened_directly(partial) as connection:
                connection.execute("PRAGMA journal_mode=DELETE")  # one file, nothing beside it
            refuse_databases_in_use(path)  # somebody may have opened it meanwhile
    except (sqlite3.Error, OSError) as error:
        raise database.faults.unavailable(
            f"{database} could not be backed up to {path}: {error}; {path} is as it was"
        ) from error
    return path


def restore_backup(database: Database, path: Path) -> None:
    """Make a database what a backup holds. An older one is brought to the newest schema in a copy of it."""
    refuse_own_files(database.place, path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no backup {str(path)!r}")
    with passing(database.place) as copied:
        _checked_copy(database, path, copied)
        origin = _file(database, copied)
        try:
            origin.prepare()
        except NewerSchemaError as error:
            raise NewerSchemaError(f"{path} was made by a newer smolagents-memory; {database} is as it was") from error
        with origin.reading() as source, database.writing() as target:
            database.check_seal(source, str(path))
            before = _indexed(target)
            try:
                _replace_rows(source, target)
            except (TypeError, ValueError, OverflowError) as error:  # SQLite keeps any kind of value anywhere
                raise database.faults.not_ours(f"{path} is damaged ({error}); {database} is as it was") from error
            _renumber(target, *before)
        origin.close()
    database.close()  # the next use reads which place it is now


def _file(database: Database, path: Path) -> Database:
    return Database(Place(URL.create("sqlite", database=str(path))), database.faults, as_it_lies=True)


def _checked_copy(database: Database, path: Path, copied: Path) -> None:
    """A copy of a backup's bytes: SQLite would write into what it opens, were it only to tidy up."""
    try:
        _copy_bytes(database, path, copied)
        with opened_directly(copied) as connection:
            ours = connection.execute(
                "SELECT count(*) FROM sqlite_master WHERE name IN (?, ?)", (tables.VERSION_TABLE, tables.about.name)
            ).fetchone()[0]
            whole = connection.execute("PRAGMA quick_check").fetchone()[0]
    except (sqlite3.Error, OSError) as error:
        raise database.faults.not_ours(f"{path} is no backup of ours ({error}); {database} is as it was") from error
    if not ours or whole != "ok":
        what = f"is damaged ({whole})" if ours else "is no backup of ours"
        raise database.faults.not_ours(f"{path} {what}; {database} is as it was")


def _copy_bytes(database: Database, path: Path, copied: Path) -> None:
    """Of a database in use, too, as it was at one moment: what SQLite keeps beside it belongs to it."""
    for _ in range(_ATTEMPTS):
        before = _as_it_is(path)
        for suffix in ("", "-wal", "-journal"):
            part = Path(f"{copied}{suffix}")
            if suffix:  # the copy itself is locked, and stays the file that it is
                part.unlink(missing_ok=True)
            if Path(f"{path}{suffix}").is_file():
                shutil.copyfile(f"{path}{suffix}", part)
        if _as_it_is(path) == before:
            return
    raise database.faults.unavailable(
        f"{path} is being written to all the time; {database} is as it was: make a copy of it with backup(), and "
        "restore that"
    )


def _as_it_is(path: Path) -> list[tuple[int, int]]:
    found = (Path(f"{path}{suffix}") for suffix in ("", "-wal", "-journal"))
    return [(each.stat().st_mtime_ns, each.stat().st_size) for each in found if each.exists()]


def _replace_rows(source: Connection, target: Connection) -> None:
    """Make one database hold what the other holds. The full text is made anew from the words."""
    alone(target, "memories")
    _forget_words(target)
    for table in reversed(tables.metadata.sorted_tables):
        target.execute(delete(table))
    for table in tables.metadata.sorted_tables:
        for part in source.execute(select(table)).mappings().partitions(_ROWS):
            target.execute(insert(table), [dict(row) for row in part])
    _index_words(target)
    _go_on_counting(target)


def _indexed(connection: Connection) -> tuple[int, set[int]]:
    """The number of the last change, and the scopes of which processes may have made indexes."""
    known = (tables.scopes.c.id, tables.vectors.c.scope_id, tables.gone.c.scope_id)
    scopes = union(*(select(column) for column in known))
    return int(connection.execute(select(tables.changes.c.last)).scalar() or 0), set(connection.scalars(scopes))


def _renumber(connection: Connection, last: int, scopes: set[int]) -> None:
    """Make every vector new, and say of all that was there before that it is left out: indexes are made anew."""
    now, restored = _indexed(connection)
    first = max(last, now)
    vectors = tables.vectors
    connection.execute(update(vectors).values(id=vectors.c.id + first))
    first *= 2
    connection.execute(delete(tables.gone))
    rows = [
        {"id": first + number, "scope_id": scope, "vector_id": tables.LEFT_OUT}
        for number, scope in enumerate(sorted(scopes | restored), 1)
    ]
    for start in range(0, len(rows), _ROWS):
        connection.execute(insert(tables.gone), rows[start : start + _ROWS])
    connection.execute(update(tables.changes).values(last=first + len(rows)))


def _forget_words(connection: Connection) -> None:
    sqlite = "INSERT INTO memory_words(memory_words) VALUES ('delete-all')"
    connection.exec_driver_sql(sqlite if connection.dialect.name == "sqlite" else "DELETE FROM memory_words")


def index_words_anew(connection: Connection) -> None:
    """Make the full text from the words, and count them."""
    _forget_words(connection)
    _index_words(connection)
    count_words(connection)


def count_words(connection: Connection) -> None:
    """How many memories each scope has, and how many words."""
    items, scopes = tables.items.c, tables.scopes
    theirs = (items.scope_id == scopes.c.id, items.archived.is_(None))
    live = select(func.count()).where(*theirs).scalar_subquery()
    words = select(func.coalesce(func.sum(items.word_count), 0)).where(*theirs).scalar_subquery()
    connection.execute(update(scopes).values(live=live, words=words))


def _index_words(connection: Connection) -> None:
    """As `search/full_text.py` does it one by one: each word with the number of its scope in front."""
    scoped = "scope_id || 'z' || replace(words, ' ', ' ' || scope_id || 'z')"
    here = "FROM memory_items WHERE archived IS NULL AND words <> ''"
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"INSERT INTO memory_words(rowid, words) SELECT id, {scoped} {here}")
    else:
        words = f"array_to_tsvector(string_to_array(left({scoped}, {_LARGEST}), ' '))"
        connection.exec_driver_sql(f"INSERT INTO memory_words (item_id, words) SELECT id, {words} {here}")


def _go_on_counting(connection: Connection) -> None:
    """Postgres numbers new rows from a counter of its own, which copied rows do not move."""
    if connection.dialect.name != "postgresql":
        return
    for table in ("sessions", "blobs"):
        last = f"pg_get_serial_sequence('{table}', 'id'), COALESCE(MAX(id), 0) + 1, false"
        connection.execute(text(f"SELECT setval({last}) FROM {table}"))
