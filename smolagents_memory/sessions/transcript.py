"""The transcript of a session: every step that was ever journaled, as it came and as it was left."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, overload

from smolagents.memory import MemoryStep
from sqlalchemy import Connection, select

from smolagents_memory._errors import DecodeError, SessionDamagedError, SessionError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.database import tables
from smolagents_memory.database.chain import chain_anew
from smolagents_memory.database.columns import real, whole
from smolagents_memory.database.engine import Database
from smolagents_memory.sessions import directory
from smolagents_memory.sessions.reading import Outline, Reader, follow_journal, read_outline
from smolagents_memory.sessions.runs import take_back_end
from smolagents_memory.steps.answers import Answer, answer_of
from smolagents_memory.steps.kinds import images_of, is_action, kind_of
from smolagents_memory.steps.marks import mark_of


_BLOCK = 32  # steps that are read together; images may be large
_MADE = ("model_input_messages", "model_output_message", "tool_calls", "observations", "action_output", "error")
_PROMPT, _TASK = "SystemPromptStep", "TaskStep"


@dataclass(frozen=True)
class JournaledStep:
    """A step of a session's transcript; see `Session.transcript`.

    Attributes:
        original: The step as it came, before any callback cut it, with the images that callbacks added to it.
        step: The step as it was left in the agent's memory, None if it was dropped. Where nothing was changed it is
            the very same object.
        run: The number of its run (see `Session.runs`); None before the first.
    """

    original: MemoryStep
    step: MemoryStep | None
    run: int | None = None

    @property
    def left(self) -> str:
        """How it was left: "as it came", "changed" or "dropped"."""
        if self.step is None:
            return "dropped"
        return "as it came" if self.step is self.original else "changed"


@dataclass
class _Row:
    """What is known of a step without reading it."""

    number: int
    kind: str
    step_number: int | None
    versions: list[int] = field(default_factory=list)
    newest: int | None = None
    run: int | None = None


@dataclass
class Course(Outline):
    """All that a journal tells, also of steps that were dropped."""

    came: dict[int, int] = field(default_factory=dict)
    """With which revision each step came into the list, by its original's record."""
    originals: dict[int, int] = field(default_factory=dict)
    """The original of each record of a step."""
    prompts: set[int] = field(default_factory=set)

    def follow(self, change: list[Any], revision: int) -> None:
        """Something happened."""
        before = self.live[change[1]] if change[0] == "edit" and 0 <= change[1] < len(self.live) else None
        super().follow(change, revision)
        if before is not None:
            self._note(before[0], change[2], revision)
        elif change[0] in ("splice", "checkpoint"):
            for original, newest in change[3] if change[0] == "splice" else change[1]["live"]:
                self._note(original, newest, revision)
        if change[0] in ("prompt", "checkpoint") and self.prompt is not None:
            self.prompts.add(self.prompt)

    def _note(self, original: int, newest: int, revision: int) -> None:
        self.came.setdefault(original, revision)
        self.originals[original] = self.originals[newest] = original

    @property
    def last_record(self) -> int:
        """The newest record that it tells of."""
        return max((*self.originals, *self.prompts), default=-1)


def course_of(connection: Connection, session: Any, until: int | None = None) -> Course:
    """A session's journal from its beginning, up to a revision if one is given."""
    return follow_journal(Course(), connection, session, 0, until)


def original_at(connection: Connection, session: Any, at: int) -> int:
    """The record of the original of the step at a place of `Session.steps()`."""
    outline = read_outline(connection, session, session.checkpoint)
    try:
        return outline.known[at][0]
    except (IndexError, TypeError):
        name = directory.name_of(connection, session)
        raise SessionError(f"session {name!r} has {len(outline.known)} steps, none at place {at!r}") from None


def answer_in(connection: Connection, session: Any, course: Course, since: int) -> tuple[MemoryStep, Answer] | None:
    """The last action at the end of a course and the answer it holds, if it came since a revision and holds one."""
    c = tables.records.c
    for original, _ in reversed(course.known):
        if course.came[original] < since:
            break
        numbered = select(c.step_number).where(c.session == session.id, c.number == original)
        if connection.execute(numbered).scalar() is not None:
            step = Reader(connection, session).read({original}).get(original)
            answer = None if step is None else answer_of([step])
            return None if step is None or answer is None else (step, answer)
    return None


