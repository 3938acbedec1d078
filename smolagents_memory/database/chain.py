"""Under a seal: the chain of a session's rows, by which it is noticed that one was taken away, repeated or put back.

Entries follow upon entries and records upon records: the mark of each is made with that of the one before. The row of
the session keeps the ends of both chains, a mark of the marks of its runs, and a mark of all this and of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, func, select

from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.owners import check_session, mark_session
from smolagents_memory.database.sealed import Sealed, of_session


_END = 16  # bytes of an end of a chain
_TAG = 8  # bytes at the end of a sealed value by which it is known again
_MARK = 12  # bytes of a record's mark
_FIXED = ("id", "created", "parent", "parent_record", "seal_key")  # of a session's row
_LISTED = ("number", "segment", "created", "kind", "step_number", "began", "ended", "input_tokens", "output_tokens")
_OF_RUN = ("number", "revision", "state", "started", "ended", "steps", "input_tokens", "output_tokens", "details")
RECORD = tuple(tables.records.c[name] for name in (*_LISTED, "error", "mark"))  # what the mark of one is checked with


@dataclass(frozen=True)
class Chain:
    """Where the chains of a session stand, and what of its row never changes."""

    fixed: tuple[Any, ...]
    entries: bytes = bytes(_END)
    records: bytes = bytes(_END)
    runs: Mapping[int, tuple[bytes, int]] = field(default_factory=dict)  # by number: mark, revision where it began

    @property
    def key(self) -> int:
        """The number of the session's key."""
        return int(self.fixed[_FIXED.index("seal_key")])

    def head(self, sealed: Sealed, name: str, revision: int, checkpoint: int, updated: float) -> bytes:
        """What the row of the session keeps."""
        ends = self.entries + self.records + _runs_mark(sealed, name, {n: mark for n, (mark, _) in self.runs.items()})
        return ends + _head_mark(sealed, name, ends, self.fixed, revision, checkpoint, updated)

    def after(
        self,
        sealed: Sealed,
        name: str,
        revision: int,
        changes: bytes,
        records: Iterable[dict[str, Any]],
        runs: Iterable[Mapping[str, Any]],
    ) -> Chain:
        """After one more entry with these rows; the rows of records get their marks."""
        chain = self.with_entry(sealed, name, revision, changes)
        for row in records:
            row["mark"] = record_mark(sealed, name, row)
            chain = chain.with_record(sealed, name, row["mark"])
        for run in runs:
            began = chain.runs.get(run["number"], (b"", revision))[1]
            chain = chain.with_run(sealed, name, {**run, "revision": began})
        return chain

    def with_entry(self, sealed: Sealed, name: str, revision: int, changes: bytes) -> Chain:
        """After one more entry."""
        return replace(self, entries=sealed.mark(of_session(name), "entry", self.entries, revision, changes[-_TAG:]))

    def with_record(self, sealed: Sealed, name: str, mark: bytes) -> Chain:
        """After one more record."""
        return replace(self, records=sealed.mark(of_session(name), "record", self.records, mark))

    def with_run(self, sealed: Sealed, name: str, run: Mapping[str, Any]) -> Chain:
        """After a run was written, for the first time or again."""
        marked = (run_mark(sealed, name, run), run["revision"])
        return replace(self, runs={**self.runs, run["number"]: marked})


def fixed_of(row: Any) -> tuple[Any, ...]:
    """What of a session's row never changes."""
    return tuple(getattr(row, name) for name in _FIXED)


def record_mark(sealed: Sealed, name: str, row: Mapping[str, Any]) -> bytes:
    """The mark of a record's row: the ends of its values, and what was made of these and of all its numbers."""
    inputs = row["inputs"]
    tags: bytes = row["fields"][-_TAG:] + (b"" if inputs is None else inputs[-_TAG:])
    listed = [row[column] for column in (*_LISTED, "error")]
    return tags + sealed.mark(of_session(name), "step", tags, *listed)[:_MARK]


def check_record(
    sealed: Sealed, name: str, row: Any, fields: Any = None, inputs: Any = None, has_inputs: Any = None
) -> None:
    """Raise SealError unless a record's row is as it was written; with its values, that these are its."""
    mark = row.mark if isinstance(row.mark, bytes) else b""
    tags = mark[:-_MARK]
    listed = [getattr(row, column) for column in (*_LISTED, "error")]
    same = mark == tags + sealed.mark(of_session(name), "step", tags, *listed)[:_MARK]
    same &= fields is None or _end_of(fields) == tags[:_TAG]
    same &= inputs is None or _end_of(inputs) == tags[_TAG:]
    same &= has_inputs is None or bool(has_inputs) == (len(tags) > _TAG)
    if not same:
        raise sealed.refused(f"record {row.number} of session {name!r}", "its row was changed")


