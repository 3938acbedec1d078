"""A transaction whose answer is lost is found to be there; somebody else's is not taken for it."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from agents import code_agent, photo, rendered
from smolagents.memory import TaskStep
from sqlalchemy import text

from smolagents_memory import Session, SessionConflictError, SessionManager
from smolagents_memory.database.engine import Database
from smolagents_memory.sessions.entries import write_entry
from smolagents_memory.sessions.journal import Attempt, Journal
from smolagents_memory.testing import code, explain_difference
from smolagents_memory.variables.runtime import fold


Break = Callable[..., None]


@pytest.fixture
def break_commit(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Have the next commit fail: with `reached` the database has made it all the same."""

    def broken(session: Session, *, reached: bool) -> None:
        dialect: Any = session.database.engine.dialect
        whole = dialect.do_commit

        def lose(connection: Any) -> None:
            monkeypatch.setattr(dialect, "do_commit", whole)
            if reached:
                whole(connection)
            raise dialect.dbapi.OperationalError("the connection broke")

        monkeypatch.setattr(dialect, "do_commit", lose)

    return broken


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def check_kept(agent: Any, url: str) -> None:
    other = code_agent([])
    assert Session("s", url).restore(other)
    assert explain_difference(rendered(agent), rendered(other)) is None
    assert explain_difference(list(agent.memory.steps), list(other.memory.steps)) is None


