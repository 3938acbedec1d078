"""Very many vectors in little RAM: chosen by the signs of their dimensions, then scored exactly with those in SQL.

The same in every process, and nothing to lock. It is made from SQL in pieces, behind what is asked meanwhile, and kept
in a file beside the database; under a seal, in Postgres and in RAM it is made anew by each process.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy
from sqlalchemy import Connection, select

from smolagents_memory._errors import SmolagentsMemoryError
from smolagents_memory._forks import Lock
from smolagents_memory._log import logger
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.many import chunks, last_of, numbered
from smolagents_memory.search.bit_file import Taken, Whose, bit_file, read_bits, throw_away, write_bits
from smolagents_memory.search.bits import Bits, Block, signs_of
from smolagents_memory.search.exact import Floats, Heap, Ints, Rows, dropped, newer


BATCH = 4096  # vectors read at once
PATIENCE = 0.8  # seconds that a recall may spend on what is not in the bits yet; the rest is done behind it
CHOSEN = 10  # vectors scored exactly for each that is asked for …
FEWEST = 400  # … and never fewer, but for long queries, …
SHARED = 5  # … whose sentences share them, down to so many for each that is asked for
BEHIND = 0.1  # the share of an index that may have changed since its file was written
_PROBES = 64  # vectors of a file that are compared with SQL
_LEAVE = 5.0  # seconds to wait for a batch, or a file, when it is closed

_BY_NUMBER = (
    "SELECT {columns} FROM memory_vectors "
    "WHERE id IN ({ids}) AND scope_id = {scope} AND embedder_id = {embedder} AND live"
)
_BOUND = "id, vector, item_id, part, parts, embedder_id"  # under a seal
_BANK = select(tables.about.c.value).where(tables.about.c.name == "bank")
_LAST = select(tables.changes.c.last)


class BitIndex:
    """The signs of all vectors of one scope, brought up to date from SQL before each search."""

    kind = "bits"

    def __init__(self, database: Database, whose: Whose) -> None:
        self.whose, self._database = whose, database
        self.bank, self.scope, self.embedder, self.dimensions = whose
        self.stays = False  # whether it stands in for a Chroma that failed
        self._file = None if database.path is None else bit_file(database.path, whose.scope, whose.embedder)
        self._lock = Lock()
        self._taken = Taken(Bits())  # replaced, never changed
        self._unwritten = 0  # vectors that came or went since the file was written
        self._looked = False  # whether there is a file was looked
        self._behind: threading.Thread | None = None
        self._making = False  # whether it has vectors to take in, and not just a file to write
        self._ends = threading.Event()

    # -- what an index does ------------------------------------------------------------------------------------

    def refresh(self, connection: Connection, last: int) -> None:
        """Take in what changed up to the change `last`, which is what `connection` sees, as far as that is soon done.

        What is searched meanwhile is what was taken in so far.
        """
        if self.is_current(last) or self._is_made_behind():
            return
        with self._lock:
            if self._is_made_behind():
                return
            if not self._looked:
                self._load(connection, last)
            until = time.monotonic() + PATIENCE
            while not (whole := self._take(connection, last)) and time.monotonic() < until:
                pass
            if not whole or self._is_far_behind():
                self._making = not whole
                self._begin_behind()

    def is_current(self, last: int) -> bool:
        """Whether all changes up to `last` are in it."""
        return last <= min(self._taken.read, self._taken.dropped)

    def best(self, connection: Connection, queries: Floats, limit: int) -> list[dict[int, float]]:
        """For each query the vectors nearest to it: number → cosine."""
        bits = self._taken.bits
        many = max(FEWEST, CHOSEN * limit) // len(queries)
        count = max(many, min(FEWEST, SHARED * limit))
        chosen = [bits.nearest(query, count) for query in queries]
        found: list[dict[int, float]] = [{} for _ in queries]
        for some in chunks(numpy.unique(numpy.concatenate(chosen)).tolist(), BATCH):
            found = Heap([self._rows(connection, some)]).best(queries, limit, found)
        return found

    def __len__(self) -> int:
        return len(self._taken.bits)

    @property
    def bytes(self) -> int:
        """What it takes in RAM."""
        return self._taken.bits.bytes

    def ids(self) -> Ints:
        """The numbers of the vectors that are in it."""
        return self._taken.bits.ids()

    def close(self) -> None:
        """Have the work behind come to its end; what is done of it is kept."""
        self._ends.set()
        thread = self._behind
        if thread is not None and thread is not threading.current_thread():
            thread.join(_LEAVE)

    # -- taking in ---------------------------------------------------------------------------------------------

    def _take(self, connection: Connection, last: int) -> bool:
        """Take in what went, and one batch of what is new; whether that is all.

        What is in it is then just what `connection` sees, up to the last vector read. Numbers are never given twice:
        what went has gone for ever, and what is new has a higher number.
        """
        if last < self._taken.dropped:  # what went since would be read as if it were there
            return True
        taken = self._without_gone(connection, self._taken, last)
        rows = newer(connection, self.scope, self.embedder, taken.read, BATCH)
        bits, read, whole = taken.bits, taken.read, len(rows) < BATCH
        if rows:
            read = last_of([row[0] for row in rows], read)
            found = Rows.of(connection, self.scope, rows, self.dimensions)
            bits = bits.with_more(Block(found.ids, signs_of(found.matrix)))
        self._unwritten += len(rows)
        self._taken = Taken(bits, max(read, last) if whole else read, last)
        return whole

    def _without_gone(self, connection: Connection, taken: Taken, last: int) -> Taken:
        if not taken.read or last <= taken.dropped:
            return taken
        gone = dropped(connection, self.scope, taken.dropped)
        if tables.LEFT_OUT in gone:  # it slept for long, or another backup was put back
            return Taken(Bits())
        self._unwritten += len(gone)
        return taken._replace(bits=taken.bits.without(gone), dropped=last)

    def _rows(self, connection: Connection, ids: list[int]) -> Rows:
        """Those of some vectors that are still there."""
        columns = "id, vector" if envelope_of(connection).sealed is None else _BOUND
        found = numbered(connection, _BY_NUMBER, ids, columns=columns, scope=self.scope, embedder=self.embedder)
        return Rows.of(connection, self.scope, found, self.dimensions)

    # -- behind ------------------------------------------------------------------------------------------------

    def _works_behind(self) -> bool:
        return self._behind is not None and self._behind.is_alive()

    def _is_made_behind(self) -> bool:
        return self._making and self._works_behind()

    def _begin_behind(self) -> None:
        """Go on in a thread of its own; one that died is followed by another at the next recall."""
        if not self._ends.is_set() and not self._works_behind():
            self._behind = threading.Thread(target=self._go_on, name="smolagents-memory bits", daemon=True)
            self._behind.start()

    def _go_on(self) -> None:
        """Batch by batch, each in a transaction of its own: who writes, or purges, waits for none of it."""
        try:
            while not self._one_more():
                pass
        except SmolagentsMemoryError as error:
            logger.info("the vectors of a large scope are not all in its index yet (%s): it goes on later", error)
        except Exception:
            logger.exception("a fault of ours; the index of a large scope is completed at the next recall")

    def _one_more(self) -> bool:
        """One more batch, or the file; whether there is nothing more to do."""
        with self._database.reading() as connection:
            if connection.execute(_BANK).scalar() != self.bank:  # another place is there now
                return True
            with self._lock:
                whole = self._take(connection, int(connection.execute(_LAST).scalar() or 0))
                taken, self._making = self._taken, not whole
            if not whole and not self._ends.is_set():
                return False
            if self._is_far_behind():  # within the transaction: a purge of what it saw waits, and finds the file
                self._write(connection, taken)
            return True

    # -- the file ----------------------------------------------------------------------------------------------

    def _is_far_behind(self) -> bool:
        return self._file is not None and self._unwritten > BEHIND * len(self._taken.bits)

    def _write(self, connection: Connection, taken: Taken) -> None:
        self._unwritten = 0  # also where it cannot be written: not tried again at each recall
        if self._file is not None and envelope_of(connection).sealed is None:
            write_bits(self._file, self.whose, taken)

    def _load(self, connection: Connection, last: int) -> None:
        """Begin with what was written down, if it fits what SQL holds."""
        self._looked = True
        if self._file is None or not self._file.exists():
            return
        fitting = None if envelope_of(connection).sealed is not None else self._fitting(self._file, connection, last)
        if fitting is None:
            throw_away(self._file)
        else:
            self._taken = fitting

    def _fitting(self, file: Path, connection: Connection, last: int) -> Taken | None:
        """What a file holds, unless it is of another place, or of another time of this one."""
        found = read_bits(file)
        if found is None or found[0] != self.whose or max(found[1].read, found[1].dropped) > last:
            return None
        taken = self._without_gone(connection, found[1], last)
        return taken if taken.read and self._is_of_sql(connection, taken.bits) else None

    def _is_of_sql(self, connection: Connection, bits: Bits) -> bool:
        """Whether some of its vectors, and the newest, are in SQL as they are here."""
        ids = bits.ids()
        some = numpy.unique(numpy.concatenate([ids[:: len(ids) // _PROBES + 1], ids[-_PROBES:]]))
        there = self._rows(connection, some.tolist())
        if len(there) != len(some):
            return False
        signs = signs_of(there.matrix[numpy.argsort(there.ids)])
        here = [block.columns[:, numpy.isin(block.ids, some)] for block in bits.blocks]
        return not here or bool((numpy.concatenate(here, axis=1) == signs).all())
