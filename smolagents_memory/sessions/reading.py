"""Reading a session: its list of steps as it was at any revision, and what of it is damaged."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, TypeVar

from smolagents.memory import MemoryStep
from sqlalchemy import Connection, select

from smolagents_memory._errors import DecodeError, NewerFormatError, PlaceError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.codec.blobs import FetchedBlobs
from smolagents_memory.codec.encoding import INPUTS, build_step
from smolagents_memory.codec.placeholders import blob_names, needs, spared
from smolagents_memory.codec.values import decode_shown
from smolagents_memory.database import tables
from smolagents_memory.database.chain import RECORD, check_record, verify
from smolagents_memory.database.contents import read_blob
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.sealed import Spot
from smolagents_memory.history.messages import InputMessages, MessageReader
from smolagents_memory.history.observed import ObservedMemory
from smolagents_memory.sessions.step_records import Kept, read_record, with_base
from smolagents_memory.steps.kinds import is_prompt


@dataclass
class Outline:
    """A session's list of steps, by the numbers of their records."""

    live: list[list[int] | None] = field(default_factory=list)  # [original, newest] for each step, None if lost
    prompt: int | None = None
    runtime: list[Any] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    doubtful: bool = False
    """Whether the row before could not be read."""

    @property
    def known(self) -> list[list[int]]:
        """The live steps of which something is known."""
        return [pair for pair in self.live if pair is not None]

    def reach(self, length: int) -> None:
        """The list is known to have been so long: what is missing at its end was in a row that was lost."""
        self.live.extend([None] * (length - len(self.live)))

    def follow(self, change: list[Any], revision: int) -> None:
        """Something happened."""
        kind = change[0]
        if kind == "splice":
            _, start, removed, added = change
            if self.doubtful and start == removed == 0:
                self.live.clear()  # a task at the very beginning: what was lost is a reset
            self.reach(start)
            self.live[start : start + removed] = added
        elif kind == "edit":
            _, index, number = change
            self.reach(index + 1)
            before = self.live[index]
            self.live[index] = [number if before is None else before[0], number]
        elif kind == "prompt":
            self.prompt = change[1]
        elif kind == "runtime":
            self.runtime.append(change[1])
        elif kind == "checkpoint":
            self.live = [list(pair) for pair in change[1]["live"]]
            self.prompt, self.runtime = change[1]["prompt"], list(change[1]["runtime"])
        else:
            raise ValueError(f"a change of the unknown kind {kind!r}")


Followed = TypeVar("Followed", bound=Outline)


@dataclass
class Restored:
    """A session's memory, rebuilt."""

    live: list[Kept]
    prompt: Kept | None
    runtime: list[Any]
    losses: list[str]
    blobs: FetchedBlobs

    @property
    def steps(self) -> list[MemoryStep]:
        return [kept.step for kept in self.live]

    def as_memory(self) -> ObservedMemory:
        """The steps and the prompt as a memory of its own."""
        memory = ObservedMemory("")
        if self.prompt is not None:
            memory.system_prompt = self.prompt.step
        memory.steps = self.steps
        return memory

    def warn(self, name: str) -> None:
        """Say what could not be read."""
        if self.losses:
            lost = "; ".join(self.losses[:8])
            warn_of_loss(f"session {name!r}: {len(self.live)} steps were read; lost: {lost}")


def read_outline(connection: Connection, session: Any, checkpoint: int, until: int | None = None) -> Outline:
    """Follow a session's journal from its checkpoint, up to a revision if one is given; `session` is its row."""
    outline = follow_journal(Outline(), connection, session, checkpoint, until)
    if checkpoint and outline.losses and outline.losses[0].startswith(_lost(checkpoint)):
        return follow_journal(
            Outline(), connection, session, 0, until
        )  # what stood in the checkpoint follows from all before it
    return outline


def unpacked_changes(connection: Connection, session: Any, revision: int, changes: bytes) -> list[Any]:
    """What happened at a revision; `session` is the row of the session. Damage raises DecodeError."""
    envelope = envelope_of(connection)
    spot = Spot("session_journal", envelope.read_name(session.name), revision, "changes")
    happened: list[Any] = envelope.unpack(changes, spot)
    return happened


def follow_journal(outline: Followed, connection: Connection, session: Any, start: int, until: int | None) -> Followed:
    """Let an outline follow a journal from a revision on; rows that cannot be read are named in its losses."""
    verify(connection, session, envelope_of(connection).read_name(session.name))
    table = tables.journal
    rows = select(table.c.revision, table.c.changes).where(table.c.session == session.id, table.c.revision >= start)
    if until is not None:
        rows = rows.where(table.c.revision <= until)
    for revision, changes in connection.execute(rows.order_by(table.c.revision)):
        try:
            for change in unpacked_changes(connection, session, revision, changes):
                outline.follow(change, revision)
        except (NewerFormatError, PlaceError):
            raise
        except (DecodeError, LookupError, TypeError, ValueError) as error:
            outline.losses.append(f"{_lost(revision)} ({error})")
            outline.doubtful = True
        else:
            outline.doubtful = False
    return outline


