"""Rows and pages of sessions that are not what they should be: whoever reads is told in our words, and no run ends."""

from __future__ import annotations

import random
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent, photo
from program import command

from smolagents_memory import MemoryLossWarning, Session, SessionManager, SmolagentsMemoryError
from smolagents_memory.database import tables
from smolagents_memory.database.opened import Opened
from smolagents_memory.testing import code


def _run(where: Path) -> None:
    agent = code_agent([code("print(1)"), code("final_answer(43)")], planning_interval=None)
    with Session("s", where).attach(agent):
        assert agent.run("more", reset=False) == 43, "a running agent goes on"


READERS: dict[str, Callable[[Path], Any]] = {
    "list_sessions": lambda where: SessionManager(where).list_sessions(),
    "sessions": lambda where: SessionManager(where).sessions(),
    "exists": lambda where: Session("s", where).exists(),
    "steps": lambda where: Session("s", where).steps(),
    "steps of a run": lambda where: Session("s", where).steps(1),
    "memory": lambda where: Session("s", where).memory(),
    "system_prompt": lambda where: Session("s", where).system_prompt,
    "runs": lambda where: Session("s", where).runs(),
    "original": lambda where: Session("s", where).original(1),
    "children": lambda where: Session("s", where).children(),
    "fork": lambda where: Session("s", where).fork("new", 1),
    "export": lambda where: Session("s", where).export(where / "s.jsonl"),
    "restore": lambda where: Session("s", where).restore(code_agent([])),
    "attach": _run,
    "resume": lambda where: Session("s", where).resume(code_agent([code("final_answer(43)")])),
    "save_session": lambda where: SessionManager(where).save_session(code_agent([]), "s"),
    "expire": lambda where: SessionManager(where).expire(0.0),
    "delete": lambda where: Session("s", where).delete(),
    "backup": lambda where: SessionManager(where).backup(where / "b.db"),
    "purge": lambda where: SessionManager(where).purge(),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database with a session, as its bytes."""
    where = tmp_path_factory.mktemp("whole")
    agent = code_agent([code("x = 'a' * 3000\nprint(x)"), code("final_answer(42)")], planning_interval=None)
    with Session("s", where).attach(agent):
        agent.run("go", images=[photo()])
        agent.memory.steps[1].observations = "cut"
    Session("s", where).fork("kept")
    Opened.forget_all()
    with closing(sqlite3.connect(where / "memory.db")) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    return (where / "memory.db").read_bytes()


def every_reader(damage: Callable[[Path], None], folder: Path, names: Any = READERS) -> None:
    for name in names:
        where = folder / name
        where.mkdir()
        damage(where / "memory.db")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MemoryLossWarning)
            try:
                READERS[name](where)
            except SmolagentsMemoryError as error:
                assert len(str(error)) > 20, "in a sentence"
        Opened.forget_all()
        shutil.rmtree(where)


def put(path: Path, whole: bytes, column: Any, value: str) -> None:
    """Write a value of another kind into a column, in every row."""
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = ?", (column.table.name,)
        )
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        for only in ("", f" WHERE rowid = (SELECT min(rowid) FROM {column.table.name})"):
            try:
                connection.execute(f"UPDATE {column.table.name} SET {column.name} = {value}{only}")
                break
            except sqlite3.Error:  # two of one value where each is another, or a number where none else can be
                continue
        connection.commit()


READ = (tables.sessions, tables.records, tables.journal, tables.runs, tables.blobs, tables.session_blobs, tables.about)
COLUMNS = {f"{table.name}.{column.name}": column for table in READ for column in table.c}
SPOILT = ["NULL", "'text'", "X'ff80'", "10000000000"]
WORST = ["sessions.name", "sessions.revision", "session_records.fields"]  # the rest take longer


@pytest.mark.slow
@pytest.mark.parametrize("column", [pytest.param(n, marks=[] if n in WORST else pytest.mark.slow) for n in COLUMNS])
def test_a_value_of_another_kind_is_told_in_our_words(column: str, whole: bytes, tmp_path: Path) -> None:
    for value in SPOILT[1::2] if column in WORST else SPOILT:
        every_reader(lambda path, value=value: put(path, whole, COLUMNS[column], value), tmp_path)


def spoilt(whole: bytes, chance: random.Random) -> bytes:
    data, kind = bytearray(whole), chance.randrange(3)
    if kind == 0:
        for _ in range(chance.randrange(1, 60)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    else:
        size = 200 if kind == 1 else 4096
        start = chance.randrange(0, len(data) - size, 1 if kind == 1 else size)
        data[start : start + size] = chance.randbytes(size)
    return bytes(data)


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 8))])
def test_a_damaged_page_is_told_in_our_words(part: int, whole: bytes, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed + part)
    for _ in range(5 if part else 2):
        data = spoilt(whole, chance)
        every_reader(lambda path, data=data: path.write_bytes(data) and None, tmp_path)


def test_what_is_damaged_is_left_out_of_a_list_and_named(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE sessions SET updated = 'text' WHERE name = ?", (b"s",))
        connection.execute("UPDATE session_runs SET started = X'00' WHERE session = 2")
    manager = SessionManager(tmp_path)
    with pytest.warns(MemoryLossWarning, match=r"row of session 's' is damaged"):
        assert [info.session_id for info in manager.sessions()] == ["kept"]
    with pytest.warns(MemoryLossWarning, match="a run of session 'kept' is damaged"):
        assert Session("kept", tmp_path).runs() == []
    assert len(Session("kept", tmp_path).steps()) == 3
    for each in (["sessions"], ["show", "kept"]):
        assert "Traceback" not in command(*each, "--storage", str(tmp_path), cwd=tmp_path).stderr, each
    assert manager.delete_session("s")


def test_damage_under_a_running_agent_does_not_end_it(whole: bytes, tmp_path: Path, seed: int) -> None:
    """The file is spoilt between two steps: the run goes on, and `flush` says what was not written."""
    chance, told = random.Random(seed), 0
    for round_ in range(6):
        where = tmp_path / str(round_)
        where.mkdir()
        path = where / "memory.db"
        path.write_bytes(whole)

        def spoil(path: Path, a_part: int, step: Any, agent: Any = None) -> None:
            Opened.forget_all()  # or SQLite goes on with the pages that it knows
            data = path.read_bytes()
            path.write_bytes(spoilt(data, chance) if a_part else chance.randbytes(len(data)))

        agent = code_agent(
            [code("print(1)"), code("final_answer(44)")], step_callbacks=[partial(spoil, path, round_ % 2)]
        )
        try:
            with Session("s", where).attach(agent):
                assert agent.run("more", reset=False) == 44
        except SmolagentsMemoryError:
            told += 1
        Opened.forget_all()
    assert told


def test_a_place_that_is_no_step_is_named(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "memory.db").write_bytes(whole)
    with pytest.raises(SmolagentsMemoryError, match="has 3 steps, none at place 7"):
        Session("s", tmp_path).original(7)
