"""One reading of what a step called, what came of it and what it answered: callbacks, views and memory agree."""

from __future__ import annotations

import re

import pytest
from histories import RUNS, finished, odd_steps, weather
from smolagents import ToolCallingAgent
from smolagents.memory import ActionStep, TaskStep

from smolagents_memory import AddContext, AlertOnFailures, TimestampObservations, compose, tool_executions
from smolagents_memory.memory.experiences import experiences
from smolagents_memory.memory.reviewing import actions
from smolagents_memory.steps.answers import answer_of, outcome
from smolagents_memory.steps.calls import called, calls_made, calls_of
from smolagents_memory.steps.kinds import is_action
from smolagents_memory.testing import ScriptedModel, call


def learnt(agent) -> list[str]:
    task, *steps = agent.memory.steps
    return [item["text"] for item in experiences(task, steps, lambda text: text)]


@pytest.mark.parametrize("name", RUNS)
def test_callbacks_views_and_memory_read_the_same_calls(name: str) -> None:
    steps = [step for step in finished(name).memory.steps if is_action(step)]
    for step in steps:
        asked = [name for name, _, _ in calls_of(step)]
        made = list(calls_made(step))
        assert asked == [made_one.tool for made_one in made]
        assert asked == [execution.tool_name for execution in tool_executions([step]) if execution.source == "call"]
        told = [(action.tool, action.arguments) for action in actions([step]) if action.tool]
        assert told == [(made_one.tool, made_one.arguments) for made_one in made]


def test_parallel_results_are_told_apart_also_where_callbacks_added_lines() -> None:
    script = [[call("weather", city="Paris"), call("weather", city="Oslo")], call("final_answer", answer="Rain")]
    added = compose(TimestampObservations(format="seen at %H"), AddContext(lambda step: "status: fine"))
    agent = ToolCallingAgent([weather], ScriptedModel(script), step_callbacks=[added], verbosity_level=-1)
    agent.run("Tell me the weather.")
    results = [(e.joint, e.result.result) for e in tool_executions(agent, "weather")]
    assert results == [(False, "Rain in Paris"), (False, "Rain in Oslo")]
    assert "weather(city='Oslo') → Rain in Oslo" in learnt(agent)


def test_a_call_that_failed_because_of_another_teaches_nothing() -> None:
    script = [[call("weather", city="Paris"), call("no_such_tool", place="a")]]
    model = ScriptedModel([*script, call("final_answer", answer="x")])
    agent = ToolCallingAgent([weather], model, verbosity_level=-1)
    agent.run("Tell me the weather.")
    failures = [text for text in learnt(agent) if " failed: " in text]
    assert [text.partition("(")[0] for text in failures] == ["no_such_tool"]


def test_a_call_that_is_a_plain_dict_is_a_call_for_alerts_too(caplog: pytest.LogCaptureFixture) -> None:
    for step in odd_steps():
        AlertOnFailures(tools="weather", threshold=1)(step)
    assert "The run goes on" not in caplog.text
    assert [called(step, frozenset({"weather"})) for step in odd_steps()].count(True) == 2


def test_a_tool_that_code_only_mentions_is_not_called() -> None:
    tools = frozenset({"restart"})
    assert called(ActionStep(1, None, code_action="x = [restart(n) for n in range(2)]"), tools)
    for code in ("# restart() would help", "print('restart(1)')", "restart", "restarted()"):
        assert not called(ActionStep(1, None, code_action=code), tools)


def test_an_answer_is_read_without_what_callbacks_added_to_it() -> None:
    script = [call("final_answer", answer="It rains.")]
    stamped = TimestampObservations(format="seen at %H")
    agent = ToolCallingAgent([], ScriptedModel(script), step_callbacks=[stamped], verbosity_level=-1)
    agent.run("Tell me the weather.")
    assert re.match(r"\[seen at \d\d\] It rains\.", agent.memory.steps[-1].observations)
    assert answer_of(agent.memory.steps).value == "It rains."
    assert outcome(agent.memory.steps) == ("It rains.", None)
    assert "Task: Tell me the weather.\nOutcome: It rains." in learnt(agent)


def test_why_there_is_no_answer() -> None:
    assert outcome([TaskStep("Go.")]) == (None, "nothing was done")
    assert outcome([TaskStep("Go."), ActionStep(1, None)]) == (None, "it was interrupted")
    broken = ActionStep(1, None)
    broken.marks = {"generation_error": "502 Bad Gateway"}
    assert outcome([broken]) == (None, "502 Bad Gateway")
    refused = finished("refused_answers").memory.steps[1]
    assert re.match(r"AgentError: .*is_long.*; the answer given was: no$", outcome([refused])[1], re.DOTALL)
    assert outcome(finished("out_of_steps_calls").memory.steps)[1].endswith("the answer given was: It rains, I think.")
    assert outcome(finished("answers_none").memory.steps) == ("None", None)
