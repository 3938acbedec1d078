"""Reading a session: its list of steps as it was at any revision, and what of it is damaged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

from smolagents.memory import MemoryStep
from sqlalchemy import Connection, select

from smolagents_memory._errors import DecodeError, NewerFormatError, PlaceError, SessionDamagedError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.codec.blobs import FetchedBlobs
from smolagents_memory.codec.encoding import INPUTS, build_step
from smolagents_memory.codec.graph import TAG
from smolagents_memory.codec.unfolding import decode_shown
from smolagents_memory.database import tables
from smolagents_memory.database.contents import read_blob
from smolagents_memory.database.envelope import Spot, envelope_of, from_key
from smolagents_memory.database.many import chunks
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
    outline = _followed(connection, session, checkpoint, until)
    if checkpoint and outline.losses and outline.losses[0].startswith(_lost(checkpoint)):
        return _followed(connection, session, 0, until)  # what stood in the checkpoint follows from all before it
    return outline


def unpacked_changes(connection: Connection, session: Any, revision: int, changes: bytes) -> list[Any]:
    """What happened at a revision; `session` is the row of the session. Damage raises DecodeError."""
    spot = Spot("session_journal", from_key(session.name), revision, "changes")
    happened: list[Any] = envelope_of(connection).unpack(changes, spot)
    return happened


def _followed(connection: Connection, session: Any, start: int, until: int | None) -> Outline:
    table, outline = tables.journal, Outline()
    rows = select(table.c.revision, table.c.changes).where(table.c.session == session.id, table.c.revision >= start)
    if until is not None:
        rows = rows.where(table.c.revision <= until)
    for revision, changes in connection.execute(rows.order_by(table.c.revision)):
        try:
            for change in unpacked_changes(connection, session, revision, changes):
                _follow(outline, change)
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


def _follow(outline: Outline, change: list[Any]) -> None:
    kind = change[0]
    if kind == "splice":
        _, start, removed, added = change
        if outline.doubtful and start == removed == 0:
            outline.live.clear()  # a task at the very beginning: what was lost is a reset
        outline.reach(start)
        outline.live[start : start + removed] = added
    elif kind == "edit":
        _, index, number = change
        outline.reach(index + 1)
        before = outline.live[index]
        outline.live[index] = [number if before is None else before[0], number]
    elif kind == "prompt":
        outline.prompt = change[1]
    elif kind == "runtime":
        outline.runtime.append(change[1])
    elif kind == "checkpoint":
        outline.live = [list(pair) for pair in change[1]["live"]]
        outline.prompt, outline.runtime = change[1]["prompt"], list(change[1]["runtime"])
    else:
        raise ValueError(f"a change of the unknown kind {kind!r}")


def restore(connection: Connection, session: Any, outline: Outline) -> Restored:
    """Rebuild the steps of an outline. What is damaged is left out and named; the rest is read."""
    reader = _Reader(connection, session)
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
            continue
        except DecodeError:
            reader.losses.append(f"a large value of the agent's state or variables, {name[:16]}…")
    reader.blobs.let_go()
    return Restored(live, prompt, outline.runtime, outline.losses + reader.losses, reader.blobs)


def read_one(connection: Connection, session: Any, number: int) -> MemoryStep:
    """One record by itself; raises SessionDamagedError if it cannot be read."""
    reader = _Reader(connection, session)
    steps = reader.read({number})
    if number not in steps:
        raise SessionDamagedError(
            f"record {number} cannot be read: {'; '.join(reader.losses)}; the others are untouched"
        )
    return steps[number]


def _kept(step: MemoryStep, original: int, number: int) -> Kept:
    """What the journal needs to know of a step that was read."""
    return Kept(step, original, number, inputs=isinstance(step.__dict__.get(INPUTS), InputMessages), restored=True)


class _Reader:
    """Reads records, the versions that they build on, and the messages that they refer to."""

    def __init__(self, connection: Connection, session: Any) -> None:
        self.losses: list[str] = []
        self._connection, self._session, self._name = connection, session.id, from_key(session.name)
        self._envelope = envelope_of(connection)
        self.blobs = FetchedBlobs(partial(read_blob, connection))
        self._records: dict[int, dict[str, Any]] = {}
        self._bad: set[int] = set()
        self._segments: set[int] = set()

    def read(self, wanted: set[int]) -> dict[int, MemoryStep]:
        """The steps of these records, as far as they can be read."""
        self._fetch(wanted)
        chains = self._chains()
        referred = {number for chain in chains for _, inputs in chain for number in _references(inputs)}
        self._fetch(referred)
        shown: dict[int, MemoryStep] = {}
        for number in sorted(wanted | referred):
            try:
                shown[number] = self._build(number)
            except DecodeError as error:
                if number in wanted:
                    self.losses.append(f"the step of record {number} ({error})")
        steps = {number: step for number, step in shown.items() if number in wanted}
        carriers = self._carriers(steps)
        for chain in chains:
            self._give_inputs(chain, shown, carriers)
        return steps

    def _fetch(self, numbers: Iterable[int]) -> None:
        """Read these records, and all that they build on."""
        missing = sorted(set(numbers) - self._records.keys() - self._bad)
        table = tables.records
        for batch in chunks(missing):
            rows = select(table.c.number, table.c.segment, table.c.fields).where(table.c.session == self._session)
            for number, segment, fields in self._connection.execute(rows.where(table.c.number.in_(batch))):
                try:
                    unpacked = self._envelope.unpack_bytes(fields, self._spot(number, "fields"))
                    self._records[number] = read_record(unpacked)
                    self._segments.add(segment)
                except DecodeError as error:
                    self._bad.add(number)
                    self.losses.append(f"record {number} ({error})")
        self._bad |= set(missing) - self._records.keys()
        bases = {self._records[number].get("base") for number in missing if number in self._records} - {None}
        if bases - self._records.keys() - self._bad:
            self._fetch(base for base in bases if isinstance(base, int))

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

    def _build(self, number: int) -> MemoryStep:
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
        return {name: images.get(name) if name in images else _spared(node, damaged) for name, node in fields.items()}

    def _chains(self) -> list[list[tuple[int, dict[str, Any]]]]:
        """The chains of input messages that the records read so far are part of."""
        table, chains = tables.records, []
        for segment in sorted(self._segments):
            rows = select(table.c.number, table.c.inputs).where(
                table.c.session == self._session, table.c.segment == segment, table.c.inputs.is_not(None)
            )
            chain: list[tuple[int, dict[str, Any]]] = []
            for number, inputs in self._connection.execute(rows.order_by(table.c.number)):
                try:
                    chain.append((number, self._envelope.unpack(inputs, self._spot(number, "inputs"))))
                except DecodeError as error:
                    self.losses.append(f"the input messages from record {number} on ({error})")
                    break
            chains.append(chain)
        return chains

    def _carriers(self, steps: dict[int, MemoryStep]) -> dict[int, list[MemoryStep]]:
        """Which steps have the list of which record: their own, or that of a version they build on."""
        carriers: dict[int, list[MemoryStep]] = {}
        for number, step in steps.items():
            at: Any = number
            while at is not None:
                carriers.setdefault(at, []).append(step)
                at = None if INPUTS in self._records[at]["fields"] else self._records[at].get("base")
        return carriers

    def _give_inputs(
        self,
        chain: list[tuple[int, dict[str, Any]]],
        shown: dict[int, MemoryStep],
        carriers: dict[int, list[MemoryStep]],
    ) -> None:
        reader = MessageReader(lambda node: decode_shown(node, self.blobs))
        for number, step in shown.items():
            reader.show(number, step)
        for number, stored in chain:
            try:
                inputs = reader.read(stored)
            except (DecodeError, LookupError, TypeError, ValueError) as error:
                self.losses.append(f"the input messages from record {number} on ({error})")
                return
            for at, step in enumerate(carriers.pop(number, ())):
                # of several versions of a step the newest one's list counts; it comes later in the chain
                object.__setattr__(step, INPUTS, inputs if at == 0 else inputs.copy())


def blob_names(node: Any) -> Iterator[str]:
    """The blobs that a node needs."""
    if isinstance(node, dict):
        if _is_name(node.get("at")):
            yield node["at"]
        node = list(node.values())
    for part in node if isinstance(node, list) else ():
        yield from blob_names(part)


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 64 and not text.strip("0123456789abcdef")


def _spared(node: Any, damaged: set[str]) -> Any:
    """A node with a placeholder for each part that needs damaged content."""
    if isinstance(node, list):
        return [_spared(part, damaged) for part in node]
    if not isinstance(node, dict):
        return node
    palette = [part for part in node.get("palette") or () if isinstance(part, dict)]
    if any(part.get("at") in damaged for part in (node, *palette)):
        return {TAG: "not-kept", "type": str(node.get(TAG)), "detail": "damaged in the database"}
    return {name: _spared(part, damaged) for name, part in node.items()}


def _references(inputs: dict[str, Any]) -> Iterator[int]:
    """The records to whose messages a list refers."""
    for node in inputs.get("new", ()):
        if isinstance(node, list):
            yield node[0]
        elif isinstance(node, dict) and "all" in node:
            first, last, stride = node["all"]
            yield from range(first, last + 1, max(1, stride))
