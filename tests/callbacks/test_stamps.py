"""TimestampObservations and AddContext."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from callback_runs import calling_agent, code_agent, logged
from smolagents.memory import ActionStep, FinalAnswerStep, PlanningStep, TaskStep

from smolagents_memory import AddContext, CallbackSignatureError, TimestampObservations, everywhere
from smolagents_memory.testing import call, code


NOON = 1794996000.0


def action(observations=None, **more):
    return ActionStep(step_number=1, timing=None, observations=observations, **more)


def test_the_time_stands_before_the_observation_once_however_often_it_runs():
    stamp, step = TimestampObservations(clock=lambda: NOON), action("200 OK")
    for _ in range(3):
        stamp(step)
    assert step.observations == "[2026-11-18T10:00:00+00:00] 200 OK"
    TimestampObservations(clock=lambda: NOON + 60)(step)
    assert step.observations == "[2026-11-18T10:00:00+00:00] 200 OK"


@pytest.mark.parametrize("observations", [None, ""])
def test_a_step_without_an_observation_stays_untouched(observations):
    step = action(observations)
    before = dict(step.__dict__)
    TimestampObservations()(step)
    assert step.__dict__ == before


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"format": "%H:%M"}, "[10:00] x"),
        ({"tz": "Asia/Tokyo"}, "[2026-11-18T19:00:00+09:00] x"),
        ({"tz": timezone(timedelta(hours=-3)), "format": "%d.%m. %H Uhr"}, "[18.11. 07 Uhr] x"),
    ],
)
def test_format_and_time_zone_can_be_chosen(options, shown):
    step = action("x")
    TimestampObservations(clock=lambda: NOON, **options)(step)
    assert step.observations == shown


def test_a_clock_may_give_a_datetime_with_or_without_a_zone():
    for moment in (datetime(2026, 11, 18, 12), datetime(2026, 11, 18, 13, tzinfo=timezone(timedelta(hours=1)))):
        step = action("x")
        TimestampObservations(clock=lambda moment=moment: moment)(step)
        assert step.observations == "[2026-11-18T12:00:00+00:00] x"


def test_plans_are_stamped_where_it_is_registered_for_them_and_the_system_clock_is_the_default():
    script = ["I look first.", code("print('seen')"), code("final_answer('done')")]
    agent = code_agent(script, planning_interval=5, step_callbacks=everywhere(TimestampObservations()))
    before = datetime.now(timezone.utc).replace(microsecond=0)
    agent.run("Look.")
    plan, first, *_ = (step for step in agent.memory.steps if not isinstance(step, TaskStep))
    assert isinstance(plan, PlanningStep)
    for text in (plan.plan, first.observations):
        assert before <= datetime.fromisoformat(text[1 : text.index("]")]) <= datetime.now(timezone.utc)
    assert "seen" in first.observations
    assert f"Observation:\n{first.observations}" in agent.model.calls[-1].text


def test_a_list_reaches_actions_only():
    script = ["I look first.", code("final_answer('done')")]
    agent = code_agent(script, planning_interval=5, step_callbacks=[TimestampObservations(format="STAMP")])
    agent.run("Look.")
    assert "STAMP" not in agent.memory.steps[1].plan
    assert agent.memory.steps[2].observations.startswith("[STAMP] ")


def test_context_is_asked_for_once_per_step_and_can_see_step_and_agent():
    asked = []

    def load_of(step, agent):
        asked.append((step.step_number, agent.name))
        return {"load": 0.5}

    context = AddContext(load_of, label="machine")
    agent = calling_agent(
        [call("look", place="a"), call("look", place="b"), call("final_answer", answer="done")],
        name="watcher",
        step_callbacks=[context, context],
    )
    agent.run("Look.")
    assert asked == [(1, "watcher"), (2, "watcher"), (3, "watcher")]
    assert agent.memory.steps[1].observations.endswith("\n[machine] {'load': 0.5}")
    assert agent.model.calls[-1].text.count("[machine] {'load': 0.5}") == 2


def test_context_stays_within_its_limit_and_none_adds_nothing():
    step = action("seen")
    AddContext(lambda step: None, label="a")(step)
    AddContext(lambda step: "", label="b")(step)
    assert step.observations == "seen"
    AddContext(lambda step: "x" * 10_000, max_chars=100, label="c")(step)
    assert len("seen\n[c] ") + 90 < len(step.observations) <= len("seen\n[c] ") + 100
    assert "characters cut" in step.observations


def test_a_failing_provider_is_logged_once_with_the_step_and_the_run_goes_on():
    def no_baseline(step):
        raise LookupError("no [bold]baseline[/bold] today [/nonsense]")

    agent = code_agent(
        [*[code("print(1)")] * 3, code("final_answer('done')")], step_callbacks=[AddContext(no_baseline)]
    )
    assert agent.run("Look.") == "done"
    log = logged(agent)
    assert log.count("no [bold]baseline[/bold] today [/nonsense]") == 1
    assert "AddContext failed at step 1: LookupError" in log


def test_a_provider_that_could_not_be_called_is_refused_at_once():
    with pytest.raises(CallbackSignatureError, match="agent"):
        AddContext(lambda step, who: "x")


def test_final_answers_are_left_alone():
    step = FinalAnswerStep(output="x")
    everything = everywhere(TimestampObservations(), AddContext(lambda step: "y"))
    for callbacks in everything.values():
        for callback in callbacks:
            callback(step)
    assert step == FinalAnswerStep(output="x")
    assert not hasattr(step, "marks")
