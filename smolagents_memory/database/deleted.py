"""Under a seal: which keys were those of what is deleted, noted for whoever shreds a session or erases a person later.

Deleting leaves the keys, so that a backup can give back what was deleted by mistake. But of what is gone no row tells
the calls that a session had, or what was a person's. A note names nobody: it has marks, made with the place's own key.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, select

from smolagents_memory._errors import SealError
from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.sealed import Key, Keys


_NOTE = "deleted."  # how the names of these rows begin
_about = tables.about.c


class Gone(NamedTuple):
    """What is deleted at once: its owners of keys, asked for by the first of them, and the person whose it was."""

    owners: Collection[str]
    person: str | None


def of_somebody(user: str) -> str:
    """What a person is called where keys are looked for by them."""
    return f"person {user}"


def note_deleted(connection: Connection, gone: Iterable[Gone]) -> None:
    """Note whose keys stay, where they could not be found by a name: within the transaction that deletes the rows."""
    sealed = envelope_of(connection).sealed
    if sealed is None:
        return
    told = [each for each in gone if each.person is not None or len(each.owners) > 1]
    entries: dict[str, list[str]] = {}
    for entry, owner in sealed.keys.entries_of({owner for each in told for owner in each.owners}):
        entries.setdefault(owner, []).append(entry)
    key = sealed.keys.place
    rows = [{"name": f"{_NOTE}{secrets.token_hex(12)}", "value": _note(key, each, entries)} for each in told]
    for some in chunks(rows):
        connection.execute(insert(tables.about), list(some))


def _note(key: Key, gone: Gone, entries: dict[str, list[str]]) -> str:
    asked = [next(iter(gone.owners)), *([] if gone.person is None else [of_somebody(gone.person)])]
    of, names = [_mark(key, "of", each) for each in asked], sorted(n for owner in gone.owners for n in entries[owner])
    return json.dumps({"of": of, "names": names, "mark": _mark(key, "note", *of, "", *names)})


def keys_of_deleted(
    connection: Connection, keys: Keys, whose: Iterable[str] | None = None, *, taken: bool = False
) -> list[str]:
    """The entries of the keyring that are left of these owners or persons, or of all; `taken`, their notes go."""
    places = keys.places()
    asked = {_mark(key, "of", each) for each in whose or () for key in places}
    notes = _notes(connection, keys)
    found = [(name, entries) for name, of, entries in notes if whose is None or asked & set(of)]
    for name, _ in found if taken else ():
        connection.execute(delete(tables.about).where(_about.name == name))
    return sorted({entry for _, entries in found for entry in entries})


def forget_notes(connection: Connection) -> None:
    """The place has no seal: nobody would know the notes again."""
    connection.execute(delete(tables.about).where(_about.name.startswith(_NOTE)))


def _notes(connection: Connection, keys: Keys) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each note: its row, of whom it is, which entries; SealError for one that the place's keys did not write."""
    places = keys.places()
    for row in connection.execute(select(_about.name, _about.value).where(_about.name.startswith(_NOTE))).all():
        try:
            told = json.loads(row.value)
            of, names = [str(each) for each in told["of"]], [str(each) for each in told["names"]]
            marks = [_mark(key, "note", *of, "", *names) for key in places]
            ours = any(hmac.compare_digest(str(told["mark"]), mark) for mark in marks)
        except (ValueError, LookupError, TypeError):
            ours = False
        if not ours:
            raise SealError(
                "what says whose keys are left of what was deleted was not written by this package. No key was thrown "
                "away; restore the newest backup"
            )
        yield row.name, of, names


def _mark(key: Any, *parts: str) -> str:
    found: bytes = key.mark(b"deleted", *(each.encode("utf-8", "surrogatepass") for each in parts))
    return found.hex()
