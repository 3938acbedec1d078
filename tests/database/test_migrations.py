"""Databases of earlier versions are brought up to date after a copy; newer ones are refused; new ones cost nothing."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent, photo, rendered
from smolagents.memory import ActionStep, TaskStep
from sqlalchemy import inspect, text

from smolagents_memory import EnhancedAgentMemory, NewerSchemaError, Session, SessionManager, SessionStorageError
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.migrating import backup_paths
from smolagents_memory.database.opened import Opened
from smolagents_memory.testing import code, explain_difference


RELEASED = sorted((Path(__file__).parent / "data").glob("schema_*.db"))


def imported(script: str) -> set[str]:
    """The modules that a fresh interpreter has after a script."""
    script = f"import sys; sys.path[:0] = {sys.path!r}\n{script}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def at_base(url: str) -> None:
    """Leave a database as one that no migration has touched: a version table with nothing in it."""
    database = Database.at(url)
    with database.engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE {tables.VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    database.close()


def reflected(url: str) -> dict[str, Any]:
    """All that a database says of its tables."""
    database = Database.at(url)
    found = inspect(database.engine)
    tables = {}
    for name in sorted(found.get_table_names()):
        tables[name] = {
            "columns": {
                column["name"]: (str(column["type"]), column["nullable"], column.get("autoincrement"))
                for column in found.get_columns(name)
            },
            "key": found.get_pk_constraint(name)["constrained_columns"],
            "foreign": sorted(
                (key["constrained_columns"], key["referred_table"], key["options"])
                for key in found.get_foreign_keys(name)
            ),
            "indexes": sorted((str(index["name"]), index["column_names"]) for index in found.get_indexes(name)),
            "unique": sorted(each["column_names"] for each in found.get_unique_constraints(name)),
        }
    database.close()
    return tables


def forget_open_databases() -> None:
    """As another process would begin."""
    Opened.forget_all()


@pytest.mark.slow
def test_alembic_is_imported_for_an_older_database_only(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    use = f"from smolagents_memory import SessionManager; SessionManager({url!r}).list_sessions()"
    assert "alembic" not in imported(use)  # it is new
    assert "alembic" not in imported(use)  # it is there
    (tmp_path / "m.db").unlink()
    at_base(url)
    assert "alembic" in imported(use)
    assert "alembic" not in imported(use)


def test_migrating_from_the_beginning_gives_what_making_it_anew_gives(url: str, tmp_path: Path) -> None:
    if url.startswith("sqlite"):
        fresh = f"sqlite:///{tmp_path}/fresh.db"
        Database.at(fresh).prepare()
        made = reflected(fresh)
    else:
        Database.at(url).prepare()
        made = reflected(url)
        with Database.at(url).engine.begin() as connection:
            tables.metadata.drop_all(connection)
            connection.execute(text(f"DROP TABLE {tables.VERSION_TABLE}"))
        forget_open_databases()
    at_base(url)
    forget_open_databases()
    Database.at(url).prepare()
    assert reflected(url) == made
    assert Database.at(url).version() == tables.HEAD
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    with Session("s", url).attach(agent):
        agent.run("it works", images=[photo()])
    assert len(Session("s", url).steps()) == 2


def test_a_copy_from_before_is_kept_and_is_as_the_database_was(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    url = f"sqlite:///{path}"
    at_base(url)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mark (text)")
        connection.execute("INSERT INTO mark VALUES ('before')")
        connection.commit()
        before = list(connection.iterdump())
    forget_open_databases()
    Database.at(url).prepare()
    (copy,) = backup_paths(path)
    with closing(sqlite3.connect(copy)) as connection:
        assert list(connection.iterdump()) == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT text FROM mark").fetchone() == ("before",)
    SessionManager(url).purge()
    assert backup_paths(path) == []


def test_a_newer_database_is_refused_and_left_alone(url: str) -> None:
    Session("s", url).attach(code_agent([])).detach()
    with Database.at(url).engine.begin() as connection:
        connection.execute(text(f"UPDATE {tables.VERSION_TABLE} SET version_num = '9999'"))
    forget_open_databases()
    path = Database.at(url).path
    before = path.read_bytes() if path is not None else b""
    for action in (
        lambda: Session("s", url).attach(code_agent([])),
        lambda: Session("s", url).steps(),
        lambda: SessionManager(url).list_sessions(),
        lambda: SessionManager(url).purge(),
    ):
        with pytest.raises(NewerSchemaError, match=r"9999, made by a newer .* Nothing was changed: pip install -U"):
            action()
    if path is not None:
        assert path.read_bytes() == before
        assert backup_paths(path) == []


def test_a_migration_that_fails_leaves_the_database_as_it_was(url: str, tmp_path: Path) -> None:
    at_base(url)
    with Database.at(url).engine.begin() as connection:  # in the way of the migration, and not its first table
        connection.execute(text("CREATE TABLE session_runs (theirs INTEGER)"))
        connection.execute(text("INSERT INTO session_runs VALUES (7)"))
    before = reflected(url)
    forget_open_databases()
    for _ in range(2):
        with pytest.raises(SessionStorageError, match="could not be brought from schema none to") as raised:
            SessionManager(url).list_sessions()
        assert "a copy from before" in str(raised.value) or url.startswith("postgresql")
        assert reflected(url) == before
    with Database.at(url).engine.begin() as connection:
        assert connection.execute(text("SELECT theirs FROM session_runs")).scalar() == 7
        connection.execute(text("DROP TABLE session_runs"))
    forget_open_databases()
    assert SessionManager(url).list_sessions() == []
    path = Database.at(url).path
    assert path is None or len(backup_paths(path)) == 1


@pytest.mark.slow
def test_three_processes_may_migrate_at_once(url: str) -> None:
    at_base(url)
    forget_open_databases()
    script = f"""
