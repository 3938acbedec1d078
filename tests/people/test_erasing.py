"""After a person is erased nothing of theirs is left, in rows or in files; what is others' is as it was."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent, photo
from filelock import FileLock
from lives import Life
from program import python
from sqlalchemy import insert, select

from smolagents_memory import (
    EnhancedAgentMemory,
    MemoryLossWarning,
    ObservedMemory,
    People,
    Place,
    Seal,
    SealError,
    Session,
    SessionConflictError,
    SessionManager,
    SessionStorageError,
    UnsupportedValueError,
)
from smolagents_memory.database import maintenance, tables
from smolagents_memory.database.engine import Database
from smolagents_memory.people import erasing
from smolagents_memory.people.needles import Needles
from smolagents_memory.people.proof import files_of, met_in
from smolagents_memory.testing import code


ANN, BOB = "Ann Zwiebelthaler", "Bob Quastenflosser"


@pytest.fixture
def chance() -> random.Random:
    return random.Random(7)


def lives(url: Any, chance: random.Random) -> tuple[Life, Life]:
    return Life(url, ANN, chance).live(), Life(url, BOB, chance).live()


def rows(url: Any) -> dict[str, int]:
    """How many rows each table has, but for what counts for all."""
    left_out = ("memory_changes", "memory_gone", "memory_embedders")
    with Database.at(url).reading() as connection:
        every = {table.name: len(connection.execute(select(table)).all()) for table in tables.metadata.sorted_tables}
    return {name: count for name, count in every.items() if name not in left_out}


def test_nothing_is_left_and_what_is_others_is_as_it_was(url: str, chance: random.Random) -> None:
    bob = Life(url, BOB, chance).live()
    before = rows(url)
    ann = Life(url, ANN, chance).live()
    assert [person.user for person in People(url).list()] == [ANN, BOB]
    report = People(url).erase(ANN)
    assert (report.user, report.sessions, report.scopes) == (ANN, 3, 2)  # with a call, and a fork
    assert report.memories >= 6  # five that were remembered, and what was learnt
    assert (report.left, report.elsewhere) == ((), ())
    assert {"sessions", "session_records", "blobs", "memory_items", "memory_scopes"} <= set(report.searched)
    assert rows(url) == before
    assert bob.is_whole()
    assert [person.user for person in People(url).list()] == [BOB]
    with EnhancedAgentMemory(url, scope=ann.scope, vector=False) as memory:
        assert memory.count(archived=None) == 0
        assert memory.recall(ann.texts["note"]) == []


@pytest.mark.parametrize(
    "user",
    [
        ANN,
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("Änne Đorđević", 'An "odd" \\ name', "安娜的名字")),
    ],
)
def test_no_byte_is_left_in_any_file(tmp_path: Path, chance: random.Random, user: str) -> None:
    bob = Life(tmp_path, BOB, chance).live()
    ann = Life(tmp_path, user, chance).live()
    before = ann.met_in(tmp_path)
    assert {"name", "task", "note", "session", "key", "sourced", "title", "tag"} <= before.keys()
    report = People(tmp_path).erase(user)
    assert report.left == ()
    assert str(tmp_path / "memory.db") in report.searched
    assert any("chroma" in each for each in report.searched) or not (tmp_path / "chroma").exists()
    assert ann.met_in(tmp_path) == {}
    assert bob.is_whole()


def test_a_person_who_is_a_number_is_the_same_as_its_digits(url: str, chance: random.Random) -> None:
    Life(url, "4711", chance, number=4711, pictures=False).live()
    [person] = People(url).list()
    assert (person.user, person.sessions) == ("4711", 2)
    assert person.memories >= 5
    assert People(url).erase("4711").sessions == 3
    assert People(url).list() == []


def test_of_whom_nothing_is_kept_nothing_is_done(url: str, chance: random.Random, monkeypatch: Any) -> None:
    Life(url, BOB, chance, pictures=False).live()
    before = rows(url)
    monkeypatch.setattr(erasing, "purge", lambda database: pytest.fail("it purged"))
    report = People(url).erase("Nobody At All")
    assert report == erasing.Erasure("Nobody At All")
    assert str(report) == "nothing is kept of 'Nobody At All'"
    assert rows(url) == before


def test_who_writes_to_one_of_the_sessions_prevents_all_of_it(url: str, chance: random.Random) -> None:
    ann = Life(url, ANN, chance, pictures=False).live()
    before = rows(url)
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    with Session(f"{ann.session} again", url).attach(agent) as session:
        with pytest.raises(
            SessionConflictError, match=r"again' is being written by process \d+ on .* nothing was erased"
        ):
            People(url).erase(ANN)
        assert rows(url) == before
        agent.memory.steps.clear()
        assert session.run("goes on") == 1
    assert ann.is_whole()
    assert People(url).erase(ANN).left == ()


def test_a_name_in_what_is_another_person_s_is_reported_and_left_alone(url: str, chance: random.Random) -> None:
    Life(url, ANN, chance, pictures=False).live()
    with EnhancedAgentMemory(url, scope={"user": BOB}, vector=False) as memory:
        memory.remember(f"{ANN} likes tea.{' very much' * 99}", key="tea")  # which lies there packed
    manager = SessionManager(url)
    manager.save_session(ObservedMemory("prompt"), "about", user=BOB, title=f"What {ANN} said")
    report = People(url).erase(ANN)
    assert report.left == ()
    assert {str(each) for each in report.elsewhere} == {
        f"the name in the memory 'tea' of user={BOB}",
        "the name in session 'about'",
    }
    assert "2 traces in what is not theirs" in str(report)
    with EnhancedAgentMemory(url, scope={"user": BOB}, vector=False) as memory:
        assert memory.get("tea").value.startswith(f"{ANN} likes tea.")
    assert manager.session("about").title == f"What {ANN} said"


def test_what_two_people_share_stays_with_the_other(url: str) -> None:
    """An image of equal content is kept once; a document that both remember has the same keys."""
    for user in (ANN, BOB):
        agent = code_agent([code("final_answer(1)")], planning_interval=None)
        with Session(f"of {user}", url, user=user).attach(agent):
            agent.run("Look.", images=[photo()])
        with EnhancedAgentMemory(url, scope={"user": user}, vector=False) as memory:
            memory.remember_document("The same for everybody, and long enough to tell.", source="handbook")
    report = People(url).erase(ANN)
    assert report.left == ()
    assert report.elsewhere == ()  # which is no trace of Ann
    assert Session(f"of {BOB}", url).steps()[0].task_images[0].size == photo().size


def test_a_file_that_is_called_after_them_is_reported(tmp_path: Path, chance: random.Random) -> None:
    Life(tmp_path, ANN, chance, pictures=False).live()
    (tmp_path / f"memory.db.{ANN}.bak").write_text("a copy that somebody made")
    [trace] = People(tmp_path).erase(ANN).left
    assert (trace.what, trace.where) == ("the name", f"the file {tmp_path / f'memory.db.{ANN}.bak'}")


def test_a_name_that_is_short_is_not_searched_for_and_that_is_said(tmp_path: Path) -> None:
    SessionManager(tmp_path).save_session(ObservedMemory("prompt"), "a", user="Al")
    report = People(tmp_path).erase("Al")
    assert report.sessions == 1
    assert any("fewer than 4 characters" in each for each in report.beyond)
    assert any("too short" in each for each in report.beyond)


def test_a_purge_that_is_prevented_is_raised_and_erasing_again_finishes_it(
    tmp_path: Path, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_PATIENCE", 1)
    ann = Life(tmp_path, ANN, chance).live()
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sessions").fetchall()
        with pytest.raises(SessionStorageError, match="somebody else has it open"):
            People(tmp_path).erase(ANN)
        assert People(tmp_path).list() == []  # all of it is deleted
        assert ann.met_in(tmp_path)  # and its bytes are still there
        reader.execute("COMMIT")
    report = People(tmp_path).erase(ANN)
    assert (report.sessions, report.left) == (0, ())
    assert report.searched
    assert ann.met_in(tmp_path) == {}
    assert not People(tmp_path).erase(ANN).searched  # it has come to its end


@contextmanager
def purging_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(erasing, "purge", lambda database: None)
        yield


def test_the_search_finds_what_a_purge_would_have_removed(
    tmp_path: Path, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would prove nothing."""
    ann, _ = lives(tmp_path, chance)
    with purging_nothing(monkeypatch):
        report = People(tmp_path).erase(ANN)
    assert {"the name", "the id of a session", "the key of a memory", "a text of a memory", "a text of a step"} <= {
        each.what for each in report.left
    }
    assert "left" in str(report)
    assert {Path(each.where.removeprefix("the file ")).name for each in report.left} >= {"memory.db"}
    report = People(tmp_path).erase("Somebody Else")  # whoever is erased next, the purge is made up for
    assert (bool(report.searched), report.left) == (True, ())
    assert ann.met_in(tmp_path) == {}


