"""Which index serves a scope's vectors, by how many there are and whether this process has Chroma's folder.

Exact search for most scopes; the signs of their dimensions for large ones. Chroma for what people look at with its own
tools: the default scope, and those that have grown, in one process, for as long as it is good at them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.exc import SQLAlchemyError

from smolagents_memory._errors import StoreError
from smolagents_memory._forks import Lock
from smolagents_memory._log import logger
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.many import chunks, numbered
from smolagents_memory.database.vectors import BOUND, open_vectors
from smolagents_memory.search.bit_file import Whose
from smolagents_memory.search.bit_index import BitIndex
from smolagents_memory.search.chroma_folder import OWN_COLLECTION, ChromaFolder
from smolagents_memory.search.chroma_index import ChromaIndex
from smolagents_memory.search.embedding import Vectors
from smolagents_memory.search.exact import ExactIndex, Floats, matrix_of
from smolagents_memory.search.full_text import state_of
from smolagents_memory.search.spread import DEVIATION, with_experience


KEPT_BYTES = 512 * 1024 * 1024  # of scopes in RAM; the ones not used for longest go first
MOST_EXACT = 50_000  # vectors of a scope that are all compared with a query: beyond, their signs are searched first
MOST_IN_CHROMA = 100_000  # beyond, it finds less and less of what is near
SAMPLE = 512  # vectors from which a scope's mean similarity is estimated

_vectors = tables.vectors.c
# each recall's statements are written out: hundreds of numbers as parameters would cost more than running them
_OF_ITEMS = (
    "SELECT item_id, parts, vector, part, embedder_id, scope_id FROM memory_vectors "
    "WHERE item_id IN ({ids}) AND embedder_id = {embedder} AND part < 32"
)
_ITEM_OF = "SELECT id, item_id, parts FROM memory_vectors WHERE id IN ({ids})"
_IDS = select(_vectors.id).where(
    _vectors.scope_id == bindparam("scope"), _vectors.embedder_id == bindparam("embedder"), _vectors.live.is_(True)
)
_SOME = (
    select(_vectors.vector, _vectors.scope_id, *BOUND).where(_vectors.embedder_id == bindparam("embedder")).limit(9)
)
_MATRIX = select(_vectors.vector, *BOUND).where(_vectors.id.in_(bindparam("ids", expanding=True)))


_EMBEDDER = select(tables.embedders.c.id).where(tables.embedders.c.name == bindparam("name"))
_DEFAULT = select(tables.scopes.c.id).where(tables.scopes.c.name == "")
_BANK = select(tables.about.c.value).where(tables.about.c.name == "bank")
_NUMBERS = select(_BANK.scalar_subquery(), _DEFAULT.scalar_subquery(), _EMBEDDER.scalar_subquery())


Answer = TypeVar("Answer")
Index = ExactIndex | BitIndex | ChromaIndex


class Numbers(NamedTuple):
    """What a place calls itself, its default scope, and the embedder in use."""

    bank: str
    default: int | None
    embedder: int | None

    def fit(self, index: Index) -> bool:
        """Whether an index was made with these."""
        return index.embedder == self.embedder and (isinstance(index, ExactIndex) or index.bank == self.bank)


class Indexes:
    """The vectors of every scope of one database, searched."""

    def __init__(
        self, database: Database, vectors: Vectors, folder: ChromaFolder | None, own_collection: int = OWN_COLLECTION
    ) -> None:
        self.database, self.vectors, self.folder = database, vectors, folder
        self.own_collection = own_collection
        self._lock = Lock(threading.RLock)
        self._process = os.getpid()
        self._open: OrderedDict[int, Index] = OrderedDict()
        self._samples: dict[int, tuple[Numbers, int, Floats]] = {}
        self._numbers: WeakKeyDictionary[object, Numbers] = WeakKeyDictionary()
        self._measured: str | None = None  # the place in which it was looked how wide the vectors are
        self._leads = folder is not None and folder.hold()

    @property
    def leads(self) -> bool:
        """Whether this process has the Chroma folder."""
        return self._leads and self._process == os.getpid()

    def numbers(self, connection: Connection) -> Numbers:
        """What the place that a connection leads to calls things: asked in each transaction.

        Not kept for longer: another place's backup may have been put back meanwhile, by whatever process.
        """
        transaction = connection.get_transaction()
        with self._lock:
            found = self._numbers.get(transaction)
        if found is None:
            bank, default, embedder = connection.execute(_NUMBERS, {"name": self.vectors.name}).one()
            found = Numbers(str(bank), default, embedder)
            with self._lock:
                self._numbers[transaction] = found
        return found

    def embedder_id(self, connection: Connection) -> int | None:
        """The number of the embedder in the database; None before anything was embedded with it."""
        return self.numbers(connection).embedder

    def width(self, connection: Connection) -> int | None:
        """How wide the vectors are. Those that are there tell: the embedder may fail, or have become another."""
        numbers = self.numbers(connection)
        if self.vectors.width is None or self._measured != numbers.bank:
            some = connection.execute(_SOME, {"embedder": numbers.embedder})
            widths = [len(vector) // 4 for row in some for vector in open_vectors(connection, row.scope_id, [row])]
            self.vectors.width = max(widths, key=widths.count, default=self.vectors.width)  # one may be damaged
            self._measured = numbers.bank
        return self.vectors.width

    def nearest(
        self, connection: Connection, scope: int, live: int, last: int, queries: Floats, limit: int
    ) -> list[dict[int, float]]:
        """For each query the vectors of the scope nearest to it: number → cosine."""
        index = self.of(connection, scope, live)
        if index is None:
            return [{} for _ in queries]

        def search(index: Index) -> list[dict[int, float]]:
            index.refresh(connection, last)
            return index.best(connection, queries, limit)

        found = self._in_chroma(index, search) if isinstance(index, ChromaIndex) else None
        return search(self._standing_in(index)) if found is None else found

    def refresh(self, connection: Connection, scope: int, live: int, last: int) -> None:
        """Bring the index from which `spread` takes its sample up to date, as `nearest` does."""
        index = self.of(connection, scope, live)
        if index is not None and not isinstance(index, ChromaIndex):
            index.refresh(connection, last)

    def of(self, connection: Connection, scope: int, live: int) -> Index | None:
        """The index of a scope that holds `live` memories."""
        numbers = self.numbers(connection)
        if numbers.embedder is None or not self.width(connection):
            return None
        with self._lock:
            self._notice_fork()
            index = self._open.get(scope)
            if index is not None and not (numbers.fit(index) and index.dimensions == self.vectors.width):
                index = None  # of another place, or made for vectors that are no more
            kind = self._kind(index, live, own=scope == numbers.default or live >= self.own_collection)
            if index is None or index.kind != kind:
                stays = index is not None and index.stays
                index = self._open[scope] = self._made(kind, numbers.bank, scope, numbers.embedder)
                if not isinstance(index, ChromaIndex):
                    index.stays = stays
                self._shrink()
            self._open.move_to_end(scope)
            return index

    def items_of(self, connection: Connection, ids: list[int]) -> list[tuple[int, int, int]]:
        """For each vector's number: the number, its memory's, and in how many parts that one is."""
        return [row for row in numbered(connection, _ITEM_OF, ids) if _is_sound(row[1], row[2])]

    def vectors_of(self, connection: Connection, items: list[int]) -> tuple[list[int], list[int], Floats]:
        """The vectors of some memories: for each its memory, in how many parts that one is, and the row."""
        embedder = self.embedder_id(connection)
        found = numbered(connection, _OF_ITEMS, items, embedder=embedder or 0)
        rows = [row for row in found if _is_sound(row[0], row[1])]
        vectors = open_vectors(connection, rows[0].scope_id, rows) if rows else []  # all of the scope that is asked
        matrix = matrix_of(vectors, self.width(connection) or 1)
        return [row[0] for row in rows], [row[1] for row in rows], matrix

    def spread(self, connection: Connection, scope: int, live: int, queries: Floats) -> list[tuple[float, float]]:
        """For each query the mean and deviation of its similarity to the scope's texts, from a sample."""
        sample = self._sample(connection, scope, live)
        if not len(sample):
            return [(0.0, DEVIATION) for _ in queries]
        cosines = sample @ queries.T
        means, deviations = with_experience(cosines.mean(axis=0), cosines.var(axis=0), len(sample))
        return list(zip(means.tolist(), deviations.tolist(), strict=True))

    def flush(self) -> None:
        """Write what waits in RAM into Chroma."""
        for index in list(self._open.values()):
            if isinstance(index, ChromaIndex) and self.leads:
                self._in_chroma(index, ChromaIndex.flush)

    @contextmanager
    def _named(self, name: str) -> Iterator[tuple[Connection, int, Index | None]]:
        """A connection, the last change that it sees, and the index of the scope of that name."""
        with self.database.reading() as connection:
            state = state_of(connection, name)
            index = self.of(connection, state.id, state.live) if state is not None else None
            yield connection, state.last if state is not None else 0, index

    def of_name(self, name: str) -> Index | None:
        """The index of the scope of that name."""
        with self._named(name) as (_, _, index):
            return index

    def catch_up(self, name: str) -> None:
        """Bring the index of the scope of that name up to date with SQL."""
        with self._named(name) as (connection, last, index):
            if isinstance(index, ChromaIndex):
                self._in_chroma(index, lambda index: index.refresh(connection, last))
            elif index is not None:
                index.refresh(connection, last)
        self.flush()

    def serving(self, name: str) -> str:
        """What serves the scope of that name: "chroma", "exact", "bits" or "none"."""
        index = self.of_name(name)
        return "none" if index is None else index.kind

    def repair(self, name: str) -> int:
        """Compare the scope's Chroma collection with SQL and make it anew if it differs; how often it had to be.

        Where another index stands in for a Chroma that failed, Chroma is tried again.
        """
        self._samples.clear()
        for standing_in in list(self._open.values()):
            if not isinstance(standing_in, ChromaIndex):
                standing_in.stays = False
        with self._named(name) as (connection, last, index):
            if not isinstance(index, ChromaIndex):
                return 0
            return self._in_chroma(index, lambda index: index.repair(connection, last)) or 0

    def close(self) -> None:
        """Flush and let everything go, the folder's lock too."""
        with self._lock:
            for index in list(self._open.values()):
                if isinstance(index, ChromaIndex):
                    self._in_chroma(index, ChromaIndex.close)
                elif isinstance(index, BitIndex):
                    index.close()
            self._open.clear()
            self._samples.clear()
            if self.leads and self.folder is not None:
                self.folder.close()
            self._leads = False

    def open_again(self) -> None:
        """Take the folder's lock if it is free."""
        if not self.leads and self.folder is not None and self.folder.process == os.getpid():
            self._leads = self.folder.hold()

    # -- inside ------------------------------------------------------------------------------------------------

    def _kind(self, now: Index | None, live: int, *, own: bool) -> str:
        """What should serve a scope, which may have a collection of its `own`. None is left for a few vectors less."""
        size = max(live, len(now) if now is not None else 0)  # a long text has many
        if isinstance(now, ChromaIndex):
            return "bits" if size > MOST_IN_CHROMA else "chroma"
        if isinstance(now, BitIndex):
            size *= 2
        if self.leads and own and size <= MOST_IN_CHROMA and not (now is not None and now.stays):
            return "chroma"
        return "bits" if size > MOST_EXACT else "exact"

    def _made(self, kind: str, bank: str, scope: int, embedder: int) -> Index:
        if kind == "chroma" and self.folder is not None:
            return ChromaIndex(self.folder, bank, scope, embedder, self.vectors.dimensions)
        if kind == "bits":
            return BitIndex(self.database, Whose(bank, scope, embedder, self.vectors.dimensions))
        return ExactIndex(scope, embedder, self.vectors.dimensions)

    def _instead(self, failed: ChromaIndex) -> ExactIndex | BitIndex:
        kind = "bits" if len(failed) > MOST_EXACT else "exact"
        made = self._made(kind, failed.bank, failed.scope, failed.embedder)
        assert not isinstance(made, ChromaIndex)
        made.stays = True
        return made

    def _in_chroma(self, index: ChromaIndex, work: Callable[[ChromaIndex], Answer]) -> Answer | None:
        """What Chroma is asked to do. Where it fails None: another index takes its place, for SQL holds the same."""
        generation = index.folder.generation
        try:
            try:
                return work(index)
            except (StoreError, OSError):
                if index.folder.generation == generation:
                    raise
                return work(index)  # the folder was made anew, or purged, in the middle of it
        except (SQLAlchemyError, sqlite3.Error):
            raise
        except (StoreError, OSError) as error:
            if self._take_out(index):
                logger.warning("Chroma failed (%s); until reindex() the vectors in SQL are searched instead", error)
        except Exception:
            if self._take_out(index):
                logger.exception("a fault of ours; until reindex() the vectors in SQL are searched instead of Chroma")
        return None

    def _take_out(self, failed: ChromaIndex) -> bool:
        """Put another one in a Chroma index's place; False when another thread has."""
        with self._lock:
            there = self._open.get(failed.scope) is failed
            if there:
                self._open[failed.scope] = self._instead(failed)
            return there

    def _standing_in(self, index: Index) -> ExactIndex | BitIndex:
        """An index, or what stands in for it."""
        if not isinstance(index, ChromaIndex):
            return index
        found = self._open.get(index.scope)
        return self._instead(index) if found is None or isinstance(found, ChromaIndex) else found

    def _sample(self, connection: Connection, scope: int, live: int) -> Floats:
        index = self._open.get(scope)
        if isinstance(index, ExactIndex) and len(index) <= 2 * SAMPLE:
            return index.matrix()
        held = self._samples.get(scope)
        numbers = self.numbers(connection)
        size = len(index) if isinstance(index, BitIndex) else live  # it may not hold all of them yet
        if held is not None and held[0] == numbers:
            count, sample = held[1:]
            if count == size or (size > SAMPLE and 0.8 * count <= size <= 1.25 * count):
                return sample
        ids = self._ids(connection, scope, index)
        ids = sorted(ids)[:: max(1, len(ids) // SAMPLE)][:SAMPLE]
        rows = [row for some in chunks(ids) for row in connection.execute(_MATRIX, {"ids": some})]
        joined = matrix_of(open_vectors(connection, scope, rows), self.width(connection) or 1)
        self._samples[scope] = (numbers, size, joined)
        return joined

    def _ids(self, connection: Connection, scope: int, index: Index | None) -> list[int]:
        """The numbers of a scope's vectors: its index knows them, and to read those of a large one takes seconds."""
        if isinstance(index, (BitIndex, ExactIndex)):
            return list(map(int, index.ids()))
        values = {"scope": scope, "embedder": self.embedder_id(connection)}
        return list(connection.execute(_IDS, values).scalars())

    def _shrink(self) -> None:
        """Let indexes in RAM go; who searches one right now still has it whole. Chroma keeps few vectors there."""
        in_ram = {scope: index for scope, index in self._open.items() if not isinstance(index, ChromaIndex)}
        total = sum(index.bytes for index in in_ram.values())
        for scope, index in list(in_ram.items())[:-1]:
            if total > KEPT_BYTES:
                total -= index.bytes
                del self._open[scope]
                self._samples.pop(scope, None)

    def _notice_fork(self) -> None:
        if self._process != os.getpid():
            self._process, self._leads = os.getpid(), False
            self._open.clear()


def _is_sound(item: object, parts: object) -> bool:
    """Whether a vector says whose it is: on a damaged page anything may stand."""
    return isinstance(item, int) and isinstance(parts, int) and parts > 0
