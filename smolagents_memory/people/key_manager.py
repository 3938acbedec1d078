"""KeyManager: sealing a place and unsealing it, new keys for it, and keys that are thrown away."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, delete, select

from smolagents_memory._brief import brief
from smolagents_memory._errors import PlaceError, SealError, SessionConflictError
from smolagents_memory._progress import progress
from smolagents_memory.database import tables
from smolagents_memory.database.deleted import forget_notes, keys_of_deleted
from smolagents_memory.database.engine import MEMORIES, SEAL, Database, alone
from smolagents_memory.database.envelope import Envelope
from smolagents_memory.database.places import Place
from smolagents_memory.database.redacting import forget_redacted
from smolagents_memory.database.scopes import scope_of
from smolagents_memory.database.seal_state import UNPURGED, keys_for, read_state, write_state
from smolagents_memory.database.sealed import of_scope, of_session
from smolagents_memory.people.recasting import Recast, rows_of_all
from smolagents_memory.people.shredding import current_keys, keep_one, note, owners_in, shred_noted, to_shred
from smolagents_memory.privacy.exported import read_exported, write_exported
from smolagents_memory.privacy.masters import SALT
from smolagents_memory.privacy.sealing import OF_FILES, PlaceKeys, Seal, name_of_master, rewrap
from smolagents_memory.search.purging import purge
from smolagents_memory.sessions import directory, leases
from smolagents_memory.stores.bank import Bank
from smolagents_memory.stores.records import ScopeInfo
from smolagents_memory.stores.rows import scope_name


@dataclass(frozen=True)
class KeyInfo:
    """Whose keys an entry of the keyring holds: whether the one in use is there, and how many were retired."""

    whose: str
    """"the place", "session user-42", "scope user=ann", or "" for what is no more."""
    in_use: bool
    retired: int


class KeyManager:
    """The keys of one place: seal it, unseal it, give it new keys, throw keys away.

    Args:
        place: A `Place` with its seal; for `seal` and `unseal` the one that it is to have, or has.

    >>> import os
    >>> from smolagents_memory import KeyManager, Place, Seal, Session, SqlStore
    >>> SqlStore("agent_memory").add("k", "a secret")
    >>> place = Place("agent_memory", seal=Seal(os.urandom(32), keyring="keys"))
    >>> KeyManager(place).seal()
    >>> SqlStore(place).get("k")
    'a secret'
    """

    def __init__(self, place: Place) -> None:
        if not isinstance(place, Place) or not isinstance(place.seal, Seal):
            raise SealError(f"a KeyManager takes a Place with its seal: Place(…, seal=Seal(…)), not {brief(place)}")
        self.place, self._seal = place, place.seal
        self.database = Database(place, MEMORIES, as_it_lies=True)

    def __repr__(self) -> str:
        return f"KeyManager({self.place!r})"

    # -- the whole place ---------------------------------------------------------------------------------------

    def seal(self, *, show: bool | None = None) -> None:
        """Turn a plain place into a sealed one, and purge it of what lay there plain. Goes on where it was killed."""
        with self._alone() as connection:
            text = read_state(connection)
            if text is None:
                place = self.database.place_id(connection)
                forget_notes(connection)
                keys = self._seal.keys(place, self._seal.begin(place), str(self.place))
                self._recast(connection, None, keys, show, "Sealing")
                note(connection, UNPURGED, "1")
            else:
                keys_for(self._seal, text, self.database.place_id(connection), str(self.place))
        self._purge()

    def unseal(self, *, show: bool | None = None) -> None:
        """Turn a sealed place into a plain one. Its keys stay in the keyring, for backups of it."""
        with self._alone() as connection:
            keys = self._keys(connection)
            if keys is not None:
                shred_noted(connection, keys)
                forget_notes(connection)
                self._recast(connection, keys, None, show, "Unsealing")
        self.database.close()

    def reseal(self, *, show: bool | None = None) -> None:
        """Write everything anew with new keys. The retired ones stay, for backups, until `drop`."""
        with self._alone() as connection:
            keys = self._sealed(connection)
            new = self._seal.keys(keys.id, self._seal.add(keys.entry), str(self.place))
            self._recast(connection, keys, new, show, "Sealing anew")
            note(connection, UNPURGED, "1")
        self._purge()

    def rotate(self, new: Seal) -> int:
        """Wrap all keys with the master of another seal, in the same keyring; how many entries that were.

        What is sealed is not written anew. Killed at any instant, one of both masters opens everything: do it again.
        """
        if not isinstance(new, Seal) or new.mode != self._seal.mode or str(new.keyring) != str(self._seal.keyring):
            raise SealError("the new seal is a Seal of the same mode with the same keyring; nothing was changed")
        with self._alone(of_sessions=False) as connection:
            keys = self._opened_by_either(connection, new)
            if name_of_master(new.master) == name_of_master(self._seal.master):
                raise SealError(
                    "both seals have one master, or masters of one name: give each a `name` of its own. Nothing was "
                    "changed"
                )
            names = [*self._entries(connection, keys), *self._of_files(new, self._seal)]
            done = rewrap(self._seal, new, names)
            write_state(connection, keys, keys.seal.mode)  # whoever has it open looks for its keys again
        self.database.close()
        return done

    def drop(self) -> int:
        """Throw away the retired keys, and those of what is no more: backups that need them cannot be read again.

        How many entries of the keyring were deleted or made smaller.
        """
        with self._alone(of_sessions=False) as connection:
            keys = self._sealed(connection)
            done, current = shred_noted(connection, keys), current_keys(connection, keys)
            names = {*keys_of_deleted(connection, keys, taken=True), *self._entries(connection, keys)}
            return done + sum(keep_one(keys, name, current.get(name)) for name in sorted(names))

    # -- one session, one scope --------------------------------------------------------------------------------

    def shred(self, *, session: str | None = None, scope: Mapping[str, Any] | None = None) -> int:
        """Delete a session, or all memories of a scope, and their keys: no backup of the place gives them back.

        How many entries of the keyring were deleted. Whoever has it open in RAM right now still has it. Done again it
        finishes what was killed, and else does nothing more.
        """
        if (session is None) == (scope is None) or not isinstance(session, (str, type(None))):
            raise PlaceError("shred takes a session's id, which is a text, or a scope; nothing was deleted")
        owners = [of_session(session)] if session is not None else [of_scope(scope_name(scope))]
        database = Database(self.place, MEMORIES)
        with database.writing() as connection:
            alone(connection, "memories")
            if session is not None:
                owners = self._remove_session(connection, session, owners)
            else:
                _remove_scope(connection, Bank(database, scope))
            keys = self._sealed(connection)
            to_shred(connection, keys, owners)
            write_state(connection, keys, keys.seal.mode)
        deleted = self.end_shredding()
        purge(database)
        return deleted

    def end_shredding(self) -> int:
        """Delete the keys of what was deleted to be shredded, also of one who was killed; how many entries."""
        with self._alone(of_sessions=False) as connection:
            return shred_noted(connection, self._sealed(connection))

    def _remove_session(self, connection: Connection, session: str, owners: list[str]) -> list[str]:
        row = directory.find_to_write(connection, session)
        if row is None:
            return owners
        if leases.is_alive(self.database, connection, row):
            raise SessionConflictError(f"session {session!r} is being written; nothing was deleted")
        owners = [of_session(name) for name in _family(connection, row)]
        directory.remove(connection, row.id)
        return owners

    # -- the keyring -------------------------------------------------------------------------------------------

    def list(self) -> list[KeyInfo]:
        """Whose keys there are, and how many were retired; last those of what is no more, of which no name is left."""
        with self.database.reading() as connection:
            keys = self._sealed(connection)
            owners = [owner for owner, _ in owners_in(connection, keys)]
            current, names = current_keys(connection, keys), list(self._entries(connection, keys))
            named = {keys.entry: "the place", **{name: _told(owner) for name, owner in keys.entries_of(owners)}}
        found: dict[str, tuple[bool, int]] = dict.fromkeys(["the place", *sorted(map(_told, owners))], (False, 0))
        for name in names:
            held, whose = self._seal.read(name) or {}, named.get(name, "")
            in_use, retired = found.get(whose, (False, 0))
            mine = current.get(name) in held
            found[whose] = (in_use or mine, retired + len(held) - mine)
        return [KeyInfo(whose, *counted) for whose, counted in found.items()]

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the place's keys, wrapped as they are, into a file of its owner's alone: a copy of the keyring."""
        with self.database.reading() as connection:
            names = [*self._entries(connection, self._sealed(connection)), *self._of_files(self._seal), SALT]
        return write_exported(path, {name: self._seal.keyring.get(name) for name in names})

    def import_(self, path: str | os.PathLike[str]) -> int:
        """Put keys that were exported into the keyring, but for those that are there; how many were put."""
        keys, keyring = read_exported(path), self._seal.keyring
        there = {name: _got(keyring, name) for name in keys}
        if SALT in keys and there[SALT] not in (None, keys[SALT]):
            raise SealError(
                f"the keyring {keyring} has another salt for passphrases than {path}: the keys would not open there. "
                "Nothing was changed: import them into a keyring of their own"
            )
        missing = [name for name in keys if there[name] is None]
        return sum(keyring.put_if_absent(name, keys[name]) == keys[name] for name in missing)

    # -- inside ------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, *, of_sessions: bool = True) -> Iterator[Connection]:
        """A transaction in which nobody else writes to the place, and (unless told otherwise) none is attached."""
        with self.database.writing() as connection:
            for what in (SEAL, "schema", "memories", "blobs"):
                alone(connection, what)
            if of_sessions:
                _refuse_attached(self.database, connection)
            yield connection

    def _keys(self, connection: Connection) -> PlaceKeys | None:
        text = read_state(connection)
        if text is None:
            return None
        return cast(PlaceKeys, keys_for(self._seal, text, self.database.place_id(connection), str(self.place)))

    def _sealed(self, connection: Connection) -> PlaceKeys:
        keys = self._keys(connection)
        if keys is None:
            raise SealError(f"{self.place} is not sealed: KeyManager(place).seal(). Nothing was changed")
        return keys

    def _opened_by_either(self, connection: Connection, new: Seal) -> PlaceKeys:
        """The keys of the place: a rotation that was killed may have left them to the new master alone."""
        try:
            return self._sealed(connection)
        except SealError as error:
            text, place = read_state(connection), self.database.place_id(connection)
            if text is not None:
                with suppress(SealError):
                    return cast(PlaceKeys, keys_for(new, text, place, str(self.place)))
            raise error

    def _entries(self, connection: Connection, keys: PlaceKeys) -> Iterator[str]:
        """The names of all entries of the place that are known, of retired keys and of what is no more as well."""
        listed = getattr(self._seal.keyring, "names", None)
        if listed is not None:
            yield from (name for name in listed() if name.startswith(f"{keys.id}."))
            return
        yield keys.entry
        owners = [owner for owner, _ in owners_in(connection, keys)]
        yield from (name for name, _ in keys.entries_of(owners))

    def _of_files(self, *seals: Seal) -> Iterator[str]:
        """The names of the entries of files that one of these wrapped; other places may have the keyring, too."""
        for name in getattr(self._seal.keyring, "names", list)():
            if name.startswith(OF_FILES) and any(seal.has_wrapped(name) for seal in seals):
                yield name

    def _recast(
        self, connection: Connection, before: PlaceKeys | None, after: PlaceKeys | None, show: bool | None, what: str
    ) -> None:
        place, shown = self.database.place_id(connection), str(self.place)
        with progress(what, rows_of_all(connection), unit="rows", show=show) as advance:
            Recast(connection, Envelope(place, before, shown), Envelope(place, after, shown), advance).all()
        write_state(connection, after, self._seal.mode)

    def _purge(self) -> None:
        self.database.close()
        purge(Database(self.place, MEMORIES))
        with self.database.writing() as connection:
            connection.execute(delete(tables.about).where(tables.about.c.name == UNPURGED))


