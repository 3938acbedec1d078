"""The writer of a session: notes what happens and writes it in transactions, at once or as soon as it can."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from smolagents.memory import MemoryStep, SystemPromptStep
from sqlalchemy import bindparam, func, insert, select, update

from smolagents_memory._errors import SessionConflictError, SessionStorageError
from smolagents_memory._log import logger
from smolagents_memory.codec.values import warn_of_losses
from smolagents_memory.database import tables
from smolagents_memory.database.contents import insert_blobs
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import Envelope, Spot, envelope_of
from smolagents_memory.database.opened import FileId
from smolagents_memory.database.statements import Prepared
from smolagents_memory.history.changes import Snapshot
from smolagents_memory.sessions.leases import Lease
from smolagents_memory.sessions.step_records import Kept, RecordWriter, Row


# what code that ends with a definition or an import outputs: it is kept with the variables
_DEFINED = frozenset(("function", "module", "type"))


_sessions, _runs = tables.sessions.c, tables.runs.c
_OURS = update(tables.sessions).where(
    _sessions.id == bindparam("id_"),
    _sessions.revision == bindparam("before"),
    _sessions.writer == bindparam("owner_"),
)
_CHECKPOINT = func.coalesce(bindparam("anew", type_=_sessions.checkpoint.type), _sessions.checkpoint)
_CLAIM = Prepared(_OURS.values(revision=bindparam("now"), updated=bindparam("made"), checkpoint=_CHECKPOINT))
_RECORD = Prepared(insert(tables.records), *tables.records.c.keys())
_CHANGES = Prepared(insert(tables.journal), *tables.journal.c.keys())
_FIRST_OF_RUN = Prepared(insert(tables.runs), *tables.runs.c.keys())
OF_RUN = ("state", "started", "ended", "steps", "input_tokens", "output_tokens")  # beside its number and its details
_RUN = Prepared(
    update(tables.runs)
    .where(_runs.session == bindparam("session_"), _runs.number == bindparam("number_"))
    .values({name: bindparam(name) for name in (*OF_RUN, "details")})
)


def run_spot(session: str, number: int) -> Spot:
    """Where what is noted of a run belongs."""
    return Spot("session_runs", session, number, "details")


@dataclass
class Entry:
    """What belongs into one transaction."""

    ops: list[Any] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    checkpoint: bool = False
    made: float = field(default_factory=time.time)

    def __bool__(self) -> bool:
        return bool(self.ops or self.rows or self.runs)


@dataclass
class Position:
    """Where a session's journal stands."""

    id: int
    revision: int
    next_record: int
    lease: Lease
    name: str
    file: FileId | None = None
    run: int = 0

    @property
    def owner(self) -> bytes:
        """What the session's row must say for as long as we may write."""
        return self.lease.owner