def fork(connection: Connection, session: Any, name: str, original: int | None) -> None:
    """A new session that goes on from another one, or from the moment at which a step of its, by its original's
    record, was journaled."""
    until = None if original is None else course_of(connection, session).came[original]
    if until is None or until == session.revision:
        directory.copy(connection, session, name)
        return
    course = course_of(connection, session, until)
    made = directory.copy(connection, session, name, until=until, last_record=course.last_record)
    take_back_end(connection, made, name, course.came, partial(answer_in, connection, session, course))
    chain_anew(connection, made, name)


class Transcript:
    """Every step that was ever journaled, in the order in which they came; read when they are looked at.

    `len`, an index, a slice and `for` do as with a list; each reads from the database anew, so that a long history
    needs no more room than the few steps that are looked at together.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database, self._name = database, name
        with database.reading() as connection:
            self._session = directory.get(connection, name)
            course = course_of(connection, self._session)
            reader = Reader(connection, self._session)
            self._rows = _rows(connection, self._session, course, reader)
            self._losses = course.losses + reader.losses
            reader.refuse_losses(self._losses)
        self._places = {row.number: place for place, row in enumerate(self._rows)}

    def __repr__(self) -> str:
        return f"<the transcript of session {self._name!r}: {len(self)} steps>"

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[JournaledStep]:
        reader: Reader | None = None
        for begin in range(0, len(self._rows), _BLOCK):
            with self._database.reading() as connection:
                reader = reader or Reader(connection, self._session)
                told = self._read(connection, reader, self._rows[begin : begin + _BLOCK])
            yield from told
        self._warn(self._losses + (reader.losses if reader else []))

    @overload
    def __getitem__(self, place: int) -> JournaledStep: ...
    @overload
    def __getitem__(self, place: slice) -> list[JournaledStep]: ...

    def __getitem__(self, place: int | slice) -> JournaledStep | list[JournaledStep]:
        rows = self._rows[place] if isinstance(place, slice) else [self._rows[place]]
        with self._database.reading() as connection:
            reader = Reader(connection, self._session)
            told = self._read(connection, reader, rows)
        if isinstance(place, slice):
            self._warn(reader.losses)
            return told
        if not told:
            raise self._damaged(rows[0].number, reader)
        self._warn(reader.losses)
        return told[0]

    def original(self, number: int) -> MemoryStep:
        """The step with this record as it came; raises SessionDamagedError if it cannot be read."""
        place = self._places.get(number)
        rows = [] if place is None else [self._rows[place]]
        with self._database.reading() as connection:
            reader = Reader(connection, self._session)
            told = self._read(connection, reader, rows)
            if not told or not reader.has(number):
                raise self._damaged(number, reader)
        return told[0].original

    @property
    def last_run(self) -> int | None:
        """The run of the newest step."""
        return self._rows[-1].run if self._rows else None

    def actions(self) -> list[tuple[int, int, int | None]]:
        """The place, the step number and the run of each action."""
        return [(at, row.step_number, row.run) for at, row in enumerate(self._rows) if row.step_number is not None]

    def _read(self, connection: Connection, reader: Reader, rows: Sequence[_Row]) -> list[JournaledStep]:
        reader.use(connection)
        reader.fetch(number for row in rows for number in row.versions)
        wanted = {row.number for row in rows} | {row.newest for row in rows if row.newest is not None}
        steps = reader.read(wanted)
        told = []
        for row in rows:
            original = _first(reader, steps, [row.number, *row.versions])
            if original is not None:
                original = _once_made(reader, steps, original, row)
                left = None
                if row.newest is not None:
                    left = _first(reader, steps, [row.newest, *reversed(row.versions), row.number])
                told.append(JournaledStep(_with_added_images(reader, original, row), left, row.run))
        reader.refuse_losses(reader.losses)
        reader.blobs.let_go()
        return told

    def _damaged(self, number: int, reader: Reader) -> SessionDamagedError:
        why = "; ".join(reader.losses) or "it is not there"
        return SessionDamagedError(f"record {number} cannot be read: {why}; the others are untouched")

    def _warn(self, losses: Sequence[str]) -> None:
        if losses:
            lost = "; ".join(losses[:8])
            warn_of_loss(f"the transcript of session {self._name!r} was read; lost of it: {lost}")


def _first(reader: Reader, steps: dict[int, MemoryStep], numbers: Sequence[int]) -> MemoryStep | None:
    """The first of these versions that can be read."""
    for number in numbers:
        if number in steps:
            return steps[number]
        try:
            steps[number] = reader.build(number)
        except DecodeError:  # named where it was read
            continue
        return steps[number]
    return None


def _once_made(reader: Reader, steps: dict[int, MemoryStep], step: MemoryStep, row: _Row) -> MemoryStep:
    """A loop by hand may put a step into memory before it is made: it came when there was something in it."""
    if not _is_empty(step):
        return step
    for number in row.versions:
        version = steps.get(number) or reader.read({number}).get(number)
        if version is not None and not _is_empty(version):
            return version
    return step


def _is_empty(step: MemoryStep) -> bool:
    return is_action(step) and not any(getattr(step, name, None) for name in _MADE)


def _with_added_images(reader: Reader, original: MemoryStep, row: _Row) -> MemoryStep:
    """The original with the images that later versions have beside its own; smaller copies of older ones are none."""
    name = kind_of(original).images
    changed = [number for number in row.versions if name in reader.fields(number)]
    if name is None or not changed:
        return original
    images, shrunk = list(images_of(original)), mark_of(original, "images_shrunk", 0)
    seen = list(images)
    for number in changed:
        try:
            version = reader.build(number)
        except DecodeError:
            continue
        new = [image for image in images_of(version) if not any(_same(image, known) for known in seen)]
        now = mark_of(version, "images_shrunk", 0)
        images += new[max(0, now - shrunk) :]  # older images, which are the ones that are shrunk, stand first
        seen, shrunk = seen + new, now
    if len(images) == len(images_of(original)):
        return original
    original = copy.copy(original)
    setattr(original, name, images)
    return original


def _same(image: Any, other: Any) -> bool:
    if image is other:
        return True
    try:
        return type(image) is type(other) and bool(image == other)
    except Exception:  # noqa: BLE001 — whatever comparing odd images raises
        return False


def _rows(connection: Connection, session: Any, course: Course, reader: Reader) -> list[_Row]:
    """The steps in the order in which they came. The journal tells of them; of what it has lost the records do."""
    c = tables.records.c
    listed = select(c.number, c.kind, c.step_number, c.created).where(c.session == session.id).order_by(c.number)
    found = {row.number: row for row in connection.execute(listed)}
    _find_untold(session, course, reader, found)
    rows: dict[int, _Row] = {}
    for number in sorted(course.originals):
        original = course.originals[number]
        told = found.get(original)
        kind, step_number = ("", None) if told is None else (told.kind, told.step_number)
        row = rows.setdefault(original, _Row(original, kind, step_number))
        if number != original:
            row.versions.append(number)
    for original, newest in course.known:
        rows[original].newest = newest
    in_order = [rows[number] for number in sorted(rows)]
    _number_runs(connection, session, course, in_order)
    return in_order


def _find_untold(session: Any, course: Course, reader: Reader, found: dict[int, Any]) -> None:
    """Find where records belong of which the journal does not tell: what happened was lost, or the step never came
    into the list, since a callback raised or the process died."""
    untold = sorted(found.keys() - course.originals.keys() - course.prompts)
    reader.fetch(untold)
    # a fork of an earlier version of this package holds records of what its origin did afterwards
    copied = [
        number
        for number in course.originals
        if number in found and real(found[number].created) < real(session.created)
    ]
    last_copied = max(copied, default=None)
    for number in untold:
        try:
            base = reader.base(number)
        except DecodeError:  # it is named
            continue
        if base is not None and base in course.originals:
            course.originals[number] = course.originals[base]
        elif last_copied is not None and number > last_copied and real(found[number].created) < real(session.created):
            continue
        elif base is None and found[number].kind != _PROMPT:
            course.originals[number] = number


def _number_runs(connection: Connection, session: Any, course: Course, rows: Sequence[_Row]) -> None:
    """A run begins with its task; several may have begun in one transaction."""
    c = tables.runs.c
    begun = select(c.number, c.revision).where(c.session == session.id).order_by(c.number.desc())
    ahead = [(run.number, whole(run.revision)) for run in connection.execute(begun)]  # the next one at the end
    now: int | None = None
    for row in rows:
        revision = course.came.get(row.number)
        while revision is not None and ahead and ahead[-1][1] < revision:
            now, _ = ahead.pop()
        if ahead and ahead[-1][1] == revision and row.kind == _TASK:
            now, _ = ahead.pop()
        row.run = now
