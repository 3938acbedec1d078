"""The seal of a place as options and the environment name it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqlalchemy import inspect

from smolagents_memory._errors import PlaceError, SealError, SmolagentsMemoryError
from smolagents_memory.cli.app import named
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.places import Place
from smolagents_memory.database.seal_state import parsed, read_state
from smolagents_memory.stores.opening import is_store_url


PASSPHRASE = "SMOLAGENTS_MEMORY_PASSPHRASE"


def sealed_place(storage: str, key_file: str | None, keyring: str | None) -> str | Place:
    """The place with its seal, or what was named where no keys were. No key file is made."""
    if not (key_file or keyring or os.environ.get(PASSPHRASE)):
        return storage
    place = place_named(storage)
    seal = seal_named(key_file, keyring, mode=_mode_of(place), passphrase=PASSPHRASE)
    return Place(place, seal=seal)


def place_named(storage: str) -> Place:
    """The place; PlaceError for a store, which cannot be sealed."""
    if is_store_url(storage):
        raise PlaceError(
            f"{named(storage)} is a store of memories alone, which cannot be sealed: leave out --key-file, --keyring "
            f"and {PASSPHRASE}, or name a place"
        )
    return Place(storage)


def seal_named(
    key_file: str | None, keyring: str | None, *, mode: Any, passphrase: str, option: str = "--key-file"
) -> Any:
    """The seal of a key file (`option` names it) or of a passphrase in a variable. The key file must be there."""
    from smolagents_memory.privacy.sealing import Seal

    secret = os.environ.get(passphrase)
    if not keyring:
        raise SealError("a place is opened with its keys and its master key: name the keyring with --keyring")
    if bool(key_file) == bool(secret):
        both = "both were given, and" if secret else "neither was given:"
        raise SealError(f"{both} one opens the keyring: {option}, or a passphrase in {passphrase}")
    if secret:
        return Seal.from_passphrase(secret, keyring, mode=mode)
    path = key_file_at(str(key_file))
    if not path.is_file():
        raise SealError(
            f"there is no key file {str(path)!r}, and none was made: a new key opens nothing. Put the right one back, "
            "or name it; `smolagents-memory seal` makes one for a place that is to be sealed"
        )
    return Seal.from_file(path, keyring, mode=mode)


def key_file_at(key_file: str) -> Path:
    """Where a key file is."""
    return Path(os.path.abspath(os.path.expanduser(key_file)))


def mode_read(place: Place) -> str | None:
    """How a place is sealed, as it says itself; None where it is not, or is not there. Nothing is made or changed."""
    if place.in_ram or (place.path is not None and not place.path.exists()):
        return None
    database = Database(place, as_it_lies=True)
    with database.faults_named("read"), database.opened.begun(relaxed=False) as connection:
        text = read_state(connection) if inspect(connection).has_table(tables.about.name) else None
    return None if text is None else parsed(text, str(place)).mode


def _mode_of(place: Place) -> str:
    try:
        return mode_read(place) or "seal"
    except SmolagentsMemoryError:  # it is told where the place is opened
        return "seal"
