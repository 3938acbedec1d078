"""Keyrings: where the wrapped keys of sealed places are kept, apart from the places and from their backups."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from smolagents_memory._brief import brief
from smolagents_memory._errors import SealError
from smolagents_memory._files import make_folder, make_private, named_file
from smolagents_memory._forks import uncut


FILE = "keyring.db"  # in a folder
_TABLE = "smolagents_memory_keyring"
_IN_POSTGRES = "SELECT count(*) FROM pg_tables WHERE tablename = :t AND schemaname = ANY (current_schemas(false))"


@runtime_checkable
class Keyring(Protocol):
    """What keeps keys by name. What `put_if_absent`, `replace` and `delete` did is durable when they return.

    One of your own may have `names() -> list[str]` as well, by which `keys drop` finds the keys of what is no more.
    """

    def get(self, name: str) -> bytes | None: ...

    def put_if_absent(self, name: str, value: bytes) -> bytes:
        """Keep a value unless there is one of that name; what is there now."""
        ...

    def replace(self, name: str, value: bytes) -> None: ...

    def delete(self, name: str) -> None:
        """No byte of it is left; nothing happens where there is none."""
        ...


def keyring_of(given: Any) -> Keyring:
    """A folder, a database URL, or an object that is a keyring already."""
    if isinstance(given, (str, os.PathLike)):
        named = os.fspath(given)
        if not named or not isinstance(named, str):
            raise SealError(f"a keyring is a folder, a database URL or an object, not {brief(given)}")
        if "://" in named:
            return SqlKeyring(named)
        folder = Path(os.path.abspath(os.path.expanduser(named_file(named))))
        return SqlKeyring(URL.create("sqlite", database=str(folder / FILE)), str(folder))
    if not isinstance(given, Keyring):
        raise SealError(
            "a keyring is a folder, a database URL, or an object with get, put_if_absent, replace and delete, not "
            f"{brief(given)}"
        )
    return given


def replace_all(keyring: Keyring, values: Mapping[str, bytes]) -> None:
    """Replace many values: one by one, or as fast as the keyring can."""
    at_once = getattr(keyring, "replace_many", None)
    if at_once is not None:
        at_once(values)
        return
    for name, value in values.items():
        keyring.replace(name, value)


def read_all(keyring: Keyring, names: Iterable[str]) -> dict[str, bytes]:
    """The values that are there: one by one, or as fast as the keyring can."""
    at_once = getattr(keyring, "get_many", None)
    if at_once is not None:
        return dict(at_once(names))
    found = ((name, keyring.get(name)) for name in names)
    return {name: value for name, value in found if value is not None}


class SqlKeyring:
    """A keyring in a database of its own: a SQLite file, such as the one in a folder, or Postgres.

    >>> import tempfile
    >>> keyring = SqlKeyring(f"sqlite:///{tempfile.mkdtemp()}/keys.db")
    >>> keyring.put_if_absent("a", b"one"), keyring.put_if_absent("a", b"two"), keyring.names()
    (b'one', b'one', ['a'])
    """

    def __init__(self, url: str | URL, shown: str = "") -> None:
        self._shown = shown
        try:
            self.url = make_url(url)
            if self.url.get_backend_name() == "postgresql":
                self.url = self.url.set(drivername="postgresql+psycopg")
            elif self.url.get_backend_name() != "sqlite" or not _names_a_file(self.url):
                raise SealError("the URL of a keyring begins with sqlite:/// (and names a file) or with postgresql://")
            self._engine: Engine = create_engine(self.url, poolclass=NullPool, **_connecting(self.url))
        except (SQLAlchemyError, ValueError, ModuleNotFoundError) as error:
            if isinstance(error, SealError):
                raise
            raise SealError(f"what was given is no URL of a keyring ({type(error).__name__})") from None
        self._sqlite = self.url.get_backend_name() == "sqlite"
        self._seen = False  # it was there: one that is missing since is not made anew
        if self._sqlite:
            event.listen(self._engine, "connect", _configure)

    def __str__(self) -> str:
        return self._shown or self.url.render_as_string(hide_password=True)

    @property
    def path(self) -> Path | None:
        """Its file, unless it is in Postgres."""
        return Path(str(self.url.database)) if self._sqlite else None

    def __repr__(self) -> str:
        return f"SqlKeyring({str(self)!r})"

    def get(self, name: str) -> bytes | None:
        if not self._is_there():
            raise self._missing()
        with self._begun() as connection:
            found: Any = connection.execute(text(f"SELECT value FROM {_TABLE} WHERE name = :n"), {"n": name}).scalar()
        return None if found is None else self._sound(name, found)

    def get_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """The values that are there, of these names."""
        wanted = set(names)
        with self._begun() as connection:
            rows = connection.execute(text(f"SELECT name, value FROM {_TABLE}")).all()
        return {row.name: self._sound(row.name, row.value) for row in rows if row.name in wanted}

    def put_if_absent(self, name: str, value: bytes) -> bytes:
        self._make()
        with self._begun() as connection:
            given = {"n": name, "v": value}
            connection.execute(text(f"INSERT INTO {_TABLE} VALUES (:n, :v) ON CONFLICT (name) DO NOTHING"), given)
            there: Any = connection.execute(text(f"SELECT value FROM {_TABLE} WHERE name = :n"), given).scalar()
        return self._sound(name, there)

    def replace(self, name: str, value: bytes) -> None:
        self.replace_many({name: value})

    def replace_many(self, values: Mapping[str, bytes]) -> None:
        """All of them or none."""
        self._make()
        statement = f"INSERT INTO {_TABLE} VALUES (:n, :v) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        rows = [{"n": name, "v": value} for name, value in values.items()]
        if rows:
            with self._begun() as connection:
                connection.execute(text(statement), rows)

    def delete(self, name: str) -> None:
        if self._is_there():
            with self._begun() as connection:
                connection.execute(text(f"DELETE FROM {_TABLE} WHERE name = :n"), {"n": name})
            self._tidy()

    def names(self) -> list[str]:
        """The names of all keys."""
        if not self._is_there():
            return []
        with self._begun() as connection:
            return sorted(connection.execute(text(f"SELECT name FROM {_TABLE}")).scalars())

    def _sound(self, name: str, value: Any) -> bytes:
        if not isinstance(value, (bytes, memoryview)):  # SQLite keeps any kind of value anywhere
            raise SealError(f"the entry {name} of the keyring {self} is damaged: put back a copy of it")
        return bytes(value)

    def _missing(self) -> SealError:
        return SealError(
            f"the keyring {self} is not there; nothing was opened or changed: put it back where it was, or name the "
            "right one"
        )

    def _is_there(self) -> bool:
        if self.path is not None and not self.path.is_file():
            return False
        with self._begun() as connection:
            exists = "SELECT count(*) FROM sqlite_master WHERE name = :t" if self._sqlite else _IN_POSTGRES
            there = bool(connection.execute(text(exists), {"t": _TABLE}).scalar())
        self._seen |= there
        return there

    def _make(self) -> None:
        if self._seen:
            return
        if self.path is not None:
            try:
                make_folder(Path(os.path.abspath(self.path)).parent)
                make_private(self.path)
            except OSError as error:
                raise SealError(f"the keyring {self} cannot be made: {error}; nothing was changed") from error
        kind = "BLOB" if self._sqlite else "BYTEA"
        with self._begun() as connection:
            made = f"CREATE TABLE IF NOT EXISTS {_TABLE} (name VARCHAR(200) PRIMARY KEY, value {kind} NOT NULL)"
            connection.execute(text(made))
        self._seen = True

    def _tidy(self) -> None:
        """Postgres keeps what was deleted until it is vacuumed; SQLite has written over it already."""
        if not self._sqlite:
            with contextlib.suppress(SQLAlchemyError), self._engine.connect() as connection:
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
                connection.execute(text(f"VACUUM FULL {_TABLE}"))

    @contextlib.contextmanager
    def _begun(self) -> Iterator[Connection]:
        try:
            with uncut(), self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            if self.path is not None and not self.path.is_file():
                raise self._missing() from None
            raise SealError(
                f"the keyring {self} cannot be used ({type(error).__name__}); nothing was changed in the place"
            ) from None  # what it quotes may hold a password


def _names_a_file(url: URL) -> bool:
    return bool(url.database) and not str(url.database).startswith((":memory:", "file:")) and "uri" not in url.query


def _connecting(url: URL) -> dict[str, Any]:
    """SQLite makes no file by itself: one that is taken away is missed, and one that is made is its owner's alone."""
    if url.get_backend_name() != "sqlite":
        return {}
    named = f"{Path(os.path.abspath(str(url.database))).as_uri()}?mode=rw"
    return {"creator": lambda: sqlite3.connect(named, uri=True, check_same_thread=False)}


def _configure(connection: Any, _: Any) -> None:
    for statement in ("PRAGMA secure_delete=ON", "PRAGMA synchronous=FULL", "PRAGMA busy_timeout=60000"):
        connection.execute(statement)
