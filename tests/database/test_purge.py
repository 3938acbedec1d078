"""After delete and purge no byte of a session is left, nor a fragment of one; or purge says what prevents it."""

from __future__ import annotations

import random
import sqlite3
import string
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent, fail
from databases import emptied
from PIL import Image
from smolagents import CodeAgent
from sqlalchemy import create_engine, select, text

from smolagents_memory import (
    EnhancedAgentMemory,
    Session,
    SessionManager,
    SessionStorageError,
    SmolagentsMemoryError,
    SqlStore,
)
from smolagents_memory.database import maintenance, tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.migrating import backup_path, copy_sqlite
from smolagents_memory.database.opened import WAIT, Opened
from smolagents_memory.database.places import Place
from smolagents_memory.testing import ScriptedModel, code


FRAGMENT = 8


def secret() -> str:
    return "".join(random.choices(string.ascii_letters, k=40))


class Secrets:
    """A session that holds secrets in every place where a session can hold anything."""

    def __init__(self, url: str) -> None:
        names = "task answer observation source error state prompt variable managed manages edited name image2 large"
        self.texts = {name: secret() for name in names.split()}
        self.name = f"session {self.texts['name']}"
        self.url = url
        self.image = Image.frombytes("RGB", (40, 40), random.randbytes(40 * 40 * 3))
        theirs = self._all_blobs()
        self._run()
        self.blobs = self._all_blobs() - theirs
        assert len(self.blobs) == 2

    def _all_blobs(self) -> set[bytes]:
        with Database.at(self.url).reading() as connection:
            return {bytes(data) for data in connection.execute(select(tables.blobs.c.data)).scalars()}

    def _run(self) -> None:
        said = self.texts
        worker = CodeAgent(
            [], ScriptedModel([code(f"final_answer('{said['managed']}')")]), name="worker", description="Works."
        )
        worker.logger.level = -1
        script = [
            code(f"kept = 'x{said['variable']}'\nprint('{said['observation']}')  # {said['source']}"),
            code(f"fail(reason='{said['error']}')"),
            code(f"worker(task='{said['manages']}')"),
            code(f"final_answer('{said['answer']}')"),
        ]
        options = {"instructions": said["prompt"], "managed_agents": [worker], "planning_interval": None}
        agent = code_agent(script, tools=[fail], **options)
        agent.state["secret"] = {"deep": [said["state"]], "large": said["large"].encode() * 100}
        with Session(self.name, self.url).attach(agent):
            agent.run(said["task"], images=[self.image])
            agent.memory.steps[1].observations = said["edited"]
            agent.memory.steps[2].observations = said["image2"]

    def fragments(self) -> Iterator[bytes]:
        for said in self.texts.values():
            for start in range(len(said) - FRAGMENT + 1):
                yield said[start : start + FRAGMENT].encode()
        for blob in self.blobs:
            for start in range(64, len(blob) - 64, FRAGMENT):  # without what all images have in common
                yield blob[start : start + FRAGMENT]

    def found_in(self, folder: Path) -> list[str]:
        """The files in which something of it can be found."""
        fragments = set(self.fragments())
        return sorted(
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if path.is_file() and not fragments.isdisjoint(_windows(path.read_bytes()))
        )


