"""A Chroma collection made from the vectors in SQL: it can be lost or fall behind, and is made whole again."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from smolagents_memory._errors import StoreError
from smolagents_memory._files import write_whole
from smolagents_memory._forks import Lock
from smolagents_memory._log import logger
from smolagents_memory._progress import progress
from smolagents_memory.database import tables
from smolagents_memory.database.many import chunks, last_of
from smolagents_memory.search.chroma_folder import ChromaFolder
from smolagents_memory.search.chroma_state import live_in_sql, state_in
from smolagents_memory.search.exact import Floats, Heap, Rows, dropped, matrix_of, newer


FLUSH = 1000  # vectors that wait in RAM, searched exactly, before they go into Chroma together
BATCH = 2000
_PROBES = 5

_vectors = tables.vectors.c


class ChromaIndex:
    """The vectors of one scope in a Chroma collection, plus the newest ones in RAM.

    What Chroma holds is written down beside it after each flush, and what its files are; at opening that is compared,
    a few vectors are looked up, and what does not fit is made anew from SQL. Nothing is ever embedded again for it.
    """

    kind = "chroma"
    stays = False  # nothing it could stand in for

    def __init__(self, folder: ChromaFolder, bank: str, scope: int, embedder: int, dimensions: int) -> None:
        self.folder, self.bank = folder, bank
        self.scope, self.embedder, self.dimensions = scope, embedder, dimensions
        self.name = f"memory-{scope}-{embedder}"
        self.rebuilt = 0  # how often it had to be made anew: for tests and stats
        self._lock = Lock(threading.RLock)
        self._process = os.getpid()
        self._generation = folder.generation
        self._collection: Any = None
        self._held = 0  # vectors in the collection, since the last flush
        self._taken = 0  # vectors that it was ever given: what was deleted since is in Chroma's files still
        self._flushed = 0  # the change up to which Chroma is complete
        self._last = 0  # the change up to which Chroma, the tail and the dropped are, together
        self._tail = Heap()
        self._dropped: set[int] = set()

    # -- what an index does ------------------------------------------------------------------------------------

    def refresh(self, connection: Connection, last: int) -> None:
        """Take in what changed up to the change `last`, which is what `connection` sees."""
        with self._lock:
            self.folder.purge_if_asked()
            if self._collection is None or self._generation != self.folder.generation:
                self._open(connection)
            elif not self._state_file().exists():
                logger.warning("the Chroma folder %s was deleted: it is made anew from SQL", self.folder.path)
                self._rebuild(connection)
            if last <= self._last:
                return
            gone = dropped(connection, self.scope, self._last)
            if tables.LEFT_OUT in gone:  # it slept for long
                self._rebuild(connection)
                return
            self._tail = self._tail.changed(self._newer(connection), gone)
            self._dropped.update(gone)
            self._last = last
            if len(self._tail) >= FLUSH or len(self._dropped) >= FLUSH:
                self.flush()

    def best(self, connection: Connection, queries: Floats, limit: int) -> list[dict[int, float]]:
        """For each query the vectors nearest to it: number → cosine."""
        with self._lock:
            return self._tail.best(queries, limit, self._from_chroma(queries, limit))

    def __len__(self) -> int:
        return self._held + len(self._tail)

    @property
    def bytes(self) -> int:
        """What it takes in RAM of our own."""
        return self._tail.bytes

    def flush(self) -> None:
        """Write what waits in RAM into Chroma."""
        with self._lock:
            if self._collection is None or self._flushed == self._last:
                return
            if self._generation != self.folder.generation:  # it is made anew, with all that waits here
                return
            with self.folder.writing():
                for rows in self._tail.chunks:
                    self._upsert(rows)
                for ids in chunks([str(each) for each in sorted(self._dropped)], BATCH):
                    self._collection.delete(ids=ids)
                self._tail, self._dropped = Heap(), set()
                self._note(self._last)

    def close(self) -> None:
        """Flush, and let go of the collection; the folder is closed by whoever opened it."""
        with self._lock:
            if self._process == os.getpid() and self._state_file().exists():  # it may have been deleted meanwhile
                self.flush()
            self._collection = None

    def repair(self, connection: Connection, last: int) -> int:
        """Compare with SQL, and make the collection anew if it differs; how often that had to be done."""
        with self._lock:
            before = self.rebuilt
            self.refresh(connection, last)
            self.flush()
            state = self._state()
            whole = self._collection.count() == self._count_in_sql(connection) and self._is_whole(connection, state)
            if self.rebuilt == before and not whole:
                self._rebuild(connection)
            return self.rebuilt - before

    # -- opening -----------------------------------------------------------------------------------------------

    def _open(self, connection: Connection) -> None:
        reason = ""
        try:
            client = self.folder.client()
            state = self._state()
            self._generation = self.folder.generation
            there = self.name in [getattr(each, "name", each) for each in client.list_collections()]
            if state or there:
                self._collection = client.get_collection(self.name, embedding_function=None) if there else None
                if there and self._is_whole(connection, state):
                    self._tail, self._dropped = Heap(), set()
                    self._flushed = self._last = int(state["change"])
                    self._held, self._taken = int(state["count"]), int(state["taken"])
                    return
                reason = "it does not hold what it should"
        except (StoreError, OSError) as error:
            reason = str(error)
        if reason:  # other collections notice, and are made anew too
            logger.warning("the Chroma folder %s is made anew from SQL: %s", self.folder.path, reason)
            self._rebuild(connection)
            return
        try:
            self._fill(client, connection)
        except (StoreError, OSError) as error:
            logger.warning("%s is thrown away: %s", self.folder.path, error)
            self._rebuild(connection)

    def _rebuild(self, connection: Connection) -> None:
        """Throw the folder away, deleted vectors with it, and fill a new one."""
        self.rebuilt += 1
        self._fill(self.folder.make_anew(), connection)

    def _fill(self, client: Any, connection: Connection) -> None:
        """Fill a new collection from the vectors in SQL."""
        self._generation = self.folder.generation
        with self.folder.writing():
            self._state_file().unlink(missing_ok=True)
            self._collection = self._create(client)
            self._tail, self._dropped, self._flushed, self._last, self._taken = Heap(), set(), 0, 0, 0
            total = self._count_in_sql(connection)
            now = connection.execute(select(tables.changes.c.last)).scalar() or 0
            with progress("Filling Chroma from SQL", total, unit="vectors") as advance:
                for rows in self._newer(connection):
                    self._upsert(rows)
                    advance(len(rows))
            self._last = int(now)
            self._note(self._last)

    def _is_whole(self, connection: Connection, state: dict[str, Any]) -> bool:
        """Whether the collection holds what was written down: by count, and by looking some vectors up."""
        if not state or state["bank"] != self.bank or self._collection.count() != state["count"]:
            return False
        there = select(_vectors.id, _vectors.vector).where(
            _vectors.scope_id == self.scope, _vectors.embedder_id == self.embedder, _vectors.live.is_(True),
            _vectors.id <= int(state["change"]),
        )  # fmt: skip
        for statement in (there.order_by(_vectors.id), there.order_by(_vectors.id.desc())):
            for number, vector in connection.execute(statement.limit(_PROBES)):
                asked = matrix_of([vector], self.dimensions)[0]
                if not asked.any():  # it is damaged, there
                    continue
                nearest = self._collection.query(query_embeddings=[asked], n_results=3, include=["distances"])
                if str(number) not in nearest["ids"][0] and min(nearest["distances"][0], default=1.0) > 1e-3:
                    return False
        return True

    def _create(self, client: Any) -> Any:
        return client.create_collection(
            self.name,
            embedding_function=None,
            configuration={"hnsw": {"space": "cosine", "ef_search": 128}},
            metadata={"bank": self.bank, "dimensions": self.dimensions},
        )

    # -- Chroma ------------------------------------------------------------------------------------------------

    def _from_chroma(self, queries: Floats, limit: int) -> list[dict[int, float]]:
        wanted = min(self._held, limit + len(self._dropped))
        if not wanted:
            return [{} for _ in queries]
        answer = self._collection.query(query_embeddings=list(queries), n_results=wanted, include=["distances"])
        return [
            {int(i): 1.0 - d for i, d in zip(ids, distances, strict=True) if int(i) not in self._dropped}
            for ids, distances in zip(answer["ids"], answer["distances"], strict=True)
        ]

    def _upsert(self, rows: Rows) -> None:
        pieces = zip(chunks(rows.ids, BATCH), chunks(rows.matrix, BATCH), strict=True)
        for ids, matrix in pieces:
            self._collection.upsert(ids=[str(each) for each in ids], embeddings=matrix)
            self._taken += len(ids)

    def _newer(self, connection: Connection) -> Iterator[Rows]:
        last = self._last
        while found := newer(connection, self.scope, self.embedder, last, BATCH):
            yield Rows.of(connection, self.scope, found, self.dimensions)
            last = last_of([row[0] for row in found], last)

    def _count_in_sql(self, connection: Connection) -> int:
        return live_in_sql(connection, self.scope, self.embedder)

    # -- what was written down ---------------------------------------------------------------------------------

    def _state_file(self) -> Path:
        return self.folder.path / f"{self.name}.json"

    def _state(self) -> dict[str, Any]:
        return state_in(self._state_file())

    def _note(self, change: int) -> None:
        self._held = self._collection.count()
        state = {"bank": self.bank, "change": change, "count": self._held, "taken": self._taken}
        write_whole(self._state_file(), [json.dumps(state).encode()])
        self._flushed = change
