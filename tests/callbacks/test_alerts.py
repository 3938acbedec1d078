"""AlertOnFailures and AlertOnLoops."""

from __future__ import annotations

import itertools

import pytest
from callback_runs import Broken, Look, calling_agent, code_agent, logged
from smolagents.memory import ActionStep, ToolCall
from smolagents.utils import AgentGenerationError

from smolagents_memory import (
    AddContext,
    AlertOnFailures,
    AlertOnLoops,
    FitTokenBudget,
    KeepRecentSteps,
    ObservedMemory,
    TimestampObservations,
    TruncateObservations,
    compose,
    load_memory,
    save_memory,
)
from smolagents_memory.testing import ScriptedModel, call, code


ALERT = "[ALERT] Pattern detected: 3 failures in last 10 checks"


def seeing(*statuses):
    """A run that sees these, one a step."""
    return [*(code(f"print('GET /health: {status}')") for status in statuses), code("final_answer('done')")]


def alerted(agent):
    """Which of the steps carry an alert."""
    actions = [step for step in agent.memory.steps if isinstance(step, ActionStep)]
    return [number for number, step in enumerate(actions, 1) if "[ALERT]" in (step.observations or "")]


def run(statuses, *callbacks, reset=True, agent=None):
    agent = agent or code_agent([], step_callbacks=list(callbacks), max_steps=50)
    agent.model = ScriptedModel(seeing(*statuses))
    assert agent.run("Watch.", reset=reset) == "done"
    assert "The run goes on" not in logged(agent)
    return agent


def test_the_third_failure_alerts_agent_and_people_once():
    alerts = []
    agent = run([200, 503, 200, 500, 200, 502, 500, 500], AlertOnFailures(on_alert=alerts.append))
    assert alerted(agent) == [6]
    assert agent.memory.steps[6].observations.endswith(f"\n{ALERT}")
    assert ALERT not in agent.model.calls[5].text
    assert ALERT in agent.model.calls[6].text
    (alert,) = alerts
    assert (alert.kind, alert.message, alert.count, alert.step_number) == ("failures", ALERT, 3, 6)
    assert alert.step is agent.memory.steps[6]
    assert alert.agent is agent


def test_it_is_quiet_until_the_pattern_clears_and_then_alerts_again():
    statuses = [500] * 12 + [200] * 8 + [500] * 3
    agent = run(statuses, AlertOnFailures(threshold=3, window=5))
    assert alerted(agent) == [3, 23]


def test_the_current_step_counts_and_failures_outside_the_window_do_not():
    assert alerted(run([500, 200, 500], AlertOnFailures(threshold=2, window=3))) == [3]
    assert alerted(run([500, 200, 200, 500], AlertOnFailures(threshold=2, window=3))) == []


def test_neither_its_own_text_nor_what_other_callbacks_add_counts():
    noisy = [
        TimestampObservations(format="%Y 500"),
        AddContext(lambda step: "the baseline is 500 ms"),
        AlertOnFailures("ALERT|failures|Loop", threshold=1, window=2),
        AlertOnFailures(threshold=3, window=10),
    ]
    assert alerted(run(["fine"] * 8, *noisy)) == []
    twice = AlertOnFailures(r"\b500\b|ALERT|\b3\b", threshold=3, window=3)
    agent = run([500, 500, 500, "ok", "ok", "ok"], twice, twice)
    assert alerted(agent) == [3]
    assert agent.memory.steps[3].observations.count("[ALERT]") == 1


def test_an_agent_that_prints_the_alert_again_sets_off_no_other():
    script = [*seeing(500, 500, 500)[:-1], code(f"print('I read: {ALERT}, 3 of 3')"), code("final_answer('done')")]
    agent = code_agent(script, step_callbacks=[AlertOnFailures("failures", threshold=1), AlertOnFailures()])
    agent.run("Watch.")
    assert alerted(agent) == [3, 4]
    assert agent.memory.steps[4].observations.count("[ALERT]") == 1


def test_an_alert_of_the_watched_service_itself_still_counts():
    assert alerted(run(["[ALERT] 503"], AlertOnFailures(threshold=1))) == [1]


def test_it_looks_at_errors_failed_tool_calls_and_what_they_said():
    script = [
        call("broken"),
        [call("look", place="a"), call("broken")],
        call("broken"),
        call("final_answer", answer="x"),
    ]
    alerts = []
    agent = calling_agent(script, step_callbacks=[AlertOnFailures(on_alert=alerts.append)])
    agent.run("Watch.")
    assert [alert.step_number for alert in alerts] == [3]
    assert alerts[0].step.error is not None
    assert alerts[0].step.observations == ALERT
    assert ALERT in agent.model.calls[-1].text


