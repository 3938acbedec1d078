"""Which files nothing may be written onto: a database that somebody has open, and what belongs to one."""

from __future__ import annotations

import glob
import os
import re
import sqlite3
from pathlib import Path

from smolagents_memory._errors import PlaceError
from smolagents_memory._files import BESIDE
from smolagents_memory._locks import is_locked
from smolagents_memory.database.direct import opened_directly


_LOGS = ("-wal", "-journal")  # which SQLite would play into whatever lies beside them
_PART = re.compile(
    r"(?P<of>.+?)(?:-wal|-shm|-journal|\.\d+-\d+\.bits|\.\d+\.[0-9a-f]{8}\.copying|(?P<lock>(?:\.[0-9a-f]{16})?\.lock))",
    re.DOTALL,
)


def refuse_databases_in_use(path: Path) -> None:
    """Raise PlaceError if `path` is a database that is not closed, or a file that belongs to one beside it.

    A database that is closed is a file like others. One whose log lies beside it is not: SQLite would play that into
    whatever took the database's place.
    """
    refuse_parts(path)
    path = Path(os.path.realpath(path))
    if path.is_file() and _is_open(path):
        raise _in_use(path)


def refuse_parts(path: Path) -> None:
    """The same of a file that is known to be no database itself."""
    path = Path(os.path.realpath(path))
    part = _PART.fullmatch(path.name)
    of = path.with_name(part["of"]) if part else path
    if part and (is_database(of) or (part["lock"] and of.is_dir())):
        raise PlaceError(f"{path} is part of the database {of.name}; it was left as it was: name another file")
    logs = [f"{path.name}{each}" for each in _LOGS if os.path.lexists(f"{path}{each}")]
    if logs:
        raise PlaceError(
            f"{path} is a database that is in use, or that was not closed ({logs[0]} lies beside it). It was left as "
            "it was: name another file, or close it where it is open; what a killed process left goes when it is "
            "opened and closed once more"
        )
    if _is_locked(path):
        raise _in_use(path)


def _in_use(path: Path) -> PlaceError:
    return PlaceError(
        f"{path} is a database that another process or connection is using; it was left as it was: name another file, "
        "or close it there"
    )


def is_database(path: Path) -> bool:
    """Whether it is SQLite's. One that is in use is known by what lies beside it.

    It is not opened to be looked at then: to close it again would take away the locks that SQLite has on it here.
    """
    if not path.is_file():
        return False
    if any(os.path.lexists(f"{path}{each}") for each in BESIDE):
        return True
    with path.open("rb") as there:
        return there.read(16) == b"SQLite format 3\0"


def _is_locked(path: Path) -> bool:
    """Whether a process is attached to a session in it, or has the folder of Chroma's in which it is."""
    attached = path.parent.glob(f"{glob.escape(path.name)}.*.lock")
    return any(is_locked(each) for each in (*attached, Path(f"{path.parent}.lock")))


def _is_open(path: Path) -> bool:
    """Whether SQLite has it open, without a log: somebody reads or writes now."""
    try:
        with opened_directly(f"{path.as_uri()}?mode=rw", uri=True, timeout=0) as connection:
            connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        return "locked" in str(error)
    except sqlite3.DatabaseError:  # it is none
        return False
    return False