def test_the_search_finds_rows_that_were_forgotten(url: str, chance: random.Random, monkeypatch: Any) -> None:
    """A scope's name, a source and a memory without its scope."""
    Life(url, ANN, chance, pictures=False).live()
    monkeypatch.setattr(erasing, "_clear", lambda connection, scope: 0)
    report = People(url).erase(ANN)
    told = [str(each) for each in (*report.left, *report.elsewhere)]
    assert "rows in the table memory_items" in told
    assert "rows in the table memory_sources" in told
    assert any(each.startswith("the name in the table memory_scopes") for each in told)


def test_what_was_taken_out_of_texts_goes_as_well(url: str, chance: random.Random) -> None:
    Life(url, ANN, chance, pictures=False).live()
    scope = f'{{"user":"{ANN}"}}'.encode()
    with Database.at(url).writing() as connection:
        for owner in (scope, b"others"):
            connection.execute(insert(tables.redacted).values(owner=owner, placeholder="<1>", value=b"x"))
    People(url).erase(ANN)
    with Database.at(url).reading() as connection:
        assert [row.owner for row in connection.execute(select(tables.redacted))] == [b"others"]


def test_under_a_seal_nobody_s_backup_gives_a_person_back(
    tmp_path: Path, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path / "mem", seal=Seal(bytes(32), tmp_path / "keys"))
    bob = Life(place, BOB, chance).live()
    before = rows(place)
    ann = Life(place, ANN, chance).live()
    assert [person.user for person in People(place).list()] == [ANN, BOB]
    SessionManager(place).backup(tmp_path / "copy.db")
    keys = set(place.seal.keyring.names())
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(erasing, "_shred", kill)  # between the rows and the keys
        People(place).erase(ANN)
    assert set(place.seal.keyring.names()) == keys
    report = People(place).erase(ANN)  # goes on
    assert report.left == ()
    assert len(keys) - len(place.seal.keyring.names()) == 5  # of two sessions, a call's, and two scopes
    assert {name: count for name, count in rows(place).items() if name != "memory_about"} == {
        name: count for name, count in before.items() if name != "memory_about"
    }
    assert bob.is_whole()
    assert ann.met_in(tmp_path / "mem") == {}
    then = Place(tmp_path / "copy.db", seal=Seal(bytes(32), tmp_path / "keys"))
    with pytest.raises(SealError, match="has no key"):
        Session(ann.session, then).steps()
    assert Session(bob.session, then).steps()


