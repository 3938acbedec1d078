"""When the database fails, the run goes on, nothing that is in memory is lost, and nobody is left in the dark."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent, photo, rendered
from smolagents.memory import ActionStep, TaskStep
from sqlalchemy import text

from smolagents_memory import MemoryLossWarning, Session, SessionManager, SessionStorageError
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.opened import Opened
from smolagents_memory.testing import code, explain_difference


Breaking = tuple[Callable[[], object], Callable[[], object]]
BIG = "print('{}' * 90_000)"  # an observation that needs room


def full_by_limit(path: Path, request: pytest.FixtureRequest) -> Breaking:
    """No file may grow; the operating system says so in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    mend = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)  # noqa: E731
    request.addfinalizer(mend)
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1])), mend


def full_by_disk(path: Path, request: pytest.FixtureRequest) -> Breaking:
    """A small disk that somebody else fills."""
    mounted(request, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path.parent))
    filler = path.parent / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as target:
            try:
                while target.write(bytes(4096)):
                    pass
            except OSError:
                return

    return fill, filler.unlink


def mounted(request: pytest.FixtureRequest, *arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    request.addfinalizer(lambda: subprocess.run(["umount", "-l", arguments[-1]], check=False))


def moved_away(path: Path, request: pytest.FixtureRequest) -> Breaking:
    aside = path.with_name("aside.db")
    return lambda: path.rename(aside), lambda: aside.rename(path)


def replaced(path: Path, request: pytest.FixtureRequest) -> Breaking:
    """Another database of the same kind is put in its place, and taken away again."""
    aside = path.with_name("aside.db")

    def replace() -> None:
        path.rename(aside)
        other = SessionManager(f"sqlite:///{path.with_name('other.db')}")
        other.save_session(code_agent([]), "s")
        other.database.close()
        path.with_name("other.db").rename(path)

    return replace, lambda: aside.replace(path)


def unwritable(path: Path, request: pytest.FixtureRequest) -> Breaking:
    """The files refuse every write. (Not SQLite's -shm, which is mapped: there it kills.)"""

    def set_to(sign: str) -> None:
        files = [path, path.with_name(f"{path.name}-wal")]
        subprocess.run(["chattr", f"{sign}i", *map(str, files)], check=True, capture_output=True)

    probe = path.with_name("probe")
    probe.touch()
    for sign in "+-":
        if (
            shutil.which("chattr") is None
            or subprocess.run(["chattr", f"{sign}i", str(probe)], check=False).returncode
        ):
            pytest.skip("chattr is not permitted here")
    request.addfinalizer(lambda: path.exists() and set_to("-"))
    return lambda: set_to("+"), lambda: set_to("-")


FAULTS = [full_by_limit, full_by_disk, moved_away, replaced, unwritable]


@pytest.fixture(params=FAULTS, ids=lambda fault: fault.__name__)
def fault(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], object], Callable[[], object]]:
    folder = tmp_path / "db"
    folder.mkdir()
    return f"sqlite:///{folder}/m.db", *request.param(folder / "m.db", request)


def with_fault(begin: Callable[[], object] | None, end: Callable[[], object] | None = None) -> Any:
    """An agent of six steps: the fault begins in the middle of the third and ends in the middle of the fifth."""

    def at(then: Callable[[], object] | None, source: str) -> Any:
        def answer(messages: Any) -> str:
            if then is not None:
                then()
            return code(source)

        return answer

    script = [at(None, "print(1)"), at(None, "print(2)"), at(begin, BIG.format("c")), at(None, BIG.format("d"))]
    return code_agent([*script, at(end, "print(5)"), at(None, "final_answer(6)")], planning_interval=None)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def check_kept(agent: Any, url: str) -> None:
    other = code_agent([])
    assert Session("s", url).restore(other)
    assert explain_difference(rendered(agent), rendered(other)) is None
    assert explain_difference(list(agent.memory.steps), list(other.memory.steps)) is None


def test_the_run_goes_on_and_what_was_missed_is_written_when_it_can_be(fault: Any, caplog: Any) -> None:
    url, begin, end = fault
    agent, session = with_fault(begin, end), Session("s", url)
    with session.attach(agent):
        assert agent.run("go", images=[photo()]) == 6
        session.flush()
    assert len(errors(caplog)) == 1
    assert "is not being written" in errors(caplog)[0]
    assert "is being written again; nothing was missed" in caplog.text
    check_kept(agent, url)
    assert [run.state for run in session.runs()] == ["finished"]


def test_flush_and_leaving_raise_while_it_lasts_and_then_no_more(fault: Any, caplog: Any) -> None:
    url, begin, end = fault
    agent, session = with_fault(begin), Session("s", url)
    with pytest.raises(SessionStorageError, match=r"What is in memory is untouched"), session.attach(agent):
        assert agent.run("go") == 6
        with pytest.raises(SessionStorageError):
            session.flush()
    assert len(errors(caplog)) == 1
    assert len(agent.memory.steps) == 7
    end()
    assert [type(step) for step in Session("s", url).steps()] == [TaskStep, ActionStep, ActionStep]
    SessionManager(url).save_session(agent, "s")
    check_kept(agent, url)


