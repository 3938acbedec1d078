"""FitTokenBudget."""

from __future__ import annotations

import itertools
import random

import pytest
from callback_runs import calling_agent, check_sent, code_agent, logged, picture, summarizer
from smolagents.memory import ActionStep, TaskStep
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import TokenUsage

from smolagents_memory import CaptureScreenshot, FitTokenBudget, NoteStep, SummarizeOldSteps, everywhere, pin
from smolagents_memory.callbacks.sizes import frame_of
from smolagents_memory.steps.tokens import message_tokens, messages_of, step_tokens
from smolagents_memory.testing import call, code


def tokens(sent):
    """As ScriptedModel counts them."""
    return len(sent.text) // 4 + 1000 * len(sent.images)


def long_run(steps, seed=0):
    """Observations of any length, errors, nonsense, in any order."""
    chance = random.Random(seed)
    for _ in range(steps - 1):
        kind = chance.random()
        if kind < 0.1:
            yield "no code " * chance.randrange(60)
        elif kind < 0.2:
            yield code("1 / 0")
        else:
            yield code(
                f"print('word ' * {chance.choice([1, 30, 400, 3000])})", thought="I think. " * chance.randrange(20)
            )
    yield code("final_answer('done')")


@pytest.mark.slow
@pytest.mark.parametrize("planning_interval", [None, 7])
def test_a_run_of_500_steps_stays_under_its_budget_at_every_call_and_finishes(planning_interval):
    def script():
        for number, output in enumerate(long_run(500)):
            if planning_interval and number % planning_interval == 0:
                yield "a plan of some words " * 30
            yield output

    agent = code_agent(
        script(), max_steps=600, step_callbacks=everywhere(FitTokenBudget(6000)), planning_interval=planning_interval
    )
    assert agent.run("Look at everything.") == "done"
    assert len(agent.model.calls) >= 500
    assert max(map(tokens, agent.model.calls)) <= 6000
    assert max(map(tokens, agent.model.calls[50:])) > 4500, "it uses the budget"
    check_sent(agent)
    assert "over the budget" not in logged(agent)


def test_images_and_parallel_calls_stay_under_it_too():
    calls = [[call("look", place=place * 9) for place in "abc"]] * 60
    agent = calling_agent(
        [*calls, call("final_answer", answer="done")],
        max_steps=70,
        step_callbacks=[CaptureScreenshot(picture, keep_last=None), FitTokenBudget(9000)],
    )
    assert agent.run("Look.") == "done"
    assert max(map(tokens, agent.model.calls)) <= 9000
    assert max(len(sent.images) for sent in agent.model.calls) >= 3


def test_the_forced_answer_at_the_step_limit_fits_too():
    agent = code_agent(
        [*[code("print('word ' * 3000)")] * 20, "forced"], max_steps=20, step_callbacks=[FitTokenBudget(5000)]
    )
    assert agent.run("Look.") == "forced"
    assert max(map(tokens, agent.model.calls)) <= 5000


@pytest.mark.parametrize("template", ["planning", "final_answer"])
def test_prompts_of_plans_and_of_the_forced_answer_fit_where_they_are_longer_than_the_system_prompt(template):
    agent = code_agent(
        itertools.cycle(["a plan", code("print('word ' * 1000)"), code("print('word ' * 1000)")]),
        max_steps=30,
        planning_interval=2 if template == "planning" else None,
        step_callbacks=everywhere(FitTokenBudget(7000)),
    )
    templates = agent.prompt_templates
    templates["system_prompt"] = "You are an agent."
    before = "update_plan_pre_messages" if template == "planning" else "pre_messages"
    templates[template][before] += "Mind this. " * 1500
    agent.run("Look.")
    longest = max(agent.model.calls, key=tokens)
    assert "Mind this." in longest.text
    assert 4500 < tokens(longest) <= 7000


def filled(*steps, task="Look."):
    agent = code_agent([])
    agent.task = task
    agent.memory.steps += [TaskStep(task), *steps]
    return agent


def seen(text="x" * 4000, number=1, **more):
    return ActionStep(step_number=number, timing=None, observations=text, **more)


def test_nothing_is_touched_while_the_prompt_fits():
    steps = [seen(observations_images=[picture()], model_input_messages=["all"]) for _ in range(3)]
    agent = filled(*steps)
    before = [dict(step.__dict__) for step in steps]
    FitTokenBudget(100_000)(seen(), agent=agent)
    assert [step.__dict__ for step in steps] == before


def test_it_goes_from_what_costs_least_to_what_costs_most():
    def after(budget):
        steps = [seen(observations_images=[picture()], model_input_messages=["all"]) for _ in range(4)]
        agent = filled(*steps)
        FitTokenBudget(budget, down_to=1.0)(seen(), agent=agent)
        left = agent.memory.steps[1:]
        return (
            [step.model_input_messages for step in left],
            sum(step.observations_images is not None for step in left),
            sum(len(step.observations) > 1000 for step in left),
            len(left),
        )

    frame = int(frame_of(filled()).tokens) + 10
    whole = 5 * 1005 + 4 * 1000
    assert after(frame + whole - 1000) == ([None] * 3 + [["all"]], 3, 4, 4)
    assert after(frame + 5 * 1005 + 10) == ([None] * 3 + [["all"]], 0, 4, 4)
    assert after(frame + 1005 + 2 * 1020 + 2 * 270)[1:] == (0, 2, 4)
    assert after(frame + 1005 + 4 * 275)[1:] == (0, 0, 4)
    assert after(frame + 1005 + 2 * 275)[1:] == (0, 0, 2)
    assert after(frame + 1005)[1:] == (0, 0, 0)


