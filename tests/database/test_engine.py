"""One engine a process and place: for both halves, for many threads, after a fork, with either durability."""

from __future__ import annotations

import ast
import itertools
import os
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from agents import code_agent
from forking import forked
from sqlalchemy import delete, insert, select

import smolagents_memory
from smolagents_memory import EnhancedAgentMemory, Place, Session, SessionManager, SqlStore
from smolagents_memory.database import tables
from smolagents_memory.database.engine import MEMORIES, Database
from smolagents_memory.testing import code


def test_one_call_makes_the_engines_of_places_and_one_those_of_keyrings() -> None:
    package = Path(smolagents_memory.__file__).parent
    calls = [
        path.name
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "create_engine"
    ]
    assert sorted(calls) == ["keyring.py", "opened.py"]


def test_sessions_and_memories_of_a_place_share_one_engine(url: str) -> None:
    session, manager = Session("s", url), SessionManager(Place(url, durability="process"))
    with EnhancedAgentMemory(url, vector=False) as memory:
        engines = {each.database.engine for each in (session, manager, memory.long_term.keeper.bank, SqlStore(url))}
    assert len(engines) == 1


def test_what_was_not_read_to_its_end_keeps_nobody_in_the_past(url: str) -> None:
    """An error came while rows were read, and is still held: its connection is free for whoever comes next."""
    database, other = Database.at(url), Database.at(url)
    SqlStore(url).add_many({f"k{number}": (number, None) for number in range(300)}.items())
    held = []
    with suppress(ZeroDivisionError), database.reading() as connection:
        held.append(connection.execute(select(tables.items.c.id)))
        held.append(next(iter(held[0])))
        1 / 0  # noqa: B018
    if database.sqlite:
        with closing(sqlite3.connect(database.path)) as theirs, theirs:  # as another process would
            theirs.execute("DELETE FROM memory_about WHERE name = 'bank'")
    else:
        with other.writing() as connection:
            connection.execute(delete(tables.about).where(tables.about.c.name == "bank"))
    with database.writing() as connection:
        connection.execute(insert(tables.about).values(name="bank", value="another"))
    with database.reading() as connection:
        names = select(tables.about.c.value).where(tables.about.c.name == "bank")
        assert connection.execute(names).scalar() == "another"


def level(database: Database) -> str:
    with database.writing() as connection:
        if database.sqlite:
            return str(connection.exec_driver_sql("PRAGMA synchronous").scalar())
        return str(connection.exec_driver_sql("SHOW synchronous_commit").scalar())


def test_durability_belongs_to_the_transaction(url: str) -> None:
    strict, relaxed = Database.at(url, "power"), Database.at(url, "process")
    high, low = ("2", "1") if strict.sqlite else ("on", "off")
    assert [level(each) for each in (strict, relaxed, strict, relaxed)] == [high, low, high, low]


def test_many_threads_may_use_one_place_in_ram() -> None:
    """Sessions and memories together: all share one connection, one at a time."""
    place = Place(None)
    memory = EnhancedAgentMemory(place, vector=False)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            agent = code_agent([code(f"x = {number}"), code("final_answer(x)")], planning_interval=None)
            with Session(f"s{number}", place).attach(agent):
                assert agent.run("go") == number
            memory.remember(f"note {number}", key=f"k{number}")
        except BaseException as error:  # noqa: BLE001 — shown by the assert below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert SessionManager(place).list_sessions() == [f"s{number}" for number in range(8)]
    assert [len(Session(f"s{number}", place).steps()) for number in range(8)] == [3] * 8
    assert {memory.long_term.get(f"k{number}").value for number in range(8)} == {f"note {n}" for n in range(8)}


def test_each_place_in_ram_is_one_of_its_own() -> None:
    first, second = SqlStore(Place(None)), SqlStore("sqlite://")
    first.add("k", "text")
    assert len(second) == 0


def connections(database: Database) -> list[int]:
    """The raw connections that wait in the pool, and that they still answer."""
    pool = database.engine.pool
    held = [pool.connect() for _ in range(pool.checkedin())]
    assert all(each.cursor().execute("SELECT 1") for each in held)
    found = sorted(id(each.driver_connection) for each in held)
    for each in held:
        each.close()
    return found


def test_a_forked_child_opens_anew_and_leaves_its_parents_connections_alone(url: str) -> None:
    database = Database.at(url, faults=MEMORIES)
    store = SqlStore(url)
    store.add("parent", "text")
    before = connections(database)
    assert before

    def theirs() -> None:
        import gc

        assert "parent" in store
        store.add("child", "text")
        assert not set(map(id, _raw(database))) & set(before)
        store.close()
        gc.collect()

    for _ in range(2):
        assert forked(theirs) == 0
    assert connections(database) == before
    assert sorted(store) == ["child", "parent"]


def _raw(database: Database) -> list[object]:
    with database.engine.connect() as connection:
        return [connection.connection.driver_connection]


def test_a_child_forked_while_another_thread_opens_the_place_does_not_hang(tmp_path: Path) -> None:
    database = Database.at(tmp_path)
    database.prepare()
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with database.opened.lock, type(database.opened).opening:
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(30)
    assert forked(lambda: SessionManager(tmp_path).list_sessions()) == 0
    leave.set()
    thread.join(30)


@pytest.mark.parametrize("threads", [12])
def test_many_threads_open_a_place_at_once(url: str, threads: int) -> None:
    errors: list[BaseException] = []
    barrier = threading.Barrier(threads)

    def begin(number: int) -> None:
        try:
            barrier.wait(30)
            if number % 2:
                SqlStore(url).add(str(number), "text")
            else:
                SessionManager(url).save_session(code_agent([]), str(number))
        except BaseException as error:  # noqa: BLE001 — shown by the assert below
            errors.append(error)

    begun = [threading.Thread(target=begin, args=(number,)) for number in range(threads)]
    for each in begun:
        each.start()
    for each in begun:
        each.join(60)
    assert errors == []
    assert len(SqlStore(url)) == len(SessionManager(url).list_sessions()) == threads // 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
def test_a_child_that_is_forked_while_other_threads_write_can_write(tmp_path: Path) -> None:
    """SQLite would tell it for ever that somebody in this process holds the lock."""
    memory, stop = EnhancedAgentMemory(tmp_path, vector=False), threading.Event()

    def write() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            memory.remember(f"text {number}")

    def child() -> None:
        EnhancedAgentMemory(tmp_path, vector=False).remember("from the child", key="child")

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        began = time.monotonic()
        assert [forked(child) for _ in range(3)] == [0] * 3
        assert time.monotonic() - began < 50  # it waited a minute for nobody, each time
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert memory.recall("from the child")[0].key == "child"