def _end_of(value: Any) -> bytes | None:
    """The end of a value; SQLite keeps any kind of value anywhere."""
    return bytes(value[-_TAG:]) if isinstance(value, (bytes, memoryview)) else None


def run_mark(sealed: Sealed, name: str, run: Mapping[str, Any]) -> bytes:
    """The mark of a run's row."""
    return sealed.mark(of_session(name), "run", *(run[column] for column in _OF_RUN))


def check_head(sealed: Sealed, name: str, row: Any, runs: Iterable[Any] | None = None) -> bytes:
    """Raise SealError unless a session's row is as it was written (and those of its runs); the chains' ends."""
    what, head = f"session {name!r}", row.head
    check_session(sealed, row)
    sealed.tell(of_session(name), row.seal_key)
    if not isinstance(head, bytes) or len(head) != 4 * _END:
        raise sealed.refused(what, "it has no head")
    ends: bytes = head[:-_END]
    if head[-_END:] != _head_mark(sealed, name, ends, fixed_of(row), row.revision, row.checkpoint, row.updated):
        raise sealed.refused(what, "its row was changed")
    if runs is not None:
        marks = {run.number: run_mark(sealed, name, run._asdict()) for run in runs}
        if _runs_mark(sealed, name, marks) != ends[-_END:]:
            raise sealed.refused(what, "a row of its runs was changed, or is missing")
    return ends


def verify(connection: Connection, row: Any, name: str) -> Chain | None:
    """Go along the chains of a session: SealError unless nothing is missing, repeated or put back. None: no seal."""
    sealed = envelope_of(connection).sealed
    if sealed is None:
        return None
    known: Chain | None = sealed.verified.get((name, row.revision))
    if known is not None:
        return known
    runs, what = (
        list(connection.execute(select(tables.runs).where(tables.runs.c.session == row.id))),
        f"session {name!r}",
    )
    ends = check_head(sealed, name, row, runs)
    chain = Chain(fixed_of(row))
    for run in runs:
        chain = chain.with_run(sealed, name, run._asdict())
    revision = 0
    for number, tag in connection.execute(_entries(row.id)):
        if number != revision + 1:
            raise sealed.refused(what, f"entry {revision + 1} is missing")
        revision, chain = number, chain.with_entry(sealed, name, number, tag or b"")
    for record in connection.execute(_records(row.id)):
        check_record(sealed, name, record, has_inputs=record.has_inputs)
        chain = chain.with_record(sealed, name, record.mark)
    if revision != row.revision or chain.entries != ends[:_END]:
        raise sealed.refused(what, "an entry of its journal was taken away, repeated or put back")
    if chain.records != ends[_END : 2 * _END]:
        raise sealed.refused(what, "a record of a step was taken away, repeated or put back")
    sealed.verified[(name, row.revision)] = chain
    return chain


def chain_anew(connection: Connection, session: int, name: str) -> None:
    """Make the marks of a session's rows, all of which this process has just written, and keep their ends."""
    sealed = envelope_of(connection).sealed
    if sealed is None:
        return
    found = connection.execute(select(tables.sessions).where(tables.sessions.c.id == session)).one()
    chain = Chain(fixed_of(found))
    records, runs = tables.records, tables.runs
    for row in connection.execute(
        select(records).where(records.c.session == session).order_by(records.c.number)
    ).all():
        mark = record_mark(sealed, name, row._asdict())
        one = (records.c.session == session, records.c.number == row.number)
        connection.execute(records.update().where(*one).values(mark=mark))
        chain = chain.with_record(sealed, name, mark)
    for number, tag in connection.execute(_entries(session)):
        chain = chain.with_entry(sealed, name, number, tag)
    for run in connection.execute(select(runs).where(runs.c.session == session)):
        chain = chain.with_run(sealed, name, run._asdict())
    head = chain.head(sealed, name, found.revision, found.checkpoint, found.updated)
    connection.execute(tables.sessions.update().where(tables.sessions.c.id == session).values(head=head))
    mark_session(connection, session)


def _head_mark(sealed: Sealed, name: str, ends: bytes, fixed: tuple[Any, ...], *now: Any) -> bytes:
    return sealed.mark(of_session(name), "head", ends, *fixed, *now)


def _entries(session: int) -> Any:
    c = tables.journal.c
    tag = func.substr(c.changes, func.length(c.changes) - _TAG + 1)
    return select(c.revision, tag).where(c.session == session).order_by(c.revision)


def _records(session: int) -> Any:
    c = tables.records.c
    return select(*RECORD, c.inputs.is_not(None).label("has_inputs")).where(c.session == session).order_by(c.number)


def _runs_mark(sealed: Sealed, name: str, marks: Mapping[Any, bytes]) -> bytes:
    """Of the marks of all runs. A sum of them could be made of others that add up to as much."""
    return sealed.mark(of_session(name), "runs", *(marks[number] for number in sorted(marks, key=repr)))
