"""Copies of a place: none destroys what it is made of, none stays behind, and what is put back stays as it was."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent
from program import command, python

from smolagents_memory import EnhancedAgentMemory, MemoryFileError, PlaceError, Session, SessionManager, SqlStore
from smolagents_memory import save_memory as save
from smolagents_memory.database.migrating import backup_path
from smolagents_memory.testing import code


SCHEMAS = Path(__file__).parent / "data"


def filled(where: Any) -> SessionManager:
    agent = code_agent([code("final_answer('kept')")], planning_interval=None)
    with Session("s", where).attach(agent):
        agent.run("go")
    return SessionManager(where)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    filled(tmp_path / "place")
    return tmp_path / "place"


def _link(make: Callable[..., None]) -> Callable[[Path], Path]:
    def made(place: Path) -> Path:
        make(place / "memory.db", place.parent / "link.db")
        return place.parent / "link.db"

    return made


LIVE: dict[str, Callable[[Path], Path]] = {
    "itself": lambda place: place / "memory.db",
    "another spelling": lambda place: place / ".." / place.name / "." / "memory.db",
    "a symbolic link": _link(os.symlink),
    "a hard link": _link(os.link),
    "through a linked folder": lambda place: (
        (place.parent / "f").symlink_to(place) or place.parent / "f" / "memory.db"
    ),
    "its log": lambda place: place / "memory.db-wal",
    "its index": lambda place: place / "memory.db-shm",
    "a migration's copy": lambda place: place / "memory.db.before-0002-from-none",
    "its folder": lambda place: place,
    "no file": lambda place: os.mkfifo(place.parent / "pipe") or place.parent / "pipe",
}


@pytest.mark.parametrize("named", LIVE)
def test_nothing_is_written_onto_the_live_database(named: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager, target = SessionManager(place), LIVE[named](place)
    before = sorted(path.name for path in place.iterdir())
    with pytest.raises(PlaceError):
        manager.backup(target)
    with pytest.raises((PlaceError, MemoryFileError)):
        Session("s", place).export(target)
    if named not in ("its folder", "no file"):
        with pytest.raises(PlaceError, match="in use"):
            manager.restore_backup(target)
    assert sorted(path.name for path in place.iterdir()) == before
    assert len(Session("s", place).steps()) == 2
    assert named != "no file" or target.is_fifo()


def test_a_memory_file_is_not_saved_onto_any_database(place: Path) -> None:
    agent = code_agent([])
    with pytest.raises(MemoryFileError, match="is a database"):
        save(agent, place / "memory.db")
    assert len(Session("s", place).steps()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("backup",), ("export", "s")])
def test_a_command_replaces_no_file_unasked(arguments: tuple[str, ...], place: Path, tmp_path: Path) -> None:
    target = tmp_path / "there"
    target.write_text("dear")
    options = (*arguments, str(target), "--storage", str(place))
    refused = command(*options, cwd=tmp_path)
    assert refused.returncode == 1
    assert "add --yes" in refused.stderr
    assert target.read_text() == "dear"
    assert command(*options, "--yes", cwd=tmp_path).returncode == 0
    assert target.stat().st_size > 100
    assert command(*arguments, str(tmp_path / "new"), "--storage", str(place), cwd=tmp_path).returncode == 0
    onto = command(*arguments, str(place / "memory.db"), "--yes", "--storage", str(place), cwd=tmp_path)
    assert onto.returncode == 1
    assert "in use" in onto.stderr


def test_every_command_that_writes_a_file_can_be_told_to_replace_it() -> None:
    from typer.main import get_command

    from smolagents_memory.cli import doctor, memories, sessions
    from smolagents_memory.cli.app import app

    assert doctor.doctor
    assert memories.search
    assert sessions.sessions
    commands: Any = get_command(app)
    for name, each in commands.commands.items():
        if any("file to write" in (getattr(parameter, "help", None) or "") for parameter in each.params):
            assert any("--yes" in parameter.opts for parameter in each.params), name


KILLED = """
import os, signal, sys
from smolagents_memory import SessionManager, _files
from smolagents_memory.database import copies, maintenance
def killed(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
SessionManager(sys.argv[1]).list_sessions()
setattr({"maintenance": maintenance, "_files": _files, "copies": copies, "os": os}[sys.argv[3]], sys.argv[4], killed)
SessionManager(sys.argv[1]).backup(sys.argv[2])
"""


def kill_a_backup(where: Any, target: Path, *at: str) -> list[Path]:
    """What one leaves that is killed when it has copied everything, or when it does this."""
    at = at or ("maintenance", "opened_directly")
    done = python(KILLED, where, target, *at, check=False)
    assert done.returncode == -signal.SIGKILL
    return [path for path in target.parent.iterdir() if path.name.startswith(".")]


def test_what_a_killed_backup_left_goes_with_the_next_one(url: str, tmp_path: Path) -> None:
    manager, target = filled(url), tmp_path / "kept" / "monday.db"
    assert kill_a_backup(url, target)
    manager.backup(target)
    assert [path.name for path in target.parent.iterdir()] == ["monday.db"]


@pytest.mark.slow
@pytest.mark.parametrize("purge", ["sessions", "memories", "store", "command"])
def test_what_a_killed_backup_left_goes_with_every_purge(purge: str, tmp_path: Path) -> None:
    where, target = tmp_path / "place", tmp_path / "kept" / "monday.db"
    filled(where)
    copy = backup_path(where / "memory.db", "0001")
    shutil.copy(where / "memory.db", copy)
    assert kill_a_backup(where, target)
    assert [path for path in where.iterdir() if path.suffix == ".copying"]
    if purge == "sessions":
        SessionManager(where).purge()
    elif purge == "memories":
        with EnhancedAgentMemory(where, vector=False) as memory:
            memory.purge()
    elif purge == "store":
        assert SqlStore(where).purge()
    else:
        assert command("delete", "s", "--purge", "--yes", "--storage", str(where), cwd=tmp_path).returncode == 0
    assert list(target.parent.iterdir()) == []
    assert sorted(path.name for path in where.iterdir() if "memory.db" not in path.name or "-" not in path.name) == [
        "memory.db"
    ]
    assert not copy.exists()


@pytest.mark.parametrize(
    "at",
    [("os", "fsencode"), ("_files", "make_private"), ("_files", "_sync"), ("os", "replace"), ("_files", "family")],
)
def test_at_no_instant_is_it_forgotten_what_a_killed_backup_left(
    at: tuple[str, str], place: Path, tmp_path: Path
) -> None:
    target = tmp_path / "kept" / "monday.db"
    target.parent.mkdir()
    kill_a_backup(place, target, *at)
    SessionManager(place).purge()
    assert {path.name for path in target.parent.iterdir()} <= {"monday.db"}
    assert [path for path in place.iterdir() if path.suffix == ".copying"] == []


def test_purging_postgres_finds_what_a_killed_backup_left(postgres: str, tmp_path: Path) -> None:
    from databases import emptied

    url, target = emptied(postgres), tmp_path / "kept" / "monday.db"
    filled(url)
    assert kill_a_backup(url, target)
    SessionManager(url).purge()
    assert list(target.parent.iterdir()) == []


RESTORED = """
import os, signal, sys
from smolagents_memory import SessionManager
from smolagents_memory.database import maintenance
def killed(connection, *before):
    os.kill(os.getpid(), signal.SIGKILL)
maintenance._renumber = killed
SessionManager(sys.argv[1]).restore_backup(sys.argv[2])
"""


@pytest.mark.parametrize(
    ("of", "then"),
    [
        ("today", "purge()"),
        ("before", "purge()"),
        pytest.param("before", "restore_backup(sys.argv[2])", marks=pytest.mark.slow),
    ],
)
def test_what_a_killed_restore_left_goes_with_every_purge_and_with_the_next_restore(
    of: str, then: str, url: str, tmp_path: Path
) -> None:
    """The copy of the backup, and that from before the copy was brought to the newest schema."""
    manager, temporary = filled(url), tmp_path / "temporary"
    temporary.mkdir()
    backup = manager.backup(tmp_path / "kept" / "monday.db")
    if of == "before":
        shutil.copy(SCHEMAS / "schema_0001.db", backup)
    manager.database.close()
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    done = python(RESTORED, url, backup, check=False, TMPDIR=str(temporary))
    assert done.returncode == -signal.SIGKILL
    assert manager.list_sessions() == ["s"]
    left = {path for path in tmp_path.rglob("*") if path.suffix == ".tmp" or path.is_relative_to(temporary)} - before
    assert len(left) > 1
    program = f"import sys; from smolagents_memory import SessionManager as M; M(sys.argv[1]).{then}"
    python(program, url, backup, TMPDIR=str(temporary))
    left = {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".copying"} - before
    assert {path.name for path in left} <= {"memory.db-wal", "memory.db-shm"}


NUMBERED = """
import os, signal, sys
from smolagents_memory import SessionManager
from smolagents_memory.database import maintenance
me = os.getpid()
os.getpid = lambda: int(sys.argv[3])  # as the first process of a container has the number of every other such
def stopped(*arguments):
    os.kill(me, getattr(signal, sys.argv[4]))
maintenance.opened_directly = stopped
SessionManager(sys.argv[1]).backup(sys.argv[2])
"""


@pytest.mark.parametrize("then", ["purge", "backup"])
def test_a_killed_backup_is_known_though_its_number_is_another_processs_now(
    then: str, place: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    target = tmp_path / "kept" / "monday.db"
    done = python(NUMBERED, place, target, 1, "SIGKILL", check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(target.parent.glob(".monday.db.1.*.tmp"))
    monkeypatch.setattr("smolagents_memory._files._NOT_YET_LOCKED", -1.0, raising=False)  # it is no moment old
    if then == "purge":
        SessionManager(place).purge()
        assert [path for path in place.iterdir() if path.suffix == ".copying"] == []
    else:
        SessionManager(place).backup(target)
    assert {path.name for path in target.parent.iterdir()} <= {"monday.db"}


@pytest.mark.slow
def test_a_backup_under_way_is_left_alone_though_nobody_here_has_its_number(place: Path, tmp_path: Path) -> None:
    """Its writer is in another container: what is no number here, or ours, is its there."""
    target = tmp_path / "kept" / "monday.db"
    for number in (999_999_999, os.getpid()):
        program = [sys.executable, "-c", NUMBERED, place, target, number, "SIGSTOP"]
        with subprocess.Popen([str(each) for each in program]) as writer:
            try:
                os.waitpid(writer.pid, os.WUNTRACED)
                SessionManager(place).purge()
                with contextlib.suppress(PlaceError):
                    SessionManager(place).backup(target)
                assert list(target.parent.glob(f".monday.db.{number}.*.tmp"))
            finally:
                writer.kill()
                writer.wait()
        SessionManager(place).purge()
        assert not list(target.parent.glob(".*.tmp"))


def test_a_note_erases_nothing_but_what_a_killed_backup_left(place: Path, tmp_path: Path) -> None:
    dear = tmp_path / "dear.txt"
    dear.write_text("dear")
    named = tmp_path / ".x.999999999.0123abcd.tmp"
    named.symlink_to(dear)
    (place / "memory.db.999999999.0123abcd.copying").write_text(str(named))
    (place / "memory.db.999999998.0123abcd.copying").write_text(str(dear))
    SessionManager(place).purge()
    assert dear.read_text() == "dear"


def test_a_backup_under_way_is_left_alone_by_a_purge(place: Path, tmp_path: Path, monkeypatch: Any) -> None:
    from smolagents_memory.database import maintenance

    copy = maintenance.copy_sqlite

    def purging(source: Path, target: Path) -> None:
        copy(source, target)
        SessionManager(place).purge()

    monkeypatch.setattr(maintenance, "copy_sqlite", purging)
    made = SessionManager(place).backup(tmp_path / "monday.db")
    assert SessionManager(made).list_sessions() == ["s"]


def test_a_migrations_copy_goes_with_a_purge_by_any_name_of_the_place(place: Path, tmp_path: Path) -> None:
    copies = [tmp_path / f"link.db.before-{n}" for n in ("0001-from-none", "0002-from-0001.partial")]
    (tmp_path / "link.db").symlink_to(place / "memory.db")
    copies.append(backup_path(tmp_path / "link.db", "0001"))
    for copy in copies:
        shutil.copy(place / "memory.db", copy)
    SessionManager(tmp_path / "link.db").purge()
    assert not [copy for copy in copies if copy.exists()]


# -- putting a copy back -------------------------------------------------------------------------------------------


def _rows(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.parent.iterdir() if each.name.startswith(path.name)}


def wal(folder: Path) -> Path:
    """A copy of a folder's file as a user makes it while it is in use: the last steps are in the log."""
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("SELECT count(*) FROM sessions").fetchone()
        filled_more(folder)
        kept = folder.parent / "kept"
        kept.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{folder / 'memory.db'}{suffix}", kept / f"copy.db{suffix}")
    return kept / "copy.db"


def filled_more(folder: Path) -> None:
    agent = code_agent([code("final_answer(2)")], planning_interval=None)
    with Session("late", folder).attach(agent):
        agent.run("more")


@pytest.mark.parametrize("kind", ["a log beside it", "an older schema", "an old schema with a log"])
def test_putting_a_backup_back_changes_no_byte_of_it(kind: str, place: Path, tmp_path: Path) -> None:
    if kind == "a log beside it":
        backup, there = wal(place), ["late", "s"]
    else:
        (tmp_path / "kept").mkdir()
        old = sorted(SCHEMAS.glob("schema_*.db"))[0]
        backup, there = Path(shutil.copy(old, tmp_path / "kept" / "copy.db")), ["released"]
        if kind != "an older schema":
            with closing(sqlite3.connect(backup)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
    before = _rows(backup)
    backup.parent.chmod(0o500)
    try:
        SessionManager(tmp_path / "new").restore_backup(backup)
    finally:
        backup.parent.chmod(0o700)
    assert SessionManager(tmp_path / "new").list_sessions() == there
    assert _rows(backup) == before


def test_a_backup_that_somebody_writes_to_is_read_as_it_was_at_one_moment(
    place: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    from smolagents_memory.database import maintenance

    copies, real = [], shutil.copyfile

    def copied(source: Any, target: Any) -> Any:
        done = real(source, target)
        if not copies:
            time.sleep(0.02)
            filled_more(place)
        copies.append(source)
        return done

    monkeypatch.setattr(maintenance.shutil, "copyfile", copied)
    SessionManager(tmp_path / "new").restore_backup(place / "memory.db")
    assert SessionManager(tmp_path / "new").list_sessions() == ["late", "s"]
