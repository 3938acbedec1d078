"""Conversation, tool executions, reasoning, todos and finding, on real histories, live, loaded and made by hand."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

import pytest
from histories import PLAN, RUNS, finished, odd_steps
from smolagents import AgentExecutionError, ToolCallingAgent
from smolagents.memory import ActionStep, AgentMemory, PlanningStep, TaskStep, ToolCall

from smolagents_memory import (
    ObservedMemory,
    conversation,
    find_steps,
    load_memory,
    reasoning,
    save_memory,
    todos,
    tool_executions,
)
from smolagents_memory.steps.code_calls import SourceText, calls_in
from smolagents_memory.testing import same


@pytest.mark.parametrize("name", RUNS)
def test_the_conversation_is_what_the_model_would_read(name: str) -> None:
    """Role by role and text by text as smolagents writes its memory to messages."""
    agent = finished(name)
    written = [
        (message.role.value, "\n".join(part["text"] for part in message.content if part["type"] == "text"))
        for message in agent.write_memory_to_messages()
    ]
    said = conversation(agent)
    assert [(message.role, message.content) for message in said] == written
    for role, count in Counter(role for role, _ in written).items():
        assert len(conversation(agent, role)) == count
    assert all(message.timestamp for message in said if message.step is not None)
    times = [message.timestamp for message in said if message.timestamp]
    assert times == sorted(times)


@pytest.mark.parametrize("name", RUNS)
def test_every_view_of_a_loaded_file_is_that_of_the_live_memory(name: str, tmp_path: Path) -> None:
    """By path, by the loaded memory, and by the loaded steps in another agent."""
    agent = finished(name)
    path = save_memory(agent, tmp_path / "run.jsonl")
    loaded = load_memory(path)
    for view in (conversation, tool_executions, reasoning, todos):
        expected = view(agent)
        assert same(view(str(path)), expected) or view is tool_executions
        assert same(view(path), view(loaded))
    calls, live = tool_executions(path), tool_executions(agent)
    assert [(e.tool_name, e.result.success, e.source, e.step) for e in calls] == [
        (e.tool_name, e.result.success, e.source, e.step) for e in live
    ]


def test_anything_with_steps_can_be_read() -> None:
    """A session is read once, through its `memory()`, so that views need not know sessions."""

    class LikeASession:
        def memory(self) -> AgentMemory:
            memory = AgentMemory("You are helpful.")
            memory.steps.append(TaskStep("Count."))
            return memory

    assert [message.content for message in conversation(LikeASession())] == ["You are helpful.", "New task:\nCount."]
    with pytest.raises(TypeError, match="not from a int"):
        conversation(42)


def test_images_are_beside_the_text() -> None:
    agent = finished("with_images")
    by_role = {message.role: message.images for message in conversation(agent)}
    assert [image.size for image in by_role["user"]] == [(4, 3), (5, 5)]


def test_the_calls_of_a_tool_calling_agent() -> None:
    """One by one, in parallel, failed, unknown, ill called, and the answer."""
    made = [
        (e.tool_name, e.params, e.result.success, e.result.result)
        for e in tool_executions(finished("calls_in_parallel_and_errors"))
    ]
    assert made == [
        ("weather", {"city": "Paris"}, True, "Rain in Paris"),
        ("weather", {"city": "Paris"}, True, "Rain in Paris"),
        ("weather", {"city": "Oslo"}, True, "Rain in Oslo"),
        ("weather", {"city": "Paris"}, False, None),
        ("weather", {"city": "Atlantis"}, False, None),
        ("no_such_tool", {"x": 1}, False, None),
        ("weather", {"town": "Paris"}, False, None),
        ("final_answer", {"answer": "Rain"}, True, "Rain"),
    ]


def test_a_failed_call_says_why_and_when() -> None:
    agent = finished("calls_in_parallel_and_errors")
    [unknown] = tool_executions(agent, "no_such_tool")
    assert "Unknown tool no_such_tool" in str(unknown.result.error)
    step = agent.memory.steps[unknown.step]
    assert unknown.timestamp == datetime.fromtimestamp(step.timing.start_time, tz=timezone.utc)
    assert unknown.result.execution_time == step.timing.duration
    assert unknown.call_id == step.model_output_message.tool_calls[0].id


def test_parallel_results_that_cannot_be_told_apart_are_marked() -> None:
    calls = [ToolCall("a", {}, "1"), ToolCall("b", {}, "2")]
    [first, second] = tool_executions([ActionStep(1, None, tool_calls=calls, observations="one\ntwo\nthree")])
    assert (first.joint, second.joint) == (True, True)
    assert first.result.result == second.result.result == "one\ntwo\nthree"


def test_the_calls_in_code_are_read_from_it_and_marked() -> None:
    """Positional arguments get the parameters' names; what follows a failed statement was not reached."""
    agent = finished("code_with_plans_and_errors")
    written = [e for e in tool_executions(agent) if e.source == "code"]
    assert [(e.tool_name, e.params, e.result.success) for e in written] == [
        ("weather", {"city": "place"}, True),
        ("weather", {"city": "Oslo"}, True),
        ("weather", {"city": "Atlantis"}, False),
        ("weather", {"city": "Rome"}, False),
        ("final_answer", {"answer": "weather(city=place) + ' and ' + x"}, True),
        ("weather", {"city": "place"}, True),
    ]
    assert isinstance(written[0].params["city"], SourceText)
    assert not isinstance(written[1].params["city"], SourceText)
    assert "no such city" in str(written[2].result.error)
    assert "not reached" in str(written[3].result.error)
    ran = [e for e in tool_executions(agent) if e.source == "call"]
    assert {e.tool_name for e in ran} == {"python_interpreter"}
    assert [e.result.success for e in ran] == [True, False, False, True]


