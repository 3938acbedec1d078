"""All that is kept of a person in one archive that people and programs can read: JSON Lines, pictures, a README."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import io
import json
import math
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import select

from smolagents_memory._errors import DecodeError, SessionError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.codec.blobs import Blobs, read_blob
from smolagents_memory.codec.encoding import INPUTS, step_record
from smolagents_memory.codec.graph import TAG
from smolagents_memory.codec.registry import attributes
from smolagents_memory.codec.values import decode_value, encode_value
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.scopes import scope_of
from smolagents_memory.people.whose import Theirs, session_name
from smolagents_memory.sessions import directory
from smolagents_memory.sessions.labels import kept_labels
from smolagents_memory.sessions.reading import read_outline, restore
from smolagents_memory.sessions.session import Session
from smolagents_memory.sessions.transcript import JournaledStep
from smolagents_memory.steps.kinds import images_of, kind_of
from smolagents_memory.stores.records import Record
from smolagents_memory.stores.rows import every_record
from smolagents_memory.variables.runtime import fold


_README = """\
All that is kept of {user!r} in {place}
as of {now}.

sessions/       {sessions} files, one for each conversation with an agent, oldest first. The first line of each says
                what it is: its id, title, tags and times, its runs with their tasks and answers, the agent's state
                and variables, and the prompt that the agent was given. Each line after it is a step, in the order
                in which they came: "as_it_came", and "as_it_was_left" where it was changed later. "parent" names
                the session of the agent that called this one.
memories.jsonl  {memories} memories, one on a line: the text, where it comes from, when it was made and how it was
                used. "archived" says since when one is put away.
pictures/       the pictures that lines refer to, as PNG files.
data/           other content that lines refer to: large values of variables, as they are kept.

Every file but the pictures and data is UTF-8 text with one JSON object on a line. Times are in UTC.

Left out: the copies that steps hold of all messages before them, which the steps before say already. Not reached:
stores of one's own (Redis, Chroma by URL), backups, and files that were exported before.
"""
_IN_RAM = 1 << 24  # bytes of a session's lines that wait in RAM


class Archive:
    """An archive while it is written. No name in it is anybody else's choice: none leads out of it."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._now = dt.datetime.now().timetuple()[:6]
        self._there: set[str] = set()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    def write(self, name: str, data: bytes | io.IOBase | Any) -> None:
        """A file in it; one that is there already stays."""
        if name in self._there:
            return
        self._there.add(name)
        told = zipfile.ZipInfo(name, self._now)
        told.compress_type, told.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
        with self._zip.open(told, "w", force_zip64=True) as target:
            shutil.copyfileobj(io.BytesIO(data) if isinstance(data, bytes) else data, target)

    def lines(self, name: str) -> Lines:
        """A file of lines, written when it is closed: pictures come in between."""
        return Lines(self, name)


class Lines:
    """One file of JSON lines, while it is written."""

    def __init__(self, archive: Archive, name: str) -> None:
        self._archive, self._name = archive, name
        self._waiting = tempfile.SpooledTemporaryFile(_IN_RAM)  # noqa: SIM115 — as long as this

    def add(self, line: Mapping[str, Any], blobs: Mapping[str, bytes] = MappingProxyType({})) -> None:
        """A line. Content that it names is written beside, and the line says where."""
        told = self._readable(line, blobs)
        text = json.dumps(told, ensure_ascii=False, default=str)
        self._waiting.write(text.encode("utf-8", "backslashreplace") + b"\n")

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        with self._waiting:
            self._waiting.seek(0)
            self._archive.write(self._name, self._waiting)

    def _readable(self, node: Any, blobs: Mapping[str, bytes]) -> Any:
        if isinstance(node, list):
            return [self._readable(each, blobs) for each in node]
        if isinstance(node, float) and not math.isfinite(node):
            return str(node)
        if not isinstance(node, dict):
            return node
        if node.get(TAG) == "str":  # with half a character in it
            return read_blob(node, blobs).decode("utf-8", "surrogatepass")
        if node.get(TAG) == "image":
            return self._picture(node, blobs)
        if isinstance(node.get("at"), str) and node["at"] in blobs:
            name = f"data/{hashlib.sha256(node['at'].encode()).hexdigest()[:20]}.bin"
            self._archive.write(name, read_blob(node, blobs))
            return {**{key: self._readable(each, blobs) for key, each in node.items()}, "at": name}
        return {key: self._readable(each, blobs) for key, each in node.items()}

    def _picture(self, node: dict[str, Any], blobs: Mapping[str, bytes]) -> dict[str, Any]:
        """As a PNG, whatever mode it is in; one image is written once."""
        name = f"pictures/{hashlib.sha256(json.dumps(node, sort_keys=True).encode()).hexdigest()[:20]}.png"
        told = {"picture": name, "size": node.get("size")}
        try:
            plain = node.get("format") == "png" and "transparency" not in node
            self._archive.write(name, read_blob(node, blobs) if plain else _png(decode_value(node, blobs)))
        except (DecodeError, OSError, ValueError) as error:
            return {**told, "picture": None, "lost": str(error)}
        return told