def test_what_was_missed_is_written_by_flush_after_the_run(fault: Any) -> None:
    url, begin, end = fault
    agent, session = with_fault(begin), Session("s", url)
    with session.attach(agent):
        assert agent.run("go") == 6
        end()
        session.flush()
        check_kept(agent, url)


def test_a_deleted_database_is_not_made_anew_behind_anybody_s_back(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "m.db"
    agent, session = with_fault(path.unlink), Session("s", f"sqlite:///{path}")
    with pytest.raises(SessionStorageError, match="deleted, moved or replaced"), session.attach(agent):
        assert agent.run("go") == 6
        with pytest.raises(SessionStorageError, match="deleted, moved or replaced"):
            session.flush()
        assert not path.exists()
    assert len(errors(caplog)) == 1
    SessionManager(f"sqlite:///{path}").save_session(agent, "s")
    check_kept(agent, f"sqlite:///{path}")


def test_a_deleted_folder_is_no_reason_to_stop_either(tmp_path: Path, caplog: Any) -> None:
    folder = tmp_path / "memory"
    agent, session = with_fault(lambda: shutil.rmtree(folder)), Session("s", f"sqlite:///{folder}/m.db")
    with pytest.raises(SessionStorageError), session.attach(agent):
        assert agent.run("go") == 6
    assert len(errors(caplog)) == 1
    assert not folder.exists()


def test_a_run_begins_though_the_database_is_away_already(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "m.db"
    agent = code_agent([code("final_answer(1)")] * 3, planning_interval=None)
    with Session("s", f"sqlite:///{path}").attach(agent) as session:
        path.rename(tmp_path / "aside")
        assert [agent.run("go", reset=False) for _ in range(3)] == [1, 1, 1]
        assert len(errors(caplog)) == 1
        (tmp_path / "aside").rename(path)
        session.flush()
    check_kept(agent, f"sqlite:///{path}")


def test_a_place_where_nothing_can_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    with pytest.raises(SessionStorageError, match="Not a directory"):
        Session("s", f"sqlite:///{tmp_path}/file/m.db").attach(agent)
    assert agent.run("it is as it was") == 1


def test_a_folder_where_nothing_can_be_written_is_told_at_once(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / "db"
    url = f"sqlite:///{folder}/m.db"
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    with Session("s", url).attach(agent):
        agent.run("go")
    Opened.forget_all()
    mounted(request, "--bind", str(folder), str(folder))
    subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
    with pytest.raises(SessionStorageError, match="cannot be opened"):
        Session("s", url).attach(code_agent([]))
    subprocess.run(["mount", "-o", "remount,rw,bind", str(folder)], check=True)
    assert len(Session("s", url).steps()) == 2
    Database.at(url).close()


def test_a_postgres_that_is_stopped_and_started_again_misses_nothing(own_postgres: Any, caplog: Any) -> None:
    url = own_postgres.get_uri()

    def start() -> None:
        own_postgres.ensure_postgres_running()
        assert own_postgres.get_uri() == url

    agent, session = with_fault(own_postgres.stop, start), Session("s", url)
    with session.attach(agent):
        assert agent.run("go", images=[photo()]) == 6
    assert len(errors(caplog)) == 1
    check_kept(agent, url)
    again = code_agent([code("final_answer(7)")], planning_interval=None)
    with pytest.raises(SessionStorageError), session.attach(again):
        own_postgres.stop()
        assert again.run("more", reset=False) == 7
        with pytest.raises(SessionStorageError, match="cannot be written"):
            session.flush()
    start()
    assert explain_difference(list(session.steps()), list(agent.memory.steps)) is None
    Database.at(url).close()


# -- damage --------------------------------------------------------------------------------------------------------


def filled(url: str) -> Any:
    """An agent with a session of five runs, edits and images among their steps."""
    agent = code_agent([], planning_interval=None)
    agent.state["kept"] = list(range(2000))
    with Session("s", url).attach(agent) as session:
        for number in range(5):
            agent.model = code_agent([code(f"print({number})"), code(f"final_answer({number})")]).model
            agent.run(f"task {number}", reset=number == 2, images=[photo(size=(30 + number, 30))])
            agent.memory.steps[-1].observations = f"edited {number}"
        session.flush()
    return agent


def flip(url: str, table: str, column: str, row: int) -> bool:
    """Change a byte in the middle of a value; tells whether there was one."""
    with Database.at(url).writing() as connection:
        key = "ctid" if connection.dialect.name == "postgresql" else "rowid"
        order = ", ".join(column.name for column in tables.metadata.tables[table].primary_key)
        found = connection.execute(
            text(f"SELECT {key} AS at, {column} AS data FROM {table} WHERE {column} IS NOT NULL ORDER BY {order}")
        ).fetchall()
        if row >= len(found):
            return False
        data = bytearray(found[row].data)
        data[len(data) // 2] ^= 0x55
        where = "CAST(:at AS tid)" if key == "ctid" else ":at"
        change = text(f"UPDATE {table} SET {column} = :data WHERE {key} = {where}")
        connection.execute(change, {"data": bytes(data), "at": str(found[row].at) if key == "ctid" else found[row].at})
    return True


COLUMNS = [
    ("session_records", "fields"),
    ("session_records", "inputs"),
    ("session_journal", "changes"),
    ("blobs", "data"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_of_damaged_rows_the_rest_is_read_and_the_loss_is_named(
    tmp_path: Path, table: str, column: str, recwarn: pytest.WarningsRecorder
) -> None:
    source = f"sqlite:///{tmp_path}/source.db"
    agent = filled(source)
    whole = list(agent.memory.steps)
    Database.at(source).close()
    row, harmed = 0, 0
    while True:
        url = f"sqlite:///{tmp_path}/{row}.db"
        shutil.copy(tmp_path / "source.db", tmp_path / f"{row}.db")
        if not flip(url, table, column, row):
            break
        recwarn.clear()
        steps = Session("s", url).steps()
        told = [str(warning.message) for warning in recwarn if warning.category is MemoryLossWarning]
        harmed += bool(told)
        assert len(steps) >= len(whole) - 1
        if explain_difference(steps, whole) is not None:
            assert "session 's'" in told[0]
            assert "lost: " in told[0]
        kept = [step.task for step in steps if isinstance(step, TaskStep)]
        assert kept == [task for task in ("task 2", "task 3", "task 4") if task in kept]
        check_it_goes_on(url, steps)
        row += 1
    assert row > 4
    assert harmed > 1


def check_it_goes_on(url: str, steps: list[Any]) -> None:
    """After the damage an agent can be attached, goes on, and what it adds stands where it was added."""
    agent = code_agent([code("final_answer(9)")], planning_interval=None)
    with Session("s", url).attach(agent) as session:
        assert len(agent.memory.steps) == len(steps)
        assert agent.run("after all", reset=False) == 9
        after = session.steps()
    assert [type(step) for step in after] == [*map(type, steps), TaskStep, ActionStep]
    assert after[-2].task == "after all"
    assert explain_difference(after, list(agent.memory.steps)) is None


def test_damage_to_what_describes_a_session_does_not_hide_it(url: str, tmp_path: Path) -> None:
    filled(url)
    assert flip(url, "sessions", "agent", 0)
    assert flip(url, "session_runs", "details", 3)
    with pytest.warns(MemoryLossWarning, match="is damaged"):
        (info,) = SessionManager(url).sessions()
    assert (info.session_id, info.runs, info.agent) == ("s", 5, {})
    with pytest.warns(MemoryLossWarning, match="is damaged"):
        runs = Session("s", url).runs()
    assert [run.task for run in runs if run.number != 4] == ["task 0", "task 1", "task 2", "task 4"]
    with pytest.warns(MemoryLossWarning, match="is damaged"):
        Session("s", url).fork("t")
    with pytest.warns(MemoryLossWarning, match="is damaged"):
        Session("s", url).export(tmp_path / "s.jsonl")
    assert Session("s", url).resume(code_agent([], planning_interval=None)) == 4
    assert flip(url, "session_runs", "details", 4)
    with pytest.warns(MemoryLossWarning, match="is damaged"):
        assert Session("s", url).resume(code_agent([], planning_interval=None)) == 4


@pytest.mark.parametrize("column", ["fields", "inputs"])
def test_damage_in_postgres_is_told_too(postgres: str, url: str, column: str) -> None:
    filled(url)
    assert flip(url, "session_records", column, 9)
    with pytest.warns(MemoryLossWarning, match="lost: "):
        assert len(Session("s", url).steps()) >= 8


@pytest.mark.parametrize("damage", ["garbage", "cut short", "header"])
def test_a_damaged_database_file_gives_one_clear_error(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "m.db"
    url = f"sqlite:///{path}"
    filled(url)
    Opened.forget_all()
    data = path.read_bytes()
    path.write_bytes(
        {
            "garbage": os.urandom(20_000),
            "cut short": data[: len(data) // 3],
            "header": b"\0" * 50 + data[50:],
        }[damage]
    )
    before = path.read_bytes()
    for action in (
        lambda: Session("s", url).attach(code_agent([])),
        lambda: Session("s", url).steps(),
        lambda: SessionManager(url).list_sessions(),
        lambda: SessionManager(url).backup(tmp_path / "b.db"),
        lambda: SessionManager(url).purge(),
    ):
        with pytest.raises(SessionStorageError, match=r"cannot be opened|could not be purged"):
            action()
    assert path.read_bytes() == before
    assert not (tmp_path / "b.db").exists()


def test_a_file_that_is_a_database_of_somebody_else_s_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("CREATE TABLE sessions (theirs)")
        theirs.commit()
    with pytest.raises(SessionStorageError, match="has a table 'sessions' that smolagents-memory did not make"):
        Session("s", f"sqlite:///{path}").attach(code_agent([]))
    with closing(sqlite3.connect(path)) as theirs:
        assert theirs.execute("SELECT sql FROM sqlite_master").fetchall() == [("CREATE TABLE sessions (theirs)",)]