def _lost(revision: int) -> str:
    return f"what happened at revision {revision}"


def restore(connection: Connection, session: Any, outline: Outline) -> Restored:
    """Rebuild the steps of an outline. What is damaged is left out and named; the rest is read."""
    reader = Reader(connection, session)
    wanted = {pair[1] for pair in outline.known}
    steps = reader.read(wanted if outline.prompt is None else {*wanted, outline.prompt})
    live = [_kept(steps[newest], original, newest) for original, newest in outline.known if newest in steps]
    prompt = None
    if outline.prompt is not None and is_prompt(steps.get(outline.prompt)):
        prompt = _kept(steps[outline.prompt], outline.prompt, outline.prompt)
    for name in blob_names(outline.runtime):
        try:
            reader.blobs[name]
        except KeyError:  # a dictionary of somebody's that has such a key; or else reading it will say so
            if reader.is_sealed and needs(outline.runtime, name):
                reader.losses.append(f"a large value of the agent's state or variables, {name[:16]}…, is missing")
            continue
        except DecodeError:
            reader.losses.append(f"a large value of the agent's state or variables, {name[:16]}…")
    reader.blobs.let_go()
    losses = outline.losses + reader.losses
    reader.refuse_losses(losses)
    return Restored(live, prompt, outline.runtime, losses, reader.blobs)


def _kept(step: MemoryStep, original: int, number: int) -> Kept:
    """What the journal needs to know of a step that was read."""
    return Kept(step, original, number, inputs=isinstance(step.__dict__.get(INPUTS), InputMessages), restored=True)


