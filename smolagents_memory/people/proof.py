"""Looking for what was erased: in the bytes of a place's files, and in every row of its database."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, func, select, text

from smolagents_memory._errors import SmolagentsMemoryError
from smolagents_memory._forks import Lock
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import Envelope, as_key, envelope_of
from smolagents_memory.database.places import Place
from smolagents_memory.database.scopes import scope_of
from smolagents_memory.database.sealed import Spot
from smolagents_memory.people.needles import Needles
from smolagents_memory.people.whose import session_name
from smolagents_memory.search.chroma_folder import CHROMA
from smolagents_memory.stores.records import ScopeInfo
from smolagents_memory.stores.rows import read_key


NAME, ID = NAMES = "the name", "the id of a session"  # by which a person is known; texts and keys may be like others'
_MOST = 1000  # places that a report names
_TOGETHER = 1 << 22  # bytes of rows that are looked through at once
_BETWEEN = b"\xff\0\xff\0"  # in no text
_ENVELOPES = {  # the columns that are envelopes, by their tables
    "sessions": ("agent", "labels"),
    "session_records": ("fields", "inputs"),
    "session_journal": ("changes",),
    "session_runs": ("details",),
    "blobs": ("data",),
    "memory_items": ("value", "meta", "made_of"),
}


@dataclass(frozen=True)
class Found:
    """Something of a person that was erased, and where it was met. What it says is not repeated.

    >>> print(Found("the name", "session 'bob-1'"))
    the name in session 'bob-1'
    """

    what: str
    where: str

    def __str__(self) -> str:
        return f"{self.what} in {self.where}"


@dataclass
class Search:
    """What a search looked through, and what it met: names in rows, and anything in files though no row has it."""

    needles: Needles
    looked: list[str] = field(default_factory=list)
    elsewhere: dict[Found, None] = field(default_factory=dict)
    left: dict[Found, None] = field(default_factory=dict)
    known: set[bytes] = field(default_factory=set)  # those that rows have

    def rows(self, database: Database, advance: Callable[[int], Any]) -> None:
        """Look through every row."""
        with database.reading() as connection:
            if database.sqlite:  # the names of tables stand in the file as well
                schema = connection.execute(text("SELECT sql FROM sqlite_master")).scalars()
                self.known |= self.needles.within(" ".join(map(str, schema)).encode())
            rows = Rows(connection)
            for table in tables.metadata.sorted_tables:
                self.looked.append(table.name)
                waiting, size = list[tuple[Any, bytes]](), 0
                for row in rows.of(table):
                    waiting.append((row, rows.contents(table, row)))
                    advance(1)
                    size += len(waiting[-1][1])
                    if size > _TOGETHER:
                        self._among(rows, table, waiting)
                        size = 0
                self._among(rows, table, waiting)

    def _among(self, rows: Rows, table: Table, waiting: list[tuple[Any, bytes]]) -> None:
        """What of it stands in some rows: in all of them together, and only if so in each."""
        found = self.needles.within(_BETWEEN.join(content for _, content in waiting))
        self.known |= found
        telling = [(needle, what) for needle in found if (what := self.needles.told[needle]) in NAMES]
        for row, content in waiting if telling else ():
            for needle, what in telling:
                if needle in content and len(self.elsewhere) < _MOST:
                    self.elsewhere[Found(what, rows.named(table, row))] = None
        waiting.clear()

    def files(self, met: Iterable[tuple[Path, set[bytes]]]) -> None:
        """What was met in files, and no row has."""
        for path, found in met:
            self.looked.append(str(path))
            for needle in found - self.known:
                self.left[Found(self.needles.told[needle], f"the file {path}")] = None


class Rows:
    """The rows of a place: what they say, out of their envelopes, and what they are."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._envelope = connection, envelope_of(connection)
        sessions, scopes = tables.sessions.c, tables.scopes.c
        named = connection.execute(select(sessions.id, sessions.name)).all()
        self._sessions = {row.id: session_name(connection, row) for row in named}
        held = connection.execute(select(scopes.id, scopes.name)).all()
        self._scopes = {row.id: self._envelope.read_scope(row.name) for row in held}

    def count(self) -> int:
        """How many there are."""
        return sum(
            int(self._connection.execute(select(func.count()).select_from(table)).scalar() or 0)
            for table in tables.metadata.sorted_tables
        )

    def of(self, table: Table) -> Iterator[Any]:
        """Those of a table, read as they are asked for."""
        return iter(self._connection.execute(select(table).execution_options(yield_per=200)))

    def contents(self, table: Table, row: Any) -> bytes:
        """All bytes and texts of a row, as they lie there and as they are read."""
        said = [_bytes(value) for value in row if isinstance(value, (str, bytes, memoryview))]
        spots = ((column, self._spot(table.name, row, column)) for column in _ENVELOPES.get(table.name, ()))
        said += [_opened(self._envelope, getattr(row, column), spot) for column, spot in spots]
        if self._envelope.sealed is not None:
            said += self._names(table, row)
        return _BETWEEN.join(said)

    def _names(self, table: Table, row: Any) -> list[bytes]:
        """Names that lie there sealed."""
        if table is tables.sessions:
            return [as_key(self._sessions[row.id])]
        if table is tables.items:
            return [as_key(self._key(row))]
        if table is tables.sources:
            return [as_key(read_key(self._envelope, self._scopes.get(row.scope_id, ""), row.name, "source")[0])]
        return [as_key(self._scopes[row.id])] if table is tables.scopes else []

    def _spot(self, table: str, row: Any, column: str) -> Spot:
        if table == "memory_items":
            return Spot(table, self._scopes.get(row.scope_id, ""), self._key(row), column)
        if table == "blobs":
            return Spot(table, self._owner_of_blob(row), bytes(row.name).hex(), column)
        if table == "sessions":
            return Spot(table, self._sessions.get(row.id, ""), "", column)
        key = row.revision if table == "session_journal" else row.number
        return Spot(table, self._sessions.get(row.session, ""), key, column)

    def _owner_of_blob(self, row: Any) -> str:
        linked = tables.session_blobs.c
        first = select(linked.session).where(linked.blob == row.id).limit(1)
        return self._sessions.get(int(self._connection.execute(first).scalar() or 0), "")

    def _key(self, row: Any) -> str:
        return read_key(self._envelope, self._scopes.get(row.scope_id, ""), row.key)[0]

    def named(self, table: Table, row: Any) -> str:
        """What a person calls a row."""
        if table.name.startswith("session"):
            return f"session {self._sessions.get(row.id if table is tables.sessions else row.session)!r}"
        if table is tables.blobs:
            return f"session {self._owner_of_blob(row)!r}"
        if "scope_id" in table.c:
            scope = ScopeInfo(scope_of(self._scopes.get(row.scope_id, "")), 0).named
            return f"the memory {self._key(row)!r} of {scope}" if "key" in table.c else f"memories of {scope}"
        return f"the table {table.name}"


