"""Dumps that people already have, made by json.dump(agent.memory.get_full_steps(), default=str)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agents import calling_agent, code_agent, photo
from smolagents.memory import ActionStep, PlanningStep, TaskStep
from smolagents.utils import AgentExecutionError, AgentParsingError

from smolagents_memory import ForeignFileError, MemoryLossWarning, NoteStep, import_memory, load_memory
from smolagents_memory.testing import code


@pytest.fixture
def dumped(tmp_path: Path) -> tuple[Any, Path]:
    agent = code_agent()
    agent.run("Do it.")
    path = tmp_path / "old.json"
    path.write_text(json.dumps(agent.memory.get_full_steps(), default=str, indent=1))
    return agent, path


def test_an_old_dump_without_images_loses_nothing_that_the_model_sees(
    dumped: tuple[Any, Path], recwarn: pytest.WarningsRecorder
) -> None:
    agent, path = dumped
    memory = load_memory(path)
    # up to smolagents 1.21 input messages are dumped as text; nothing else is lost
    assert all("only as text" in str(warning.message) for warning in recwarn.list)
    assert [type(step) for step in memory.steps] == [TaskStep, PlanningStep, *[ActionStep] * 4]
    ours = [message for step in memory.steps for message in step.to_messages()]
    theirs = [message for step in agent.memory.steps for message in step.to_messages()]
    assert ours == theirs
    assert type(memory.steps[3].error) is AgentExecutionError
    assert type(memory.steps[4].error) is AgentParsingError
    assert memory.steps[2].timing.duration == agent.memory.steps[2].timing.duration
    assert memory.steps[2].token_usage == agent.memory.steps[2].token_usage


def test_an_agent_goes_on_from_an_old_dump(dumped: tuple[Any, Path]) -> None:
    _, path = dumped
    agent = code_agent(["plan", code("final_answer(7)")])
    load_memory(path, agent)
    assert agent.run("more", reset=False) == 7
    agent.memory.get_full_steps()


def test_images_in_an_old_dump_are_lost_and_that_is_said(tmp_path: Path) -> None:
    agent = calling_agent()
    agent.run("look", images=[photo()])
    (tmp_path / "old.json").write_text(json.dumps(agent.memory.get_full_steps(), default=str))
    with pytest.warns(MemoryLossWarning, match="an image, of which the dump keeps neither size nor mode"):
        memory = load_memory(tmp_path / "old.json")
    assert len(memory.steps) == len(agent.memory.steps)
    assert memory.steps[2].tool_calls[1].arguments == {"number": 2}


def test_live_dictionaries_are_taken_as_they_are_and_keep_a_task_s_images() -> None:
    picture = photo()
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    agent.run("look", images=[picture])
    with pytest.warns(MemoryLossWarning, match="size nor mode"):
        memory = import_memory(None, agent.memory.get_succinct_steps())
    assert memory.steps[0].task_images[0].tobytes() == picture.tobytes()
    assert memory.steps[1].model_input_messages is None


def test_a_text_that_the_dump_turned_into_data_is_text_again() -> None:
    step = {
        "step_number": 1,
        "timing": {"start_time": 1.0},
        "model_output_message": {"role": "assistant", "content": [{"type": "text", "text": {"a": 1}}]},
    }
    with pytest.warns(MemoryLossWarning, match="exact wording"):
        memory = import_memory(None, [step])
    assert memory.steps[0].model_output_message.content == [{"type": "text", "text": '{"a": 1}'}]


def test_fields_of_older_versions_and_notes_are_understood() -> None:
    note = NoteStep("remember", kind="summary")
    old = {
        "step": 2,
        "start_time": 1.0,
        "end_time": 3.0,
        "duration": 2.0,
        "llm_output": "hm",
        "error": {"type": "Gone", "message": "x"},
    }
    with pytest.warns(MemoryLossWarning, match=r"the class of an error \(Gone\)"):
        memory = import_memory(None, [note.dict(), old])
    assert memory.steps[0] == note
    assert (memory.steps[1].timing.duration, memory.steps[1].model_output) == (2.0, "hm")


def test_a_step_that_cannot_be_read_is_named_and_the_others_are_kept() -> None:
    with pytest.warns(MemoryLossWarning, match="step 1, which cannot be read"):
        memory = import_memory(None, [{"task": "a"}, {"odd": 1}, {"task": "b"}])
    assert [step.task for step in memory.steps] == ["a", "b"]


@pytest.mark.parametrize("data", [3, "text", [1], None])
def test_what_is_no_memory_is_refused(data: Any) -> None:
    with pytest.raises(ForeignFileError, match="neither an exported memory nor a list of steps"):
        import_memory(None, data)