@pytest.mark.parametrize("reached", [True, False])
def test_a_commit_whose_answer_is_lost_stops_nothing(
    url: str, break_commit: Break, reached: bool, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session("s", url)

    def lose(messages: Any) -> str:
        break_commit(session, reached=reached)
        return code("print(2)")

    script = [code("print(1)"), lose, code("print(3)"), lose, code("final_answer(5)")]
    agent = code_agent(script, planning_interval=None)
    with session.attach(agent):
        assert agent.run("go", images=[photo()]) == 5
        session.flush()
        check_kept(agent, url)
    assert len(errors(caplog)) == 2
    assert all("connection broke" in error for error in errors(caplog))
    assert [(run.state, run.steps) for run in session.runs()] == [("finished", 5)]


def test_a_lost_answer_is_no_reason_to_refuse_the_next_run(url: str, break_commit: Break) -> None:
    agent, session = code_agent([code("final_answer(1)")] * 2, planning_interval=None), Session("s", url)
    with session.attach(agent):
        agent.run("one", reset=False)
        break_commit(session, reached=True)
        agent.memory.steps.append(TaskStep(task="by hand"))
        assert agent.run("two", reset=False) == 1
    check_kept(agent, url)


def test_the_answer_to_the_last_commit_is_lost(url: str, break_commit: Break) -> None:
    agent, session = code_agent([], planning_interval=None), Session("s", url)
    with session.attach(agent):
        break_commit(session, reached=True)
        agent.memory.steps.append(TaskStep(task="the last"))
        session.flush()
        session.flush()
    check_kept(agent, url)


def test_a_server_that_ends_the_connection_after_the_commit(own_postgres: Any, monkeypatch: Any, caplog: Any) -> None:
    url = own_postgres.get_uri()
    agent, session = code_agent([code("print(1)"), code("final_answer(2)")], planning_interval=None), Session("s", url)
    with session.attach(agent):
        dialect: Any = session.database.engine.dialect
        whole = dialect.do_commit

        def ended(connection: Any) -> None:
            monkeypatch.setattr(dialect, "do_commit", whole)
            whole(connection)
            with Database.at(url).reading() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": connection.info.backend_pid})
            time.sleep(0.2)
            connection.execute("SELECT 1")

        monkeypatch.setattr(dialect, "do_commit", ended)
        assert agent.run("go") == 2
    assert len(errors(caplog)) == 1
    check_kept(agent, url)
    Database.at(url).close()


@pytest.mark.parametrize("reached", [True, False])
def test_what_another_writer_wrote_meanwhile_is_a_conflict(url: str, break_commit: Break, reached: bool) -> None:
    agent, session = code_agent([], planning_interval=None), Session("s", url)
    session.attach(agent)
    break_commit(session, reached=reached)
    agent.memory.steps.append(TaskStep(task="mine"))
    other = code_agent([], planning_interval=None)
    with Session("s", url).attach(other, take_over=True):
        other.memory.steps.append(TaskStep(task="theirs"))
    agent.memory.steps.append(TaskStep(task="mine too"))
    with pytest.raises(SessionConflictError, match="another writer"):
        session.flush()
    assert [step.task for step in Session("s", url).steps()] == ["mine", "theirs"][not reached :]
    with pytest.raises(SessionConflictError):
        session.detach()


def test_the_same_change_by_one_who_claims_to_be_us_is_a_conflict(url: str, break_commit: Break) -> None:
    """As after a fork: the same owner, the same revision, the same change to the list, another step."""
    agent, session = code_agent([], planning_interval=None), Session("s", url)
    session.attach(agent)
    twin = twin_of(session)
    break_commit(session, reached=False)
    agent.memory.steps.append(TaskStep(task="mine"))
    twin.appended([TaskStep(task="twin's")])
    twin.flush()
    with pytest.raises(SessionConflictError, match="another writer"):
        session.flush()
    assert [step.task for step in Session("s", url).steps()] == ["twin's"]


def test_a_transaction_that_the_server_has_not_ended_yet_is_waited_for(url: str) -> None:
    """The client is gone, and its transaction goes on: only once it has ended one can tell."""
    agent, session = code_agent([], planning_interval=None), Session("s", url)
    session.attach(agent)
    journal, written, begun = twin_of(session), list[Any](), threading.Event()
    journal.appended([TaskStep(task="mine")])
    journal.end_entry()
    entry, position = journal._pending[0], journal.position

    def write() -> None:
        with session.database.writing() as connection:
            written.append(write_entry(connection, position, entry, position.revision + 1, set()))
            begun.set()
            time.sleep(0.5)

    thread = threading.Thread(target=write)
    thread.start()
    assert begun.wait(30)
    after, changes = written[0]
    journal._attempt = Attempt([entry], changes, after)
    journal.flush()
    thread.join(30)
    assert [step.task for step in Session("s", url).steps()] == ["mine"]


def twin_of(session: Session) -> Journal:
    """One who has all that says that a session is ours."""
    assert session._attachment is not None
    journal = session._attachment.journal
    return Journal(session.database, replace(journal.position, next_record=journal.next_record), (), fold)


@pytest.mark.slow
def test_after_a_conflict_nothing_piles_up(url: str, caplog: pytest.LogCaptureFixture) -> None:
    script = [code(f"x{number} = 'y' * 1000\nprint({number})") for number in range(30)]
    agent = code_agent([*script, code("final_answer(1)")], planning_interval=None, max_steps=40)
    session = Session("s", url)

    def taken_over(messages: Any) -> str:
        Session("s", url).attach(code_agent([]), take_over=True).detach()
        return code("print('taken over')")

    agent.model = code_agent([taken_over, *script, code("final_answer(1)")]).model
    held = set(map(id, noted()))
    session.attach(agent)
    assert agent.run("go", images=[photo()]) == 1
    assert len([each for each in noted() if id(each) not in held]) < 5
    assert len(errors(caplog)) == 1
    with pytest.raises(SessionConflictError, match="save_session"):
        session.detach()
    SessionManager(url).save_session(agent, "elsewhere")
    assert explain_difference(list(Session("elsewhere", url).steps()), list(agent.memory.steps)) is None


def noted() -> list[Any]:
    """What is noted and not written yet."""
    gc.collect()
    return [each for each in gc.get_objects() if type(each).__name__ in ("Entry", "Row") and hasattr(each, "__dict__")]