def kill(*arguments: Any) -> None:
    raise KeyboardInterrupt


def test_another_process_that_has_chroma_s_folder_is_said(tmp_path: Path, chance: random.Random) -> None:
    ann = Life(tmp_path, ANN, chance, pictures=False).live()
    with FileLock(tmp_path / "chroma.lock"):  # as that process has it
        report = People(tmp_path).erase(ANN)
    assert any("which another process has" in each.where for each in report.left)
    report = People(tmp_path).erase(ANN)
    assert (bool(report.searched), report.left) == (True, ())
    assert not (tmp_path / "chroma.purge").exists()
    assert ann.met_in(tmp_path) == {}
    assert not People(tmp_path).erase(ANN).searched


def test_in_ram_too(chance: random.Random) -> None:
    place = Place()
    lives(place, chance)
    report = People(place).erase(ANN)
    assert (report.sessions, report.left) == (3, ())
    assert [person.user for person in People(place).list()] == [BOB]


def test_damaged_rows_of_theirs_go_as_well(tmp_path: Path, chance: random.Random) -> None:
    ann = Life(tmp_path, ANN, chance).live()
    with Database.at(tmp_path).writing() as connection:
        for statement in (
            "UPDATE session_records SET fields = x'02000000' WHERE number % 2",
            "UPDATE memory_items SET value = x'0200', words = words",
            "UPDATE sessions SET labels = x'02', agent = x'02'",
        ):
            connection.exec_driver_sql(statement)
    with pytest.warns(MemoryLossWarning):
        report = People(tmp_path).erase(ANN)
    assert report.left == ()
    assert ann.met_in(tmp_path) == {}


@pytest.mark.slow
def test_the_search_takes_nobody_s_locks_away(tmp_path: Path) -> None:
    """POSIX lets go of all locks that a process has on a file when it closes that file, whoever opened it."""
    SessionManager(tmp_path).save_session(ObservedMemory("prompt"), "s")
    database, needles = Database.at(tmp_path), Needles({b"needle": "one"})
    tried = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    with database.writing():
        for path in files_of(database.place) * 2:
            met_in(path, needles, lambda done: None)
        assert "database is locked" in python(tried, tmp_path / "memory.db", check=False).stderr


@pytest.mark.parametrize("user", [7, None, b"ann", ["ann"]])
def test_who_is_no_text_is_told_in_our_words(tmp_path: Path, user: Any) -> None:
    for attempt in (People(tmp_path).erase, lambda user: People(tmp_path).export(user, tmp_path / "a.zip")):
        with pytest.raises(UnsupportedValueError, match="named by a text"):
            attempt(user)
