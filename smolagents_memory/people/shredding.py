"""Keys that are thrown away for good, with what they were for: noted where the rows go, deleted after that.

What is to be deleted is noted in the transaction that deletes the rows. So whoever is killed leaves all of it there,
or a note by which it is ended.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from smolagents_memory._errors import SealError
from smolagents_memory.database import tables
from smolagents_memory.database.deleted import keys_of_deleted, of_somebody
from smolagents_memory.database.envelope import Envelope
from smolagents_memory.database.owners import scope_rows, session_rows
from smolagents_memory.database.sealed import Key, of_scope, of_session
from smolagents_memory.privacy.sealing import PlaceKeys


_NOTE = "shredding"  # a row that names entries of the keyring


def to_shred(connection: Connection, keys: PlaceKeys, owners: Iterable[str], *persons: str) -> None:
    """Note that the keys of these owners go: within the transaction that deletes their rows.

    So do those that are left of what was deleted before, with these owners or of these persons.
    """
    owners = list(owners)
    names = [name for name, _ in keys.entries_of(owners)]
    left = keys_of_deleted(connection, keys, [*owners, *map(of_somebody, persons)], taken=True)
    all_names = sorted({*_noted(connection, keys), *names, *left})
    note(connection, _NOTE, json.dumps({"names": all_names, "mark": _mark(keys.place, all_names)}))


def shred_noted(connection: Connection, keys: PlaceKeys) -> int:
    """Delete all keys that were noted, within a transaction that has the place for itself; how many entries that were.

    What somebody has made under the same name since keeps the key that it was made with.
    """
    names = _noted(connection, keys)
    current = current_keys(connection, keys) if names else {}
    deleted = sum(keep_one(keys, name, current.get(name)) for name in names)
    connection.execute(delete(tables.about).where(tables.about.c.name == _NOTE))
    return deleted


def _noted(connection: Connection, keys: PlaceKeys) -> list[str]:
    """What a note names; SealError for one that was not written with the keys of the place."""
    about = tables.about.c
    text = connection.execute(select(about.value).where(about.name == _NOTE)).scalar()
    try:
        told = json.loads(text or '{"names": []}')
        names = [str(each) for each in told["names"]]
        marks = [_mark(key, names) for key in keys.places()]  # it may have got another one since
        ours = not names or any(hmac.compare_digest(str(told["mark"]), mark) for mark in marks)
    except (ValueError, LookupError, TypeError):
        ours = False
    if not ours:
        raise SealError(
            f"{keys.shown}: what says which keys are to be thrown away was not written by this package, and none is. "
            "Nothing was written; restore the newest backup"
        )
    return names


def _mark(key: Key, names: list[str]) -> str:
    """Only who has the keys has others thrown away."""
    return key.mark(_NOTE.encode(), *(name.encode() for name in names)).hex()


def current_keys(connection: Connection, keys: PlaceKeys) -> dict[str, int]:
    """The number of the key that is in use now, by the names of the entries."""
    owned = {keys.entry_of(owner): number for owner, number in owners_in(connection, keys)}
    return {keys.entry: keys.number, **owned}


def owners_in(connection: Connection, keys: PlaceKeys) -> Iterator[tuple[str, Any]]:
    """All that has a key of its own in a place, and the key's number."""
    envelope = Envelope(keys.id, keys, keys.shown)
    assert envelope.sealed is not None
    for row in session_rows(connection, envelope.sealed):  # by a number that somebody wrote there, keys would go
        yield of_session(envelope.read_name(row.name)), row.seal_key
    for row in scope_rows(connection, envelope.sealed):
        yield of_scope(envelope.read_scope(row.name)), row.seal_key


def keep_one(keys: PlaceKeys, name: str, number: int | None) -> bool:
    """Throw away all keys of an entry but this one; whether there were others."""
    seal = keys.seal
    held = seal.read(name) or {}
    kept = {each: key for each, key in held.items() if each == number}
    if kept == held:
        return False
    if kept:
        seal.keyring.replace(name, seal.wrapped(name, kept))
    else:
        seal.keyring.delete(name)
    return True


def note(connection: Connection, name: str, value: str) -> None:
    """A row that says something of the place."""
    connection.execute(delete(tables.about).where(tables.about.c.name == name))
    connection.execute(insert(tables.about).values(name=name, value=value))
