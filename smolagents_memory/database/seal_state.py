"""Whether a place is sealed, as a row of its own says, and the keys with which it is opened."""

from __future__ import annotations

import json
import secrets
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, select

from smolagents_memory._errors import SealError
from smolagents_memory.database import tables
from smolagents_memory.database.sealed import Keys, Sealed, Seals


UNPURGED = "unpurged"  # a row that says: what a place held before it was sealed may still lie in its files
_NAME = "seal"
_READ = f"SELECT value FROM memory_about WHERE name = '{_NAME}'"
_CANARY = b"smolagents-memory"


class SealState(NamedTuple):
    """What the row says: how a place is sealed, and the number of its own key."""

    mode: str
    key: int
    turn: str
    """Another one whenever keys have changed, so that nobody goes on with those of before."""
    canary: str

    @property
    def told(self) -> bytes:
        """What the canary is bound to."""
        return f"{self.mode} {self.key} {self.turn}".encode()


def read_state(connection: Connection) -> str | None:
    """The row as it lies there; None for a place without a seal."""
    found: Any = connection.exec_driver_sql(_READ).scalar()
    return None if found is None else str(found)


def write_state(connection: Connection, keys: Keys | None, mode: str = "") -> None:
    """Say that a place is sealed with these keys, or (None) that it is not."""
    connection.execute(delete(tables.about).where(tables.about.c.name == _NAME))
    if keys is not None:
        state = SealState(mode, keys.number, secrets.token_hex(8), "")
        state = state._replace(canary=keys.place.seal(_CANARY, state.told).hex())
        value = json.dumps({"version": 1, **state._asdict()})
        connection.execute(insert(tables.about).values(name=_NAME, value=value))


def renew(connection: Connection, sealed: Sealed) -> None:
    """Have whoever has the place open look for its keys again."""
    write_state(connection, sealed.keys, "sign" if sealed.keys.signs else "seal")


def is_unpurged(connection: Connection) -> bool:
    """Whether what a place held before it was sealed may still lie in its files."""
    about = tables.about.c
    return connection.execute(select(about.name).where(about.name == UNPURGED)).first() is not None


def parsed(text: str, shown: str) -> SealState:
    """What the row says."""
    try:
        told = json.loads(text)
        return SealState(str(told["mode"]), int(told["key"]), str(told["turn"]), str(told["canary"]))
    except (ValueError, LookupError, TypeError):
        raise SealError(f"{shown}: what says how it is sealed is damaged; restore the newest backup") from None


def begin(connection: Connection, seal: Seals, place: str, shown: str) -> None:
    """Seal a place that holds nothing yet; one that holds something is refused."""
    if read_state(connection) is not None:
        return
    if not _is_empty(connection):
        raise plain(shown)
    write_state(connection, seal.keys(place, seal.begin(place), shown), seal.mode)


def plain(shown: str) -> SealError:
    """The error for a place that was opened with a seal and has none."""
    return SealError(
        f"{shown} was opened with a seal and holds values without one. Nothing was changed: `smolagents-memory seal` "
        "turns it into a sealed one, or open it without a seal"
    )


def keys_for(seal: Seals | None, text: str | None, place: str, shown: str) -> Keys | None:
    """The keys of a place whose row says this; SealError where the seal is not the one, or is missing."""
    if text is None:
        if seal is not None:
            raise plain(shown)
        return None
    if seal is None:
        raise SealError(
            f"{shown} is sealed, and was opened without a seal. Nothing was changed: Place(…, seal=Seal(…)), or "
            "--key-file and --keyring"
        )
    state = parsed(text, shown)
    if state.mode != seal.mode:
        raise SealError(
            f'{shown} has a seal of the mode "{state.mode}": Seal(…, mode="{state.mode}"). Nothing was changed'
        )
    keys = seal.keys(place, state.key, shown)
    try:
        whole = keys.place.open(bytes.fromhex(state.canary), state.told) == _CANARY
    except (SealError, ValueError):
        whole = False
    if not whole:
        raise SealError(
            f"{shown}: what says how it is sealed was changed. Nothing was written; restore the newest backup"
        )
    return keys


def _is_empty(connection: Connection) -> bool:
    tables_of_ours = [table for table in tables.metadata.sorted_tables if table not in (tables.about, tables.changes)]
    return all(connection.execute(select(table).limit(1)).first() is None for table in tables_of_ours)