def _windows(data: bytes) -> Iterator[bytes]:
    return (data[start : start + FRAGMENT] for start in range(len(data) - FRAGMENT + 1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "db"
    made.mkdir()
    return made


@pytest.fixture
def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder}/m.db"


def other_session(url: str, name: str = "other") -> Any:
    agent = code_agent([code(f"print('{secret()}')"), code("final_answer(1)")], planning_interval=None)
    with Session(name, url).attach(agent):
        agent.run("of somebody else", images=[Image.new("RGB", (50, 50), "green")])
    return agent


def test_no_fragment_of_a_deleted_session_is_left(sqlite_url: str, folder: Path) -> None:
    other_session(sqlite_url, "before")
    secrets, manager = Secrets(sqlite_url), SessionManager(sqlite_url)
    other_session(sqlite_url, "after")
    copy_sqlite(folder / "m.db", backup_path(folder / "m.db", "0000"))
    assert len(secrets.found_in(folder)) >= 2
    assert manager.delete_session(secrets.name)
    manager.purge()
    assert secrets.found_in(folder) == []
    assert manager.list_sessions() == ["after", "before"]
    assert len(Session("after", sqlite_url).steps()) == 3
    assert Session("after", sqlite_url).steps()[0].task_images[0].size == (50, 50)


def test_what_a_fork_shares_stays_readable_until_that_is_deleted_too(sqlite_url: str, folder: Path) -> None:
    secrets, manager = Secrets(sqlite_url), SessionManager(sqlite_url)
    fork = Session(secrets.name, sqlite_url).fork("fork")
    manager.delete_session(secrets.name)
    manager.purge()
    steps = fork.steps()
    assert steps[0].task == secrets.texts["task"]
    assert steps[0].task_images[0].tobytes() == secrets.image.tobytes()
    fork.delete()
    manager.purge()
    assert secrets.found_in(folder) == []


def test_what_an_edit_or_a_prune_replaced_goes_with_the_session_alone(sqlite_url: str, folder: Path) -> None:
    secrets, manager = Secrets(sqlite_url), SessionManager(sqlite_url)
    manager.purge()
    assert secrets.found_in(folder) == ["m.db"]  # the journal is lossless: originals stay as long as their session
    assert Session(secrets.name, sqlite_url).original(1).observations.count(secrets.texts["observation"]) == 1


def test_purging_while_a_reader_reads_says_so_and_works_when_it_is_gone(
    sqlite_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_PATIENCE", 1)
    secrets, manager = Secrets(sqlite_url), SessionManager(sqlite_url)
    with closing(sqlite3.connect(folder / "m.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sessions").fetchall()
        manager.delete_session(secrets.name)
        with pytest.raises(SessionStorageError, match=r"somebody else has it open, and bytes .* may be left"):
            manager.purge()
        assert manager.list_sessions() == []
        reader.execute("COMMIT")
    manager.purge()
    assert secrets.found_in(folder) == []


def test_purging_while_another_session_of_this_process_is_attached(sqlite_url: str, folder: Path) -> None:
    secrets, manager = Secrets(sqlite_url), SessionManager(sqlite_url)
    agent = code_agent([code("print(1)"), code("final_answer(1)")], planning_interval=None)
    with Session("open", sqlite_url).attach(agent):
        agent.memory.steps.clear()
        manager.delete_session(secrets.name)
        manager.purge()
        assert secrets.found_in(folder) == []
        assert agent.run("goes on") == 1
    assert len(Session("open", sqlite_url).steps()) == 3


def test_expired_sessions_are_purged_as_well(sqlite_url: str, folder: Path) -> None:
    secrets, manager = Secrets(sqlite_url), SessionManager(sqlite_url)
    assert manager.expire(0.0) == [secrets.name]
    manager.purge()
    assert secrets.found_in(folder) == []


@pytest.mark.slow
def test_postgres_keeps_nothing_in_its_tables_and_says_what_its_own_log_keeps(
    own_postgres: Any, caplog: pytest.LogCaptureFixture
) -> None:
    url, folder = own_postgres.get_uri(), own_postgres.pgdata
    secrets, manager = Secrets(url), SessionManager(url)
    other_session(url)
    fork = Session(secrets.name, url).fork("fork")
    manager.delete_session(secrets.name)
    manager.purge()
    assert fork.steps()[0].task_images[0].tobytes() == secrets.image.tobytes()
    fork.delete()
    manager.purge()
    assert [name for name in secrets.found_in(folder) if not name.startswith("pg_wal/")] == []
    assert "write-ahead log may hold bytes" in caplog.text
    with Database.at(url).engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ALTER SYSTEM SET wal_recycle = off"))
        connection.execute(text("SELECT pg_reload_conf()"))
    time.sleep(0.3)
    caplog.clear()
    secrets = Secrets(url)
    secrets_found = secrets.found_in(folder)
    assert any(name.startswith("pg_wal/") for name in secrets_found)
    manager.delete_session(secrets.name)
    manager.purge()
    assert secrets.found_in(folder) == []
    assert "write-ahead" not in caplog.text
    assert len(Session("other", url).steps()) == 3
    Database.at(url).close()


def test_a_transaction_that_began_before_the_deletion_prevents_it_on_postgres(
    own_postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = own_postgres.get_uri()
    secrets, manager = Secrets(url), SessionManager(url)
    monkeypatch.setattr(maintenance, "_PATIENCE", 1)
    with Database.at(url).reading() as reader:
        reader.execute(select(tables.runs)).fetchall()
        manager.delete_session(secrets.name)
        with pytest.raises(SessionStorageError, match="a transaction that began earlier is still open"):
            manager.purge()
    manager.purge()
    Database.at(url).close()


# -- a purge that is prevented says so soon ------------------------------------------------------------------------

PURGES: dict[str, Callable[[Any], Any]] = {
    "sessions": lambda url: SessionManager(url).purge,
    "store": lambda url: SqlStore(url).purge,
    "memories": lambda url: EnhancedAgentMemory(url, embedder=_lengths).purge,
}


def _lengths(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("who", ["a reader", "a writer"])
@pytest.mark.parametrize("purge", PURGES)
def test_who_prevents_a_purge_is_named_soon(
    purge: str, who: str, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Others that write wait a minute for each other; a purge does not."""
    monkeypatch.setattr(maintenance, "_PATIENCE", 1)
    other_session(url)
    with SqlStore(url) as store:
        store.add("k", "v")
    place = Database.at(url)
    place.close()
    caplog.set_level("INFO")
    purging = PURGES[purge](url)
    with _held_open(url, "BEGIN" if who == "a reader" or not place.sqlite else "BEGIN IMMEDIATE", who) as connection:
        assert connection is not None
        began = time.monotonic()
        try:
            purging()
            told = caplog.text
        except SmolagentsMemoryError as error:
            told = str(error)
        assert time.monotonic() - began < WAIT / 4
    assert "could not be purged" in told or "stay until purge runs again" in told
    PURGES["sessions"](url)()


@contextmanager
def _held_open(url: str, begin: str, who: str) -> Iterator[Any]:
    """Somebody else's transaction, who looked at something, or wrote something, and went for coffee."""
    engine = create_engine(Place(url).url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(begin)
        connection.exec_driver_sql("SELECT count(*) FROM sessions").fetchall()
        if who == "a writer":
            connection.exec_driver_sql("UPDATE blobs SET data = data")
            connection.exec_driver_sql("UPDATE memory_items SET uses = uses")
        yield connection
        connection.exec_driver_sql("ROLLBACK")
    engine.dispose()


def test_a_purge_leaves_nobody_else_impatient_on_postgres(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections are shared: whoever has that of a purge waits as long as everybody."""
    url = emptied(postgres)
    monkeypatch.setattr(maintenance, "_PATIENCE", 1)
    other_session(url)
    SessionManager(url).purge()
    connections = [Database.at(url).engine.connect() for _ in range(4)]
    assert {each.execute(text("SHOW lock_timeout")).scalar() for each in connections} == {"0"}
    for each in connections:
        each.close()


def test_a_writer_waits_as_long_as_ever_after_a_purge_on_sqlite(sqlite_url: str) -> None:
    other_session(sqlite_url)
    database = Database.at(sqlite_url)
    with database.writing(wait=2) as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 2_000
    with database.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 1000 * WAIT


def test_opening_what_is_there_waits_for_no_writer(sqlite_url: str) -> None:
    other_session(sqlite_url)
    Opened.forget_all()
    with _held_open(sqlite_url, "BEGIN IMMEDIATE", "a writer"):
        began = time.monotonic()
        assert SessionManager(sqlite_url).list_sessions() == ["other"]
        assert time.monotonic() - began < WAIT / 4
