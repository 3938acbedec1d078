"""Every callback on real runs of both kinds of agent: the run ends as without it, and what is sent stays valid."""

from __future__ import annotations

import itertools

import pytest
from callback_runs import (
    EVERY,
    calling_agent,
    check_pairs,
    check_sent,
    code_agent,
    everything,
    logged,
    picture,
    tasks,
)
from smolagents import ActionStep, CodeAgent
from smolagents.memory import FinalAnswerStep, PlanningStep, TaskStep, Timing
from smolagents.utils import AgentGenerationError

from smolagents_memory import ObservedMemory, everywhere
from smolagents_memory.testing import ScriptedModel, call, code


MAKERS = {**EVERY, "everything": everything}


@pytest.fixture(params=MAKERS)
def callback(request):
    return MAKERS[request.param]()


@pytest.fixture(params=["list", "dict", "everywhere"])
def registered(request, callback):
    forms = {
        "list": [callback],
        "dict": {ActionStep: callback, PlanningStep: [callback], FinalAnswerStep: callback},
        "everywhere": everywhere(callback),
    }
    return forms[request.param]


def check(agent, first_of_run=0):
    check_sent(agent, first_of_run)
    check_pairs(agent.memory.steps)
    assert "The run goes on" not in logged(agent), "a callback had a defect"


def test_code_runs_end_as_they_would_without_it(registered):
    script = [
        "no code at all",
        code("print('a' * 300)"),
        code("1 / 0"),
        code("import socket"),
        code("print('503')"),
        code("print('503')"),
        code("print('503')"),
        code("final_answer('done')"),
    ]
    agent = code_agent(script, step_callbacks=registered)
    assert agent.run("Have a look.") == "done"
    assert len(agent.model.calls) == len(script)
    assert tasks(agent) == ["Have a look."]
    check(agent)


def test_calling_runs_with_parallel_calls_and_errors_of_every_class_end_too(registered):
    script = [
        [call("look", place="a"), call("look", place="b"), call("look", place="c")],
        "no call at all",
        call("unknown_tool"),
        call("look", place=3),
        call("look"),
        call("broken"),
        [call("look", place="a"), call("broken")],
        call("look", place="z"),
        call("final_answer", answer="done"),
    ]
    agent = calling_agent(script, step_callbacks=registered)
    assert agent.run("Have a look.") == "done"
    assert len(agent.model.calls) == len(script)
    check(agent)


def test_planning_runs_end_too(registered):
    script = ["plan 1", code("print(1)"), code("print(2)"), "plan 2", code("print(3)"), code("final_answer('done')")]
    agent = code_agent(script, step_callbacks=registered, planning_interval=2)
    assert agent.run("Have a look.") == "done"
    check(agent)


def test_a_run_that_reaches_max_steps_gives_the_forced_answer(registered):
    agent = code_agent([*[code("print(503)")] * 4, "the forced answer"], step_callbacks=registered, max_steps=4)
    assert agent.run("Never ends.") == "the forced answer"
    assert type(agent.memory.steps[-1].error).__name__ == "AgentMaxStepsError"
    check(agent)


def test_runs_that_go_on_with_reset_false_keep_the_task_of_the_current_one(callback):
    agent = code_agent(
        (code(f"print({n})") if n % 3 else code(f"final_answer({n})") for n in itertools.count(1)),
        step_callbacks=everywhere(callback),
    )
    for number in range(1, 5):
        before = len(agent.model.calls)
        agent.run(f"Task number {number}.", reset=False, images=[picture(number)])
        assert tasks(agent)[-1].startswith(f"Task number {number}.")
        check_sent(agent, before)
    check_pairs(agent.memory.steps)
    assert "The run goes on" not in logged(agent)


@pytest.mark.parametrize("kind", ["code", "calling"])
def test_streaming_runs_end_too(callback, kind):
    if kind == "code":
        agent = code_agent(
            [code("print('x' * 500)")] * 4 + [code("final_answer('done')")],
            step_callbacks=[callback],
            stream_outputs=True,
        )
    else:
        agent = calling_agent(
            [call("look", place="a")] * 4 + [call("final_answer", answer="done")],
            step_callbacks=[callback],
            stream_outputs=True,
        )
    events = list(agent.run("Look.", stream=True))
    assert isinstance(events[-1], FinalAnswerStep)
    assert events[-1].output == "done"
    check(agent)


