"""Erasing a person: all rows in one transaction, then every byte of them, then a search that proves it.

Killed before that transaction ended, nothing was erased; killed after it, there is a mark in the place, which names
nobody: the next `erase`, of whomever, destroys what is left of the keys under a seal, purges and searches. So it may
be run again until it has come to its end.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, delete, select, text

from smolagents_memory._errors import SessionConflictError
from smolagents_memory._progress import progress
from smolagents_memory.database import tables
from smolagents_memory.database.deleted import keys_of_deleted, of_somebody
from smolagents_memory.database.engine import Database, alone
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.places import Place
from smolagents_memory.database.redacting import forget_redacted
from smolagents_memory.database.seal_state import renew
from smolagents_memory.database.sealed import of_scope, of_session
from smolagents_memory.people.key_manager import KeyManager
from smolagents_memory.people.needles import SHORTEST, Needles, forms
from smolagents_memory.people.proof import NAME, Found, Rows, Search, files_of, met_in
from smolagents_memory.people.samples import samples_of
from smolagents_memory.people.shredding import note, to_shred
from smolagents_memory.people.whose import Theirs, of_person, session_name
from smolagents_memory.privacy.sealing import PlaceKeys
from smolagents_memory.search.chroma_folder import CHROMA, chroma_folder
from smolagents_memory.search.purging import purge
from smolagents_memory.sessions import directory, leases
from smolagents_memory.stores.findable import drop_vectors, drop_words


_MARK = "erasing"  # in `memory_about`: something was deleted, and may still lie in the files
_BEYOND = (
    "stores of your own (Redis, Chroma by URL, what was given as long_term= or vector_store=): clear them yourself",
    "copies that you made: backups, exports, files of sessions; and what your programs logged",
)
_SERVERS = "the server's own write-ahead log, archives, replicas and backups: see SessionManager.purge"


@dataclass(frozen=True)
class Erasure:
    """What was erased of a person, and what a search of the place found afterwards; see `People.erase`.

    Attributes:
        user: Whom it was about.
        sessions: How many sessions were deleted, those of managed agents' calls included.
        memories: How many memories, archived ones included.
        scopes: In how many scopes.
        searched: The files and tables that were searched for the name, all ids and keys, and samples of the rest.
        left: What is still there though it should not be; empty when all is erased.
        elsewhere: Where the name, or a session's id, stands in what is not theirs. Nothing of it was changed.
        beyond: What was out of reach.

    >>> print(Erasure("ann"))
    nothing is kept of 'ann'
    """

    user: str
    sessions: int = 0
    memories: int = 0
    scopes: int = 0
    searched: tuple[str, ...] = ()
    left: tuple[Found, ...] = ()
    elsewhere: tuple[Found, ...] = ()
    beyond: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.searched:
            return f"nothing is kept of {self.user!r}"
        kept = f"{_many(self.sessions, 'session', 's')} and {_many(self.memories, 'memor', 'ies', 'y')}"
        found = f"{_many(len(self.left), 'trace', 's')} left" if self.left else "a search found nothing that is left"
        others = f", and {_many(len(self.elsewhere), 'trace', 's')} in what is not theirs" if self.elsewhere else ""
        return f"erased of {self.user!r}: {kept}; {found}{others}"


def _many(count: int, noun: str, more: str, one: str = "") -> str:
    return f"{count} {noun}{one if count == 1 else more}"


def erase(database: Database, user: str) -> Erasure:
    """Erase all that is kept of a person, and prove it."""
    with database.reading() as connection:
        theirs = of_person(connection, user)
        left = _keys_left(connection, user)
        if not theirs and not left and not _is_marked(connection):
            return Erasure(user)
        samples = samples_of(connection, theirs)
    named = dict.fromkeys(forms(user), NAME)
    done = _deleted(database, user) if theirs or left else Erasure(user)
    _shred(database)
    leases.sweep(database)
    purge(database)
    search = _search(database, Needles({**samples, **named}))
    with database.reading() as connection:
        _look_for_rows(connection, theirs, search)
    waiting = _waiting_for_chroma(database)
    if waiting:
        search.left[Found("vectors", waiting)] = None
    if not search.left:
        _unmark(database)
    return replace(
        done,
        searched=tuple(search.looked),
        left=tuple(search.left),
        elsewhere=tuple(search.elsewhere),
        beyond=_beyond(database, search, short=not named),
    )


def _deleted(database: Database, user: str) -> Erasure:
    """Delete all rows of a person, or none: while somebody writes to one of the sessions, none."""
    with database.writing() as connection:
        alone(connection, "memories")
        theirs = of_person(connection, user)
        for row in theirs.sessions:
            _refuse_written(database, connection, row)
        note(connection, _MARK, "1")
        scopes = [envelope_of(connection).read_scope(row.name) for row in theirs.scopes]
        if theirs.sessions:
            directory.remove(connection, *theirs.numbers)
        memories = sum(_clear(connection, row.id) for row in theirs.scopes)
        for scope in scopes:
            forget_redacted(connection, scope)
        _note_keys(connection, theirs)
    return Erasure(user, len(theirs.sessions), memories, len(theirs.scopes))


def _refuse_written(database: Database, connection: Connection, row: Any) -> None:
    name = session_name(connection, row)
    now = directory.find_to_write(connection, name)
    if now is not None and leases.is_alive(database, connection, now):
        writer = leases.describe(now.writer)
        raise SessionConflictError(
            f"session {name!r} is being written by process {writer.get('process')} on {writer.get('host')}, and "
            "nothing was erased: detach it there, then erase again"
        )


def _note_keys(connection: Connection, theirs: Theirs) -> None:
    """Under a seal: note that a person's keys go with these rows."""
    envelope = envelope_of(connection)
    if envelope.sealed is not None:
        renew(connection, envelope.sealed)  # whoever has the place open lets go of the keys that it knows
        owners = [of_session(session_name(connection, row)) for row in theirs.sessions]
        owners += [of_scope(envelope.read_scope(row.name)) for row in theirs.scopes]
        to_shred(connection, cast(PlaceKeys, envelope.sealed.keys), owners, theirs.user)


