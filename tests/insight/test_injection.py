"""What is put into memory by hand is a valid step, and the model reads it."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

import pytest
from histories import RUNS, finished, odd_steps
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from smolagents import CodeAgent, ToolCallingAgent
from smolagents.memory import ActionStep, AgentMemory, TaskStep
from smolagents.models import MessageRole

from smolagents_memory import (
    NoteStep,
    ObservedMemory,
    ReactMemory,
    ToolExecution,
    ToolResult,
    briefing,
    inject_history,
    inject_observation,
    inject_task,
    iter_steps,
    reasoning,
    tool_executions,
)
from smolagents_memory.insight.injection import estimated_tokens
from smolagents_memory.testing import ScriptedModel, code


def shown(agent: Any) -> list[tuple[str, str]]:
    return [
        (message.role.value, "".join(part.get("text", "") for part in message.content))
        for message in agent.write_memory_to_messages()[1:]
    ]


def fresh(*script: Any) -> CodeAgent:
    return CodeAgent([], ScriptedModel(script), verbosity_level=-1)


def test_an_injected_task_can_be_gone_on_with() -> None:
    agent = fresh(code("final_answer(42)"))
    inject_task(agent, "What is six times seven?", images=[Image.new("RGB", (2, 2))])
    steps = iter_steps(agent)
    list(steps)
    assert steps.answer == 42
    assert "six times seven" in agent.model.calls[0].text
    assert len(agent.model.calls[0].images) == 1


def test_an_injected_observation_is_read_and_takes_no_step() -> None:
    """In the middle of a run, with an image; the run's numbering goes on as if it were not there."""
    agent = fresh(code("x = 1"), code("final_answer(x)"))
    before = time.time()
    next(iter_steps(agent, "Go"))
    step = inject_observation(agent, "It is noon.", images=[Image.new("RGB", (2, 2))])
    assert before <= step.timing.start_time <= step.timing.end_time
    assert [each.step_number for each in iter_steps(agent)] == [2]
    assert "Observation:\nIt is noon." in agent.model.calls[1].text
    assert len(agent.model.calls[1].images) == 1
    assert agent.memory.get_full_steps()


@pytest.mark.parametrize("name", RUNS)
def test_another_agents_history_is_read_before_the_next_task(name: str) -> None:
    """Message for message, with nothing shared that an edit could leak through, and nobody's tokens counted twice."""
    other = finished(name)
    agent = fresh(code("final_answer(1)"))
    added = inject_history(agent, other)
    assert shown(agent) == shown(other)
    agent.run("And now?", reset=False)
    assert agent.memory.steps[: len(added)] == added
    assert shown(agent)[: len(shown(other))] == shown(other)
    for mine, theirs in zip(added, other.memory.steps, strict=True):
        assert mine is not theirs
        assert not getattr(mine, "model_input_messages", None)
        assert getattr(mine, "token_usage", None) is None
        for field, value in vars(mine).items():
            if isinstance(value, list) and value:
                assert value is not getattr(theirs, field)
    assert agent.memory.get_full_steps() or name == "with_images"


def test_steps_made_by_hand_become_valid() -> None:
    agent = fresh()
    added = inject_history(agent, odd_steps())
    assert all(step.timing is not None for step in added if hasattr(step, "timing"))
    assert "an answer" in [step.text for step in added if isinstance(step, NoteStep)]


def test_history_comes_before_a_task_that_is_under_way() -> None:
    """So that going on finds the agent's own task, not the other's."""
    agent = fresh(code("x = 1"), code("final_answer(x)"))
    next(iter_steps(agent, "My own task"))
    inject_history(agent, finished("with_images"))
    assert agent.memory.steps[-2].task == "My own task"
    steps = iter_steps(agent)
    list(steps)
    assert steps.answer == 1


def test_a_briefing_is_the_history_without_the_prompt() -> None:
    agent = finished("calls_in_parallel_and_errors")
    assert [message.dict() for message in briefing(agent)] == [
        message.dict() for message in agent.write_memory_to_messages()[1:]
    ]