class Journal:
    """Notes what happens to one list of steps. Only its owner writes; a failure is held, retried, and told once."""

    def __init__(
        self, database: Database, position: Position, runtime: Iterable[Any], fold: Callable[[list[Any]], Any]
    ) -> None:
        self.database, self.position = database, position
        self.live: list[Kept] = []
        self.prompt: Kept | None = None
        self.lock = threading.RLock()
        self.error: Exception | None = None
        self._writer = RecordWriter(position.next_record, lambda: (kept.number for kept in self._kept_now()))
        self._entry = Entry()
        self._pending: deque[Entry] = deque()
        self._fresh: dict[int, tuple[Kept, Snapshot]] = {}
        self._runtime, self._fold = list(runtime), fold
        self._since_checkpoint = 0
        self._conflict: SessionConflictError | None = None
        self._blobs_known: set[str] = set()

    @property
    def blobs(self) -> Any:
        """Where runtime values put their large bytes."""
        return self._writer.blobs

    @property
    def next_record(self) -> int:
        """The number of the record that is written next."""
        return self._writer.next

    def appended(self, steps: Iterable[MemoryStep]) -> None:
        """Steps were added at the end."""
        self.spliced(len(self.live), 0, steps)

    def removed(self, steps: Iterable[MemoryStep]) -> None:
        """Steps were removed, wherever they stood."""
        with self.lock:
            for step in steps:
                place = self._place(step)
                if place is not None:
                    self.spliced(place, 1, ())

    def edited_step(self, step: MemoryStep, *, inputs_edited: bool) -> None:
        """A step was edited in place, wherever it stands."""
        with self.lock:
            place = self._place(step)
            if place is not None:
                self.edited(place, inputs_edited=inputs_edited)

    def _place(self, step: MemoryStep) -> int | None:
        return next((place for place, kept in enumerate(self.live) if kept.step is step), None)

    def adopt(self, live: list[Kept], prompt: Kept | None, *, whole: bool = True) -> None:
        """Go on from what was restored, whole or damaged."""
        self.live, self.prompt = live, prompt
        for kept in self._kept_now():
            self._writer.adopt(kept.number, kept.step)
        if not whole:  # places in the list are other ones now than in what was written so far
            self._begin_anew()

    def _kept_now(self) -> list[Kept]:
        fresh = [kept for kept, _ in self._fresh.values()]
        return [*([self.prompt] if self.prompt else []), *self.live, *fresh]

    # -- noting ------------------------------------------------------------------------------------------------

    def before_callbacks(self, step: MemoryStep) -> None:
        """Keep a step as it is before any callback has cut it."""
        with self.lock:
            row, kept = self._writer.write(step)
            self._entry.rows.append(row)
            self._fresh = {id(step): (kept, Snapshot(step))}  # one step at a time is on its way

    def prompted(self, step: SystemPromptStep) -> None:
        """The system prompt is another one now."""
        with self.lock:
            row, self.prompt = self._writer.write(step)
            self._entry.rows.append(row)
            self._entry.ops.append(["prompt", row.number])

    def edited(self, index: int, *, inputs_edited: bool) -> None:
        """A live step was edited in place."""
        with self.lock:
            before = self.live[index]
            row, kept = self._writer.write(before.step, before, inputs_edited=inputs_edited)
            self.live[index] = kept
            self._entry.rows.append(row)
            self._entry.ops.append(["edit", index, row.number])

    def spliced(self, start: int, removed: int, added: Iterable[MemoryStep], *, reset: bool = False) -> None:
        """Steps were removed and added at a place in the list."""
        with self.lock:
            gone = {id(kept.step): kept for kept in self.live[start : start + removed]}
            new = [self._kept(step, gone) for step in added]
            self.live[start : start + removed] = new
            if reset:
                self._begin_anew()
            else:
                self._entry.ops.append(["splice", start, removed, [[kept.original, kept.number] for kept in new]])

    def _kept(self, step: MemoryStep, gone: dict[int, Kept]) -> Kept:
        fresh = self._fresh.pop(id(step), None)
        if fresh is not None and fresh[0].step is step:
            kept, snapshot = fresh
            if not snapshot.differs(thorough=True):
                return kept
            row, kept = self._writer.write(step, kept, inputs_edited=snapshot.inputs_edited)
        elif id(step) in gone:
            return gone[id(step)]
        else:
            row, kept = self._writer.write(step)
        self._entry.rows.append(row)
        return kept

    def find_painted_images(self) -> None:
        """Note the steps whose images were painted on since they were kept."""
        with self.lock:
            for index, kept in enumerate(self.live):
                held = [n for n in ("observations_images", "task_images") if getattr(kept.step, n, None)]
                if held and self._writer.differs(kept, held):
                    self.edited(index, inputs_edited=False)

    def runtime(self, delta: Any) -> None:
        """Something beside the steps changed: the agent's state, a CodeAgent's variables."""
        with self.lock:
            self._runtime.append(delta)
            self._entry.ops.append(["runtime", delta])

    def run_changed(self, run: dict[str, Any]) -> None:
        """A run began, went on, or ended."""
        with self.lock:
            self._entry.runs[run["number"]] = dict(run)

    def _begin_anew(self) -> None:
        """Write down where everything stands, so that nothing before this need be read again."""
        self._runtime = [self._fold(self._runtime)] if self._runtime else []
        live = [[kept.original, kept.number] for kept in self.live]
        prompt = self.prompt.number if self.prompt else None
        self._entry.ops.append(["checkpoint", {"live": live, "prompt": prompt, "runtime": self._runtime}])
        self._entry.checkpoint = True
        self._since_checkpoint = 0

    # -- writing -----------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Write what was noted. A failure is held for `flush` and the next commit tries again; this never raises."""
        with self.lock:
            if not self._entry and not self._pending:
                return
            if self._entry:
                self._since_checkpoint += 1
                if self._since_checkpoint > max(1_000, 4 * len(self.live)):
                    self._begin_anew()
                self._close_entry()
            try:
                self._write()
            except SessionConflictError as error:
                self.hold(error, "somebody else writes to it")
            except SessionStorageError as error:
                self.hold(error, "the run goes on, and it is tried again with the next step")
            except Exception as error:  # noqa: BLE001 — whatever it is, it must not reach the run
                self.hold(error, "the run goes on; this is a defect of the journal")

    def _close_entry(self) -> None:
        entry, self._entry = self._entry, Entry()
        entry.blobs = self._writer.blobs.data
        self._writer.blobs.data = {}
        self._pending.append(entry)
        losses, self._writer.losses = self._writer.losses, []
        warn_of_losses([loss for loss in losses if loss not in _DEFINED], f"Session {self.position.name!r}")

    def hold(self, error: Exception, then: str) -> None:
        """Keep an error for `flush`; it is logged once."""
        if self.error is None:
            logger.error("session %r is not being written: %s (%s)", self.position.name, error, then)
        self.error = error

    def flush(self) -> None:
        """Write all that is still to be written; raises what prevents it."""
        with self.lock:
            if self._entry:
                self._close_entry()
            try:
                self._write()
            except Exception as error:
                self.error = error
                raise
            self.error = None

    def check_ownership(self) -> None:
        """Raise SessionConflictError if somebody else has taken the session over."""
        with self.lock:
            if self._conflict is not None:
                raise self._conflict
            if not self._still_ours():
                raise self._lost()

    def _still_ours(self) -> bool:
        table = tables.sessions
        with self.database.reading(self.position.file) as connection:
            found = connection.execute(
                select(table.c.revision, table.c.writer).where(table.c.id == self.position.id)
            ).one_or_none()
        return found is not None and (found.revision, bytes(found.writer or b"")) == (
            self.position.revision,
            self.position.owner,
        )

    def _lost(self) -> SessionConflictError:
        self._conflict = SessionConflictError(
            f"session {self.position.name!r} has another writer, or was deleted, since it was attached here. The "
            "agent's memory is untouched: keep it with SessionManager.save_session under another name, or detach "
            "and attach again to see what the other one wrote"
        )
        return self._conflict

    def _write(self) -> None:
        if self._conflict is not None:
            raise self._conflict
        if not self._pending:
            return
        revision = self.position.revision
        with self.database.writing(self.position.file) as connection:
            for entry in self._pending:
                revision += 1
                self._write_entry(connection, entry, revision)
        self._blobs_known |= {name for entry in self._pending for name in entry.blobs}
        self._pending.clear()
        self.position.revision = revision
        if self.error is not None:
            logger.warning("session %r is being written again; nothing was missed", self.position.name)
        self.error = None

    def _write_entry(self, connection: Any, entry: Entry, revision: int) -> None:
        position = self.position
        claim = {"id_": position.id, "owner_": position.owner, "before": revision - 1, "now": revision}
        claimed = _CLAIM.run(connection, {**claim, "made": entry.made, "anew": revision if entry.checkpoint else None})
        if claimed.rowcount != 1:
            raise self._lost()
        envelope = envelope_of(connection)
        for row in entry.rows:
            _RECORD.run(connection, self._values(envelope, row, entry.made))
        fresh = {name: data for name, data in entry.blobs.items() if name not in self._blobs_known}
        if fresh:
            insert_blobs(connection, position.id, fresh)
        changes = envelope.pack(entry.ops, Spot("session_journal", position.name, revision, "changes"))
        _CHANGES.run(connection, {"session": position.id, "revision": revision, "changes": changes})
        for run in entry.runs.values():
            self._write_run(connection, run, revision)

    def _values(self, envelope: Envelope, row: Row, made: float) -> dict[str, Any]:
        spot = Spot("session_records", self.position.name, row.number, "fields")
        inputs = row.inputs
        return {
            **row.listed,
            "session": self.position.id,
            "number": row.number,
            "segment": row.segment,
            "fields": envelope.pack_bytes(row.fields, spot),
            "inputs": None if inputs is None else envelope.pack_bytes(inputs.encode(), spot._replace(column="inputs")),
            "created": made,
        }

    def _write_run(self, connection: Any, run: dict[str, Any], revision: int) -> None:
        spot = run_spot(self.position.name, run["number"])
        values = {**run, "details": envelope_of(connection).pack(run["details"], spot)}
        mine = {"session_": self.position.id, "number_": run["number"]}
        if _RUN.run(connection, {**values, **mine}).rowcount == 0:
            _FIRST_OF_RUN.run(connection, {**values, "session": self.position.id, "revision": revision})