def test_strategies_can_be_chosen():
    agent = filled(*[seen() for _ in range(4)])
    FitTokenBudget(int(frame_of(agent).tokens) + 2500, strategies=["steps"])(seen(), agent=agent)
    assert [len(step.observations) for step in agent.memory.steps[1:]] == [4000]
    with pytest.raises(ValueError, match="there is no strategy"):
        FitTokenBudget(1000, strategies=["forget"])


def test_the_newest_observation_is_cut_last_and_what_cannot_fit_is_told_once():
    agent, newest = filled(seen(), pin(seen("y" * 4000))), seen("z" * 40_000)
    fit = FitTokenBudget(int(frame_of(agent).tokens) + 3000)
    fit(newest, agent=agent)
    assert [step.observations[0] for step in agent.memory.steps[1:]] == ["y"]
    assert 6000 < len(newest.observations) < 8000
    assert logged(agent) == ""
    for _ in range(2):
        FitTokenBudget(100)(newest, agent=agent)
        assert len(newest.observations) == 200
    assert fit is not None
    assert logged(agent).count("over the budget of 100") == 2  # by two objects, once each


def test_images_of_the_newest_step_go_when_its_text_is_not_enough():
    newest = seen("z" * 190, observations_images=[picture(), picture()])
    agent = filled(pin(seen(observations_images=[picture()] * 3)))
    for _ in range(2):
        FitTokenBudget(int(frame_of(agent).tokens) + 1500)(newest, agent=agent)
        assert newest.observations_images is None
        assert len(newest.observations) <= 200
    assert len(agent.memory.steps[1].observations_images) == 3


def test_text_of_many_bytes_counts_for_what_it_is():
    agent = code_agent(
        [*[code("print('記憶は大切です' * 300)")] * 12, code("final_answer('done')")],
        step_callbacks=[FitTokenBudget(5000)],
    )
    agent.run("見て。")
    assert max(len(sent.text.encode()) // 4 for sent in agent.model.calls) <= 5000


def test_a_provider_that_counts_more_raises_the_estimate():
    def counted(text, per_character):
        return lambda messages: ChatMessage(
            MessageRole.ASSISTANT,
            text,
            token_usage=TokenUsage(int(sum(len(str(m.content)) for m in messages) * per_character), 1),
        )

    def peak(per_character):
        script = [counted(code("print('word ' * 300)"), per_character)] * 30
        agent = code_agent(
            [*script, code("final_answer('done')")], max_steps=40, step_callbacks=[FitTokenBudget(12_000)]
        )
        agent.run("Look.")
        return max(map(tokens, agent.model.calls))

    assert peak(0.01) == pytest.approx(12_000, rel=0.2)  # one that counts less, or only what it has not cached
    assert peak(0.5) == pytest.approx(6000, rel=0.2)


def test_a_summary_goes_after_everything_else():
    agent = filled(NoteStep("s" * 2000, kind="summary"), seen(), seen())
    frame = int(frame_of(agent).tokens)
    FitTokenBudget(frame + 1005 + 600, strategies=["steps"])(seen(), agent=agent)
    assert [type(step) for step in agent.memory.steps] == [TaskStep, NoteStep]
    FitTokenBudget(frame + 1020, strategies=["steps"])(seen(), agent=agent)
    assert [type(step) for step in agent.memory.steps] == [TaskStep]


def test_with_summaries_it_keeps_the_budget_too():
    agent = code_agent(
        long_run(150, seed=1),
        max_steps=200,
        step_callbacks=everywhere(SummarizeOldSteps(summarizer(), keep_last=5, every=10), FitTokenBudget(6000)),
    )
    assert agent.run("Look.") == "done"
    assert max(map(tokens, agent.model.calls)) <= 6000


def test_the_estimate_is_never_below_what_the_scripted_model_counts():
    agent = code_agent(
        itertools.islice(long_run(60), 59), max_steps=59, step_callbacks=[CaptureScreenshot(picture, keep_last=None)]
    )
    agent.model.record = "last"
    estimates = []

    def compare(step, agent):
        estimates.append(
            (frame_of(agent).around + sum(map(step_tokens, agent.memory.steps)), step.token_usage.input_tokens)
        )

    agent.step_callbacks.register(ActionStep, compare)
    agent.run("Look.", max_steps=58)
    assert all(real <= estimate <= real * 1.01 + 10 for estimate, real in estimates[:-1])
    for step in agent.memory.steps:
        assert messages_of(step) == len(step.to_messages())
        assert step_tokens(step) == message_tokens(step.to_messages())


@pytest.mark.parametrize(
    "options", [{"max_tokens": 0}, {"max_tokens": 9, "down_to": 0}, {"max_tokens": 9, "down_to": 1.1}]
)
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="max_tokens"):
        FitTokenBudget(**options)