def _png(image: Any) -> bytes:
    target = io.BytesIO()
    shown = image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else image.convert("RGB")
    shown.save(target, "PNG")
    return target.getvalue()


def write_archive(path: Path, database: Database, theirs: Theirs, advance: Callable[[int], None]) -> None:
    """Write all that is a person's into an archive; `advance` is told of each session and each memory."""
    with database.reading() as connection:
        envelope = envelope_of(connection)
        names = {row.id: session_name(connection, row) for row in theirs.sessions}
        scopes = {scope.id: scope_of(envelope.read_scope(scope.name)) for scope in theirs.scopes}
    with Archive(path) as archive:
        for number, row in enumerate(theirs.sessions, 1):
            name = names[row.id]
            slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
            with archive.lines(f"sessions/{number:04}{f'-{slug}' if slug else ''}.jsonl") as lines:
                try:
                    _write_session(lines, database, name)
                except (SessionError, DecodeError) as error:
                    lines.add({"session": name, "lost": str(error)})
                    warn_of_loss(f"session {name!r} could not be read as a whole ({error}); the archive says so")
            advance(1)
        memories = 0
        with archive.lines("memories.jsonl") as lines:
            for scope in theirs.scopes:
                for record in every_record(database, tables.items.c.scope_id == scope.id):
                    lines.add(_memory(record, scopes[scope.id]))
                    memories += 1
                    advance(1)
        now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
        told = {"user": theirs.user, "place": database.place, "now": now}
        readme = _README.format(**told, sessions=len(theirs.sessions), memories=memories)
        archive.write("README.txt", readme.encode("utf-8", "backslashreplace"))


def _write_session(lines: Lines, database: Database, name: str) -> None:
    session = Session(name, database.place)
    runs = [_run(run) for run in session.runs()]
    with database.reading() as connection:
        row, envelope = directory.get(connection, name), envelope_of(connection)
        labels = kept_labels(envelope, row)
        restored = restore(connection, row, read_outline(connection, row, row.checkpoint))
        parent = connection.execute(select(tables.sessions.c.name).where(tables.sessions.c.id == row.parent)).scalar()
        agent = directory.described_agent(envelope, row)
    lines.add(
        {
            "session": name,
            "user": labels.user,
            "title": labels.title,
            "tags": list(labels.tags),
            "parent": None if parent is None else envelope.read_name(parent),
            "created": _time(row.created),
            "updated": _time(row.updated),
            "agent": agent,
            "runs": runs,
            "system_prompt": None if restored.prompt is None else restored.prompt.step.system_prompt,
            **_state(fold(restored.runtime)),
            "lost": restored.losses,
        },
        restored.blobs,
    )
    for number, told in enumerate(session.transcript(), 1):
        blobs = Blobs()
        lines.add({"step": number, "run": told.run, "left": told.left, **_step(told, blobs)}, blobs.data)


def _state(folded: dict[str, Any]) -> dict[str, Any]:
    """An agent's state, typed state and variables, by name."""
    state = {str(name): node for name, node in folded.get("state", {}).get("set", ())}
    return {"state": state, "typed_state": folded.get("typed", {}), "variables": folded.get("variables", {})}


def _step(told: JournaledStep, blobs: Blobs) -> dict[str, Any]:
    kind = getattr(told.original, "type_name", type(told.original).__name__)  # of a class that is not known here
    came = {"kind": kind, "as_it_came": _fields(told.original, blobs)}
    changed = told.step is not None and told.step is not told.original
    return {**came, **({"as_it_was_left": _fields(told.step, blobs)} if changed else {})}


def _fields(step: Any, blobs: Blobs) -> dict[str, Any]:
    """What a step holds, without all that was said before it; each picture by itself."""
    held = {name: value for name, value in attributes(step).items() if name != INPUTS}
    fields: dict[str, Any] = step_record(step, blobs, held)[0]["fields"]
    pictures = {kind_of(step).images: [encode_value(image, blobs) for image in images_of(step)]}
    return {name: pictures.get(name) or node for name, node in fields.items()}


def _run(run: Any) -> dict[str, Any]:
    told = {**dataclasses.asdict(run), "started": _time(run.started), "ended": _time(run.ended)}
    return {**told, "answer": encode_value(run.answer)}


def _memory(record: Record, scope: dict[str, Any] | None) -> dict[str, Any]:
    value = {"text": record.value} if isinstance(record.value, str) else {"value": encode_value(record.value)}
    names = ("kind", "source", "origin", "trust", "made_of", "importance", "uses", "useful", "pinned")
    return {
        "scope": scope,
        "key": record.key,
        **({"damaged": True} if record.damaged else value),
        "metadata": encode_value(record.meta),
        **{name: getattr(record, name) for name in names},
        **{name: _time(getattr(record, name)) for name in ("created", "touched", "archived")},
    }


def _time(seconds: Any) -> str | None:
    """A time as people read it."""
    try:
        return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).isoformat(timespec="milliseconds")
    except (TypeError, ValueError, OverflowError, OSError):  # none, or none that can be
        return None