def test_a_stream_broken_off_in_mid_step_leaves_a_memory_that_runs_on(callback):
    agent = code_agent([code("print('x' * 500)"), code("final_answer('done')")], step_callbacks=[callback])
    stream = agent.run("Look.", stream=True)
    next(stream)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):  # upstream yields in a `finally`
        stream.close()
    assert isinstance(agent.memory.steps[0], TaskStep)
    assert agent.run("Go on.", reset=False) == "done"
    check(agent, first_of_run=1)


def test_a_failing_model_ends_the_run_with_its_own_error(callback):
    agent = code_agent([code("print(1)"), ConnectionError("502 Bad Gateway")], step_callbacks=everywhere(callback))
    with pytest.raises(AgentGenerationError, match="502 Bad Gateway"):
        agent.run("Look.")
    agent.model = ScriptedModel([code("final_answer('done')")])
    assert agent.run("Again.", reset=False) == "done"
    check(agent)


def test_managed_agents_and_their_manager_can_share_one_callback(callback):
    helper = calling_agent(
        itertools.cycle([call("look", place="a"), call("final_answer", answer="seen")]),
        name="helper",
        description="Looks at things.",
        step_callbacks=[callback],
    )
    manager = code_agent(
        [*[code("print(helper(task='Look at a.'))")] * 4, code("final_answer('done')")],
        managed_agents=[helper],
        step_callbacks=everywhere(callback),
    )
    assert manager.run("Have it looked at.") == "done"
    check(manager)
    assert "The run goes on" not in logged(helper)


def test_parallel_calls_of_one_managed_agent_disturb_nothing(callback):
    helper = calling_agent(
        itertools.cycle([call("final_answer", answer="seen")]),
        name="helper",
        description="Looks at things.",
        step_callbacks=everywhere(callback),
    )
    manager = calling_agent(
        [
            [call("helper", task="one"), call("helper", task="two"), call("helper", task="three")],
            call("final_answer", answer="done"),
        ],
        tools=[],
        managed_agents=[helper],
        step_callbacks=everywhere(callback),
    )
    assert manager.run("Have it looked at.") == "done"
    assert "The run goes on" not in logged(manager)


def test_hand_injected_steps_without_timing_or_observations_are_taken_as_they_are(callback):
    agent = code_agent([*[code("print(1)")] * 3, code("final_answer('done')")], step_callbacks=everywhere(callback))
    agent.memory.steps += [
        TaskStep(task="Something from before."),
        ActionStep(step_number=1, timing=None, observations=None),
        ActionStep(step_number=1, timing=None, model_output="hm", observations_images=[picture(), picture()]),
        PlanningStep(model_input_messages=[], model_output_message=None, plan="a plan", timing=None),
    ]
    assert agent.run("Go on.", reset=False) == "done"
    check(agent)


def test_in_step_by_step_use_it_can_be_called_by_hand_before_or_after_appending(callback):
    agent = code_agent([code("print('x' * 500)")] * 4, step_callbacks=[callback])
    agent.task = "Step by step."
    agent.memory.steps.append(TaskStep(task=agent.task))
    agent.python_executor.send_tools({**agent.tools})
    for number in range(1, 5):
        step = ActionStep(step_number=number, timing=Timing(start_time=0.0))
        agent.step(step)
        if number % 2:
            agent.memory.steps.append(step)
            callback(step, agent=agent)
        else:
            callback(step, agent=agent)
            agent.memory.steps.append(step)
        assert agent.memory.steps[-1] is step
    check(agent)


def test_an_observed_memory_works_like_a_plain_one(callback):
    def run(observed: bool) -> CodeAgent:
        agent = code_agent(
            [*[code("print('x' * 500)")] * 6, code("final_answer('done')")], step_callbacks=everywhere(callback)
        )
        if observed:
            agent.memory = ObservedMemory(agent.system_prompt)
            agent.memory.on("*", lambda event: None)
        assert agent.run("Look.") == "done"
        return agent

    def shown(agent: CodeAgent) -> list[str]:
        return [str(message.content) for message in agent.write_memory_to_messages() if "image" not in str(message)]

    assert shown(run(observed=True)) == shown(run(observed=False))