def test_a_short_briefing_keeps_the_task_and_the_newest_and_says_what_is_missing() -> None:
    agent = finished("calls_in_parallel_and_errors")
    whole = briefing(agent)
    total = sum(map(estimated_tokens, whole))
    short = briefing(agent, max_tokens=total // 2)
    assert short[0].content == whole[0].content
    assert short[-1].content == whole[-1].content
    missing = len(whole) - (len(short) - 1)
    assert f"{missing} messages" in short[1].content[0]["text"]
    assert sum(map(estimated_tokens, short)) <= total // 2
    assert short[2].role != MessageRole.TOOL_RESPONSE


@given(limit=st.integers(1, 400), name=st.sampled_from(["with_images", "out_of_steps_calls", "answers_none"]))
def test_a_briefing_never_exceeds_its_limit(limit: int, name: str) -> None:
    if name not in _FINISHED:
        _FINISHED[name] = finished(name)
    assert 1 <= sum(map(estimated_tokens, briefing(_FINISHED[name], max_tokens=limit))) <= limit


_FINISHED: dict[str, Any] = {}


def test_a_briefing_of_nothing_is_nothing_and_a_limit_of_nothing_an_error() -> None:
    assert briefing(AgentMemory("p"), max_tokens=5) == []
    with pytest.raises(ValueError, match="at least 1"):
        briefing([], max_tokens=0)


def test_a_briefing_can_be_injected() -> None:
    agent = fresh(code("final_answer(1)"))
    other = finished("with_a_managed_agent")
    notes = inject_history(agent, briefing(other, max_tokens=200))
    assert all(isinstance(note, NoteStep) and note.kind == "history" for note in notes)
    agent.run("Now?", reset=False)
    assert "Tell me the weather." in agent.model.calls[0].text


def test_images_that_a_note_cannot_hold_are_named() -> None:
    [note] = inject_history([], briefing([TaskStep("Look", task_images=[Image.new("L", (1, 1))])]))
    assert note.text == "New task:\nLook\n[1 image not handed over]"


def test_only_what_holds_live_steps_can_be_added_to() -> None:
    for target in (42, "path", object()):
        with pytest.raises(TypeError, match="an agent, its memory or a list"):
            inject_task(target, "x")
    memory = ObservedMemory("p")
    told: list[Any] = []
    memory.on("steps_changed", told.append)
    inject_observation(memory, "x")
    inject_history(memory, [TaskStep("y")])
    assert [len(event.added) for event in told] == [1, 1]


# -- ReactMemory ---------------------------------------------------------------------------------------------------


def test_react_memory_bundles_the_views() -> None:
    agent = finished("code_with_plans_and_errors")
    memory = ReactMemory.from_agent(agent)
    assert memory.tool_executions == tool_executions(agent)
    assert memory.reasoning_trace == reasoning(agent)
    assert [todo.content for todo in memory.todos] == ["Ask for the weather.", "Answer."]
    assert len(memory.get_messages()) == len(agent.write_memory_to_messages())
    assert memory.get_messages(last=2) == memory.conversation_history[-2:]
    assert memory.get_messages(last=0) == []
    assert {message.role for message in memory.get_messages_by_role("tool-response")} == {"tool-response"}
    thinking = [step for step in memory.reasoning_trace if step.step_type == "THINK"]
    assert len(thinking) == 5


def test_the_context_is_the_agents_own_state() -> None:
    agent = finished("refused_answers")
    memory = ReactMemory.from_agent(agent)
    assert memory.context == {"limit": 3}
    memory.context["more"] = 4
    assert agent.state["more"] == 4


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_an_added_message_is_read_by_the_model(role: str) -> None:
    agent = fresh(code("final_answer(1)"))
    memory = ReactMemory.from_agent(agent)
    memory.add_message(role, "Mind the step.")
    assert memory.conversation_history[-1].role == role
    assert [message.content for message in memory.get_messages_by_role(role)][-1] == "Mind the step."
    agent.run("Go", reset=False)
    sent = [message for message in agent.model.calls[0].messages if "Mind the step." in str(message.content)]
    assert [message.role.value for message in sent] == [role]


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody"):
        ReactMemory().add_message("nobody", "x")


def test_an_added_tool_execution_comes_back_as_it_was_and_is_read_by_the_model() -> None:
    agent = ToolCallingAgent([], ScriptedModel([]), verbosity_level=-1)
    memory = ReactMemory.from_agent(agent)
    result = ToolResult(success=True, result={"calculation": 42}, execution_time=0.25, tool_name="calculator")
    added = ToolExecution("calculator", {"expression": "6 * 7"}, result, datetime(2026, 5, 4, 3, tzinfo=timezone.utc))
    memory.add_tool_execution(added)
    [found] = memory.tool_executions
    assert (found.tool_name, found.params, found.timestamp) == (added.tool_name, added.params, added.timestamp)
    assert found.result == result
    assert "Observation:\n{'calculation': 42}" in [text for _, text in shown(agent)]
    assert "'expression': '6 * 7'" in shown(agent)[0][1]


def test_an_added_failure_is_read_as_an_error() -> None:
    agent = fresh()
    memory = ReactMemory.from_agent(agent)
    memory.add_tool_execution(ToolExecution("search", {}, ToolResult(False, error="no network")))
    [found] = memory.tool_executions
    assert (found.result.success, found.result.error) == (False, "no network")
    assert "no network" in shown(agent)[-1][1]
    assert isinstance(agent.memory.steps[-1], ActionStep)


def test_react_memory_works_without_an_agent() -> None:
    memory = ReactMemory()
    memory.add_message("user", "Hello")
    assert [(message.role, message.content) for message in memory.get_messages()] == [("user", "Hello")]
