"""What has nothing to do with the task stays where it is."""

from __future__ import annotations

import pytest
from agents import code_agent

from smolagents_memory import EnhancedAgentMemory, RecallTool, UnsupportedValueError
from smolagents_memory.steps.notes import NoteStep
from smolagents_memory.testing import code


NOTES = [
    "The staging server is reached by the VPN alone.",
    "Invoices go to the accounting office on Fridays.",
    "The espresso machine wants descaling each month.",
    "Ann keeps bees behind the greenhouse.",
]


def brought(task: str) -> list[str]:
    memory = EnhancedAgentMemory(auto_recall=3, learn=False)
    memory.remember_many(NOTES)
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    with memory.attach(agent):
        agent.run(task)
        return [step.text for step in memory.steps if isinstance(step, NoteStep)]


def test_a_task_about_something_known_brings_it():
    [text] = brought("How do I reach the staging server?")
    assert "VPN" in text
    assert "bees" not in text


@pytest.mark.parametrize(
    "task", ["What is the capital of Peru?", "Write a poem about winter.", "Sort these numbers: 3, 1, 2"]
)
def test_a_task_about_something_unknown_brings_nothing(task):
    assert brought(task) == []


def test_what_is_asked_for_may_be_limited_to_what_is_relevant():
    memory = EnhancedAgentMemory()
    memory.remember_many(NOTES)
    assert len(memory.recall("capital of Peru", 4)) == 4
    assert memory.recall("capital of Peru", 4, min_relevance=0.3) == []
    assert [hit.value for hit in memory.recall("how is the staging server reached", 4, min_relevance=0.3)] == NOTES[:1]


@pytest.mark.parametrize("wrong", [-0.1, 1.1, "0.3", None, True, float("nan")])
def test_another_relevance_is_refused(wrong):
    with pytest.raises(UnsupportedValueError, match="min_relevance"):
        EnhancedAgentMemory(vector=False).recall("x", min_relevance=wrong)
    with pytest.raises(UnsupportedValueError, match="min_relevance"):
        RecallTool(EnhancedAgentMemory(vector=False), None, wrong)


def test_a_tool_leaves_out_what_has_nothing_to_do_with_it():
    memory = EnhancedAgentMemory()
    memory.remember_many(NOTES)
    assert "Nothing was found" in RecallTool(memory)("the capital of Peru")
    assert "bees" in RecallTool(memory, None, 0.0)("the capital of Peru", 4)


def test_a_saved_tool_knows_how_relevant_notes_must_be(tmp_path):
    with EnhancedAgentMemory(tmp_path / "place") as memory:
        memory.remember_many(NOTES)
    saved = RecallTool(str(tmp_path / "place"), None, 0.05).to_dict()["code"]
    assert "min_relevance: float = 0.05" in saved
