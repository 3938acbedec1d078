"""What all memories on one path share in a process: the database, the embedder, the indexes."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from typing import Any

from sqlalchemy import Connection, func, select

from smolagents_memory._forks import Lock
from smolagents_memory.database import tables
from smolagents_memory.database.engine import MEMORIES, Database
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.ledger import check_rows
from smolagents_memory.search.chroma_folder import CHROMA, OWN_COLLECTION, chroma_folder
from smolagents_memory.search.embedding import Embedder, Vectors
from smolagents_memory.search.indexes import Indexes


_LOOKED_AT = 100  # memories without vectors
_open: weakref.WeakValueDictionary[tuple[Any, ...], Vault] = weakref.WeakValueDictionary()
_open_lock = Lock(threading.RLock)


def open_vault(where: Any, embedder: Embedder | None, *, own_collection: int = OWN_COLLECTION) -> Vault:
    """The one Vault for a place and embedder in this process; each memory in RAM has its own."""
    database = Database.at(where, faults=MEMORIES)
    vectors = Vectors(embedder) if embedder is not None else None
    database.prepare()
    if database.place.in_ram:
        return Vault(database, vectors, own_collection)
    place = database.place
    name = (place.key, place.durability, id(place.seal), vectors.name if vectors else "", own_collection)
    with _open_lock:
        vault = _open.get(name)
        if vault is None or not vault.serves(database):
            vault = _open[name] = Vault(database, vectors, own_collection)
        elif vault.vectors is not None and embedder is not None:
            vault.vectors.use(embedder)
        if vault.indexes is not None:
            vault.indexes.open_again()
        return vault


class Vault:
    """A database of memories with what searches its vectors. Closed when the process ends."""

    def __init__(self, database: Database, vectors: Vectors | None, own_collection: int) -> None:
        self.database, self.vectors = database, vectors
        self.process, self.file = os.getpid(), database.file
        self._users = 0
        self._users_lock = Lock()
        self.checked = False  # whether it was looked for memories without vectors
        self.reembedding = self.owes = False
        self._whole = False
        self._whole_of = ""  # the place of which that is known
        self._look_again = 0.0
        self.indexes: Indexes | None = None
        if vectors is not None:
            path = database.path
            sealed = database.place.seal is not None  # then no vector lies outside the database
            held = chroma_folder(path.parent / CHROMA) if path is not None and not sealed else None
            self.indexes = Indexes(database, vectors, held, own_collection)
            with database.reading() as connection:
                self.indexes.width(connection)
        _all.add(self)

    def serves(self, database: Database) -> bool:
        """Whether it is of this process, and made for what is now at that place."""
        return (self.process, self.database.opened, self.file) == (os.getpid(), database.opened, database.file)

    def missing(self, scope: int | None = None) -> int:
        """How many memories have no vectors of this vault's embedder (of one scope, or of all)."""
        if self.indexes is None:
            return 0
        with self.database.reading() as connection:
            current = self.indexes.embedder_id(connection)
            return _missing(connection, current, scope)

    def is_whole(self) -> bool:
        """Whether every memory has its vectors. While some have not, recall goes by words: nothing is mixed."""
        if self.reembedding:
            return False
        if not self._whole and time.monotonic() >= self._look_again:
            self._whole = self.missing() == 0
            self._look_again = time.monotonic() + 1.0
        return self._whole

    def owe(self) -> None:
        """Memories were written without vectors: they are embedded when that can be done, or at the next opening."""
        self.owes, self._whole, self.checked = True, False, False

    def embedded(self) -> None:
        """None are missing any more, as far as this process knows."""
        self.owes, self._look_again = False, 0.0

    def is_whole_in(self, connection: Connection) -> bool:
        """Whether that is so of the place that a connection leads to: another's backup may have been put back."""
        assert self.indexes is not None
        numbers = self.indexes.numbers(connection)
        if numbers.bank != self._whole_of:
            self._whole = not _missing(connection, numbers.embedder, None)
            self._whole_of = numbers.bank
        return self._whole

    def enter(self) -> None:
        """One more memory uses this vault."""
        with self._users_lock:
            self._users += 1

    def leave(self) -> None:
        """One memory less; the last one closes it, so that another process may have Chroma's folder."""
        with self._users_lock:
            self._users -= 1
            last = self._users <= 0
        if last:
            self.checked = False  # who opens it again looks anew
            self.close()

    def close(self) -> None:
        """Write what waits, let go of Chroma's folder and of the connections."""
        if self.process != os.getpid():
            return
        if self.indexes is not None:
            self.indexes.close()
        self.database.close()


def missing_statement(embedder: int | None, scope: int | None, statement: Any) -> Any:
    """`statement` restricted to the memories that have no vectors of an embedder."""
    items = tables.items.c
    if embedder is not None:
        statement = statement.where((items.embedder_id != embedder) | items.embedder_id.is_(None))
    return statement if scope is None else statement.where(items.scope_id == scope)


def _missing(connection: Connection, embedder: int | None, scope: int | None) -> int:
    """How many have none. Under a seal some of these are looked at: to recall by words would be another answer."""
    counted = missing_statement(embedder, scope, select(func.count(tables.items.c.id)))
    count = int(connection.execute(counted).scalar() or 0)
    if count and envelope_of(connection).sealed is not None:
        some = missing_statement(embedder, scope, select(tables.items.c.id, tables.items.c.scope_id)).limit(_LOOKED_AT)
        for row in connection.execute(some).all():
            check_rows(connection, row.scope_id, [row.id])
    return count


_all: weakref.WeakSet[Vault] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for vault in list(_all):
        vault.close()