class Reader:
    """Reads records, the versions that they build on, and the messages that they refer to.

    It may be used for one part of a session after the other, each within a connection of its own: of what was read
    before it keeps the chains of messages that were needed last.
    """

    def __init__(self, connection: Connection, session: Any) -> None:
        self.losses: list[str] = []
        self._session, self._name = session.id, envelope_of(connection).read_name(session.name)
        self._bad: set[int] = set()
        self._chains: dict[int, dict[int, InputMessages]] = {}
        self._images: MutableMapping[str, Any] = (
            weakref.WeakValueDictionary()
        )  # equal images are one object as long as it lives
        self.use(connection)

    def use(self, connection: Connection) -> None:
        """Read from here now, and let go of the records that were read before."""
        self._connection, self._envelope = connection, envelope_of(connection)
        self.blobs = FetchedBlobs(partial(read_blob, connection, self._name))
        self.blobs.images = self._images
        self._records: dict[int, dict[str, Any]] = {}
        self._segments: dict[int, int] = {}  # of the records that have input messages of their own

    def read(self, wanted: set[int]) -> dict[int, MemoryStep]:
        """The steps of these records, as far as they can be read."""
        self.fetch(wanted)
        steps: dict[int, MemoryStep] = {}
        for number in sorted(wanted):
            try:
                steps[number] = self.build(number)
            except DecodeError as error:
                self.losses.append(f"the step of record {number} ({error})")
        paths = {number: self._path(number) for number in steps}
        needed = {self._segments[at] for path in paths.values() for at in path}
        self._chains = self._chains_for(needed, min(wanted, default=0))
        for number, path in paths.items():
            lists = (self._chains[self._segments[at]].get(at) for at in path)
            inputs = next((found for found in lists if found is not None), None)
            if inputs is not None:
                object.__setattr__(steps[number], INPUTS, inputs.again())
        return steps

    def _chains_for(self, needed: set[int], first: int) -> dict[int, dict[int, InputMessages]]:
        """These chains, and those that records from the first one on may need; a chain begins with its record."""
        passed = max((at for at in self._chains if at <= first), default=0)
        kept = {at: chain for at, chain in self._chains.items() if at >= passed}
        return kept | {at: self._chain(at) for at in sorted(needed - kept.keys())}

    def fields(self, number: int) -> dict[str, Any]:
        """What a record itself says of the step's fields: all of them, or what changed; nothing if it is damaged."""
        fields = self._records.get(number, {}).get("fields")
        return fields if isinstance(fields, dict) else {}

    def has(self, number: int) -> bool:
        """Whether a record could be read."""
        return number in self._records

    def base(self, number: int) -> int | None:
        """The version that a record builds on; a damaged one raises DecodeError."""
        if number not in self._records:
            raise DecodeError(f"record {number} is missing or damaged")
        base = self._records[number].get("base")
        return base if isinstance(base, int) else None

    def fetch(self, numbers: Iterable[int]) -> None:
        """Read these records, and all that they build on."""
        missing = sorted(set(numbers) - self._records.keys() - self._bad)
        c = tables.records.c
        columns = select(c.number, c.segment, c.inputs.is_not(None), c.fields, *self._marked)
        columns = columns.where(c.session == self._session)
        for batch in chunks(missing):
            for row in self._connection.execute(columns.where(c.number.in_(batch))):
                number, segment, has_inputs, fields = row[:4]
                self._check(row, fields)
                try:
                    unpacked = self._envelope.unpack_bytes(fields, self._spot(number, "fields"))
                    self.blobs.allowance.gain(len(unpacked))
                    self._records[number] = read_record(unpacked)
                    if has_inputs:
                        self._segments[number] = segment
                except DecodeError as error:
                    self._bad.add(number)
                    self.losses.append(f"record {number} ({error})")
        self._bad |= set(missing) - self._records.keys()
        bases = {self._records[number].get("base") for number in missing if number in self._records} - {None}
        if bases - self._records.keys() - self._bad:
            self.fetch(base for base in bases if isinstance(base, int))

    @property
    def is_sealed(self) -> bool:
        """Whether what is read lies under a seal."""
        return self._envelope.sealed is not None

    @property
    def _marked(self) -> tuple[Any, ...]:
        """The columns by which a seal's marks are checked."""
        return () if self._envelope.sealed is None else RECORD

    def _check(self, row: Any, fields: Any = None, inputs: Any = None) -> None:
        if self._envelope.sealed is not None:
            check_record(self._envelope.sealed, self._name, row, fields, inputs)

    def refuse_losses(self, losses: Sequence[str]) -> None:
        """Under a seal nothing is read in part: what is missing was taken away."""
        if losses and self._envelope.sealed is not None:
            raise self._envelope.sealed.refused(f"session {self._name!r}", "; ".join(losses[:4]))

    def _spot(self, number: int, column: str) -> Spot:
        return Spot("session_records", self._name, number, column)

    def _whole(self, number: int) -> dict[str, Any]:
        """A record with all that it builds on."""
        chain: list[dict[str, Any]] = []
        at: Any = number
        while at is not None:
            if at not in self._records or len(chain) > len(self._records):
                raise DecodeError(f"record {at} is missing or damaged")
            chain.append(self._records[at])
            at = self._records[at].get("base")
        return reduce(lambda base, record: with_base(record, base), reversed(chain))

    def build(self, number: int) -> MemoryStep:
        """The step of a record, without its input messages; what cannot be read raises DecodeError."""
        try:
            whole = self._whole(number)
            try:
                return build_step(str(whole["step"]), whole["fields"], whole.get("shows"), self.blobs)
            except DecodeError as error:
                fields = self._without_damaged_blobs(whole["fields"])
                if fields == whole["fields"]:
                    raise
                self.losses.append(f"a part of the step of record {number} ({error})")
                return build_step(str(whole["step"]), fields, None, self.blobs)
        except (LookupError, TypeError, AttributeError) as error:
            raise DecodeError(f"a malformed record: {error!r}") from error

    def _without_damaged_blobs(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a step with a placeholder for content that cannot be read; an image is left out."""
        damaged = set()
        for name in set(blob_names(fields)):
            try:
                self.blobs[name]
            except (DecodeError, KeyError):
                damaged.add(name)
        images = {
            name: [image for image in node if not damaged & set(blob_names(image))] or None
            for name, node in fields.items()
            if name in ("task_images", "observations_images") and isinstance(node, list)
        }
        return {name: images.get(name) if name in images else spared(node, damaged) for name, node in fields.items()}

    def _path(self, number: int) -> list[int]:
        """The records that may have the input messages of a version: its own, or those of one that it builds on."""
        path: list[int] = []
        at: Any = number
        while at is not None:
            if at in self._segments:
                path.append(at)
            at = None if INPUTS in self._records[at]["fields"] else self._records[at].get("base")
        return path

    def _chain(self, segment: int) -> dict[int, InputMessages]:
        """The lists of input messages in a chain, by the records that have them, as far as they can be read."""
        table = tables.records
        rows = select(table.c.number, table.c.inputs, *self._marked).where(
            table.c.session == self._session, table.c.segment == segment, table.c.inputs.is_not(None)
        )
        stored: dict[int, dict[str, Any]] = {}
        for row in self._connection.execute(rows.order_by(table.c.number)):
            number, inputs = row[:2]
            self._check(row, inputs=inputs)
            try:
                stored[number] = self._envelope.unpack(inputs, self._spot(number, "inputs"))
            except DecodeError as error:
                self._lost_inputs(number, error)
                break
        reader = MessageReader(lambda node: decode_shown(node, self.blobs))
        self._show(reader, {number for inputs in stored.values() for number in _references(inputs)})
        lists: dict[int, InputMessages] = {}
        for number, inputs in stored.items():
            try:
                lists[number] = reader.read(inputs)
            except (DecodeError, LookupError, TypeError, ValueError) as error:
                self._lost_inputs(number, error)
                break
        return lists

    def _show(self, reader: MessageReader, referred: set[int]) -> None:
        """Tell what the steps show to which messages refer."""
        self.fetch(referred)
        for number in sorted(referred):
            with suppress(DecodeError):  # who refers to it will say so
                reader.show(number, self.build(number))

    def _lost_inputs(self, number: int, error: Exception) -> None:
        self.losses.append(f"the input messages from record {number} on ({error})")


def _references(inputs: dict[str, Any]) -> Iterator[int]:
    """The records to whose messages a list refers."""
    for node in inputs.get("new", ()):
        if isinstance(node, list):
            yield node[0]
        elif isinstance(node, dict) and "all" in node:
            first, last, stride = node["all"]
            yield from range(first, last + 1, max(1, stride))