import sys; sys.path[:0] = {sys.path!r}
from smolagents_memory import SessionManager
sys.stdin.readline()
print(SessionManager({url!r}).list_sessions())
"""
    begun = [
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in begun:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60)[0].strip() for process in begun] == ["[]"] * 3
    assert Database.at(url).version() == tables.HEAD


@pytest.mark.parametrize("released", RELEASED, ids=lambda path: path.stem)
def test_a_database_of_each_released_schema_is_read_and_written(released: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    shutil.copy(released, path)
    url = f"sqlite:///{path}"
    agent = code_agent([code("final_answer(kept + twice(1))")], planning_interval=None)
    session = Session("released", url)
    with session.attach(agent):
        before = session.steps()
        assert [type(step) for step in before[-3:]] == [TaskStep, ActionStep, ActionStep]
        assert before[-3].task == "Remember it."
        assert before[-3].task_images[0].getpixel((1, 1)) == (255, 0, 0)
        assert "forty" in before[-2].observations
        assert agent.state == {"user": "someone"}
        assert agent.run("And now?", reset=False) == 44
    other = code_agent([])
    assert Session("released", url).restore(other)
    assert explain_difference(rendered(agent), rendered(other)) is None
    assert session.original(1).observations != before[1].observations
    assert [run.state for run in session.runs()] == ["finished"] * 2
    assert len(session.fork("fork", at=2).steps()) == 3
    assert backup_paths(path) == [] or tables.HEAD not in released.stem


def test_there_is_a_database_of_every_released_schema() -> None:
    versions = Path(tables.__file__).parent / "migrations" / "versions"
    assert {path.stem.removeprefix("schema_") for path in RELEASED} == {
        path.stem.split("_")[0] for path in versions.glob("[0-9]*.py")
    }


def test_what_was_remembered_before_has_the_origin_that_its_kind_tells(tmp_path: Path) -> None:
    """All of it is trusted as it was: nobody noted which tools had been asked."""
    path = tmp_path / "m.db"
    shutil.copy(Path(__file__).parent / "data" / "memories_0002.db", path)
    database = Database.at(path)
    database.prepare()
    with database.reading() as connection:
        rows = connection.execute(tables.items.select()).mappings().all()
    learnt = {"experience", "action", "failure", "outcome", "unsolved", "solution", "lesson"}
    assert {row["kind"]: row["origin"] for row in rows} == {
        "memory": "user", "fact": "user", "document": "document", **dict.fromkeys(learnt, "agent"),
    }  # fmt: skip
    assert {(row["trust"], row["made_of"]) for row in rows} == {(1, None)}
    with EnhancedAgentMemory(path, vector=False) as memory:
        assert memory.recall("a note of the kind lesson on pumps", 1)[0].value == "A note of the kind lesson on pumps."


def test_memories_of_schema_0003_know_what_they_were_made_of(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    shutil.copy(Path(__file__).parent / "data" / "schema_0003.db", path)
    with EnhancedAgentMemory(path, vector=False) as memory:
        told = {hit.key: (hit.origin, hit.trust, hit.tools) for hit in memory.recall("is tea green?")}
        assert told == {
            "tea": ("user", 1, ()), "page": ("tool", 2, ("web_search",)), "lesson": ("user", 0, ("web_search",)),
        }  # fmt: skip
        assert set(memory.revoke(source="web_search")) == {"page", "lesson"}
