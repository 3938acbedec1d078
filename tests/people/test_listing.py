"""Who is known: by sessions, by scopes, or both."""

from __future__ import annotations

from pathlib import Path

import pytest

from smolagents_memory import (
    EnhancedAgentMemory,
    MemoryLossWarning,
    ObservedMemory,
    People,
    PlaceError,
    SessionManager,
)
from smolagents_memory.database.engine import Database
from smolagents_memory.people.whose import Person


def test_everybody_is_listed_with_what_there_is_of_them(url: str) -> None:
    manager = SessionManager(url)
    manager.save_session(ObservedMemory("prompt"), "nobody's")
    manager.save_session(ObservedMemory("prompt"), "1", user="ann")
    manager.save_session(ObservedMemory("prompt"), "2", user="ann")
    manager.save_session(ObservedMemory("prompt"), "3", user="zoë")
    for scope, clock in (({"user": "ann"}, 100.0), ({"user": "ann", "agent": "coder"}, 3e9), ({"user": 7}, 200.0)):
        with EnhancedAgentMemory(url, scope=scope, vector=False, clock=lambda now=clock: now) as memory:
            memory.archive(memory.remember("put away"))
            memory.remember("tea")
    for nobodys in (None, {"team": "red"}):
        with EnhancedAgentMemory(url, scope=nobodys, vector=False) as memory:
            memory.remember("of nobody")
    ann, zoe = (manager.sessions(user=user) for user in ("ann", "zoë"))
    assert People(url).list() == [
        Person("7", 0, 2, 200.0, 200.0),
        Person("ann", 2, 4, 100.0, 3e9),
        Person("zoë", 1, 0, zoe[0].created, zoe[0].updated),
    ]
    assert ann[0].created > 100.0


def test_nobody_is_listed_in_an_empty_place(url: str) -> None:
    assert People(url).list() == []


def test_who_has_forgotten_everything_is_listed_until_the_purge(tmp_path: Path) -> None:
    """The scope is still called after them."""
    with EnhancedAgentMemory(tmp_path, scope={"user": "ann"}, vector=False) as memory:
        memory.forget(memory.remember("tea"))
    assert People(tmp_path).list() == [Person("ann")]
    SessionManager(tmp_path).purge()
    assert People(tmp_path).list() == []


def test_damaged_names_are_named_and_the_others_listed(tmp_path: Path) -> None:
    manager = SessionManager(tmp_path)
    for name in ("ann", "bob"):
        manager.save_session(ObservedMemory("prompt"), name, user=name)
    with Database.at(tmp_path).writing() as connection:
        connection.exec_driver_sql("UPDATE sessions SET person = x'ff' WHERE person = x'616e6e'")
    with pytest.warns(MemoryLossWarning, match="the name of a person is damaged"):
        assert [person.user for person in People(tmp_path).list()] == ["bob"]


def test_what_is_no_place_of_people_is_told() -> None:
    with pytest.raises(PlaceError, match="SQLite or Postgres"):
        People("redis://localhost")