def test_the_tools_of_a_stored_code_agent_are_known_from_its_prompt() -> None:
    """So `os.remove`, `print` and the agent's own functions are not taken for tools, and arguments have names."""
    agent = finished("code_with_plans_and_errors")
    memory = AgentMemory(agent.memory.system_prompt.system_prompt)
    memory.steps = agent.memory.steps
    assert same(tool_executions(memory), tool_executions(agent))


def test_a_managed_agent_is_a_tool_too() -> None:
    [request] = tool_executions(finished("with_a_managed_agent"), "helper")
    assert (request.source, request.params, request.result.success) == ("code", {"task": "weather in Paris"}, True)


@pytest.mark.parametrize(("name", "source"), [("refused_answers", "code"), ("refused_calls", "call")])
def test_an_answer_that_a_check_refuses_is_a_failed_final_answer(name: str, source: str) -> None:
    """The code itself ran: only the answer was not accepted."""
    executions = tool_executions(finished(name))
    answers = [e for e in executions if e.tool_name == "final_answer"]
    assert [(e.source, e.result.success) for e in answers] == [(source, False), (source, True)]
    assert "is_long" in str(answers[0].result.error)
    assert all(e.result.success for e in executions if e.tool_name == "python_interpreter")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", []),
        ("this is ( no code", []),
        ("\x00", []),
        ("def f(x):\n    return g(x)\nf(1)", ["g"]),
        ("from a import b as c\nc()\nd.e()\n(lambda: h())()", ["h"]),
        ("print(len(str(k())))", ["k"]),
        ("a(b(1), *c(), **d())", ["a", "b", "c", "d"]),
        ("x = " + "+".join(["one()"] * 2000), ["one"] * 2000),
        ("f'{m(1)}'", ["m"]),
    ],
)
def test_calls_are_found_in_any_code(code: str, expected: list[str]) -> None:
    """Without knowing the tools: builtins, imports and the code's own functions are none."""
    assert [each.name for each in calls_in(code)] == expected


def test_reading_a_models_code_warns_nobody(recwarn: pytest.WarningsRecorder) -> None:
    assert calls_in(r"find('\d')")[0].arguments == {"0": r"\d"}
    assert list(recwarn) == []


def test_arguments_are_values_where_they_are_literal() -> None:
    [found] = calls_in("t(1, [2, {'a': None}], x, -3, key=f(y), **more)", {"t": ("first",)})
    assert found.arguments == {"first": 1, "1": [2, {"a": None}], "2": "x", "3": -3, "key": "f(y)", "**": "more"}
    assert [name for name, value in found.arguments.items() if isinstance(value, SourceText)] == ["2", "key", "**"]


def test_the_reasoning_of_a_code_agent() -> None:
    trace = reasoning(finished("code_with_plans_and_errors"))
    assert [move.step_type for move in trace[:4]] == ["PLAN", "THINK", "ACT", "OBSERVE"]
    assert trace[1].content == "Thought: I run the next piece of code."
    assert trace[2].content == "place = 'Paris'\nprint(weather(place))"
    assert "Rain in Paris" in trace[3].content
    assert [move.content for move in trace if "Error:" in move.content[:22]] != []
    agent = finished("code_with_plans_and_errors")
    steps = agent.memory.steps
    counts = Counter(move.step_type for move in trace)
    assert counts["PLAN"] == sum(isinstance(step, PlanningStep) for step in steps)
    assert counts["ACT"] == sum(getattr(step, "code_action", None) is not None for step in steps)
    assert counts["THINK"] == sum(getattr(step, "model_output", None) is not None for step in steps)


