"""Nothing is written onto a database that somebody has open, nor onto what belongs to one."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent
from program import command, python

from smolagents_memory import PlaceError, Session, SessionManager, save_memory
from smolagents_memory._errors import SmolagentsMemoryError
from smolagents_memory.testing import code


def filled(where: Path, session: str) -> SessionManager:
    agent = code_agent([code("final_answer('kept')")], planning_interval=None)
    with Session(session, where).attach(agent):
        agent.run("go")
    return SessionManager(where)


@pytest.fixture
def mine(tmp_path: Path) -> SessionManager:
    return filled(tmp_path / "mine", "mine")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    filled(tmp_path / "theirs", "theirs").database.close()
    assert [each.name for each in (tmp_path / "theirs").iterdir()] == ["memory.db"]
    return tmp_path / "theirs" / "memory.db"


KILLED = """
import os, signal, sys
from smolagents_memory import SessionManager, SqlStore
SqlStore(sys.argv[1]).add("late", "in the log")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_database_with_its_log_beside_it_is_not_replaced(mine: SessionManager, theirs: Path) -> None:
    python(KILLED, theirs, check=False)
    assert Path(f"{theirs}-wal").stat().st_size
    before = theirs.read_bytes()
    with pytest.raises(PlaceError, match=r"memory\.db-wal lies beside it.*name another file"):
        mine.backup(theirs)
    assert theirs.read_bytes() == before
    assert SessionManager(theirs).list_sessions() == ["theirs"]


def test_a_log_alone_is_played_into_no_backup(mine: SessionManager, theirs: Path) -> None:
    python(KILLED, theirs, check=False)
    theirs.unlink()
    with pytest.raises(PlaceError, match="lies beside it"):
        mine.backup(theirs)
    assert not theirs.exists()


@pytest.mark.slow
def test_the_command_refuses_it_too(mine: SessionManager, theirs: Path, tmp_path: Path) -> None:
    python(KILLED, theirs, check=False)
    done = command("backup", str(theirs), "--yes", "--storage", str(tmp_path / "mine"), cwd=tmp_path)
    assert done.returncode == 1
    assert "lies beside it" in done.stderr


def test_a_database_that_is_read_without_a_log_is_not_replaced(mine: SessionManager, theirs: Path) -> None:
    with closing(sqlite3.connect(theirs, isolation_level=None)) as reader:
        reader.execute("PRAGMA journal_mode=DELETE")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sessions").fetchone()
        with pytest.raises(PlaceError, match="is using"):
            mine.backup(theirs)
    assert SessionManager(mine.backup(theirs)).list_sessions() == ["mine"]


def test_one_that_is_opened_while_the_copy_is_made_is_not_replaced(
    mine: SessionManager, theirs: Path, monkeypatch: Any
) -> None:
    from smolagents_memory.database import maintenance

    copy = maintenance.copy_sqlite

    def opening(source: Path, target: Path) -> None:
        copy(source, target)
        SessionManager(theirs).list_sessions()

    monkeypatch.setattr(maintenance, "copy_sqlite", opening)
    with pytest.raises(PlaceError, match="lies beside it"):
        mine.backup(theirs)
    assert SessionManager(theirs).list_sessions() == ["theirs"]


def test_a_place_that_an_agent_is_attached_to_is_not_replaced(mine: SessionManager, theirs: Path) -> None:
    lock = theirs.with_name("memory.db.0123456789abcdef.lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(PlaceError, match="is using"):
            mine.backup(theirs)
    mine.backup(theirs)


def test_a_file_of_chromas_is_not_replaced_while_somebody_has_the_folder(mine: SessionManager, theirs: Path) -> None:
    folder = theirs.parent / "chroma"
    folder.mkdir()
    shutil.copy(theirs, folder / "chroma.sqlite3")
    with (theirs.parent / "chroma.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(PlaceError, match="is using"):
            mine.backup(folder / "chroma.sqlite3")


def test_one_that_is_closed_is_a_file_like_others(mine: SessionManager, theirs: Path) -> None:
    assert SessionManager(mine.backup(theirs)).list_sessions() == ["mine"]


PARTS = ["-wal", "-shm", "-journal", ".0123456789abcdef.lock", ".lock", ".1.0123abcd.copying"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_written_onto_what_belongs_to_a_database(
    mine: SessionManager, theirs: Path, part: str, is_there: bool
) -> None:
    target = Path(f"{theirs}{part}")
    if is_there:
        target.touch()
    before = sorted(os.listdir(theirs.parent))
    for write in (
        mine.backup,
        lambda path: save_memory(code_agent([]), path),
        Session("mine", mine.database.place).export,
    ):
        with pytest.raises(SmolagentsMemoryError, match=r"part of the database memory\.db"):
            write(target)
    assert sorted(os.listdir(theirs.parent)) == before
    assert not is_there or target.read_bytes() == b""


def test_nor_onto_the_lock_of_chromas_folder(mine: SessionManager, theirs: Path) -> None:
    (theirs.parent / "chroma").mkdir()
    with pytest.raises(PlaceError, match="part of the database chroma"):
        mine.backup(theirs.parent / "chroma.lock")


@pytest.mark.parametrize("name", ["notes-journal", "poetry.lock", "a-wal", "b-shm"])
def test_a_name_that_only_looks_like_it_is_free(mine: SessionManager, tmp_path: Path, name: str) -> None:
    (tmp_path / "notes").write_text("of a trip")
    assert SessionManager(mine.backup(tmp_path / name)).list_sessions() == ["mine"]
