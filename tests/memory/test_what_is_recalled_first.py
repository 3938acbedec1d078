"""However many memories are asked for, and by whatever filter: the best that are relevant, the newer word first."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from numbered_texts import ByNumber
from sqlalchemy import event
from sqlalchemy.engine import Engine

from smolagents_memory import EnhancedAgentMemory, InMemoryStore
from smolagents_memory.testing.memory_conformance import Clock


OLDER = "The team meeting is on Monday."
LATER = "The team meeting is now on Thursday, at ten, in the large room on the second floor."
OTHERS = ["Lunch is at noon.", "The printer is called Otto.", "Cats like fish.", "The VPN needs a token."]
ASKED = "When is the team meeting?"


@pytest.fixture
def memory(any_place: tuple[Any, dict[str, Any]], clock: Clock) -> Any:
    where, options = any_place
    with EnhancedAgentMemory(where, **options, clock=clock) as memory:
        yield memory


@pytest.mark.parametrize("where", [None, {"n": {"$lt": 3}}, {"n": {"$in": [1, 2]}}])
@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_of_two_that_conflict_the_later_is_first_however_many_are_asked_for(memory, clock, k, where):
    for text in [OLDER, *OTHERS]:
        memory.remember(text, meta={"n": 1})
        clock.now += 100
    memory.remember(LATER, meta={"n": 2})
    if where:
        memory.remember_many({"text": f"{ASKED} {n}", "meta": {"n": 3}} for n in range(6))
    found = [hit.value for hit in memory.recall(ASKED, k, where=where)]
    assert found[0] == LATER
    assert found[1:2] == [OLDER][: k - 1]


@pytest.mark.parametrize("where", [None, {"kind": "memory"}])
@pytest.mark.parametrize("in_a_store", [False, True])
def test_what_is_not_relevant_takes_the_place_of_nothing_that_is(in_a_store, where):
    kept: dict[str, Any] = {"long_term": InMemoryStore()} if in_a_store else {}
    with EnhancedAgentMemory(vector=False, **kept) as memory:
        memory.remember_many(OTHERS)
        memory.remember("Ships pass under the bridge.", importance=8)
        answer = "The committee chose teal as its colour, and said so, after a long debate, to each newspaper of it."
        memory.remember(answer, importance=0.1)
        asked = "committee colour bridge"
        assert [hit.relevance >= 0.3 for hit in memory.recall(asked, 2)] == [False, True]
        assert [hit.value for hit in memory.recall(asked, 1, min_relevance=0.3, where=where)] == [answer]


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "setlimit"), reason="before Python 3.11 nobody can set the limit")
def test_any_number_may_be_asked_for_where_a_statement_holds_few(clock):
    """SQLite takes 32,766 variables in one statement, and other builds of it fewer."""

    def bound(raw: Any, _: Any) -> None:
        raw.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)

    event.listen(Engine, "connect", bound)
    try:
        with EnhancedAgentMemory(vector=False, clock=clock) as memory:
            memory.remember_many([f"apple {n}" for n in range(1500)])
            assert len(memory.recall("apple", 10**9)) == 1500
            assert len(memory.recall("apple", 1200, where={"source": {"$ne": "x"}})) == 1200
    finally:
        event.remove(Engine, "connect", bound)


def test_what_somebody_else_forgets_while_it_is_said_again_is_found_by_its_meaning(tmp_path, monkeypatch):
    with (
        EnhancedAgentMemory(tmp_path, embedder=ByNumber()) as memory,
        EnhancedAgentMemory(tmp_path, embedder=ByNumber()) as other,
    ):
        memory.remember_many([f"{n} apples" for n in range(10)])
        key, bank = memory.remember("77 apples"), memory.long_term.keeper.bank

        def known(*asked: Any) -> Any:
            monkeypatch.undo()
            there = bank.known(*asked)
            other.forget(key)
            return there

        monkeypatch.setattr(bank, "known", known)
        assert memory.remember("77 apples") == key
        assert memory.stats().not_embedded == 0
        assert [hit.value for hit in memory.recall("pears77", 1)] == ["77 apples"]