def test_the_reasoning_of_a_tool_calling_agent() -> None:
    acts = reasoning(finished("calls_in_parallel_and_errors"), "ACT")
    assert acts[0].content == "weather(city='Paris')"
    assert acts[0].tool_name == "weather"
    assert len(acts) == 8


@pytest.mark.parametrize(
    ("output", "code", "thought"),
    [
        ("I think.\n<code>\nx = 1\n</code>", "x = 1", "I think."),
        ("I think.\n```python\nx = 1\n```", "x = 1", "I think."),
        ("I think.\n<run>\nx = 1\n</run>", "x = 1", "I think."),
        ('{"thought": "I think.", "code": "x = 1"}', "x = 1", "I think."),
        ("{ not json", "x = 1", "{ not json"),
        ("x = 1", "x = 1", ""),
        ("Only words", None, "Only words"),
    ],
)
def test_a_thought_is_what_is_not_code(output: str, code: str | None, thought: str) -> None:
    moves = reasoning([ActionStep(1, None, model_output=output, code_action=code)], "THINK")
    assert [move.content for move in moves] == ([thought] if thought else [])


def test_todos_are_the_items_of_the_newest_plan() -> None:
    agent = finished("code_with_plans_and_errors")
    assert [(todo.content, todo.done) for todo in todos(agent)] == [("Ask for the weather.", False), ("Answer.", True)]
    assert todos(agent)[0].step == max(i for i, s in enumerate(agent.memory.steps) if isinstance(s, PlanningStep))
    assert todos(finished("with_images")) == []


@pytest.mark.parametrize(
    ("plan", "items"),
    [
        (PLAN, ["Ask for the weather.", "Answer."]),
        ("### 2. Plan\n### 2. 1. Look.\n### 2. 2. Leap.", ["Look.", "Leap."]),
        ("**Plan**\n1) Look\n2) Leap", ["Look", "Leap"]),
        ("- Look\n* Leap\n+ Land", ["Look", "Leap", "Land"]),
        ("No items at all", []),
        ("", []),
    ],
)
def test_plans_in_many_forms(plan: str, items: list[str]) -> None:
    assert [todo.content for todo in todos([PlanningStep([], None, plan, None)])] == items


def test_steps_are_found_by_what_was_seen_used_and_gone_wrong() -> None:
    agent = finished("code_with_plans_and_errors")
    steps = agent.memory.steps
    assert find_steps(agent) == steps
    assert find_steps(agent, pattern=r"rain in \w+") == []
    assert find_steps(agent, pattern=r"(?i)rain in \w+") == [steps[2], steps[-1]]
    assert find_steps(agent, tool="weather") == [steps[2], steps[3], steps[-1]]
    failed = [step for step in steps if getattr(step, "error", None) is not None]
    assert find_steps(agent, error=True) == failed
    assert find_steps(agent, error=False) == [s for s in steps if isinstance(s, ActionStep) and s.error is None]
    assert find_steps(agent, error="AgentExecutionError") == find_steps(agent, error=AgentExecutionError)
    assert find_steps(agent, error="no such city") == [steps[3]]
    assert find_steps(agent, error="AgentError") == failed
    assert find_steps(agent, tool="weather", error=True) == [steps[3]]


def test_steps_are_found_by_time() -> None:
    agent = finished("with_images")
    last = agent.memory.steps[-1]
    assert find_steps(agent, since=last.timing.start_time) == [last]
    assert find_steps(agent, since=datetime.fromtimestamp(last.timing.start_time, tz=timezone.utc)) == [last]
    assert find_steps(agent, since=last.timing.end_time + 1) == []


@pytest.mark.parametrize("index", range(len(odd_steps())))
def test_nothing_crashes_on_steps_made_by_hand(index: int) -> None:
    """Alone, and all of them together."""
    for steps in ([odd_steps()[index]], odd_steps()):
        conversation(steps)
        tool_executions(steps)
        reasoning(steps)
        todos(steps)
        find_steps(steps, pattern="x", tool="weather", error="y", since=0)


def test_odd_steps_are_read_as_well_as_can_be() -> None:
    steps = odd_steps()
    assert [e.params for e in tool_executions(steps, "weather")] == [{"city": "x"}, {"city": "y"}]
    assert [(todo.content, todo.done) for todo in todos(steps)] == [("a", False), ("b", True), ("c", True)]
    contents = [message.content for message in conversation(steps)]
    for expected in ("a list", "Observation:\n404", "A note", "an answer"):
        assert expected in contents


def test_an_observed_memory_and_an_unrun_agent_are_read_too() -> None:
    memory = ObservedMemory("You are helpful.")
    memory.steps.append(TaskStep("Count."))
    assert len(conversation(memory)) == 2
    agent = ToolCallingAgent([], model=None, verbosity_level=-1)
    assert [message.role for message in conversation(agent)] == ["system"]