def _keys_left(connection: Connection, user: str) -> bool:
    """Under a seal: whether there are keys of what was deleted of a person before, without which no backup is read."""
    sealed = envelope_of(connection).sealed
    return sealed is not None and bool(keys_of_deleted(connection, sealed.keys, [of_somebody(user)]))


def _shred(database: Database) -> None:
    """Under a seal: destroy the keys that are to go, also those of one who was killed before."""
    if database.place.seal is not None:
        KeyManager(database.place).end_shredding()


def _clear(connection: Connection, scope: int) -> int:
    """Delete all memories of a scope, all that they were found by, and its name; how many memories that was."""
    items = tables.items.c
    ids = list(connection.scalars(select(items.id).where(items.scope_id == scope)))
    for some in chunks(ids):
        live = select(items.id, items.words).where(items.id.in_(some), items.archived.is_(None))
        drop_words(connection, scope, [(row.id, row.words) for row in connection.execute(live)])
    drop_vectors(connection, ids)
    for table in (tables.vectors, tables.labels, tables.items, tables.recalls, tables.sources):
        connection.execute(delete(table).where(table.c.scope_id == scope))
    connection.execute(delete(tables.scopes).where(tables.scopes.c.id == scope))
    return len(ids)


# -- the mark ------------------------------------------------------------------------------------------------------


def _is_marked(connection: Connection) -> bool:
    about = tables.about.c
    return connection.execute(select(about.name).where(about.name == _MARK)).first() is not None


def _unmark(database: Database) -> None:
    with database.writing() as connection:
        alone(connection, "memories")
        connection.execute(delete(tables.about).where(tables.about.c.name == _MARK))


# -- the proof -----------------------------------------------------------------------------------------------------


def _search(database: Database, needles: Needles) -> Search:
    """Look for what was erased: in the files first, so that what rows have by then is known when these are read."""
    search, place = Search(needles), database.place
    met = _met(place, needles)
    chroma = _chroma(place)
    in_chroma = [path for path, found in met.items() if found and chroma in path.parents]
    if in_chroma and chroma_folder(chroma).purge():  # its files hold whatever lay in memory beside the vectors
        met = {path: found for path, found in met.items() if chroma not in path.parents} | _met(chroma, needles)
    with database.reading() as connection:
        total = Rows(connection).count()
    with progress("Searching the rows", total, unit="rows") as advance:
        search.rows(database, advance)
    search.files(met.items())
    return search


def _met(place: Place | Path, needles: Needles) -> dict[Path, set[bytes]]:
    """What of it stands in each file of a place, or of a folder."""
    paths = files_of(place) if isinstance(place, Place) else [path for path in place.rglob("*") if path.is_file()]
    sizes = sum(path.stat().st_size for path in paths if path.exists())
    with progress("Searching the files", sizes >> 20, unit="MB") as advance:
        counted = _Megabytes(advance)
        return {path: met_in(path, needles, counted) for path in paths}


def _chroma(place: Place) -> Path:
    return Path(os.path.realpath(str(place.path))).parent / CHROMA


class _Megabytes:
    """Counts bytes for a bar of megabytes."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance, self._bytes = advance, 0

    def __call__(self, done: int) -> None:
        before, self._bytes = self._bytes, self._bytes + done
        self._advance((self._bytes >> 20) - (before >> 20))


def _look_for_rows(connection: Connection, theirs: Theirs, search: Search) -> None:
    """Look for what belongs to a person's scopes by their numbers, to no session, and for words of no memory."""
    scopes = [row.id for row in theirs.scopes]
    for table in (tables.items, tables.labels, tables.sources, tables.vectors, tables.recalls):
        for some in chunks(scopes):
            if connection.execute(select(table.c.scope_id).where(table.c.scope_id.in_(some))).first():
                search.left[Found("rows", f"the table {table.name}")] = None
    there = select(tables.sessions.c.id)  # by now another one may have a number that was theirs
    for table in (tables.records, tables.journal, tables.runs, tables.session_blobs):
        if connection.execute(select(table.c.session).where(table.c.session.not_in(there))).first():
            search.left[Found("rows", f"the table {table.name}")] = None
    number = "rowid" if connection.dialect.name == "sqlite" else "item_id"
    lost = text(f"SELECT 1 FROM memory_words WHERE {number} NOT IN (SELECT id FROM memory_items) LIMIT 1")
    if connection.execute(lost).first():
        search.left[Found("words", "the table memory_words")] = None


def _waiting_for_chroma(database: Database) -> str:
    """Where another process has Chroma's folder and is asked to throw its files away: what is to be said of that."""
    if database.path is None or not Path(f"{(folder := _chroma(database.place))}.purge").exists():
        return ""
    return f"{folder}, which another process has: it goes when that recalls something, or ends. Erase again then"


def _beyond(database: Database, search: Search, *, short: bool) -> tuple[str, ...]:
    told = [*_BEYOND, *([] if database.sqlite else [_SERVERS])]
    if short:
        told.append(f"a name of fewer than {SHORTEST} characters stands everywhere by chance: it was not searched for")
    if search.needles.too_short:
        told.append(f"{search.needles.too_short} ids and keys are too short to be searched for")
    return tuple(told)
