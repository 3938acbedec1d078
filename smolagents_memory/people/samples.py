"""What tells a person's data from others': every id and key, and samples of texts, pictures and vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, select, tuple_

from smolagents_memory._errors import SmolagentsMemoryError
from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.sealed import Spot
from smolagents_memory.people.needles import forms
from smolagents_memory.people.proof import ID
from smolagents_memory.people.whose import Theirs, session_name
from smolagents_memory.sessions.step_records import read_record
from smolagents_memory.stores.rows import BY_IDS, read_key, record_of, record_rows


_SAMPLE = 200  # of each kind
_TELLING = 24  # characters that a text has at least …
_TAKEN = 48  # … and how many of its middle are looked for
_BYTES = 32  # of a vector
Thing = TypeVar("Thing")


def samples_of(connection: Connection, theirs: Theirs) -> dict[bytes, str]:
    """Byte strings by which what is a person's would be found, and what each of them is."""
    told: dict[bytes, str] = {}
    for what, found in (
        (ID, (session_name(connection, row) for row in theirs.sessions)),
        ("the key of a memory", _keys(connection, theirs)),
        ("a text of a memory", _texts_of_memories(connection, theirs)),
        ("a text of a step", _texts_of_steps(connection, theirs)),
    ):
        told.update(
            dict.fromkeys((form for text in found for form in forms(text) or {text.encode("utf-8", "replace")}), what)
        )
    told.update(dict.fromkeys(_pictures(connection, theirs), "a picture or other large content"))
    told.update(dict.fromkeys(_vectors(connection, theirs), "a vector"))
    return told


def _keys(connection: Connection, theirs: Theirs) -> Iterator[str]:
    items, envelope = tables.items.c, envelope_of(connection)
    for row in theirs.scopes:
        scope = envelope.read_scope(row.name)
        for key in connection.scalars(select(items.key).where(items.scope_id == row.id)).all():
            yield read_key(envelope, scope, key)[0]


def _texts_of_memories(connection: Connection, theirs: Theirs) -> Iterator[str]:
    items, envelope = tables.items.c, envelope_of(connection)
    ids = [
        each for row in theirs.scopes for each in connection.scalars(select(items.id).where(items.scope_id == row.id))
    ]
    for row in record_rows(connection, BY_IDS, {"ids": _some(ids)}) if ids else ():
        value = record_of(envelope, row).value
        yield from _middle(value if isinstance(value, str) else "")


def _texts_of_steps(connection: Connection, theirs: Theirs) -> Iterator[str]:
    table, envelope = tables.records, envelope_of(connection)
    names = {row.id: session_name(connection, row) for row in theirs.sessions}
    found: list[Any] = []
    for some in chunks(theirs.numbers):
        theirs_alone = table.c.kind != "SystemPromptStep"  # which many have alike
        found += connection.execute(
            select(table.c.session, table.c.number).where(table.c.session.in_(some), theirs_alone)
        )
    for some in chunks([tuple(row) for row in _some(found)]):
        wanted = select(table).where(tuple_(table.c.session, table.c.number).in_(some))
        for row in connection.execute(wanted):
            try:
                spot = Spot("session_records", names[row.session], row.number, "fields")
                fields = read_record(envelope.unpack_bytes(row.fields, spot))["fields"]
            except (SmolagentsMemoryError, LookupError, TypeError):  # damaged: others tell
                continue
            for value in fields.values() if isinstance(fields, dict) else ():
                yield from _middle(value if isinstance(value, str) else "")


def _pictures(connection: Connection, theirs: Theirs) -> list[bytes]:
    linked, blobs = tables.session_blobs.c, tables.blobs.c
    found: list[bytes] = []
    for some in chunks(theirs.numbers):
        names = select(blobs.name).join(tables.session_blobs, linked.blob == blobs.id).where(linked.session.in_(some))
        found += [bytes(name) for name in connection.scalars(names)]
    return _some(found)


def _vectors(connection: Connection, theirs: Theirs) -> list[bytes]:
    vectors, found = tables.vectors.c, list[bytes]()
    for row in theirs.scopes:
        found += connection.scalars(select(vectors.vector).where(vectors.scope_id == row.id).limit(_SAMPLE))
    middles = (each[len(each) // 2 :][:_BYTES] for each in _some(found))
    return [each for each in middles if len(each) == _BYTES and any(each)]


def _middle(text: str) -> Iterator[str]:
    if len(text) >= _TELLING:
        at = max(0, (len(text) - _TAKEN) // 2)
        yield text[at : at + _TAKEN]


def _some(found: Sequence[Thing]) -> list[Thing]:
    """So many of them, from everywhere among them."""
    return list(found[:: max(1, -(-len(found) // _SAMPLE))])