def test_tool_names_choose_what_counts():
    script = [
        call("look", place="503"),
        call("broken"),
        call("look", place="a"),
        call("broken"),
        call("final_answer", answer="x"),
    ]
    for tools, expected in (("broken", [4]), (["look"], []), (["look", "broken"], [2])):
        agent = calling_agent(script, step_callbacks=[AlertOnFailures(r"\b5\d\d\b", 2, tools=tools)])
        agent.run("Watch.")
        assert alerted(agent) == expected, tools


def test_tool_names_are_found_in_code_too():
    script = [code("look('500')"), code("x = 500\nprint(x)"), code("broken()"), code("final_answer('done')")]
    agent = code_agent(
        script, tools=[Look(), Broken()], step_callbacks=[AlertOnFailures(r"\b5\d\d\b", 2, tools=["look", "broken"])]
    )
    agent.run("Watch.")
    assert alerted(agent) == [3]


def test_a_predicate_decides_instead_of_the_pattern_and_without_a_pattern_every_error_counts():
    slow = AlertOnFailures(predicate=lambda step: "slow" in step.observations, threshold=2)
    assert alerted(run([500, "slow", 500, "slow"], slow)) == [4]
    agent = code_agent(
        ["no code", code("1/0"), code("print(1)"), *seeing()], step_callbacks=[AlertOnFailures(None, 2)]
    )
    agent.run("Watch.")
    assert alerted(agent) == [2]


def test_failures_of_the_model_itself_count_though_no_error_is_on_the_step():
    alerts = []
    watch = AlertOnFailures(threshold=2, on_alert=alerts.append)
    agent = code_agent([ConnectionError("502 Bad Gateway")] * 2, step_callbacks=[watch])
    for reset in (True, False):
        with pytest.raises(AgentGenerationError):
            agent.run("Watch.", reset=reset)
    assert [alert.count for alert in alerts] == [2]
    assert agent.memory.steps[-1].observations == "[ALERT] Pattern detected: 2 failures in last 10 checks"


def test_injected_steps_count_as_far_as_they_can_be_seen():
    agent = code_agent([], step_callbacks=[AlertOnFailures()])
    agent.memory.steps += [ActionStep(step_number=1, timing=None, observations="500")] * 2
    run([500], agent=agent, reset=False)
    assert alerted(agent) == [3]


def test_a_reset_begins_anew_and_a_run_that_goes_on_does_not():
    agent = run([500, 500], AlertOnFailures())
    run([500, 500], agent=agent)
    assert alerted(agent) == []
    run([500], agent=agent, reset=False)
    assert alerted(agent) == [4]


@pytest.mark.parametrize(
    "order",
    [
        lambda watch: (watch, KeepRecentSteps(1)),
        lambda watch: (KeepRecentSteps(1), watch),
        lambda watch: (watch, FitTokenBudget(1)),
        lambda watch: (FitTokenBudget(1), watch),
        lambda watch: (watch, TruncateObservations(3)),  # not the other way: nobody sees what was cut away before
    ],
)
def test_what_was_seen_is_known_after_it_was_pruned(order):
    alerts = []
    group = order(AlertOnFailures(r"CODE 5\d\d", on_alert=alerts.append))
    agent = code_agent([], step_callbacks=[compose(*group)], max_steps=50)
    agent.model = ScriptedModel(seeing(*["x" * 50 + "CODE 500" + "y" * 50] * 8))
    agent.run("Watch.")
    assert [alert.step_number for alert in alerts] == [3]


def test_what_was_seen_comes_back_with_a_saved_memory(tmp_path):
    agent = run([500, 500], AlertOnFailures())
    save_memory(agent, tmp_path / "run.jsonl")
    other = code_agent([], step_callbacks=[KeepRecentSteps(3), AlertOnFailures()], max_steps=50)
    load_memory(tmp_path / "run.jsonl", agent=other)
    other.memory.steps[:-1] = []  # the failures themselves are gone
    run([500, 500], agent=other, reset=False)
    assert alerted(other) == [1]


def test_one_watch_serves_several_agents_apart():
    watch = AlertOnFailures()
    agents = [code_agent([], step_callbacks=[watch], max_steps=50) for _ in range(3)]
    for agent, count in zip(agents, (2, 3, 4), strict=True):
        run([500] * count, agent=agent)
    assert [alerted(agent) for agent in agents] == [[], [3], [3]]


