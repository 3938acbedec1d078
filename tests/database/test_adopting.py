"""The places of 0.1.0 are taken in, its memories too, at any instant; a process of it that is left fails loudly."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from smolagents_memory import SessionManager, SqlStore
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.migrating import backup_paths
from smolagents_memory.database.opened import Opened


GOLDENS = Path(__file__).parent.parent / "goldens" / "data"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place of 0.1.0 with sessions and memories."""
    folder = tmp_path_factory.mktemp("both")
    shutil.unpack_archive(GOLDENS / "both.tar.xz", folder, "xztar", filter="data")
    return folder / "place" / "memory.db"


def copied(place: Path, target: Path) -> Path:
    target.mkdir(parents=True)
    for file in place.parent.glob("memory.db*"):
        shutil.copy(file, target)
    return target / "memory.db"


def rows(path: Path) -> dict[str, Any]:
    """What 0.1.0's tables hold, in the columns that they have in every schema."""
    plain = {
        "sessions": "id, name, revision, checkpoint, agent, created, updated",
        "session_records": "session, number, segment, created, inputs, fields",
        "session_journal": "session, revision, changes",
        "memory_items": "id, scope_id, key, value, CAST(meta AS BLOB), kind, place, uses, pinned, archived, words",
        "memory_vectors": "id, item_id, vector, live",
        "memory_scopes": "id, name, live, words",
    }
    with closing(sqlite3.connect(path)) as connection:
        return {
            name: connection.execute(f"SELECT {it} FROM {name} ORDER BY 1, 2").fetchall() for name, it in plain.items()
        }


def test_nothing_is_lost_and_what_can_be_listed_is_filled_in(both: Path, tmp_path: Path) -> None:
    path = copied(both, tmp_path / "place")
    before = rows(path)
    database = Database.at(path)
    database.prepare()
    assert rows(path) == before
    (copy,) = backup_paths(path)
    assert rows(copy) == before
    columns = "kind, step_number, began, ended, input_tokens, output_tokens, error"
    with database.reading() as connection:
        listed = connection.exec_driver_sql(f"SELECT {columns} FROM session_records").all()
    kinds = {row.kind for row in listed}
    assert {"TaskStep", "ActionStep", "PlanningStep", "SystemPromptStep"} <= kinds
    actions = [row for row in listed if row.kind == "ActionStep"]
    assert all(row.step_number is not None for row in actions)
    assert sum(row.ended is not None and row.began <= row.ended for row in actions) > len(actions) / 2
    assert any(row.input_tokens for row in actions)
    assert any((row.error or "").startswith("Agent") for row in actions)


def test_what_is_written_from_now_on_is_listed_likewise(tmp_path: Path) -> None:
    from agents import code_agent

    from smolagents_memory import Session
    from smolagents_memory.testing import code

    agent = code_agent([code("1 / 0"), code("final_answer(1)")], planning_interval=None)
    with Session("s", tmp_path).attach(agent):
        agent.run("go")
    with Database.at(tmp_path).reading() as connection:
        listed = connection.execute(tables.records.select().order_by(tables.records.c.number)).all()
    actions = {row.step_number: row for row in listed if row.kind == "ActionStep"}
    assert actions[1].error == "AgentExecutionError"
    assert actions[2].error is None
    step = agent.memory.steps[-1]
    assert (actions[2].began, actions[2].ended) == (step.timing.start_time, step.timing.end_time)
    assert actions[2].input_tokens == step.token_usage.input_tokens
    assert [row.kind for row in listed[:2]] == ["SystemPromptStep", "TaskStep"]


MIGRATE = """
import sys; sys.path[:0] = {path!r}
from smolagents_memory.database.engine import Database
import alembic.command, alembic.config
print("ready", flush=True); sys.stdin.readline()
Database.at({file!r}).prepare()
"""


@pytest.mark.endurance
def test_killed_at_any_instant_a_migration_has_happened_or_not(
    both: Path, tmp_path: Path, rounds: Callable[[int], int], chance: random.Random
) -> None:
    before = rows(copied(both, tmp_path / "first"))
    started = time.perf_counter()
    Database.at(tmp_path / "first").prepare()
    lasting = time.perf_counter() - started
    states = set()
    for number in range(rounds(100)):
        path = copied(both, tmp_path / str(number))
        program = MIGRATE.format(path=sys.path, file=str(path))
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(chance.random() * 1.5 * lasting)
        process.kill()
        process.communicate()
        with closing(sqlite3.connect(path)) as connection:
            (state,) = connection.execute(f"SELECT version_num FROM {tables.VERSION_TABLE}").fetchone()
            assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
        states.add(state)
        assert rows(path) == before
        Database.at(path).prepare()
        assert rows(path) == before
        assert Database.at(path).version() == tables.HEAD
        assert len(SqlStore(path)) > 0
        assert [rows(copy) for copy in backup_paths(path) if copy.suffix != ".partial"] == [before]
        shutil.rmtree(path.parent)
    assert states <= {"0001", tables.HEAD}


# what 0.1.0 has in every transaction of its: what reads or claims a session, what commits a step, what reads a memory
OF_0_1_0 = [
    "SELECT sessions.id, sessions.name, sessions.revision, sessions.checkpoint, sessions.owner FROM sessions",
    "UPDATE sessions SET revision = 9, updated = 1.0 WHERE id = 1 AND revision = 8 AND owner IS NULL",
    "UPDATE sessions SET owner = NULL WHERE id = 1",
    "SELECT memory_items.id, memory_items.value, memory_items.is_text, memory_items.meta FROM memory_items",
    "INSERT INTO memory_items (id, scope_id, key, value, is_text, meta) VALUES (1, 1, '', '', 1, '')",
]


def test_a_process_of_0_1_0_that_is_left_fails_in_all_it_does(both: Path, tmp_path: Path) -> None:
    path = copied(both, tmp_path / "place")
    with closing(sqlite3.connect(path)) as left:
        for statement in OF_0_1_0[:2]:
            left.execute(statement)
        left.rollback()
        SessionManager(path).list_sessions()
        for statement in OF_0_1_0:
            with pytest.raises(sqlite3.OperationalError, match=r"no such column|no column named"):
                left.execute(statement)


def test_a_place_with_an_odd_name_finds_its_copies(both: Path, tmp_path: Path) -> None:
    place = copied(both, tmp_path / "odd %20 [1]")
    path = place.rename(place.with_name("mem[1].db"))
    Database.at(path).prepare()
    assert len(backup_paths(path)) == 1
    Opened.forget_all()
    SessionManager(path).purge()
    assert backup_paths(path) == []