def _refuse_attached(database: Database, connection: Connection) -> None:
    rows = connection.execute(select(tables.sessions).where(tables.sessions.c.writer.is_not(None))).all()
    alive = sum(leases.is_alive(database, connection, row) for row in rows)
    if alive:
        raise SessionConflictError(
            f"{alive} sessions of {database} are attached somewhere: detach them first. Nothing was changed"
        )


def _family(connection: Connection, row: Any) -> Iterator[str]:
    """The names of a session and of all that its managed agents' calls made."""
    yield directory.name_of(connection, row)
    for child in directory.children(connection, row.id):
        yield from _family(connection, child)


def _remove_scope(connection: Connection, bank: Bank) -> None:
    scope = bank.number_of(connection)
    if scope is None:
        return
    bank.empty(connection, scope)
    forget_redacted(connection, bank.name)
    connection.execute(delete(tables.sources).where(tables.sources.c.scope_id == scope))
    connection.execute(delete(tables.scopes).where(tables.scopes.c.id == scope))


def _told(owner: str) -> str:
    """An owner as the command line names them."""
    kind, _, name = owner.partition(" ")
    return f"scope {ScopeInfo(scope_of(name), 0).named}" if kind == "scope" else owner


def _got(keyring: Any, name: str) -> bytes | None:
    try:
        found: bytes | None = keyring.get(name)
    except SealError:  # there is no keyring yet
        return None
    return found