def test_a_failing_on_alert_leaves_the_alert_in_the_observation_and_the_run_alone():
    def page(alert):
        raise OSError("no line")

    agent = code_agent(seeing(500, 500), step_callbacks=[AlertOnFailures(threshold=1, on_alert=page)])
    assert agent.run("Watch.") == "done"
    assert alerted(agent) == [1]
    assert "AlertOnFailures failed at step 1: OSError: no line" in logged(agent)


def test_listeners_of_the_memory_hear_of_alerts():
    heard = []
    agent = code_agent([], step_callbacks=[AlertOnFailures(threshold=1)])
    agent.memory = ObservedMemory(agent.system_prompt)
    agent.memory.on("alert", lambda event: heard.append(event.alert.message))
    run([500], agent=agent)
    assert heard == ["[ALERT] Pattern detected: 1 failures in last 10 checks"]


@pytest.mark.parametrize("options", [{"threshold": 0}, {"threshold": 4, "window": 3}])
def test_a_threshold_that_can_never_or_always_be_reached_is_refused(options):
    with pytest.raises(ValueError, match="threshold"):
        AlertOnFailures(**options)


# -- loops -----------------------------------------------------------------------------------------------------------

LOOP = "[ALERT] Loop detected: the same action 3 times in a row with the same result; try something else"


def test_the_same_call_with_the_same_result_is_a_loop_whatever_the_ids_and_the_time():
    script = [*[call("look", place="a")] * 5, call("look", place="b"), *[call("look", place="a")] * 3]
    alerts, changing = [], itertools.count()
    agent = calling_agent(
        [*script, call("final_answer", answer="x")],
        step_callbacks=[
            TimestampObservations(),
            AddContext(lambda step: next(changing)),
            AlertOnLoops(on_alert=alerts.append),
        ],
    )
    agent.run("Look.")
    assert alerted(agent) == [3, 9]
    assert [alert.message for alert in alerts] == [LOOP, LOOP]
    assert LOOP in agent.model.calls[3].text


def test_a_change_in_what_comes_back_is_no_loop():
    script = [code("n = 0"), *[code("n += 1\nprint(n)")] * 5, code("final_answer('done')")]
    agent = code_agent(script, step_callbacks=[AlertOnLoops()])
    agent.run("Look.")
    assert alerted(agent) == []


def test_a_short_cycle_is_a_loop():
    places = ["a", "b", "c"] * 3
    agent = calling_agent(
        [*(call("look", place=place) for place in places), call("final_answer", answer="x")],
        step_callbacks=[AlertOnLoops()],
    )
    agent.run("Look.")
    assert alerted(agent) == [9]
    assert "the same 3 actions in turn 3 times in a row" in agent.memory.steps[9].observations


@pytest.mark.parametrize("script", [["no code at all"] * 3, [code("1/0")] * 3], ids=["unparsable", "failing"])
def test_failing_in_the_same_way_is_a_loop(script):
    agent = code_agent([*script, code("final_answer('done')")], step_callbacks=[AlertOnLoops()])
    agent.run("Look.")
    assert alerted(agent) == [3]


def test_calls_made_together_are_one_action_in_any_order():
    one, other = call("look", place="a"), call("look", place="b")
    agent = calling_agent(
        [[one, other], [one, other], [one, other], call("final_answer", answer="x")], step_callbacks=[AlertOnLoops()]
    )
    agent.run("Look.")
    assert alerted(agent) == [3]


def test_arguments_of_any_kind_can_be_compared():
    cycle: list = []
    cycle.append(cycle)
    for arguments in ({"a": {1, 2}, 3: "b"}, cycle, None, object()):
        steps = [
            ActionStep(1, None, tool_calls=[ToolCall("look", arguments, str(n))], observations="x") for n in range(3)
        ]
        agent = code_agent([])
        for step in steps:
            AlertOnLoops()(step, agent=agent)
            agent.memory.steps.append(step)
        assert alerted(agent) == [3]
        assert "The run goes on" not in logged(agent)


@pytest.mark.parametrize("options", [{"repeats": 0}, {"max_cycle": 0}])
def test_a_loop_of_nothing_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        AlertOnLoops(**options)


def test_an_alert_prints_as_one_line(capsys):
    agent = run([500] * 3, AlertOnFailures(on_alert=print))
    assert capsys.readouterr().out == f"failures at step 3: {ALERT}\n"
    agent = calling_agent(
        [*[call("look", place="a\nb")] * 3, call("final_answer", answer="x")],
        step_callbacks=[AlertOnLoops(on_alert=lambda alert: print(f"{alert}|{[alert]}"))],
        name="scout",
        description="Looks.",
    )
    agent.run("Look.")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"loop at step 3 of 'scout': {LOOP}|[")
    assert len(line) < 600
