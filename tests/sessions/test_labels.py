"""Whose a session is, its title and its tags: kept, inherited, looked for; a session belongs to one person."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent
from hypothesis import given, settings
from hypothesis import strategies as st
from smolagents import CodeAgent
from sqlalchemy import update

from smolagents_memory import (
    EnhancedAgentMemory,
    MemoryLossWarning,
    ObservedMemory,
    Place,
    Session,
    SessionConflictError,
    SessionManager,
    SessionNotFoundError,
    UnsupportedValueError,
)
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.testing import ScriptedModel, code


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60).filter(str.strip)


def saved(url: Any, name: str, **labels: Any) -> Session:
    """A session that is there."""
    SessionManager(url).save_session(ObservedMemory("prompt"), name, **labels)
    return Session(name, url)


def labels_of(session: Session) -> tuple[Any, Any, Any]:
    return session.user, session.title, session.tags


RAM = Place()


@settings(deadline=None, max_examples=60)
@given(st.none() | TEXTS, st.none() | TEXTS, st.lists(TEXTS, max_size=4))
def test_what_is_written_is_read(user: str | None, title: str | None, tags: list[str]) -> None:
    session = saved(RAM, "any", user=user, title=title, tags=tags)
    assert labels_of(session) == (user, title, tuple(dict.fromkeys(tags)))
    [info] = SessionManager(RAM).sessions(user=user, title=title, tags=tags)
    assert (info.user, info.title, info.tags) == labels_of(session)
    assert session.delete()


def test_an_attached_session_has_them_and_they_stay_where_nothing_is_said(url: str) -> None:
    said = {"user": "ann", "title": "A week in Rome", "tags": ("travel", "spring")}
    assert labels_of(Session("trip", url, **said)) == tuple(said.values())  # before there is one
    with Session("trip", url, **said).attach(code_agent([])) as session:
        assert labels_of(session) == tuple(said.values())
    with Session("trip", url).attach(code_agent([])) as session:
        assert labels_of(session) == tuple(said.values())
    with Session("trip", url, title="Ten days in Rome").attach(code_agent([])) as session:
        assert labels_of(session) == ("ann", "Ten days in Rome", ("travel", "spring"))
    with Session("trip", url, user="ann", tags=["rome"]).attach(code_agent([])) as session:
        assert labels_of(session) == ("ann", "Ten days in Rome", ("rome",))


def test_a_session_gets_a_person_later_and_keeps_them(url: str) -> None:
    assert labels_of(saved(url, "s")) == (None, None, ())
    with Session("s", url, user="ann").attach(code_agent([])) as session:
        assert session.user == "ann"
    other = saved(url, "other")
    other.label(user="bob")
    assert SessionManager(url).list_sessions(user="bob") == ["other"]


def test_another_person_s_session_is_neither_read_nor_changed(url: str, tmp_path: Path) -> None:
    with Session("s", url, user="ann").attach(
        code_agent([code("final_answer(1)")], planning_interval=None)
    ) as session:
        session.run("Ann's task")
    agent, bobs = code_agent([]), Session("s", url, user="bob")
    attempts = {
        "attach": lambda: bobs.attach(agent),
        "take over": lambda: bobs.attach(agent, take_over=True),
        "wait": lambda: bobs.attach(agent, wait=60),
        "restore": lambda: bobs.restore(agent),
        "resume": lambda: bobs.resume(agent),
        "steps": bobs.steps,
        "steps of a run": lambda: bobs.steps(run=1),
        "runs": bobs.runs,
        "memory": bobs.memory,
        "transcript": bobs.transcript,
        "original": lambda: bobs.original(0),
        "prompt": lambda: bobs.system_prompt,
        "children": bobs.children,
        "fork": lambda: bobs.fork("mine"),
        "export": lambda: bobs.export(tmp_path / "s.jsonl"),
        "delete": bobs.delete,
        "label": lambda: bobs.label(title="mine"),
        "give": lambda: Session("s", url).label(user="bob"),
        "save": lambda: SessionManager(url).save_session(agent, "s", user="bob", title="mine"),
    }
    for what, attempt in attempts.items():
        began = time.monotonic()
        with pytest.raises(SessionConflictError, match="another person"):
            attempt()
        assert agent.memory.steps == [], what
        assert time.monotonic() - began < 50, what  # nobody waits for what will not come
    assert labels_of(Session("s", url)) == ("ann", None, ())
    assert len(Session("s", url).steps()) == 2
    assert SessionManager(url).list_sessions() == ["s"]
    assert not (tmp_path / "s.jsonl").exists()
    with Session("s", url, user="ann").attach(agent):  # who was refused holds nothing
        assert len(agent.memory.steps) == 2


def test_labels_are_changed_and_taken_away_while_somebody_writes(url: str) -> None:
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    with Session("s", url, user="ann", title="before", tags=["a"]).attach(agent) as session:
        Session("s", url).label(title="after")
        assert labels_of(session) == ("ann", "after", ("a",))
        session.run("goes on")
        Session("s", url).label(title=None, tags=())
    assert labels_of(Session("s", url)) == ("ann", None, ())
    assert len(Session("s", url).steps()) == 2
    with pytest.raises(SessionNotFoundError):
        Session("nobody", url).label(title="t")


def test_what_a_session_was_made_with_does_not_come_back_after_it_was_labelled_otherwise(tmp_path: Path) -> None:
    session = Session("s", tmp_path, title="before", tags=["a"])
    with session.attach(code_agent([])):
        session.label(title="after", tags=())
    with session.attach(code_agent([])):
        assert labels_of(session) == (None, "after", ())


def test_forks_and_imports_and_calls_of_managed_agents(url: str, tmp_path: Path) -> None:
    worker = CodeAgent([], ScriptedModel([code("final_answer('helped')")]), name="worker", description="Works.")
    script = [code("print(worker(task='Help.'))"), code("final_answer(1)")]
    agent = code_agent(script, managed_agents=[worker], planning_interval=None)
    with Session("s", url, user="ann", title="t", tags=["a"]).attach(agent) as session:
        session.run("Ask.")
    [child] = session.children()
    assert labels_of(Session(child, url)) == ("ann", None, ())
    assert labels_of(session.fork("whole")) == ("ann", "t", ("a",))
    assert labels_of(session.fork("part", at=1)) == ("ann", "t", ("a",))
    session.export(tmp_path / "s.jsonl")
    assert b"ann" not in (tmp_path / "s.jsonl").read_bytes()  # a file that is handed on names nobody
    copy = Session("copy", url, user="bob", tags=["b"]).import_(tmp_path / "s.jsonl")
    assert labels_of(copy) == ("bob", None, ("b",))


def test_calls_that_were_made_before_go_with_the_session(url: str) -> None:
    worker = CodeAgent([], ScriptedModel([code("final_answer('helped')")]), name="worker", description="Works.")
    script = [code("print(worker(task='Help.'))"), code("final_answer(1)")]
    agent = code_agent(script, managed_agents=[worker], planning_interval=None)
    with Session("s", url).attach(agent) as session:
        session.run("Ask.")
    session.label(user="ann")
    [child] = session.children()
    assert Session(child, url).user == "ann"


def test_sessions_are_chosen_by_person_tags_and_title(url: str) -> None:
    saved(url, "1", user="ann", title="A Week in ROME", tags=["travel", "spring"])
    saved(url, "2", user="ann", title="Taxes", tags=["money"])
    saved(url, "3", user="bob", title="Rome again", tags=["travel"])
    saved(url, "4")
    manager = SessionManager(url)
    for asked, found in (
        ({}, ["1", "2", "3", "4"]),
        ({"user": "ann"}, ["1", "2"]),
        ({"user": "nobody"}, []),
        ({"tags": ["travel"]}, ["1", "3"]),
        ({"tags": ["travel", "spring"]}, ["1"]),
        ({"title": "rome"}, ["1", "3"]),
        ({"user": "ann", "tags": ["travel"], "title": "week"}, ["1"]),
    ):
        assert manager.list_sessions(**asked) == found
        assert sorted(info.session_id for info in manager.sessions(**asked)) == found


@pytest.mark.parametrize(
    "wrong",
    [{"user": ""}, {"user": "  "}, {"user": 7}, {"user": b"ann"}, {"user": "\ud800"}, {"user": "é" * 501}]
    + [{"title": ""}, {"title": 7}, {"title": "\udfff"}]
    + [{"tags": "travel"}, {"tags": b"ab"}, {"tags": {"a": 1}}, {"tags": 7}, {"tags": [7]}, {"tags": [""]}]
    + [{"tags": ["\ud800"]}, {"tags": None}],
    ids=str,
)  # fmt: skip
def test_what_can_be_no_label_is_told_in_our_words(tmp_path: Path, wrong: dict[str, Any]) -> None:
    url = tmp_path / "memory.db"
    saved(url, "s", user="ann", title="t", tags=["a"])
    manager = SessionManager(url)
    attempts = [
        lambda: Session("s", url, **wrong),
        lambda: manager.session("s", **wrong),
        lambda: manager.list_sessions(**wrong),
        lambda: manager.sessions(**wrong),
        lambda: manager.save_session(ObservedMemory("prompt"), "s", **wrong),
        lambda: Session("s", url).label(**wrong),
    ]
    for attempt in attempts:
        with pytest.raises(UnsupportedValueError, match=r"text|tags|bytes"):
            attempt()
    assert labels_of(Session("s", url)) == ("ann", "t", ("a",))


def test_any_person_of_a_thousand_bytes_can_be_kept(url: str) -> None:
    name = "é" * 500
    assert saved(url, "s", user=name).user == name
    assert SessionManager(url).list_sessions(user=name) == ["s"]


def test_damaged_labels_are_named_and_the_session_is_read(tmp_path: Path) -> None:
    url = tmp_path / "memory.db"
    session, table = saved(url, "s", user="ann", title="t", tags=["a"]), tables.sessions
    with Database.at(url).writing() as connection:
        connection.execute(update(table).values(labels=b"\x02\x00nothing"))
    with pytest.warns(MemoryLossWarning, match="labels of session 's'"):
        assert labels_of(session) == ("ann", None, ())
    with Database.at(url).writing() as connection:
        connection.exec_driver_sql("UPDATE sessions SET person = 'a text'")
    with pytest.warns(MemoryLossWarning, match="whose a session is"):
        assert SessionManager(url).sessions()[0].user is None
    assert session.system_prompt == "prompt"
    with pytest.raises(SessionConflictError):  # of whom it is not known whose it is, it is nobody's to take
        Session("s", url, user="bob").steps()


def test_a_session_that_a_person_s_memory_is_given_is_that_person_s(tmp_path: Path, caplog: Any) -> None:
    session = Session("s", tmp_path)
    with EnhancedAgentMemory(tmp_path, scope={"user": 7}, vector=False, session=session).attach(code_agent([])):
        assert session.user == "7"
    with pytest.raises(SessionConflictError, match="each person"):
        EnhancedAgentMemory(tmp_path, scope={"user": "ann"}, vector=False, session=session)
    with pytest.raises(SessionConflictError, match="another person"):
        EnhancedAgentMemory(tmp_path, scope={"user": "bob"}, vector=False, session=Session("s", tmp_path)).attach(
            code_agent([])
        )
    free = Session("t", tmp_path)
    with EnhancedAgentMemory(tmp_path, scope={"team": "red"}, vector=False, session=free).attach(code_agent([])):
        assert free.user is None
    with EnhancedAgentMemory(tmp_path, scope={"user": ""}, vector=False, session=free).attach(code_agent([])):
        assert free.user is None
    assert "stays nobody's" in caplog.text
