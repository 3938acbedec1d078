"""The writer of a session: notes what happens and writes it in transactions, at once or as soon as it can."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from smolagents.memory import MemoryStep, SystemPromptStep

from smolagents_memory._errors import SessionConflictError, SessionStorageError
from smolagents_memory._forks import tell_in_child
from smolagents_memory._log import logger
from smolagents_memory.codec.values import warn_of_losses
from smolagents_memory.database.engine import Database
from smolagents_memory.database.redacting import journal_redaction
from smolagents_memory.history.changes import Snapshot
from smolagents_memory.sessions.entries import Entry, Position, is_ours, was_written, write_entry
from smolagents_memory.sessions.reading import Restored
from smolagents_memory.sessions.step_records import Kept, RecordWriter


# what code that ends with a definition or an import outputs: it is kept with the variables
_DEFINED = frozenset(("function", "module", "type"))


@dataclass
class Attempt:
    """Entries that were handed to the database in one transaction, and what it wrote of the last of them."""

    entries: list[Entry]
    changes: bytes
    after: Position


class Journal:
    """Notes what happens to one list of steps. Only its owner writes; a failure is held, retried, and told once."""

    def __init__(
        self, database: Database, position: Position, runtime: Iterable[Any], fold: Callable[[list[Any]], Any]
    ) -> None:
        self.database, self.position = database, position
        self.live: list[Kept] = []
        self.prompt: Kept | None = None
        self.lock = threading.RLock()  # held to note, never while the disk is waited for
        self.error: Exception | None = None
        self.redaction = journal_redaction(database, position.name)
        numbers = lambda: (kept.number for kept in self._kept_now())  # noqa: E731
        self._writer = RecordWriter(position.next_record, numbers, lambda: len(self.live), self.redaction)
        self._entry = Entry()
        self._pending: deque[Entry] = deque()
        self._writing = threading.Lock()
        self._attempt: Attempt | None = None
        self._fresh: dict[int, tuple[Kept, Snapshot]] = {}
        self._dropped: dict[int, tuple[weakref.ref[MemoryStep], int, int]] = {}
        self._runtime, self._fold = list(runtime), fold
        self._since_checkpoint = 0
        self._conflict: SessionConflictError | None = None
        self._blobs_known: set[str] = set()
        tell_in_child(self)

    def forked(self) -> None:
        """In a child: whoever held a lock is not here, and what was not written yet is its parent's to write."""
        self.lock, self._writing = threading.RLock(), threading.Lock()
        self._pending.clear()
        self._entry, self._attempt, self.error = Entry(), None, None

    @property
    def blobs(self) -> Any:
        """Where runtime values put their large bytes."""
        return self._writer.blobs

    def told(self, value: Any) -> Any:
        """A text beside the steps, as it may be written; anything else as it is."""
        return self.redaction.text(value) if self.redaction is not None and isinstance(value, str) else value

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

    def adopt(self, restored: Restored) -> None:
        """Go on from what was restored, whole or damaged."""
        self.live, self.prompt = restored.live, restored.prompt
        self._blobs_known.update(restored.blobs)
        for kept in self._kept_now():
            self._writer.adopt(kept.number, kept.step)
        data = self.blobs.data  # of images, packed only to know them again
        self.blobs.data = {name: data[name] for name in data.keys() - self._blobs_known}
        if restored.losses:  # places in the list are other ones now than in what was written so far
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

    def before_cut(self, step: MemoryStep) -> None:
        """Keep a step that is on its way once more, before a callback takes out of it what another one added."""
        with self.lock:
            kept, snapshot = self._fresh.get(id(step), (None, None))
            if kept is not None and snapshot is not None and kept.step is step and snapshot.differs(thorough=True):
                row, kept = self._writer.write(step, kept, inputs_edited=snapshot.inputs_edited)
                self._entry.rows.append(row)
                self._fresh[id(step)] = (kept, Snapshot(step))

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
            self._remember_dropped(gone, new)
            if reset:
                self._begin_anew()
            else:
                self._entry.ops.append(["splice", start, removed, [[kept.original, kept.number] for kept in new]])

    def _remember_dropped(self, gone: dict[int, Kept], new: Iterable[Kept]) -> None:
        """Who takes a step out may put it in again: as long as it lives it is known which one it is."""
        for place in gone.keys() - {id(kept.step) for kept in new}:
            kept = gone[place]
            forget = partial(self._dropped.pop, place, None)
            step = weakref.ref(kept.step, lambda _, forget=forget: forget())  # type: ignore[misc]
            self._dropped[place] = (step, kept.original, kept.number)

    def _kept(self, step: MemoryStep, gone: dict[int, Kept]) -> Kept:
        fresh = self._fresh.pop(id(step), None)
        if fresh is not None and fresh[0].step is step:
            kept, snapshot = fresh
            if not snapshot.differs(thorough=True):
                return kept
            row, kept = self._writer.write(step, kept, inputs_edited=snapshot.inputs_edited)
        elif id(step) in gone:
            return gone[id(step)]
        elif id(step) in self._dropped and self._dropped[id(step)][0]() is step:
            _, original, number = self._dropped.pop(id(step))
            row, kept = self._writer.write(step, Kept(step, original, number, restored=True))
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

    def end_entry(self) -> None:
        """What was noted up to here belongs into one transaction. After a conflict nothing is kept to be written."""
        with self.lock:
            if self._conflict is not None:
                self._entry, self._writer.blobs.data, self._writer.losses = Entry(), {}, []
                self._runtime.clear()
            if not self._entry:
                return
            self._since_checkpoint += 1
            if self._since_checkpoint > max(1_000, 4 * len(self.live)):
                self._begin_anew()
            entry, self._entry = self._entry, Entry()
            entry.blobs, self._writer.blobs.data = self._writer.blobs.data, {}
            self._pending.append(entry)
            losses, self._writer.losses = self._writer.losses, []
        warn_of_losses([loss for loss in losses if loss not in _DEFINED], f"Session {self.position.name!r}")

    def commit(self, *, wait: bool = True) -> bool:
        """Write what was noted; returns whether all of it is on disk.

        Whoever comes while another thread writes waits, or with `wait=False` goes on: that thread writes this as
        well. A failure is held for `flush` and the next commit tries again; this never raises.
        """
        self.end_entry()
        while self._pending and self._writing.acquire(blocking=wait):
            try:
                self._write()
            except SessionConflictError as error:
                self.hold(error, "somebody else writes to it")
            except SessionStorageError as error:
                self.hold(error, "the run goes on, and it is tried again with the next step")
            except Exception as error:  # noqa: BLE001 — whatever it is, it must not reach the run
                self.hold(error, "the run goes on; this is a defect of the journal")
            finally:
                self._writing.release()
            if self.error is not None:
                break
        return not self._pending and self.error is None

    def hold(self, error: Exception, then: str) -> None:
        """Keep an error for `flush`; it is logged once."""
        if self.error is None:
            logger.error("session %r is not being written: %s (%s)", self.position.name, error, then)
        self.error = error

    def flush(self) -> None:
        """Write all that is still to be written; raises what prevents it."""
        self.end_entry()
        with self._writing:
            try:
                self._write()
            except Exception as error:
                self.error = error
                raise
            self.error = None

    def check_ownership(self) -> None:
        """Raise SessionConflictError if somebody else has taken the session over."""
        with self._writing:
            if self.position.lease.is_inherited:
                raise self._not_ours()
            self._write()
            with self.database.reading(self.position.file) as connection:
                if not is_ours(connection, self.position):
                    raise self._lost()

    def _lost(self) -> SessionConflictError:
        self._conflict = self._not_ours()
        with self.lock:
            self._pending.clear()
        return self._conflict

    def _not_ours(self) -> SessionConflictError:
        if self.position.lease.is_inherited:
            why = (
                "is attached in the process that this one was forked from, and goes on there: attach another one "
                "here, or a fork of it (session.fork)"
            )
        else:
            why = (
                "has another writer, or was deleted, since it was attached here. The agent's memory is untouched: "
                "keep it with SessionManager.save_session under another name, or detach and attach again to see what "
                "the other one wrote"
            )
        return SessionConflictError(f"session {self.position.name!r} {why}")

    def _write(self) -> None:
        if self._conflict is not None:
            raise self._conflict
        if self.position.lease.is_inherited:  # its locks in the database may be of threads that are not here
            if self._pending:
                raise self._lost()
            return
        self._settle()
        with self.lock:
            entries = list(self._pending)
        if entries:
            with self.database.writing(self.position.file) as connection:
                changes, after = b"", self.position
                kept = {} if self.redaction is None else self.redaction.keep_in(connection)
                for revision, entry in enumerate(entries, self.position.revision + 1):
                    written = write_entry(connection, after, entry, revision, self._blobs_known)
                    if written is None:
                        raise self._lost()
                    after, changes = written
                attempt = self._attempt = Attempt(entries, changes, after)  # until it is known to be there
            self._written(attempt)
            if self.redaction is not None:
                self.redaction.kept(kept)

    def _settle(self) -> None:
        """A transaction failed, as far as one could tell: find out whether it is in the database all the same."""
        if self._attempt is None:
            return
        attempt = self._attempt
        with self.database.writing(self.position.file) as connection:
            last, revision = attempt.entries[-1], attempt.after.revision
            there = was_written(connection, self.position, last, revision, attempt.changes)
        if there:
            self._written(attempt)
        self._attempt = None

    def _written(self, attempt: Attempt) -> None:
        self._attempt, entries, after = None, attempt.entries, attempt.after
        self._blobs_known |= {name for entry in entries for name in entry.blobs}
        position = self.position
        position.revision, position.checkpoint, position.chain = after.revision, after.checkpoint, after.chain
        with self.lock:
            for _ in entries:
                self._pending.popleft()
        if self.error is not None:
            logger.warning("session %r is being written again; nothing was missed", self.position.name)
        self.error = None
