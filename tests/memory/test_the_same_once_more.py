"""What is the same once more is one memory that says how often; nothing else is, and all of it can be undone."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from agents import code_agent
from hypothesis import given, settings
from hypothesis import strategies as st
from smolagents import tool

from smolagents_memory import EnhancedAgentMemory, UnsupportedValueError
from smolagents_memory.testing import ScriptedModel, code


LESSON = "Before the backup of the orders database, stop the importer, or the copy is torn."


@tool
def backup(name: str) -> str:
    """Backs a database up.

    Args:
        name: Which.
    """
    return f"{name} is backed up: {next(sizes)} GB"


sizes = itertools.count(5)


@pytest.fixture
def memory(any_place: tuple[Any, dict[str, Any]]) -> Any:
    where, options = any_place
    with EnhancedAgentMemory(where, **options, trusted_tools=["backup"]) as memory:
        yield memory


def runs(memory: EnhancedAgentMemory, answers: list[str], task: str = "Back up the orders database.") -> None:
    for answer in answers:
        turns = [code("r = backup('orders')\nprint(r)"), code(f"final_answer({answer!r})")]
        agent = code_agent(turns, tools=[backup], planning_interval=None)
        memory.attach(agent)
        agent.run(task)
        memory.detach()


def kinds(memory: EnhancedAgentMemory) -> list[str]:
    return sorted(each.kind for each in memory.items())


def test_thirty_routine_runs_leave_one_of_each_and_do_not_stand_before_a_lesson(memory):
    memory.remember(LESSON, importance=2)
    runs(memory, [f"The orders database was backed up in {n} minutes." for n in range(12)])
    assert kinds(memory) == ["action", "memory", "outcome", "solution"]
    (outcome,) = memory.items({"kind": "outcome"})
    assert "in 11 minutes" in outcome.value
    told = outcome.meta["repeated"]
    assert told["times"] == 12
    assert told["first"] < told["last"] == outcome.created
    older = memory.history(outcome.key)
    assert len(older) == 12
    assert len({each.source for each in older}) == 12
    assert LESSON in [hit.value for hit in memory.recall("How do I back up the orders database?", 5)]


def test_what_is_undone_is_as_it_was(memory):
    runs(memory, ["It took 3 minutes.", "It took 4 minutes."])
    (outcome,) = memory.items({"kind": "outcome"})
    (older,) = memory.separate(outcome.key)
    assert {each.value[-18:] for each in memory.items({"kind": "outcome"})} == {
        "It took 3 minutes.",
        "It took 4 minutes.",
    }
    assert "repeated" not in memory.get(outcome.key).meta
    assert memory.get(older).archived is None
    assert memory.separate(outcome.key) == []
    assert [older] in memory.consolidate().values()


def test_another_outcome_or_another_task_stays_beside_it(memory):
    runs(memory, ["All of it is safe.", "The disk was full, nothing could be written."])
    runs(memory, ["All of it is safe."], "Back up the invoices database.")
    assert kinds(memory).count("outcome") == 3


def test_of_what_was_kept_before_recall_brings_one(memory):
    """Of a place in which nothing was consolidated."""
    texts = [f"Task: Back it up.\nOutcome: It was backed up in {n} minutes." for n in range(12)]
    memory.remember_many([{"text": text, "kind": "outcome", "origin": "agent"} for text in texts])
    memory.remember("Nobody backed up the mail.")
    found = [hit.value for hit in memory.recall("Was it backed up?", 5)]
    assert len(found) == 2
    assert "Nobody backed up the mail." in found


def test_what_people_said_is_joined_in_the_same_words_alone(memory):
    memory.remember_many(["Deploys go out on Tuesday.", "deploys go out on Tuesday", "Deploys go out on Monday."])
    memory.remember_many(["Do deploys go out on Tuesday?", {"text": "Deploys go out on tuesday!", "key": "mine"}])
    memory.remember("Deploys go out on Tuesday…", origin="tool", source="web")
    joined = memory.consolidate()
    assert [len(keys) for keys in joined.values()] == [1]
    assert memory.count() == 5
    assert memory.consolidate() == {}


def test_what_is_pinned_stays(memory):
    first, second = memory.remember_many(["Ann likes tea.", "Ann likes tea"])
    memory.pin(first)
    assert memory.consolidate() == {first: [second]}
    memory.separate(first)
    memory.pin(second)
    assert memory.consolidate() == {}


def test_what_is_forgotten_goes_with_what_says_the_same(memory):
    memory.remember_many(["The code of the safe is 4711.", "the code of the safe is 4711", "The safe is green."])
    (kept,) = memory.consolidate()
    assert memory.forget(kept)
    assert [each.value for each in memory.items(archived=None)] == ["The safe is green."]


def test_a_person_may_join_what_is_said_in_other_words_and_a_model_may_propose_it(memory):
    texts = ["Ann likes tea best.", "Tea is what Ann likes best.", "Ann likes tea best of all", "The gate is C1."]
    keys = memory.remember_many(texts)
    model = ScriptedModel(["Here: [[0, 1], [2], [0, 9], 7]"])
    (group,) = memory.propose_joins(model)
    assert set(group) < set(keys[:3])
    assert memory.count() == 4
    kept = memory.join(group)
    assert kept in group
    assert memory.count() == 3
    assert memory.get(kept).meta["repeated"]["times"] == 2
    assert set(memory.separate(kept)) == set(group) - {kept}


@pytest.mark.parametrize("said", ["none of them", "[[0, 1]", "{}", '[["a"]]', "[[0, 0]]", RuntimeError("down")])
def test_a_model_that_fails_proposes_nothing(said):
    memory = EnhancedAgentMemory(vector=False)
    memory.remember_many(["Ann likes tea best.", "Tea is what Ann likes best."])
    assert memory.propose_joins(ScriptedModel([said])) == []
    assert memory.count() == 2


@pytest.mark.parametrize("keys", [[], ["one"], ["one", "nowhere"], ["one", "away"]])
def test_what_cannot_be_joined_is_refused(keys):
    memory = EnhancedAgentMemory(vector=False)
    memory.remember_many([{"text": "The gate is C1.", "key": "one"}, {"text": "It rains.", "key": "away"}])
    memory.archive("away")
    with pytest.raises(UnsupportedValueError, match="nothing was changed"):
        memory.join(keys)
    assert memory.count() == 1


def test_what_is_joined_is_found_by_what_its_metadata_says_now(memory):
    keys = [memory.remember(text, meta={"team": "red"}) for text in ("Ann likes tea.", "ann likes tea")]
    (kept,) = memory.consolidate()
    assert [each.key for each in memory.recall("tea", where={"team": "red"})] == [kept]
    assert [each.key for each in memory.items({"team": "red", "repeated": {"$exists": True}})] == [kept]
    memory.separate(kept)
    assert {each.key for each in memory.items({"team": "red"})} == set(keys)
    assert memory.count({"repeated": {"$exists": True}}) == 0


def test_metadata_of_ones_own_by_that_name_stays(memory):
    keys = [memory.remember(text, meta={"repeated": "often"}) for text in ("Ann likes tea.", "ann likes tea")]
    assert memory.consolidate() == {}
    with pytest.raises(UnsupportedValueError, match="nothing was changed"):
        memory.join(keys)
    assert {each.key for each in memory.items({"repeated": "often"})} == set(keys)


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["tea", "Tea.", "tea!", "coffee", "Coffee", "no tea"]), min_size=1, max_size=8))
def test_consolidated_and_separated_again_it_is_as_before(texts):
    with EnhancedAgentMemory(vector=False) as memory:
        memory.remember_many(texts)
        before = {each.key: (each.value, each.meta) for each in memory.items()}
        joined = memory.consolidate()
        assert {key for keys in joined.values() for key in keys} | {each.key for each in memory.items()} == set(before)
        for key in joined:
            memory.separate(key)
        assert {each.key: (each.value, each.meta) for each in memory.items()} == before