def _opened(envelope: Envelope, value: Any, spot: Spot) -> bytes:
    """What is in an envelope. One that is damaged was looked through as it lies there."""
    try:
        return b"" if value is None else envelope.unpack_bytes(value, spot)
    except SmolagentsMemoryError:
        return b""


def _bytes(value: Any) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


# -- files ---------------------------------------------------------------------------------------------------------

# SQLite's files, by what they are: to close one would take this process's locks on it away, whoever has them
_kept_open: dict[tuple[int, int], int] = {}
_lock = Lock()


def files_of(place: Place) -> list[Path]:
    """The files of a place, its logs and notes and unfinished copies, and those of Chroma's folder."""
    if place.path is None:
        return []
    path = Path(os.path.realpath(place.path))
    named = glob.escape(path.name)
    beside = [*path.parent.glob(f"{named}*"), *path.parent.glob(f".{named}*"), *path.parent.glob(f"{CHROMA}.*")]
    found = {*beside, *(path.parent / CHROMA).rglob("*")}
    return sorted(each for each in found if each.is_file() and not each.is_symlink())


def met_in(path: Path, needles: Needles, advance: Callable[[int], Any]) -> set[bytes]:
    """What of it stands in a file's bytes, and in its name; one that went meanwhile has nothing."""
    found = needles.within(os.fsencode(path.name))
    with _lock:
        try:
            handle = _opened_file(path)
        except OSError:
            return found
        try:
            return found | needles.within_parts(lambda size, offset: _read(handle, size, offset), advance)
        finally:
            _let_go(path, handle)


def _opened_file(path: Path) -> int:
    there = path.stat()
    kept = _kept_open.get((there.st_dev, there.st_ino))
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)) if kept is None else kept


def _read(handle: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(handle, size, offset)
    os.lseek(handle, offset, os.SEEK_SET)
    return os.read(handle, size)


def _let_go(path: Path, handle: int) -> None:
    """Close it, unless it is SQLite's; and those of SQLite's that are no more."""
    there = os.fstat(handle)
    if path.name.endswith("-shm") or _read(handle, 16, 0).startswith(b"SQLite format 3"):
        _kept_open[(there.st_dev, there.st_ino)] = handle
    else:
        os.close(handle)
    for key, kept in list(_kept_open.items()):
        if os.fstat(kept).st_nlink == 0:
            os.close(_kept_open.pop(key))
